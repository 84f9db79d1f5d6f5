"""Probes of mma.sync: PTX ISA 9.7.14.5, every shape and type of sm_90a that the emulator has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .operands import FORMATS, REGIMES, draw, integers, mma_accumulator, mma_operand
from .probe import Buffer, Probe, module, output


@dataclass(frozen=True)
class Shape:
    """One mma.sync instruction of shape m16n8kK."""

    k: int
    a: str
    b: str
    accumulator: str

    @property
    def name(self) -> str:
        return f"mma_k{self.k}_{self.a}_{self.b}_{self.accumulator}"

    @property
    def opcode(self) -> str:
        return f"mma.sync.aligned.m16n8k{self.k}.row.col.{self.accumulator}.{self.a}.{self.b}.{self.accumulator}"


SHAPES = (
    Shape(16, "bf16", "bf16", "f32"),
    Shape(16, "f16", "f16", "f32"),
    Shape(16, "f16", "f16", "f16"),
    Shape(8, "bf16", "bf16", "f32"),
    Shape(8, "f16", "f16", "f32"),
    Shape(8, "f16", "f16", "f16"),
    Shape(8, "tf32", "tf32", "f32"),
    Shape(4, "tf32", "tf32", "f32"),
    Shape(32, "e4m3", "e4m3", "f32"),
    Shape(32, "e4m3", "e5m2", "f32"),
    Shape(32, "e5m2", "e4m3", "f32"),
    Shape(32, "e5m2", "e5m2", "f32"),
    Shape(32, "e4m3", "e4m3", "f16"),
    Shape(32, "e5m2", "e5m2", "f16"),
    Shape(16, "e4m3", "e4m3", "f32"),
    Shape(16, "e5m2", "e4m3", "f16"),
)


def load(register: str, buffer: str, count: int) -> str:
    """Loads `count` registers of 32 bits that lie together for each thread of the grid."""
    lines = [
        f".reg .b32 %{register}<{count}>;",
        f"ld.param.u64 %base, [{buffer}];",
        f"mul.wide.u32 %offset, %index, {4 * count};",
        "add.u64 %at, %base, %offset;",
    ]
    return "\n".join(lines + [f"ld.global.b32 %{register}{i}, [%at+{4 * i}];" for i in range(count)])


def store(register: str, buffer: str, count: int) -> str:
    """The opposite of `load`; the registers exist."""
    lines = [
        f"ld.param.u64 %base, [{buffer}];",
        f"mul.wide.u32 %offset, %index, {4 * count};",
        "add.u64 %at, %base, %offset;",
    ]
    return "\n".join(lines + [f"st.global.b32 [%at+{4 * i}], %{register}{i};" for i in range(count)])


def registers(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def index(block: int) -> str:
    """%index: the thread's number in the grid."""
    return f"""
    .reg .b32 %index, %cta;
    .reg .b64 %base, %offset, %at;
    mov.u32 %index, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mad.lo.u32 %index, %cta, {block}, %index;
    """


def probe(name: str, shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Probe:
    """One mma.sync a warp; a, b, c are (warps, 32, registers) of 32 bits."""
    warps = a.shape[0]
    d = output("d", c.shape, np.uint32)
    arguments = (Buffer("a", a), Buffer("b", b), Buffer("c", c), d)
    ra, rb, rc = a.shape[2], b.shape[2], c.shape[2]
    body = f"""
    {index(32)}
    {load("a", "a", ra)}
    {load("b", "b", rb)}
    {load("c", "c", rc)}
    .reg .b32 %d<{rc}>;
    {shape.opcode} {registers("d", rc)}, {registers("a", ra)}, {registers("b", rb)}, {registers("c", rc)};
    {store("d", "d", rc)}
    """
    return Probe(name, module("probe", arguments, body, block=32), "probe", arguments, (warps, 1, 1), (32, 1, 1))


def numbers(shape: Shape, warps: int = 2) -> Probe:
    """`warps` products for each regime of operands."""
    forms = FORMATS[shape.a], FORMATS[shape.b], FORMATS[shape.accumulator]
    a, b, c = [], [], []
    for regime in REGIMES:
        for seed in range(warps):
            x, y, z = draw(regime, *forms, (16, 8, shape.k), seed)
            a.append(mma_operand(x))
            b.append(mma_operand(y))
            c.append(mma_accumulator(z))
    return probe(shape.name, shape, np.stack(a), np.stack(b), np.stack(c))


def exact(shape: Shape) -> Probe:
    """Small integers: the layout of fragments alone."""
    forms = FORMATS[shape.a], FORMATS[shape.b], FORMATS[shape.accumulator]
    a, b, c = (
        np.stack([pack(integers(form, dims, 300 + 10 * i + j)) for j in range(2)])
        for i, (form, dims, pack) in enumerate(
            zip(forms, ((16, shape.k), (8, shape.k), (16, 8)), (mma_operand, mma_operand, mma_accumulator), strict=True)
        )
    )
    return probe(f"{shape.name}_exact", shape, a, b, c)


# opcode after mma.sync.aligned., and registers of A, B and C
RAW = (
    ("m16n8k16.row.col.s32.s8.s8.s32", 2, 1, 4),
    ("m16n8k32.row.col.s32.s8.u8.s32", 4, 2, 4),
    ("m16n8k32.row.col.satfinite.s32.s8.s8.s32", 4, 2, 4),
    ("m16n8k32.row.col.satfinite.s32.u8.u8.s32", 4, 2, 4),
    ("m8n8k4.row.col.f64.f64.f64.f64", 1, 1, 2),
    ("m16n8k4.row.col.f64.f64.f64.f64", 2, 1, 4),
    ("m16n8k8.row.col.f64.f64.f64.f64", 4, 2, 4),
    ("m16n8k16.row.col.f64.f64.f64.f64", 8, 4, 4),
)


def raw(opcode: str, counts: tuple[int, int, int], seed: int) -> Probe:
    """Four warps of registers, of no assumed layout: any bytes, or float64 integers from -8 to 8."""
    generator = np.random.default_rng(seed)
    double = "f64" in opcode
    width = 8 if double else 4
    buffers = []
    for name, count in zip("abc", counts, strict=True):
        shape = (4, 32, count)
        if double:
            data = generator.integers(-8, 9, shape).astype(np.float64).view(np.uint64)
        else:
            data = generator.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
            if name == "c":  # near the ends, to wrap or saturate, or small
                near = np.where(data & 1 == 0, np.uint32(0x7FFF0000), np.uint32(0x80000000)) ^ (data >> np.uint32(16))
                data = np.where(data & 2 == 0, near, data >> np.uint32(16))
        buffers.append(Buffer(name, data))
    d = output("d", (4, 32, counts[2]), np.uint64 if double else np.uint32)
    arguments = (*buffers, d)
    lines = [index(32), f".reg .b{8 * width} %d<{counts[2]}>;"]
    for name, count in zip("abc", counts, strict=True):
        lines += [f".reg .b{8 * width} %{name}<{count}>;", f"ld.param.u64 %base, [{name}];"]
        lines.append(f"mad.wide.u32 %at, %index, {width * count}, %base;")
        lines += [f"ld.global.b{8 * width} %{name}{i}, [%at+{width * i}];" for i in range(count)]
    operands = ", ".join(
        "{" + ", ".join(f"%{n}{i}" for i in range(c)) + "}" for n, c in zip("abc", counts, strict=True)
    )
    lines.append(f"mma.sync.aligned.{opcode} {registers('d', counts[2])}, {operands};")
    lines += ["ld.param.u64 %base, [d];", f"mad.wide.u32 %at, %index, {width * counts[2]}, %base;"]
    lines += [f"st.global.b{8 * width} [%at+{width * i}], %d{i};" for i in range(counts[2])]
    text = module("probe", arguments, "\n".join(lines), block=32)
    return Probe("mma_" + opcode.replace(".", "_"), text, "probe", arguments, (4, 1, 1), (32, 1, 1))


def probes() -> list[Probe]:
    result = [numbers(s) for s in SHAPES] + [exact(s) for s in SHAPES]
    return result + [raw(opcode, (a, b, c), 350 + i) for i, (opcode, a, b, c) in enumerate(RAW)]
