"""Element types and formats: the one table of each.

An element type is a row of ELEMENT_TYPES; a format (an element type that comes with its scales) is a row of
FORMATS. The front end, the reference, the passes and the runtime all read these rows; nothing branches on a name.

Sources: OCP OFP8 1.0 (e4m3, e5m2), OCP Microscaling Formats (MX) 1.0 section 5 (e3m2, e2m3, e2m1, ue8m0, block of
32), PTX ISA "Alternate Floating-Point Data Formats" (ue4m3, tf32), NVIDIA's NVFP4 (block of 16, ue4m3, one f32).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class ElementType:
    """One element type."""

    name: str  # how the language spells it
    bits: int  # storage bits of one element
    mlir: str  # how MLIR spells it (ue4m3 has no MLIR type of its own: stored as the e4m3 bit pattern, sign zero)
    numpy: str  # the ml_dtypes or numpy dtype name that holds one element a byte or more; "" where none does
    max: float  # the largest finite value
    scale: bool = False  # whether it may be the type of a scale
    operand: bool = True  # whether it may be the type of a contraction's operand
    result: bool = True  # whether it may be the type of a result

    @property
    def finite(self) -> bool:
        """Whether it has no infinities: those that MLIR calls FN."""
        return "FN" in self.mlir

    def bytes(self, count: int) -> int:
        """Bytes that `count` contiguous elements take (sub-byte types packed, rounded up)."""
        return -(-count * self.bits // 8)

    @property
    def unit(self) -> int:
        """Elements, the fewest, that fill whole bytes: 1, of 4 bits 2, of 6 bits 4."""
        return 8 // gcd(8, self.bits)

    def accessed(self, count: int) -> int:
        """Bytes, a power of two, of each load or store by which a thread has `count` elements: of all of them; of 6
        bits, three times as many bytes as a power of two, of a third."""
        size = count * self.bits // 8
        return size & -size


ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        ElementType("f32", 32, "f32", "float32", 3.4028234663852886e38, scale=True, operand=False),
        ElementType("tf32", 32, "tf32", "float32", 3.4011621342146535e38),
        ElementType("bf16", 16, "bf16", "bfloat16", 3.3895313892515355e38, scale=True),
        ElementType("f16", 16, "f16", "float16", 65504.0, scale=True),
        ElementType("e4m3", 8, "f8E4M3FN", "float8_e4m3fn", 448.0),
        ElementType("e5m2", 8, "f8E5M2", "float8_e5m2", 57344.0),
        ElementType("e3m2", 6, "f6E3M2FN", "float6_e3m2fn", 28.0),
        ElementType("e2m3", 6, "f6E2M3FN", "float6_e2m3fn", 7.5),
        ElementType("e2m1", 4, "f4E2M1FN", "float4_e2m1fn", 6.0),
        ElementType("i4", 4, "i4", "int4", 7.0),
        ElementType("u4", 4, "ui4", "uint4", 15.0, result=False),
        ElementType("i8", 8, "i8", "int8", 127.0),
        ElementType("i32", 32, "i32", "int32", 2147483647.0, operand=False),
        ElementType("ue8m0", 8, "f8E8M0FNU", "float8_e8m0fnu", 1.7014118346046923e38, scale=True, operand=False),
        ElementType("ue4m3", 8, "f8E4M3FN", "float8_e4m3fn", 448.0, scale=True, operand=False),
    )
}


GRIDS = {
    "bf16": (7, -126),
    "f16": (10, -14),
    "e4m3": (3, -6),
    "e5m2": (2, -14),
    "e3m2": (2, -2),
    "e2m3": (3, 0),
    "e2m1": (1, 0),
}
"""Element types that f32 is rounded to by chance: bits of the mantissa, and the exponent of the least normal number."""


MOST_WORDS = 4
"""That random bits are made of, beside an element's place: the key of Philox 4x32 and half of its counter."""


DRAWN = 4
"""Elements of a row that have the words of one counter: they begin at a multiple of as many."""


TRANSFORMED = 16
"""Elements that a Hadamard transform is of."""


NUMBERS = tuple(t.name for t in ELEMENT_TYPES.values() if t.scale and t.bits > 8)
"""Types of scales that are f32, or whose numbers f32 has: kernels multiply by them as by f32. Others are bytes."""

QUANTISED = tuple(t.name for t in ELEMENT_TYPES.values() if t.scale and t.bits != 16)
"""Types of scales that a result may be quantised by."""


def element_spelled(mlir: str) -> ElementType | None:
    """The element type that MLIR spells so, None where there is none; e4m3 where it may be ue4m3 too."""
    return next((t for t in ELEMENT_TYPES.values() if t.mlir == mlir), None)


WHOLE_SUMS = frozenset({"i8"})
"""Element types whose products a tensor core sums as i32."""

CONVERTED: dict[str, tuple[str, ...]] = {
    "e2m1": ("e4m3", "bf16", "f16", "tf32"),
    "i4": ("e4m3", "bf16", "f16", "tf32"),
    "u4": ("e4m3", "bf16", "f16", "tf32"),
    "e4m3": ("bf16", "f16", "tf32"),
    "e5m2": ("bf16", "f16", "tf32"),
    "i8": ("bf16", "f16", "tf32"),
    "bf16": ("tf32",),
    "f16": ("tf32",),
}
"""Element types that each converts to without rounding, for whatever value, narrowest first. Products of
WHOLE_SUMS alone are multiplied as they are, as their sums are whole numbers."""

FOLDED: dict[tuple[str, str], tuple[str, ...]] = {
    ("e2m1", "ue4m3"): ("bf16", "f16", "tf32"),
    ("e2m1", "ue8m0"): ("bf16", "tf32"),
    ("i4", "ue4m3"): ("bf16", "f16", "tf32"),
    ("i4", "ue8m0"): ("bf16", "tf32"),
    ("u4", "ue4m3"): ("bf16", "f16", "tf32"),
    ("u4", "ue8m0"): ("bf16", "tf32"),
}
"""By element type and the type of its scales: to what the product of both converts without rounding. An e2m1 has two
significant bits, an i4 three and a ue4m3 four, together at most seven; f16 and tf32 hold 11, bf16 8. A u4, and a number
of 4 bits less another (`scalec.zero_points`), has four, so that eight are the most. With ue8m0 it has those of f32's
range down to 2^-128, which bf16 and tf32 hold as a subnormal; an e4m3 would have more bits there."""


ROUNDED: dict[str, tuple[str, ...]] = {
    "f16": ("f16",),
    "bf16": ("bf16",),
    "ue4m3": ("f16", "bf16"),
    "ue8m0": ("bf16",),
}
"""By the type of an operand's scales: of which types it is a part, so that elements that convert to one of these, times
their scales, are rounded to it once. A text asks for that: `(B[n,k]:i4):f16`."""


WIDE = tuple(dict.fromkeys(x for able in ROUNDED.values() for x in able))
"""Types that elements times their scales are rounded to."""


NAMED: dict[tuple[str, str], tuple[str, ...]] = {("e4m3", "ue8m0"): ("bf16",), ("e5m2", "ue8m0"): ("bf16",)}
"""Likewise of scales of rows that are gathered along a sum, of which each element of K has its own, so that no sum is
promoted by one. A product below 2^-126 loses digits, of e4m3 with a scale below 2^-117."""


ADDENDS: dict[tuple[str, str], tuple[str, int]] = {("e2m1", "ue4m3"): ("e4m3", 2), ("e2m1", "ue8m0"): ("e4m3", 1)}
"""By element type and the type of its scales: of which type as the sum of how many the product of both may be
multiplied. An e2m1 is a sum of two powers of two, or zeros; a power of two times a ue4m3 is an e4m3, within its range:
of scales from 2^-3 on, if both are multiplied by 2^-2, so that six times the largest one is still below e4m3's largest.
An e2m1 times a power of two is an e4m3 itself, of any twelve that follow each other, but for one of all of them."""


WHOLE = -1  # a granularity block entry that spans the whole dimension
ALL = 1 << 31  # elements of a block that spans any dimension (scalec.sizes.MOST), where a kernel divides by them


@dataclass(frozen=True)
class Granularity:
    """One scale for each block of an operand's index space.

    Attributes:
        block: block shape, right-aligned to the operand's indices (missing leading entries are 1); WHOLE spans
            the dimension. An empty block with `tensor` true is one scale for the whole tensor.
        type: name of the scale's element type.
        layout: "row" (row-major over blocks), "col" (block-column major), "blocked" (128x4 tiles of cuBLAS and
            tcgen05) or "packed" (four ue8m0 in an int32).
        tensor: one scale for the whole tensor.
    """

    block: tuple[int, ...]
    type: str = "f32"
    layout: str = "row"
    tensor: bool = False


LAYOUTS = ("row", "col", "blocked", "packed")

WORDS = "words"
"""The layout of an operand `B[k/8,n,k%8]`, which is [n,k] to the program: words of WORD_BITS of adjacent K, those
of adjacent n beside each other."""
WORD_BITS, PACKED_BITS = 32, 4
"""Bits of a word, and of the elements that are packed so."""
PER_WORD = WORD_BITS // PACKED_BITS
"""Elements of a word."""
IN_ORDER = tuple(range(PER_WORD))
"""Which of eight elements each of a word is, from the lowest bits on, where they lie one behind the other."""

_QUARTERS = range(4)  # threads that share a row of wgmma's A

SMALLER = {("e2m1", "e4m3"): 6}
"""By the types before and behind, of elements that convert by moving their bits, the power of two by which they are
smaller then: an e2m1's exponent and fraction in the place of an e4m3's are 2^-6 times it, 0 and 0.5 too, as subnormal
ones."""

FRAGMENTS = {
    "pairs": tuple(32 * w + 8 * j + 2 * q + i for q in _QUARTERS for w in range(4) for i in range(2) for j in range(4)),
    "bytes": tuple(16 * j + 4 * q + i for q in _QUARTERS for j in range(8) for i in range(4)),
    "halves": tuple(
        16 * j + 4 * q + i for q in _QUARTERS for w in range(4) for i in range(4) for j in (2 * w, 2 * w + 1)
    ),
}
"""Orders of weights of PACKED_BITS for registers of wgmma's A: which of each so many along K each element in memory is.
What one of the four threads that share a row of A has (PTX ISA 9.7.15.5.1.1) are 16 bytes. "pairs", of what is 16 bits
when it is multiplied: a register has two elements of a word that are four apart. Of what is 8 bits: "bytes", four that
follow each other; "halves", the lower or the upper halves of a word's bytes."""

FRAGMENTS_TEXT = {
    "pairs": "{0}/128*128 + {0}%8/2*32 + {0}%128/32*8 + {0}%2*4 + {0}%32/8",
    "bytes": "{0}/128*128 + {0}%16/4*32 + {0}%128/16*4 + {0}%4",
    "halves": "{0}/128*128 + {0}%16/4*32 + {0}%128/32*8 + {0}%4*2 + {0}%32/16",
}
"""Likewise, where an element of index {0} lies, in the language."""


def fragments(stored: str, made: ElementType) -> str:
    """The order of elements of type `stored` that become `made`; "" where there is none."""
    if ELEMENT_TYPES[stored].bits != PACKED_BITS or made.bits not in (8, 16):
        return ""
    return "pairs" if made.bits == 16 else "halves" if (stored, made.name) in SMALLER else "bytes"


UNITS = {"blocked": (128, 4), "packed": (1, 4)}
"""Scales along the last two indices that lie together in memory: of a tile, and in a word. A layout that is not here
has single ones."""


def padded_to(block: Sequence[int], layout: str, axis: int) -> int:
    """Elements of an index that a group's scales are padded to, where each group has blocks of its own: those of a unit
    of the layout; 1 where one block spans all."""
    units = (1,) * len(block) + UNITS.get(layout, (1, 1))
    return 1 if block[axis] == WHOLE else block[axis] * units[len(units) - len(block) + axis]


@dataclass(frozen=True)
class Format:
    """A named format: an element type with the scales that come with it, innermost level first.

    `lhs`, `rhs` and `result` say the scales of an operand on the left or the right of `@` and of a result; they
    differ only where the industry's format does (fp8_block: activations 1x128, weights 128x128).
    """

    name: str
    element: str
    lhs: tuple[Granularity, ...]
    rhs: tuple[Granularity, ...]
    result: tuple[Granularity, ...]


def _uniform(name: str, element: str, *levels: Granularity) -> Format:
    return Format(name, element, levels, levels, levels)


_MX = Granularity((1, 32), "ue8m0")
_PER_TENSOR = Granularity((), "f32", tensor=True)
_ROW128 = (Granularity((1, 128)),)

FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        _uniform("mxfp8", "e4m3", _MX),
        _uniform("mxfp8_e5m2", "e5m2", _MX),
        _uniform("mxfp6", "e3m2", _MX),
        _uniform("mxfp6_e2m3", "e2m3", _MX),
        _uniform("mxfp4", "e2m1", _MX),
        _uniform("nvfp4", "e2m1", Granularity((1, 16), "ue4m3"), _PER_TENSOR),
        Format("fp8_block", "e4m3", _ROW128, (Granularity((128, 128)),), _ROW128),
    )
}
