"""The rules of wgmma through LLVM, in what is generated (each broken one cost 20 to 60 %; H200, 2026-11-21)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pytest

from scalec.compiler import Compilation, compile_source
from scalec.errors import ToolchainError
from scalec.lowering.ptxas import judge
from tests.early import without_what_follows

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
DIMS = {"m": 4096, "n": 7168, "k": 2048}


@dataclass(frozen=True)
class Case:
    """A kernel: program, sizes, decisions; `promoted` where sums leave the tensor core block by block."""

    source: str
    dims: tuple[tuple[str, int], ...]
    schedule: tuple[tuple[str, str], ...]
    promoted: bool = True


def _case(source: str, dims: dict[str, int], promoted: bool = True, **schedule: str) -> Case:
    return Case(source, tuple(dims.items()), tuple(schedule.items()), promoted)


CASES = {
    "window": _case(FP8, DIMS, tile="256x128x128"),
    "three warpgroups": _case(FP8, DIMS, tile="192x128x128"),
    "vector": _case(FP8.replace("1x128,", "1x128:f32@col,"), DIMS, tile="256x128x128"),
    "thread": _case(FP8, {}, tile="128x128x128"),
    "columns": _case("C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)", DIMS, tile="128x128x128"),
    "alone": _case(FP8, DIMS, tile="64x64x128", cluster="1x1"),
    "no scales": _case("C[m,n] = A[m,k]:e4m3@B[n,k]:e4m3", DIMS, tile="128x128x128"),
    "sums stay": _case("C[m,n] = A[m,k]@B[n,k]", DIMS, promoted=False, tile="128x128x64"),
}
PROMOTED = [name for name, case in CASES.items() if case.promoted]


@cache
def made(name: str) -> Compilation:
    case = CASES[name]
    with without_what_follows(["ptx"]):
        return compile_source(case.source, dims=dict(case.dims), schedule=dict(case.schedule), until="ptx")


# -------------------------------------------------------------------------------------------------------- LLVM IR


@dataclass(frozen=True)
class Product:
    """One wgmma in LLVM IR: its text, and the values of the accumulators it starts from."""

    text: str
    accumulators: tuple[str, ...]


_STRUCT = r"(?:\{[^}]*\}|%f32x\d+)"  # of registers: spelled out, or by its name


class Values:
    """Definitions of a function's values, for looking through structs."""

    def __init__(self, llvm: str) -> None:
        self.of = {m[1]: m[2] for m in re.finditer(r"^  (%\w+) = (.*)$", llvm, re.MULTILINE)}

    def scalar(self, value: str) -> str:
        """What defines a float: looked up through extractvalue of insertvalue, and through asm that only ties."""
        text = self.of.get(value, value)
        taken = re.match(rf"extractvalue {_STRUCT} (%\w+), (\d+)$", text)
        while taken:
            struct, index = taken[1], taken[2]
            text = self.of[struct]
            put = re.match(rf"insertvalue {_STRUCT} (\S+), float (\S+), (\d+)$", text)
            while put and put[3] != index:
                text = self.of.get(put[1], put[1])
                put = re.match(rf"insertvalue {_STRUCT} (\S+), float (\S+), (\d+)$", text)
            tied = re.match(rf"call {_STRUCT} asm sideeffect \"\", \"[^\"]*\"\((.*)\)$", text)
            if tied:
                source = tied[1].split(", ")[int(index)].removeprefix("float ")
            elif put:
                source = put[2]
            else:
                return text
            text = self.of.get(source, source)
            taken = re.match(rf"extractvalue {_STRUCT} (%\w+), (\d+)$", text)
        return text


def products(llvm: str) -> list[Product]:
    found = []
    for call in re.finditer(r"asm sideeffect \"([^\"]*wgmma\.mma_async[^\"]*)\", \"[^\"]*\"\(([^)]*)\)", llvm):
        floats = tuple(re.findall(r"float (\S+?)(?:,|$)", call[2]))
        found.append(Product(call[1], floats))
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_chain_starts_from_the_old_accumulators(name: str) -> None:
    llvm = made(name).texts["llvm"]
    values, found = Values(llvm), products(llvm)
    assert found
    chained = 0
    for product in found:
        columns = int(re.findall(r"m64n(\d+)k", product.text)[0])
        assert len(product.accumulators) == columns // 2
        origins = {values.scalar(a).split(" ")[0] for a in product.accumulators}
        assert origins in ({"load"}, {"call"}), origins  # memory that held the old sums, or the product before
        chained += origins == {"call"}
    per_chain = 4  # wgmmas of 32 bytes of K in a K block of 128 bytes
    assert chained * per_chain == len(found) * (per_chain - 1)


@pytest.mark.parametrize("name", CASES)
def test_waits_tie_every_accumulator(name: str) -> None:
    waits = re.findall(
        r"asm (\w+ )?\"wgmma\.wait_group\.sync\.aligned \d+;\", \"([^\"]*)\"\(", made(name).texts["llvm"]
    )
    assert waits
    for volatile, constraints in waits:
        parts = constraints.split(",")
        count = parts.count("=f")
        assert volatile == "sideeffect "
        assert count >= 8
        assert parts == ["=f"] * count + [str(i) for i in range(count)] + ["~{memory}"]


@pytest.mark.parametrize("name", CASES)
def test_tensor_maps_are_grid_constants(name: str) -> None:
    compilation = made(name)
    maps = sum(argument.kind == "tensor_map" for argument in compilation.spec.arguments)
    head = next(line for line in compilation.texts["llvm"].splitlines() if line.startswith("define ptx_kernel"))
    assert len(re.findall(r'byval\(\[128 x i8\]\) align 64 "nvvm.grid_constant"', head)) == head.count("byval") == maps
    assert len(re.findall(r"\.param \.align 64 \.b8 \S+\[128\]", compilation.ptx)) == maps
    assert ".local" not in compilation.ptx  # a tensor map copied to local memory is not one that copies can read


# ------------------------------------------------------------------------------------------------------------ PTX


@pytest.mark.parametrize("name", PROMOTED)
def test_no_block_ends_between_a_product_and_its_promotion(name: str) -> None:
    open_, left, promotions = False, 0, 0
    for line in made(name).ptx.splitlines():
        product = re.search(r"wgmma\.mma_async\S*m64n(\d+)k", line)
        if product:
            assert left in (0, int(product[1]) // 2), "a product before the one before is promoted"
            open_, left = True, int(product[1]) // 2
        elif open_:
            assert not re.search(r"^\S*:$|\bbra\b", line), f"{line.strip()}: {left} sums not promoted"
            if re.match(r"\s*(fma|add)\.rn\.f32\b", line):
                left -= 1
            if not left:
                open_, promotions = False, promotions + 1
    assert promotions
    assert not left


@pytest.mark.parametrize("name", CASES)
def test_arrives_make_no_cluster_wide_barrier(name: str) -> None:
    arrives = re.findall(r"mbarrier\.arrive[^;]*;", made(name).ptx)
    assert arrives
    assert not [a for a in arrives if "release.cluster" in a]


@pytest.mark.parametrize("name", CASES)
def test_each_role_sets_its_registers(name: str) -> None:
    compilation = made(name)
    producer, consumer = compilation.schedule.registers
    found = re.findall(r"setmaxnreg\.(\w+)\.sync\.aligned\.u32\s+(\d+);", compilation.ptx)
    threads = 128 * (1 + compilation.schedule.warpgroups)
    entry = min(65536 // threads, 255) // 8 * 8
    wanted = [("inc" if count > entry else "dec", str(count)) for count in (producer, consumer)]
    assert sorted(found) == sorted(wanted)
    assert f".reqntid {threads}, 1, 1\n" in compilation.ptx  # without it ptxas ignores setmaxnreg (C7508)


@pytest.mark.parametrize("name", CASES)
def test_clusters_are_explicit(name: str) -> None:
    compilation = made(name)
    along_m, along_n = compilation.schedule.cluster
    if along_m * along_n > 1:
        assert ".explicitcluster\n" in compilation.ptx
        assert f".reqnctapercluster {along_m * along_n}, 1, 1\n" in compilation.ptx
    else:
        assert "cluster.arrive" not in compilation.ptx
        assert "multicast" not in compilation.ptx


# ---------------------------------------------------------------------------------------------------------- ptxas

GOOD = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'C' for 'sm_90a'
ptxas info    : Function properties for C
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 464 bytes cmem[0]
"""

SLOW = {
    "serialised": (
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "insufficient register resources for the wgmma pipeline in the function 'C'",
        "C7510",
    ),
    "undefined": (
        "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage",
        "C7514",
    ),
    "wait injected": ("ptxas info    : (C7517) warpgroup.wait is injected in around line 700 by compiler", "C7517"),
    "setmaxnreg ignored": ("ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored", "C7508"),
    "spill": ("    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads", "4 bytes spill stores"),
    "stack": ("    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", "16 bytes stack frame"),
}


def test_a_clean_log_passes() -> None:
    judge(GOOD, "tile=128x128x128")


@pytest.mark.parametrize("what", SLOW)
def test_a_slow_kernel_is_refused(what: str) -> None:
    line, wanted = SLOW[what]
    with pytest.raises(ToolchainError) as refusal:
        judge(GOOD + line + "\n", "tile=128x128x128")
    assert wanted in refusal.value.got
    assert "tile=128x128x128" in refusal.value.message
    assert refusal.value.fix
