"""What a probe is: a small PTX module, what it is launched with, and what comes back.

A probe knows nothing of who runs it: `run.py` launches it on a GPU, `test_h200.py` in the emulator.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FILL = 0xCC  # the byte in every output buffer before the launch

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
BLOCK = 128


@dataclass(frozen=True, eq=False)
class Buffer:
    """A buffer in global memory, passed as a pointer."""

    name: str  # its name in the results
    data: np.ndarray  # its contents before the launch
    result: bool = False  # the bytes after the launch belong to the probe's results
    alignment: int = 256  # of its address, in bytes


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number, passed by value."""

    name: str
    value: np.generic


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor map, passed by value as 128 bytes: the arguments of cuTensorMapEncodeTiled."""

    buffer: Buffer  # name of the buffer that it describes; the buffer itself may be an argument of its own or not
    dtype: str  # element type: u8 u16 u32 s32 u64 s64 f16 bf16 f32 f64 f32_ftz tf32 tf32_ftz
    extents: tuple[int, ...]  # elements per dimension, innermost first
    strides: tuple[int, ...]  # bytes between elements of each dimension but the innermost
    box: tuple[int, ...]  # elements of the box per dimension
    element_strides: tuple[int, ...] = ()  # traversal strides per dimension
    interleave: int = 0  # 0, 16 or 32 bytes
    swizzle: int = 0  # 0, 32, 64 or 128 bytes
    fill: str = "zero"  # what out-of-bounds elements become: "zero" or "nan"
    offset: int = 0


Argument = Buffer | Scalar | TensorMap


@dataclass(frozen=True, eq=False)
class Probe:
    """One launch.

    Attributes:
        name: unique; file names and keys of the stored results derive from it.
        ptx: the module.
        entry: its kernel.
        arguments: in the order of the kernel's parameters.
        grid, block, cluster: launch shape, x y z.
        shared: dynamic shared memory, bytes.
        labels: for instruction tables: what each row of the result comes from.
    """

    name: str
    ptx: str
    entry: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (BLOCK, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    labels: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[Buffer, ...]:
        """The buffers whose bytes are the probe's results."""
        buffers = [a.buffer if isinstance(a, TensorMap) else a for a in self.arguments]
        return tuple({id(b): b for b in buffers if isinstance(b, Buffer) and b.result}.values())

    @property
    def checksum(self) -> int:
        """Of the module and all contents: stored with the results, so that a drift of the inputs does not pass."""
        crc = zlib.crc32(" ".join(self.ptx.split()).encode())
        for argument in self.arguments:
            if not isinstance(argument, Scalar):
                buffer = argument.buffer if isinstance(argument, TensorMap) else argument
                crc = zlib.crc32(buffer.data.tobytes(), crc)
        return crc


def output(name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> Buffer:
    """A result buffer full of `FILL`."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return Buffer(name, np.full(count, FILL, np.uint8).view(dtype).reshape(shape), result=True)


def parameter(argument: Argument) -> str:
    """The declaration of a kernel parameter."""
    if isinstance(argument, TensorMap):
        return f".param .align 64 .b8 {argument.buffer.name}_map[128]"
    if isinstance(argument, Scalar):
        return f".param .b{argument.value.dtype.itemsize * 8} {argument.name}"
    return f".param .u64 {argument.name}"


def module(entry: str, arguments: Sequence[Argument], body: str, *, block: int = BLOCK, directives: str = "") -> str:
    """PTX text of a module with one kernel."""
    parameters = ",\n    ".join(parameter(a) for a in arguments)
    lines = "\n".join("    " + line.strip() if line.strip() else "" for line in body.strip().splitlines())
    return (
        f"{HEADER}\n.extern .shared .align 1024 .b8 window[];\n\n.visible .entry {entry}(\n    {parameters})\n"
        f".reqntid {block}, 1, 1\n{directives}{{\n{lines}\n    ret;\n}}\n"
    )


def elementwise(
    name: str, cases: Sequence[str], operands: Mapping[str, np.ndarray], result: int, *, sources: str = ""
) -> Probe:
    """One kernel that puts the same operands through many instructions; thread i does element i.

    Args:
        name: of the probe.
        cases: PTX text with {d} for the result register and {a}, {b}, ... for the operands; a case without a space is
            an opcode that takes the operands in `sources`, or all of them, in order.
        operands: name to array of unsigned integers (bit patterns), all of one length, a multiple of 128.
        result: bits of the result register.
        sources: names of the operands of a bare opcode, e.g. "ab".

    Returns:
        a probe with one result "d" of shape (cases, elements).
    """
    inputs = [Buffer(key, np.ascontiguousarray(array)) for key, array in operands.items()]
    (count,) = {array.size for array in operands.values()}
    if count % BLOCK:
        raise ValueError(f"{name}: {count} elements, not a multiple of {BLOCK}")
    names = sources or "".join(operands)
    texts = [c if " " in c else f"{c} {{d}}, " + ", ".join(f"{{{s}}}" for s in names) + ";" for c in cases]
    width = result // 8
    out = output("d", (len(texts), count), {2: np.uint16, 4: np.uint32, 8: np.uint64}[width])
    lines = [
        ".reg .b32 %index, %cta;",
        ".reg .b64 %base, %offset, %at, %to;",
        "mov.u32 %index, %tid.x;",
        "mov.u32 %cta, %ctaid.x;",
        f"mad.lo.u32 %index, %cta, {BLOCK}, %index;",
    ]
    registers = {"d": "%d"}
    for buffer in inputs:
        size = buffer.data.dtype.itemsize
        registers[buffer.name] = f"%{buffer.name}"
        lines += [
            f".reg .b{size * 8} %{buffer.name};",
            f"ld.param.u64 %base, [{buffer.name}];",
            f"mul.wide.u32 %offset, %index, {size};",
            "add.u64 %at, %base, %offset;",
            f"ld.global.b{size * 8} %{buffer.name}, [%at];",
        ]
    lines += [
        f".reg .b{result} %d;",
        "ld.param.u64 %base, [d];",
        f"mul.wide.u32 %offset, %index, {width};",
        "add.u64 %to, %base, %offset;",
    ]
    for row, text in enumerate(texts):
        lines += [*text.format(**registers).splitlines(), f"st.global.b{result} [%to+{row * count * width}], %d;"]
    arguments = (*inputs, out)
    labels = tuple(c.split(" ")[0] if not c.startswith("{{") else c for c in cases)
    return Probe(
        name, module("probe", arguments, "\n".join(lines)), "probe", arguments, (count // BLOCK, 1, 1), labels=labels
    )
