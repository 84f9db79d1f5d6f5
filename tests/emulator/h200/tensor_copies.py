"""Probes of tensor copies: PTX ISA 5.5 and 9.7.9.25.5: boxes, bounds, swizzles, interleaves, fills, reductions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from .probe import FILL, Buffer, Probe, TensorMap, module, output
from .values import floats, pairs

LANES = 32
WORD = np.dtype(np.uint32)
ELEMENT_BYTES = {
    "u8": 1,
    "u16": 2,
    "f16": 2,
    "bf16": 2,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "f32_ftz": 4,
    "tf32": 4,
    "tf32_ftz": 4,
    "u64": 8,
    "s64": 8,
    "f64": 8,
}
START = """
    .reg .b32 %t, %cta, %i, %to, %place, %bar, %window, %c<5>, %q<4>, %fill;
    .reg .b64 %base, %at, %row, %map;
    .reg .pred %p, %leader;
    mov.u32 %t, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %window, window;
    setp.eq.u32 %leader, %t, 0;
"""
WAIT = """
    wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra wait;
"""


def for_words(count: int, label: str, body: str) -> str:
    """A loop of %i over every 32nd word from the lane's own; %at is the word's place at %base, %to in the window."""
    return f"""
    mov.u32 %i, %t;
    {label}:
    mul.wide.u32 %at, %i, 4;
    add.u64 %at, %at, %base;
    mad.lo.u32 %to, %i, 4, %window;
    {body}
    add.u32 %i, %i, {LANES};
    setp.lt.u32 %p, %i, {count};
    @%p bra {label};
    """


def fill_window(words: int) -> str:
    return f"mov.u32 %fill, {FILL * 0x01010101:#x};\nmov.u64 %base, 0;" + for_words(
        words, "fill", "st.shared.b32 [%to], %fill;"
    )


def show_window(words: int) -> str:
    return for_words(words, "show", "ld.shared.b32 %q0, [%to];\nst.global.b32 [%at], %q0;")


def copy_window(words: int) -> str:
    return for_words(words, "copy", "ld.global.b32 %q0, [%at];\nst.shared.b32 [%to], %q0;")


def load_coordinates(rank: int) -> str:
    """Coordinates of this CTA's copy: five words each."""
    lines = ["ld.param.u64 %base, [coordinates];", "mul.wide.u32 %at, %cta, 20;", "add.u64 %at, %at, %base;"]
    return "\n".join(lines + [f"ld.global.b32 %c{i}, [%at+{4 * i}];" for i in range(rank)])


def barrier(count: int = 1) -> str:
    """An mbarrier after the window, initialised, and everything written so far shown to the async proxy."""
    return f"""
    @%leader mbarrier.init.shared::cta.b64 [%bar], {count};
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    """


def coordinates_of(places: list[tuple[int, ...]]) -> np.ndarray:
    table = np.zeros((len(places), 5), np.int32)
    for row, place in zip(table, places, strict=True):
        row[: len(place)] = place
    return table


def counting(count: int) -> np.ndarray:
    """Words that each name their own place."""
    return np.arange(count, dtype=np.uint32)


@dataclass(frozen=True)
class Case:
    """A tensor map, less its buffer, and where boxes of it are taken."""

    name: str
    spec: TensorMap
    places: tuple[tuple[int, ...], ...]
    shift: int = 0  # bytes from the window's start, a multiple of 128

    @property
    def box_bytes(self) -> int:
        steps = self.spec.element_strides or (1,) * len(self.spec.box)
        if not self.spec.interleave:
            steps = (1, *steps[1:])
        counts = [-(-b // s) for b, s in zip(self.spec.box, steps, strict=True)]
        if self.spec.interleave:
            counts[-2] = 1
        return prod(counts) * (self.spec.interleave or ELEMENT_BYTES[self.spec.dtype])


def load(case: Case) -> Probe:
    """Each CTA takes one box into a window of a known fill, and shows the whole window."""
    rank = len(case.spec.box)
    pitch = case.box_bytes
    if case.spec.swizzle and not case.spec.interleave:
        pitch = case.box_bytes // (case.spec.box[0] * ELEMENT_BYTES[case.spec.dtype]) * case.spec.swizzle
    size = -(-(case.shift + pitch) // 128) * 128 + 128
    table = Buffer("coordinates", coordinates_of(list(case.places)))
    out = output("d", (len(case.places), size // 4), np.uint32)
    arguments = (case.spec, table, out)
    places = ", ".join(f"%c{i}" for i in range(rank))
    body = f"""{START}
    add.u32 %bar, %window, {size};
    {fill_window(size // 4)}
    {load_coordinates(rank)}
    {barrier()}
    mov.b64 %map, source_map;
    cvta.param.u64 %map, %map;
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {case.box_bytes};
    add.u32 %place, %window, {case.shift};
    @%leader cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%place], \
[%map, {{{places}}}], [%bar];
    {WAIT}
    ld.param.u64 %base, [d];
    mul.wide.u32 %row, %cta, {size};
    add.u64 %base, %base, %row;
    {show_window(size // 4)}
    """
    text = module("probe", arguments, body, block=LANES)
    return Probe(
        case.name, text, "probe", arguments, (len(case.places), 1, 1), (LANES, 1, 1), shared=size + 16
    )  # fmt: skip


def source(count_bytes: int, data: np.ndarray | None = None) -> Buffer:
    return Buffer("source", counting(-(-count_bytes // 4)) if data is None else data)


def plain(
    name: str,
    dtype: str,
    extents: tuple[int, ...],
    box: tuple[int, ...],
    places: list[tuple[int, ...]],
    *,
    data: np.ndarray | None = None,
    shift: int = 0,
    **options: object,
) -> Case:
    """A dense tensor, its rows padded to a multiple of 16 bytes (32 with an interleave)."""
    interleave = int(str(options.get("interleave", 0)))
    pitch = -(-extents[0] * (interleave or ELEMENT_BYTES[dtype]) // 32) * 32
    strides = [pitch]
    for extent in extents[1:]:
        strides.append(strides[-1] * extent)
    spec = TensorMap(source(strides[-1], data), dtype, extents, tuple(strides[:-1]), box)
    return Case(name, replace(spec, **options), tuple(places), shift)  # type: ignore[arg-type]


def loads() -> list[Case]:
    result = [
        plain("tma_1d_u8", "u8", (1000,), (256,), [(0,), (-16,), (-256,), (752,), (992,), (1008,), (4992,)]),
        plain("tma_1d_f64", "f64", (30,), (4,), [(0,), (26,), (28,), (-2,)], fill="nan"),
    ]
    corners = [(0, 0), (-32, -3), (160, 30), (192, 36), (96, 5), (224, 40), (-224, 0), (64, -9)]
    for dtype in ("u8", "bf16", "f32"):
        size = ELEMENT_BYTES[dtype]
        for swizzle in (0, 32, 64, 128):
            width = (swizzle or 64) // size
            places = [(c // size * size, r) for c, r in corners]
            case = plain(f"tma_2d_{dtype}_s{swizzle}", dtype, (200, 37), (width, 9), places, swizzle=swizzle)
            result.append(case)
    for swizzle, shift in ((128, 128), (128, 640), (64, 384), (32, 128)):
        case = plain(
            f"tma_2d_shifted_s{swizzle}_{shift}", "f16", (100, 20), (swizzle // 2, 12), [(0, 0), (48, 12)],
            swizzle=swizzle, shift=shift,
        )  # fmt: skip
        result.append(case)
    result += [
        plain("tma_2d_narrow_s128", "f16", (100, 20), (16, 10), [(0, 0), (96, 15)], swizzle=128),
        plain("tma_2d_narrow_s64", "u32", (100, 20), (4, 10), [(0, 0), (96, 15)], swizzle=64),
        plain("tma_3d", "u16", (40, 5, 4), (16, 3, 2), [(0, 0, 0), (32, 3, 3), (-8, -1, -1), (8, 2, 7)]),
        plain("tma_3d_s128", "f16", (130, 5, 4), (64, 3, 2), [(0, 0, 0), (96, 3, 3), (-32, -1, 1)], swizzle=128),
        plain("tma_4d", "s32", (12, 5, 4, 3), (4, 3, 2, 2), [(0, 0, 0, 0), (8, 4, 1, 2), (-4, 1, -1, 0)]),
        plain("tma_5d", "u64", (6, 3, 4, 3, 3), (2, 3, 2, 1, 2), [(0,) * 5, (4, 1, 3, 2, 2), (2, -1, 0, 1, -1)]),
        plain("tma_5d_s32", "f16", (40, 3, 4, 3, 3), (16, 2, 2, 2, 2), [(0,) * 5, (32, 2, 3, 2, 2)], swizzle=32),
        plain("tma_nan_f16", "f16", (20, 3), (16, 4), [(8, 0), (16, 2), (-8, -2)], fill="nan"),
        plain("tma_nan_bf16", "bf16", (20, 3), (16, 4), [(8, 0), (16, 2)], fill="nan", swizzle=32),
        plain("tma_nan_f32", "f32", (20, 3), (8, 4), [(8, 0), (16, 2)], fill="nan"),
        plain("tma_nan_tf32", "tf32", (20, 3), (8, 4), [(16, 2)], fill="nan"),
        plain("tma_steps", "f16", (64, 20, 9), (16, 7, 5), [(0, 0, 0), (56, 16, 6), (-8, -3, -2)],
              element_strides=(1, 2, 3)),
        plain("tma_steps_s64", "u8", (200, 20), (64, 12), [(0, 0), (160, 11)], element_strides=(1, 5), swizzle=64),
        plain("tma_interleave16_3d", "f16", (10, 4, 3), (8, 1, 2), [(0, 0, 0), (7, 2, 1), (-3, -1, 0), (2, 3, 2)],
              interleave=16),
        plain("tma_interleave16_4d", "u8", (20, 5, 4, 3), (16, 3, 1, 2), [(0, 0, 0, 0), (8, 3, 3, 2), (-1, -1, 1, 1)],
              interleave=16),
        plain("tma_interleave32_4d", "f16", (10, 5, 4, 3), (8, 3, 1, 2), [(0, 0, 0, 0), (8, 3, 3, 2), (-1, 1, 1, -1)],
              interleave=32, swizzle=32),
        plain("tma_interleave16_s64", "f16", (10, 5, 4, 3), (8, 3, 1, 1), [(0, 0, 0, 0), (8, 3, 3, 2)],
              interleave=16, swizzle=64),
    ]  # fmt: skip
    (bits,) = floats(32, 1, 160, 901)
    result += [
        plain(f"tma_{dtype}", dtype, (32, 5), (16, 2), [(0, 0), (16, 3), (24, 4)], data=bits)
        for dtype in ("tf32", "tf32_ftz", "f32_ftz")
    ]
    return result


# -- from shared to global ---------------------------------------------------------------------------------------------


def put(case: Case, data: np.ndarray, target: np.ndarray, operation: str = "") -> Probe:
    """Each CTA stores, or reduces, its own window through one map; boxes of different CTAs do not meet."""
    rank = len(case.spec.box)
    size = data.shape[1]
    table = Buffer("coordinates", coordinates_of(list(case.places)))
    spec = replace(case.spec, buffer=Buffer("target", target, result=True))
    arguments = (spec, table, Buffer("data", data))
    places = ", ".join(f"%c{i}" for i in range(rank))
    name = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}.tile.bulk_group"
    if not operation:
        name = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    body = f"""{START}
    ld.param.u64 %base, [data];
    mul.wide.u32 %row, %cta, {size};
    add.u64 %base, %base, %row;
    {copy_window(size // 4)}
    {load_coordinates(rank)}
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    mov.b64 %map, target_map;
    cvta.param.u64 %map, %map;
    add.u32 %place, %window, {case.shift};
    @%leader {name} [%map, {{{places}}}], [%place];
    @%leader cp.async.bulk.commit_group;
    @%leader cp.async.bulk.wait_group 0;
    """
    text = module("probe", arguments, body, block=LANES)
    return Probe(case.name, text, "probe", arguments, (len(case.places), 1, 1), (LANES, 1, 1), shared=size)


def stores() -> list[Probe]:
    result = []
    for swizzle in (0, 32, 64, 128):
        width = (swizzle or 64) // 2
        case = plain(f"tma_store_s{swizzle}", "bf16", (100, 20), (width, 9), [(0, 0), (64, 16), (0, 10)],
                     swizzle=swizzle)  # fmt: skip
        data = counting(3 * 512).reshape(3, 512).view(np.uint8)
        target = np.full(20 * 224, FILL, np.uint8)
        result.append(put(case, data, target))
    case = plain("tma_store_3d_steps", "f32", (10, 7, 6), (8, 4, 3), [(0, 0, 0), (8, 3, 3)], element_strides=(1, 2, 2),
                 shift=128)  # fmt: skip
    result.append(put(case, counting(2 * 256).reshape(2, 256).view(np.uint8), np.full(64 * 42, FILL, np.uint8)))
    case = plain("tma_store_interleave32", "f16", (10, 5, 4, 3), (8, 3, 1, 2), [(0, 0, 0, 0), (8, 3, 3, 2)],
                 interleave=32, swizzle=32)  # fmt: skip
    result.append(put(case, counting(2 * 512).reshape(2, 512).view(np.uint8), np.full(320 * 64, FILL, np.uint8)))
    return result


def reductions() -> list[Probe]:
    """Every operation and type, on a tensor of one box and a half: the rest is out of bounds."""
    result = []
    for dtype, operations in {
        "u32": ("add", "min", "max", "inc", "dec", "and", "or", "xor"),
        "s32": ("add", "min", "max", "and"),
        "u64": ("add", "min", "max", "xor"),
        "s64": ("min", "max"),
        "f16": ("add", "min", "max"),
        "bf16": ("add", "min", "max"),
        "f32": ("add",),
        "f32_ftz": ("add",),
    }.items():
        size = ELEMENT_BYTES[dtype]
        form = "bf16" if dtype == "bf16" else size * 8
        count = 512 // size
        old, new = pairs(form, count, 950)
        if dtype[0] in "us":
            generator = np.random.default_rng(951)
            few = generator.integers(0, 5, count).astype(old.dtype)
            old, new = np.where(few < 2, few, old), np.where(few > 2, few, new)
        for operation in operations:
            case = plain(f"tma_reduce_{operation}_{dtype}", dtype, (64 // size, 8), (128 // size, 4), [(0, 0), (0, 4)])
            target = np.ascontiguousarray(old).view(np.uint8).copy()
            data = np.tile(new.view(np.uint8).reshape(8, 64), (1, 2)).reshape(2, 512)
            result.append(put(case, data, target, operation))
    return result


def multicasts() -> list[Probe]:
    """A cluster of four: each CTA takes a box and sends it to those of its mask; all wait for what is theirs."""
    masks = (0b0110, 0b1111, 0b1000, 0b0001)
    spec = TensorMap(source(64 * 16), "u8", (64, 16), (64,), (32, 4), swizzle=32)
    incoming = [sum(128 for m in masks if m >> rank & 1) for rank in range(4)]
    out = output("d", (4, 160), np.uint32)
    arguments = (spec, out)
    size = 640
    choose = "\n".join(
        f"setp.eq.u32 %p, %cta, {rank};\n@%p mov.u16 %mask, {mask};\n@%p mov.u32 %bytes, {incoming[rank]};"
        for rank, mask in enumerate(masks)
    )
    body = f"""{START}
    .reg .b16 %mask;
    .reg .b32 %bytes;
    add.u32 %bar, %window, {size};
    {fill_window(size // 4)}
    {choose}
    {barrier()}
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mov.b64 %map, source_map;
    cvta.param.u64 %map, %map;
    mad.lo.u32 %place, %cta, 128, %window;
    mul.lo.u32 %c1, %cta, 3;
    mov.u32 %c0, 16;
    @%leader cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster \
[%place], [%map, {{%c0, %c1}}], [%bar], %mask;
    {WAIT}
    ld.param.u64 %base, [d];
    mul.wide.u32 %row, %cta, {size};
    add.u64 %base, %base, %row;
    {show_window(size // 4)}
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    """
    text = module("probe", arguments, body, block=LANES)
    return [Probe("tma_multicast", text, "probe", arguments, (4, 1, 1), (LANES, 1, 1), (4, 1, 1), shared=size + 16)]


def probes() -> list[Probe]:
    return [load(case) for case in loads()] + stores() + reductions() + multicasts()
