"""nvvm/llvm MLIR to PTX: MLIR's conversion passes, LLVM IR, and LLVM's NVPTX back end through llvmlite."""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from scalec.errors import ToolchainError
from scalec.ir.mlir import ir, passmanager
from scalec.ir.mlir import llvm as llvm_dialect

_CONVERSIONS = (
    "builtin.module(convert-scf-to-cf,convert-nvvm-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,reconcile-unrealized-casts)"
)
# sroa, instcombine, simplifycfg and dce; O3 loses 1 to 4 % (H200, 2026-11-21).
_OPTIMISATIONS = ("sroa", "instruction_combine", "simplify_cfg", "dead_code_elimination")


@cache
def _target() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Partial sums that are overwritten more than 100 times (mma_n=8 of 256 columns) are else no longer one register:
    # LLVM copies them between wgmma.fence and the product.
    llvm.set_option("scalec", "-large-interval-size-threshold=100000")
    return llvm.Target.from_triple("nvptx64-nvidia-cuda")


def to_llvm_dialect(module: ir.Module) -> None:
    """Converts scf, arith and nvvm to the llvm dialect, in place."""
    passes = passmanager.PassManager.parse(_CONVERSIONS)
    passes.enable_verifier(False)  # after each of the five it takes 55 ms of 64; LLVM verifies what comes out
    passes.run(module.operation)


# How MLIR's LLVM writes f32 constants: decimals that the type rounds, f0x and its own 8 digits, +inf, -inf, and +qnan,
# -qnan of what it folds, as inf - inf. LLVM 22 (llvmlite) reads only decimals that are exact and 0x with the 16 digits
# of the same number as a double. All floating constants of our modules are f32. A space stands before each: a search
# that begins with a character is fast.
_SINGLE = re.compile(
    r" (?:f0x(?P<bits>[0-9A-Fa-f]{8})|(?P<decimal>-?\d+\.\d+e[+-]\d+)|(?P<sign>[+-])q?(?P<other>inf|nan))"
    r"(?=[\s,)\]>}]|$)",
    re.MULTILINE,
)


def _as_double(literal: re.Match[str]) -> str:
    if literal["bits"]:
        (value,) = struct.unpack(">f", bytes.fromhex(literal["bits"]))
    else:
        decimal = literal["decimal"] or literal["sign"] + literal["other"]
        (value,) = struct.unpack(">f", struct.pack(">f", float(decimal)))
    return " 0x" + struct.pack(">d", value).hex().upper()


def to_llvm_ir(module: ir.Module) -> str:
    """LLVM IR text, as llvmlite's LLVM reads it, of a module in the llvm dialect."""
    return _SINGLE.sub(_as_double, llvm_dialect.translate_module_to_llvmir(module.operation))


_BEFORE_A_WAIT = re.compile(
    r"^(?P<begins>(?:\$L__BB|\t@%p\d+ bra|// %bb)[^\n]*\n(?:[ \t]*//(?! begin)[^\n]*\n)*)"
    r"(?P<before>(?:\t(?:setp|selp|mov|cvt|add|sub|mul|mad|fma|neg|abs|min|max|div|rem|and|or|xor|not|shl|shr|shf|bfe|prmt)"
    r"\.[^\n]*;\n)+)"
    r"(?P<wait>\t// begin inline asm\n\twgmma\.wait_group[^\n]*\n\t// end inline asm\n)",
    re.MULTILINE,
)


def _waits_first(ptx: str) -> str:
    """What LLVM puts between the beginning of a block and a wait for wgmma's products, behind the wait.

    With such an instruction there ptxas (12.9 to 13.5) moves conversions of a result above the wait, so that they read
    sums that are not yet there: a product of bf16 with 64x80x64, order=m was wrong by 1.3e-2 (H200, 2026-11-29; tests/
    lowering/test_under_way.py). No wait reads registers, and what is moved only computes one.
    """
    return _BEFORE_A_WAIT.sub(r"\g<begins>\g<wait>\g<before>", ptx) if "wgmma.wait_group" in ptx else ptx


def to_ptx(text: str, arch: str, ptx_version: int) -> str:
    """PTX of LLVM IR text, for `arch`, in PTX ISA version `ptx_version` (87 is 8.7).

    Raises:
        ToolchainError: LLVM refused the module.
    """
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ToolchainError(f"LLVM refused the module: {error}") from None
    machine = _target().create_target_machine(cpu=arch, features=f"+ptx{ptx_version}", opt=3)
    module.data_layout = str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    for name in _OPTIMISATIONS:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    return _waits_first(machine.emit_assembly(module))
