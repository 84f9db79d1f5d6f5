"""Probes of wgmma.mma_async: PTX ISA 9.7.15.5, types, descriptors, swizzles, scales, register operands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .mma import index, load, registers, store
from .operands import FORMATS, REGIMES, core_matrices, draw, fragment_of_rows, integers
from .probe import Buffer, Probe, module, output

SWIZZLE_BITS = {0: 0, 128: 1, 64: 2, 32: 3}  # 9.7.15.5.1.2.2: bits 63-62 of the matrix descriptor


@dataclass(frozen=True)
class Tile:
    """Where and how an operand lies in shared memory.

    Attributes:
        start: byte offset of the first k step in the window.
        leading, stride: the descriptor's leading and stride byte offsets.
        swizzle: bytes, 0 for none.
        base: the descriptor's base offset.
        major: "k" or "mn".
        step: bytes from one k step to the next.
    """

    start: int
    leading: int
    stride: int
    swizzle: int = 0
    base: int = 0
    major: str = "k"
    step: int = 0

    @property
    def fields(self) -> int:
        """The descriptor but for its start address."""
        fields = (self.leading >> 4) << 16 | (self.stride >> 4) << 32
        return fields | self.base << 49 | SWIZZLE_BITS[self.swizzle] << 62


@dataclass(frozen=True)
class Wgmma:
    """One kind of instruction and how often it is chained.

    Attributes:
        a_tile: None for A from registers.
        zero: the first step ignores the accumulator (scale-d false).
        negate_a, negate_b: imm-scale -1.
        steps: instructions in the chain, each further in k.
    """

    name: str
    n: int
    a: str
    b: str
    accumulator: str
    a_tile: Tile | None
    b_tile: Tile
    zero: bool = False
    negate_a: bool = False
    negate_b: bool = False
    steps: int = 1

    @property
    def k(self) -> int:
        return 256 // FORMATS[self.a].bits

    @property
    def accumulators(self) -> int:
        """Registers of 32 bits per thread."""
        return self.n // 2 * FORMATS[self.accumulator].bits // 32


def chain(spec: Wgmma) -> str:
    """The instructions between wgmma.fence and wgmma.wait_group."""
    d = registers("d", spec.accumulators)
    lines = []
    for step in range(spec.steps):
        b = spec.b_tile
        lines.append(f"add.u64 %db{step}, %wb, {step * b.step >> 4};")
        source = f"%da{step}"
        if spec.a_tile is None:
            source = "{" + ", ".join(f"%a{4 * step + i}" for i in range(4)) + "}"
        else:
            lines.append(f"add.u64 %da{step}, %wa, {step * spec.a_tile.step >> 4};")
        scales = f"{-1 if spec.negate_a else 1}, {-1 if spec.negate_b else 1}"
        if FORMATS[spec.a].bits == 16:
            if spec.a_tile is not None:
                scales += f", {int(spec.a_tile.major == 'mn')}"
            scales += f", {int(b.major == 'mn')}"
        predicate = "%first" if step == 0 else "%always"
        lines.append(
            f"wgmma.mma_async.sync.aligned.m64n{spec.n}k{spec.k}.{spec.accumulator}.{spec.a}.{spec.b} "
            f"{d}, {source}, %db{step}, {predicate}, {scales};"
        )
    return "\n".join(lines)


def probe(spec: Wgmma, image: np.ndarray, c: np.ndarray, a: np.ndarray | None = None) -> Probe:
    """A warpgroup for each image of shared memory.

    Args:
        spec: the instructions.
        image: (groups, bytes) of shared memory, a multiple of 2048.
        c: (groups, 128, registers) accumulators before.
        a: (groups, 128, 4 * steps) registers of A.
    """
    groups, size = image.shape
    d = output("d", c.shape, np.uint32)
    arguments = (Buffer("image", image), Buffer("c", c), *([] if a is None else [Buffer("a", a)]), d)
    window = "" if spec.a_tile is None else f"or.b64 %wa, %wa, {spec.a_tile.fields:#x};"
    start_a = 0 if spec.a_tile is None else spec.a_tile.start
    body = f"""
    {index(128)}
    .reg .b32 %window, %to, %left, %t, %q<4>, %e;
    .reg .b64 %wa, %wb, %da<{spec.steps}>, %db<{spec.steps}>;
    .reg .pred %more, %first, %always;
    {load("d", "c", spec.accumulators)}
    {"" if a is None else load("a", "a", 4 * spec.steps)}
    mov.u32 %window, window;
    mov.u32 %t, %tid.x;
    ld.param.u64 %base, [image];
    mul.wide.u32 %offset, %cta, {size};
    add.u64 %base, %base, %offset;
    mul.wide.u32 %offset, %t, 16;
    add.u64 %at, %base, %offset;
    mad.lo.u32 %to, %t, 16, %window;
    mov.u32 %left, {size // 2048};
    copy:
    ld.global.v4.b32 {{%q0, %q1, %q2, %q3}}, [%at];
    st.shared.v4.b32 [%to], {{%q0, %q1, %q2, %q3}};
    add.u64 %at, %at, 2048;
    add.u32 %to, %to, 2048;
    sub.u32 %left, %left, 1;
    setp.ne.u32 %more, %left, 0;
    @%more bra copy;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    add.u32 %to, %window, {start_a};
    and.b32 %to, %to, 0x3ffff;
    shr.u32 %to, %to, 4;
    cvt.u64.u32 %wa, %to;
    {window}
    add.u32 %to, %window, {spec.b_tile.start};
    and.b32 %to, %to, 0x3ffff;
    shr.u32 %to, %to, 4;
    cvt.u64.u32 %wb, %to;
    or.b64 %wb, %wb, {spec.b_tile.fields:#x};
    setp.eq.u32 %first, {int(spec.zero)}, 0;
    setp.eq.u32 %always, 0, 0;
    wgmma.fence.sync.aligned;
    {chain(spec)}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    {store("d", "d", spec.accumulators)}
    """
    text = module("probe", arguments, body, block=128)
    return Probe(spec.name, text, "probe", arguments, (groups, 1, 1), (128, 1, 1), shared=size)


TYPES = (
    *((a, b, c) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for c in ("f32", "f16")),
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"),
)


def numbers(a: str, b: str, accumulator: str, groups: int = 1, *, from_registers: bool = False) -> Probe:
    """m64n8, one instruction, `groups` warpgroups for each regime of operands; K-major, no swizzle."""
    a_tile = None if from_registers else Tile(0, 128, 256)
    name = f"wgmma_{a}_{b}_{accumulator}" + ("_registers" if from_registers else "")
    spec = Wgmma(name, 8, a, b, accumulator, a_tile, Tile(2048, 128, 256))
    forms = FORMATS[a], FORMATS[b], FORMATS[accumulator]
    images, starts, fragments = [], [], []
    for regime in REGIMES:
        for seed in range(groups):
            x, y, z = draw(regime, *forms, (64, 8, spec.k), seed)
            image = np.zeros(4096, np.uint8)
            image[:2048], image[2048:2304] = core_matrices(x), core_matrices(y)
            images.append(image)
            starts.append(fragment_of_rows(z))
            fragments.append(register_operand(x))
    registers_a = np.stack(fragments) if from_registers else None
    return probe(spec, np.stack(images), np.stack(starts), registers_a)


def chained(a: str, b: str, accumulator: str) -> Probe:
    """As kernels have it: 128 bytes of k in four instructions, the first into fresh accumulators; m64n16."""
    spec = Wgmma(
        f"wgmma_chain_{a}_{b}_{accumulator}", 16, a, b, accumulator,
        Tile(0, 128, 1024, step=256), Tile(8192, 128, 1024, step=256), zero=True, steps=4,
    )  # fmt: skip
    forms = FORMATS[a], FORMATS[b], FORMATS[accumulator]
    x, y, z = draw("normal", *forms, (64, 16, 4 * spec.k), 0)
    image = np.concatenate([core_matrices(x), core_matrices(y)])
    return probe(spec, image[None], fragment_of_rows(z)[None])


def register_operand(x: np.ndarray) -> np.ndarray:
    """A (64, 32 bytes of k) -> (128, 4) registers: each warp 16 rows, as mma.sync's A: PTX ISA 9.7.15.5.1.1."""
    data = np.ascontiguousarray(x).view(np.uint32)
    thread, i = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    return data[16 * (thread // 32) + thread % 32 // 4 + 8 * (i % 2), thread % 4 + 4 * (i // 2)]


def layouts() -> list[Wgmma]:
    """Descriptors: every swizzle and major-ness, unusual strides, steps inside a swizzle atom, register A."""
    result = []
    for form in ("e4m3", "bf16", "tf32"):
        for swizzle in (0, 32, 64, 128):
            atom = 8 * (swizzle or 16)
            stride = 256 if swizzle == 0 else atom
            for n, extra in ((8, 0), (24, atom)):
                steps = max(1, swizzle // 32)
                a = Tile(0, 128, stride + extra, swizzle, step=32)
                b = Tile(32768, 128, stride + extra, swizzle, step=32)
                if swizzle == 0:
                    a, b = (Tile(t.start, 128 + extra, 256 + 3 * extra, 0, step=512) for t in (a, b))
                name = f"wgmma_k_{form}_s{swizzle}_n{n}"
                result.append(Wgmma(name, n, form, form, "f32", a, b, steps=steps, zero=n == 8))
    for swizzle in (0, 32, 64, 128):
        atom = 8 * (swizzle or 16)
        for n, leading, stride in ((16, atom, 8 * atom), (64, 8 * atom, atom), (128, 2 * atom, 16 * atom)):
            a = Tile(0, leading, stride, swizzle, major="mn", step=2 * atom if leading == atom else 0)
            b = Tile(32768, leading, stride, swizzle, major="mn", step=0)
            for which, pair in (("a", (a, Tile(32768, 128, 256))), ("b", (Tile(0, 128, 256), b)), ("ab", (a, b))):
                if n == 128 and which != "ab":
                    continue
                name = f"wgmma_mn_{which}_s{swizzle}_n{n}"
                result.append(Wgmma(name, n, "f16", "f16", "f32", *pair, zero=True))
    plain, other = Tile(0, 128, 1024, 128, step=32), Tile(32768, 128, 1024, 128, step=32)
    result += [
        Wgmma("wgmma_scale_a", 16, "bf16", "bf16", "f32", plain, other, negate_a=True),
        Wgmma("wgmma_scale_b", 16, "e5m2", "e4m3", "f32", plain, other, negate_b=True),
        Wgmma("wgmma_scale_ab", 16, "tf32", "tf32", "f32", plain, other, negate_a=True, negate_b=True),
        Wgmma("wgmma_f16_n40", 40, "f16", "f16", "f16", plain, other, steps=4),
        Wgmma("wgmma_fp8_f16_n256", 256, "e4m3", "e5m2", "f16", plain, other, steps=2),
        Wgmma("wgmma_registers_e4m3", 32, "e4m3", "e4m3", "f32", None, other, steps=4, zero=True),
        Wgmma("wgmma_registers_bf16", 32, "bf16", "bf16", "f32", None, other, steps=2, negate_a=True),
        Wgmma("wgmma_registers_mn", 32, "f16", "f16", "f16", None, Tile(32768, 1024, 512, 64, major="mn")),
        Wgmma("wgmma_registers_tf32", 16, "tf32", "tf32", "f32", None, other, steps=2, negate_b=True),
        Wgmma("wgmma_base", 16, "bf16", "bf16", "f32", Tile(512, 128, 1024, 128, 4), Tile(33408, 128, 1024, 128, 5)),
        Wgmma("wgmma_base_zero", 16, "bf16", "bf16", "f32", Tile(512, 128, 1024, 128), Tile(33408, 128, 1024, 128)),
    ]  # fmt: skip
    return result


def exact(spec: Wgmma, seed: int) -> Probe:
    """The whole of shared memory full of small integers, so that no layout is assumed here."""
    a, b, c = FORMATS[spec.a], FORMATS[spec.b], FORMATS[spec.accumulator]
    image = np.concatenate([
        integers(a, (32768 * 8 // a.bits,), seed).view(np.uint8),
        integers(b, (32768 * 8 // b.bits,), seed + 1).view(np.uint8),
    ])  # fmt: skip
    start = integers(c, (64, spec.n), seed + 2)
    registers_a = None
    if spec.a_tile is None:
        parts = [register_operand(integers(a, (64, spec.k), seed + 3 + i)) for i in range(spec.steps)]
        registers_a = np.concatenate(parts, axis=1)[None]
    return probe(spec, image[None], fragment_of_rows(start)[None], registers_a)


def probes() -> list[Probe]:
    result = [numbers(*types) for types in TYPES]
    result += [numbers("e4m3", "e5m2", "f32", from_registers=True), numbers("bf16", "bf16", "f32", from_registers=True)]
    result += [chained("e4m3", "e4m3", "f32"), chained("e5m2", "e4m3", "f16"), chained("bf16", "bf16", "f32")]
    return result + [exact(spec, 400 + 10 * i) for i, spec in enumerate(layouts())]
