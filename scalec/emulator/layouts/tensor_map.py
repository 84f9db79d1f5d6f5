"""Tensor maps: the 128-byte objects that bulk tensor copies take, made by the host and changed by tensormap.replace.

CUDA leaves the bytes opaque (PTX ISA 5.5.8 "Tensor-map"), so the encoding here is our own: a magic number, then every
field at a fixed place, so that a kernel that passes anything else is told so. The rules are those of
cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col (CUDA driver API, "Tensor Map Object Management"). What `tensor_copy`
does with a map is there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from scalec.emulator.findings import Finding, NotModelled

TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGNMENT = 64
MAX_RANK = 5
MAX_PIXELS = 1024
CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}  # by rank: a corner is at least minus that, and less than that
MAX_BOX_BYTES = 227 * 1024  # the driver takes 229,376 and refuses 262,144 (H200, driver 580.159, 2026-11-21)


@dataclass(frozen=True)
class Element:
    """An element type of tensor maps (PTX ISA 5.5.1, table of tensormap.replace's .elemtype)."""

    name: str  # as in the ISA, `f32.ftz` written f32_ftz
    code: int  # value of .elemtype (the ISA's numbering, not the driver's)
    bits: int  # of an element in global memory
    floating: bool = False  # may be filled with NaN
    # bytes that lie together in both memories, 0 when all do: the padded types move sixteen elements each (PTX ISA
    # 5.5.1.1.1, figures 5 and 6).
    piece: int = 0


ELEMENTS = {
    element.name: element
    for element in (
        Element("u8", 0, 8),
        Element("u16", 1, 16),
        Element("u32", 2, 32),
        Element("s32", 3, 32),
        Element("u64", 4, 64),
        Element("s64", 5, 64),
        Element("f16", 6, 16, True),
        Element("f32", 7, 32, True),
        Element("f32_ftz", 8, 32, True),
        Element("f64", 9, 64, True),
        Element("bf16", 10, 16, True),
        Element("tf32", 11, 32, True),
        Element("tf32_ftz", 12, 32, True),
        Element("b4x16", 13, 4),
        Element("b4x16_p64", 14, 4, piece=8),
        # also .b6p2x16, of stores
        Element("b6x16_p32", 15, 6, piece=12),
    )
}
_BY_CODE = {element.code: element.name for element in ELEMENTS.values()}
# values of tensormap.replace's fields, by position
INTERLEAVES = (0, 16, 32)
SWIZZLES = (0, 32, 64, 128)
ATOMICITIES = ("16B", "32B", "32B+8B", "64B")
FILLS = ("zero", "nan")


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the box that a copy moves, dimension 0 innermost.

    Attributes:
        element: a name of `ELEMENTS`.
        address: global byte address of element (0, ..., 0).
        extents: elements along each dimension; 16- or 32-byte slices along dimension 0 with an interleave.
        strides: bytes from one index to the next along dimensions 1 and up: one fewer than extents.
        box: elements (or slices) that a copy traverses along each dimension; channels and pixels with im2col.
        element_strides: every how many-th of them it takes; dimension 0's counts with an interleave only.
        interleave: bytes of a slice of channels (PTX ISA 5.5.6 "Interleave layout"): 0, 16 or 32.
        swizzle: bytes of the swizzle's span (PTX ISA 5.5.7 "Swizzling Modes"): 0, 32, 64 or 128.
        atomicity: what a 128-byte swizzle keeps together: a name of `ATOMICITIES`.
        fill: of elements out of bounds: "zero" or "nan".
        l2_promotion: bytes; a hint.
        lower, upper: with im2col (PTX ISA 5.5.4), the corners of the box of pixels along dimensions 1 to rank - 2: from
            index 0, and from the last index.
    """

    element: str
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    interleave: int = 0
    swizzle: int = 0
    atomicity: str = "16B"
    fill: str = "zero"
    l2_promotion: int = 0
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.extents))

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def im2col(self) -> bool:
        """Copies move a column of pixels, each so many channels, instead of a box."""
        return bool(self.lower)

    @property
    def bits(self) -> int:
        """Of one element in global memory."""
        return ELEMENTS[self.element].bits

    @property
    def piece(self) -> int:
        """Bytes that sixteen elements of a padded type take in global memory; 0 of other types."""
        return ELEMENTS[self.element].piece

    @property
    def padded(self) -> bool:
        """Sixteen elements take 16 bytes of shared memory whatever they take in global memory."""
        return self.piece > 0


def check(tensor_map: TensorMap) -> None:
    """Every rule of cuTensorMapEncodeTiled, and those of PTX ISA 9.7.9.25.5.1 "Restriction on Tensor Copy instructions"
    that do not depend on the direction.

    Raises:
        Finding: descriptor.
    """
    for message, expected in _violations(tensor_map):
        raise Finding("descriptor", f"tensor map: {message}", expected=expected)


def _violations(m: TensorMap) -> Iterator[tuple[str, str]]:
    """(what was found, what was expected), the first being the one to tell."""
    if not 1 <= m.rank <= MAX_RANK:
        yield f"rank {m.rank}", f"1 to {MAX_RANK}"
    for name, values, count in (
        ("strides", m.strides, m.rank - 1),
        ("box", m.box, 2 if m.im2col else m.rank),
        ("element_strides", m.element_strides, m.rank),
    ):
        if len(values) != count:
            yield f"{len(values)} values of {name} with rank {m.rank}", str(count)
    for name, value, values in (
        ("element type", m.element, tuple(ELEMENTS)),
        ("interleave", m.interleave, INTERLEAVES),
        ("swizzle", m.swizzle, SWIZZLES),
        ("swizzle atomicity", m.atomicity, ATOMICITIES),
        ("fill", m.fill, FILLS),
        ("L2 promotion", m.l2_promotion, (0, 64, 128, 256)),
    ):
        if value not in values:
            yield f"{name} {value}", ", ".join(map(str, values))
    yield from _layout_violations(m)
    alignment = 32 if m.padded or m.interleave == 32 else 16
    if m.address % alignment:
        yield f"global address {m.address:#x}", f"a multiple of {alignment}"
    for d, extent in enumerate(m.extents):
        if not 1 <= extent <= 1 << 32:
            yield f"extent {extent} of dimension {d}", "1 to 2^32"
    for d, stride in enumerate(m.strides, 1):
        if stride % alignment or not 0 <= stride < 1 << 40:
            yield f"stride {stride} of dimension {d}", f"a multiple of {alignment} bytes below 2^40"
    for d, size in enumerate(m.box):
        most = MAX_PIXELS if m.im2col and d else 256
        if not 1 <= size <= most:
            yield f"box of {size} {'pixels' if most > 256 else f'along dimension {d}'}", f"1 to {most}"
    for d, step in enumerate(m.element_strides):
        if not 1 <= step <= 8:
            yield f"element stride {step} of dimension {d}", "1 to 8"
    if m.im2col:
        yield from _corner_violations(m)
    yield from _row_violations(m)


def _corner_violations(m: TensorMap) -> Iterator[tuple[str, str]]:
    if m.rank not in CORNERS:
        yield f"im2col with rank {m.rank}", "rank 3 to 5"
    most = CORNERS[m.rank]
    for name, corner in (("lower", m.lower), ("upper", m.upper)):
        if len(corner) != m.rank - 2:
            yield f"{len(corner)} values of the {name} corner with rank {m.rank}", str(m.rank - 2)
        for value in corner:
            if not -most <= value < most:
                yield f"{value} in the {name} corner with rank {m.rank}", f"{-most} to {most - 1}"
    for d, (low, high, extent) in enumerate(zip(m.lower, m.upper, m.extents[1:-1], strict=True), 1):
        if extent + high <= low:
            yield f"corners {low} and {high} of {extent} along dimension {d}", "a box of at least one pixel"


def _layout_violations(m: TensorMap) -> Iterator[tuple[str, str]]:
    if m.interleave and m.rank < 3:
        yield f"interleave with rank {m.rank}", "rank 3 to 5"
    if m.interleave == 32 and m.swizzle != 32:
        yield f"32-byte interleave with a swizzle of {m.swizzle} bytes", "a swizzle of 32 bytes"
    if m.atomicity != "16B" and m.swizzle != 128:
        yield f"atomicity {m.atomicity} with a swizzle of {m.swizzle} bytes", "16B (PTX ISA 5.5.7, table 14)"
    if m.fill == "nan" and not ELEMENTS[m.element].floating:
        yield f"NaN fill of {m.element} elements", "a floating-point type"
    if m.padded:
        if m.interleave:
            yield f"interleave with {m.element} elements", "no interleave"
        atomicities = ("16B", "32B") if m.element == "b4x16_p64" else ("16B", "32B", "64B")
        if m.swizzle not in (0, 128) or m.atomicity not in atomicities:
            yield (
                f"swizzle of {m.swizzle} bytes, atomicity {m.atomicity}, with {m.element} elements",
                f"none, or 128 bytes with atomicity {' or '.join(atomicities)}",
            )


def _row_violations(m: TensorMap) -> Iterator[tuple[str, str]]:
    multiple = 128 if m.padded else 2 if m.element == "b4x16" else 1
    if m.extents[0] % multiple:
        yield f"extent {m.extents[0]} of dimension 0 with {m.element} elements", f"a multiple of {multiple}"
    if m.padded and m.box[0] != 128:
        yield f"box of {m.box[0]} along dimension 0 with {m.element} elements", "128"
    row_bits = m.box[0] * m.bits
    if row_bits % 128:
        yield f"inner box of {row_bits / 8:g} bytes", "a multiple of 16"
    shared_bytes = m.box[0] if m.padded else row_bits // 8
    if m.swizzle and not m.interleave and shared_bytes > m.swizzle:
        yield f"inner box of {shared_bytes} bytes in a swizzle of {m.swizzle}", f"at most {m.swizzle}"
    steps = (1, 1) if m.im2col else m.element_strides
    taken = prod(-(-size // max(step, 1)) for size, step in zip(m.box, steps, strict=True))
    if taken * m.bits // 8 > MAX_BOX_BYTES:
        yield f"box of {taken * m.bits // 8} bytes", f"at most {MAX_BOX_BYTES}, the shared memory of a CTA"


# magic, address, extents, strides, box, element strides, rank - 1, element type, interleave, swizzle, atomicity, fill,
# L2 promotion in units of 64 bytes, corners, values of a corner: 0 in a tiled map
_LAYOUT = struct.Struct("<8sQ5Q4Q5H5B7B6hB")
_MAGIC = b"scalecTM"
_NO_FIELDS = bytes(_LAYOUT.size - len(_MAGIC))


def encode(tensor_map: TensorMap) -> bytes:
    """The 128 bytes of a map that keeps all the rules.

    Raises:
        Finding: descriptor, of a map that breaks one.
    """
    check(tensor_map)
    m = tensor_map

    def five(values: tuple[int, ...], count: int = MAX_RANK) -> tuple[int, ...]:
        return values + (0,) * (count - len(values))

    return _LAYOUT.pack(
        _MAGIC,
        m.address,
        *five(m.extents),
        *five(m.strides, MAX_RANK - 1),
        *five(m.box),
        *five(m.element_strides),
        m.rank - 1,
        ELEMENTS[m.element].code,
        INTERLEAVES.index(m.interleave),
        SWIZZLES.index(m.swizzle),
        ATOMICITIES.index(m.atomicity),
        FILLS.index(m.fill),
        m.l2_promotion // 64,
        *five(m.lower, 3),
        *five(m.upper, 3),
        len(m.lower),
    ).ljust(TENSOR_MAP_BYTES, b"\0")


@lru_cache(maxsize=256)
def decode(data: bytes) -> TensorMap:
    """The map that 128 bytes are, as a copy reads it: complete, and checked.

    Raises:
        Finding: descriptor, of bytes that are no map or of a map that breaks a rule.
    """
    _, address, *numbers = _fields(data)
    extents, strides, box, steps = numbers[:5], numbers[5:9], numbers[9:14], numbers[14:19]
    rank, element, interleave, swizzle, atomicity, fill, promotion = numbers[19:26]
    lower, upper, corners = numbers[26:29], numbers[29:32], numbers[32]
    rank += 1
    tensor_map = TensorMap(
        _BY_CODE[element],
        address,
        tuple(extents[:rank]),
        tuple(strides[: rank - 1]),
        tuple(box[: 2 if corners else rank]),
        tuple(steps[:rank]),
        INTERLEAVES[interleave],
        SWIZZLES[swizzle],
        ATOMICITIES[atomicity],
        FILLS[fill],
        promotion * 64,
        tuple(lower[:corners]),
        tuple(upper[:corners]),
    )
    check(tensor_map)
    return tensor_map


def _fields(data: bytes) -> list:
    if len(data) != TENSOR_MAP_BYTES:
        raise ValueError(f"{len(data)} bytes of a tensor map, there are {TENSOR_MAP_BYTES}")
    if data[: len(_MAGIC)] != _MAGIC:
        what = "they are all zero" if not any(data) else f"they begin {data[:8].hex(' ')}"
        raise Finding(
            "descriptor",
            f"the 128 bytes are no tensor map: {what}",
            expected="the bytes of an encoded tensor map",
            fix="check the address of the tensor map, and that a map built in memory was copied there whole",
        )
    return list(_LAYOUT.unpack_from(data))


# field of tensormap.replace: index of its first value in the layout, ordinals, least and greatest value
# (PTX ISA 9.7.9.26 "tensormap.replace", table 33)
_FIELDS: dict[str, tuple[int, int, int, int]] = {
    "global_address": (1, 0, 0, (1 << 64) - 1),
    "global_dim": (2, 5, 0, (1 << 32) - 1),
    "global_stride": (7, 4, 0, (1 << 64) - 1),
    "box_dim": (11, 5, 1, 256),
    "element_stride": (16, 5, 1, 8),
    "rank": (21, 0, 0, MAX_RANK - 1),
    "elemtype": (22, 0, 0, len(ELEMENTS) - 1),
    "interleave_layout": (23, 0, 0, len(INTERLEAVES) - 1),
    "swizzle_mode": (24, 0, 0, len(SWIZZLES) - 1),
    "swizzle_atomicity": (25, 0, 0, len(ATOMICITIES) - 1),
    "fill_mode": (26, 0, 0, len(FILLS) - 1),
}


def replace_field(data: bytes, field: str, value: int, ordinal: int = 0) -> bytes:
    """tensormap.replace: one field of a map changed, nothing else looked at: what the map then is, its next use tells.

    Args:
        data: 128 bytes, of a map or all zero: kernels build a map from nothing, field by field.
        field: as in the ISA: "global_address", "rank" (its value is one less than the rank), "box_dim", "global_dim",
            "global_stride" (bytes), "element_stride", "elemtype", "interleave_layout", "swizzle_mode",
            "swizzle_atomicity", "fill_mode".
        value: the operand new_val. A `global_dim` of 0 means 2^32: the hardware keeps extents less one.
        ordinal: the operand ord, of fields that have one value for each dimension; strides begin at dimension 1.

    Raises:
        Finding: descriptor, of a value out of range or of bytes that are neither.
        NotModelled: the 96-byte swizzle, which none of our targets has.
    """
    if field not in _FIELDS:
        raise NotModelled(f"tensormap.replace of .{field}")
    if field == "swizzle_mode" and value == 4:
        raise NotModelled("the 96-byte swizzle of sm_103a")
    first, ordinals, least, greatest = _FIELDS[field]
    if not 0 <= ordinal < max(ordinals, 1):
        raise Finding("descriptor", f"ordinal {ordinal} of .{field}", expected=f"0 to {max(ordinals, 1) - 1}")
    if not least <= value <= greatest:
        raise Finding("descriptor", f"tensormap.replace of .{field} with {value}", expected=f"{least} to {greatest:#x}")
    if not any(data):
        data = (_MAGIC + _NO_FIELDS).ljust(TENSOR_MAP_BYTES, b"\0")
    values = _fields(data)
    values[first + ordinal] = (1 << 32) if field == "global_dim" and value == 0 else value
    return _LAYOUT.pack(*values).ljust(TENSOR_MAP_BYTES, b"\0")
