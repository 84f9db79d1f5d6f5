"""Launching a kernel of a PTX text on memory of the emulator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import scalec.emulator.instructions.load_all  # noqa: F401  (fills the table)
from scalec.emulator.declarations import MOST_BYTES
from scalec.emulator.findings import Finding, PtxSyntaxError
from scalec.emulator.instructions.table import DTYPES
from scalec.emulator.machine.kernel import Kernel
from scalec.emulator.machine.machine import Machine
from scalec.emulator.machine.memory import WINDOWS, GlobalMemory, Segment
from scalec.emulator.machine.options import Options
from scalec.emulator.parser import parse
from scalec.emulator.program import TYPE_BITS, Module, Variable
from scalec.emulator.stats import Stats

Argument = int | float | bytes | np.generic

CONST_BYTES = 11 << 16  # PTX ISA 5.1.3: 64 KB of variables, and 640 KB in ten regions
MOST_CTAS = (2**31 - 1, 65535, 65535)  # of a grid, by dimension (CUDA programming guide, technical specifications)


@dataclass
class Loaded:
    """A module whose .global and .const variables have their place in a device's memory."""

    module: Module
    memory: GlobalMemory
    symbols: dict[str, int] = field(default_factory=dict)  # name -> address in the variable's state space
    consts: Segment | None = None
    kernels: dict[tuple[str, tuple[int, int, int], int, frozenset[str]], Kernel] = field(default_factory=dict)


def load(text: str, memory: GlobalMemory) -> Loaded:
    """Parses a PTX text and places its variables.

    Raises:
        PtxSyntaxError, NotModelled: by the parser.
        Finding: resources: the variables are too large.
    """
    module = parse(text)
    loaded = Loaded(module, memory)
    if sum(v.size for v in module.variables if v.space == "global") > MOST_BYTES:
        raise Finding("resources", f"variables in .global of more than {MOST_BYTES} bytes, which the emulator takes")
    at = 0
    for variable in (v for v in module.variables if v.space == "const"):
        at = -(-at // variable.align) * variable.align
        loaded.symbols[variable.name] = at
        at += variable.size
    if at > CONST_BYTES:
        raise Finding("resources", f"{at} bytes in .const, a GPU has {CONST_BYTES}")
    loaded.consts = Segment("constant memory", "const", 0, at, np.zeros(at, np.uint8))
    segments: dict[str, Segment] = {}
    for variable in (v for v in module.variables if v.space == "global"):
        segment = memory.allocate(variable.size, f"variable {variable.name}", max(256, variable.align))
        segments[variable.name] = segment
        loaded.symbols[variable.name] = segment.base
        segment.written[:] = True  # variables without an initialiser begin as zero (PTX ISA 5.4.4)
    for variable in module.variables:
        if variable.init is None:
            continue
        data = bytearray(variable.init)
        for offset, symbol, generic in variable.relocations:
            known = loaded.symbols.get(symbol.name, module.code_address(symbol.name))
            if known is None:
                raise PtxSyntaxError(
                    f"{variable.name} begins with the address of {symbol.name!r}, which is no variable and no function"
                )
            address = known + symbol.offset
            if generic and symbol.name in loaded.symbols and symbol.name not in segments:
                address += WINDOWS["const"]
            data[offset : offset + 8] = address.to_bytes(8, "little")
        if variable.space == "global":
            segments[variable.name].data[: len(data)] = np.frombuffer(bytes(data), np.uint8)
        elif variable.space == "const":
            start = loaded.symbols[variable.name]
            loaded.consts.data[start : start + len(data)] = np.frombuffer(bytes(data), np.uint8)
    return loaded


def launch(
    loaded: Loaded,
    entry: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: Sequence[Argument],
    *,
    cluster: tuple[int, int, int] | None = None,
    shared_bytes: int = 0,
    options: Options | None = None,
) -> Stats:
    """Runs a kernel to its end.

    Args:
        arguments: one for each parameter: a number as the parameter's type has it (an int is an address, too), a numpy
            scalar, or the bytes of a struct.
        cluster: the shape; by default that of the entry's .reqnctapercluster.
        shared_bytes: dynamic shared memory of a CTA.

    Raises:
        Finding: the program is wrong, or no GPU has such a launch.
        NotModelled: it uses what the emulator does not execute.
        PtxSyntaxError: the arguments are not those of the entry.
    """
    options = options or Options()
    if not all(1 <= count <= most for count, most in zip(grid, MOST_CTAS, strict=True)):
        raise Finding("resources", f"launched with a grid of {grid} CTAs, it has from 1 to {MOST_CTAS}")
    if min(block) < 1 or min(cluster or (1,)) < 1 or shared_bytes < 0:
        raise Finding("resources", f"launched with {block} threads, clusters of {cluster}, {shared_bytes} bytes")
    key = (entry, block, shared_bytes, options.passed)
    kernel = loaded.kernels.get(key)
    if kernel is None:
        kernel = loaded.kernels[key] = Kernel(loaded.module, entry, block, shared_bytes, loaded.symbols, options.passed)
    required = kernel.function.directives.get("reqnctapercluster")
    x, y, z = (*(required or (1,)), 1, 1)[:3]
    shape = (x, y, z)
    if cluster is not None:
        if required and tuple(cluster) != shape:
            raise Finding("resources", f"launched with clusters of {cluster} CTAs, .reqnctapercluster says {shape}")
        shape = cluster
    if math.prod(shape) > kernel.facts.max_cluster and "resources" not in options.passed:
        raise Finding(
            "resources", f"clusters of {math.prod(shape)} CTAs, {kernel.facts.name} has {kernel.facts.max_cluster}"
        )
    params = Segment("the parameters", "param", 0, kernel.param_bytes, _pack(kernel, arguments))
    dependent = options.dependent
    if dependent is None:
        dependent = any(i.opcode == "griddepcontrol" for i in kernel.code)
    dependent = dependent and "dependent" not in options.passed
    for segment in loaded.memory.segments():
        segment.forget(dependent)
    machine = Machine(kernel, grid, shape, loaded.memory, params, loaded.consts, options)
    with np.errstate(all="ignore"):  # inactive lanes hold anything, and PTX has no floating-point exceptions
        machine.run()
    return machine.stats


def _pack(kernel: Kernel, arguments: Sequence[Argument]) -> np.ndarray:
    params = kernel.function.params
    if len(arguments) != len(params):
        listed = ", ".join(f"{number}: {_described(param)}" for number, param in enumerate(params))
        raise PtxSyntaxError(
            f"{kernel.function.name} has {len(params)} parameters, got {len(arguments)} arguments; they are {listed}"
        )
    out = bytearray(kernel.param_bytes)
    for param, argument in zip(params, arguments, strict=True):
        data = _bytes(param, argument)
        if len(data) != param.size:
            raise PtxSyntaxError(f"parameter {param.name} has {param.size} bytes, got {len(data)}")
        start = kernel.param_offsets[param.name]
        out[start : start + param.size] = data
    return np.frombuffer(bytes(out), np.uint8)


def _described(param: Variable) -> str:
    """The type of a parameter, for people."""
    size = TYPE_BITS[param.type] // 8
    return f"{param.size} bytes" if param.size != size else f".{param.type}{' .ptr' if param.pointer else ''}"


def _bytes(param: Variable, argument: Argument) -> bytes:
    """An argument as its parameter's type has it; untyped bits (.b32, .b64) take integers and floats alike."""
    if isinstance(argument, np.generic):
        return argument.tobytes()
    if not isinstance(argument, int | float):
        return bytes(argument)
    if param.type in ("f16", "bf16", "f32", "f64"):
        return np.array(float(argument)).astype(DTYPES[param.type]).tobytes()
    if isinstance(argument, float):
        if param.pointer or not param.type.startswith("b"):
            raise PtxSyntaxError(f"parameter {param.name} is {_described(param)}, an integer or an address: {argument}")
        return np.array(argument, "f8" if param.size == 8 else "f4").tobytes()
    if not -(1 << 8 * param.size - 1) <= argument < 1 << 8 * param.size:
        raise PtxSyntaxError(f"parameter {param.name} has {param.size} bytes, too few for {argument:#x}"[:200])
    return (argument & ((1 << 8 * param.size) - 1)).to_bytes(param.size, "little")
