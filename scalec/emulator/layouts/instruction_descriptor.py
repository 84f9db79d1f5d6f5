"""The instruction descriptor of tcgen05.mma: shapes and types in 32 bits (PTX ISA 9.7.16.4.2, Tables 42 to 44)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from scalec.emulator.findings import Finding
from scalec.emulator.layouts.scale_factors import SCALE_VECTORS, scale_vector

T = TypeVar("T")

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "u8": 8, "s8": 8}

_F8F6F4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_ELEMENTS = {  # kind -> code of atype and btype -> type
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _F8F6F4,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _F8F6F4,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
_ACCUMULATORS = {  # code of dtype
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
_WHOLE = ("i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")  # the sparsity selector is 0, or taken to be: 9.7.16.10.8.4.6
_K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}  # Table 39, dense


@dataclass(frozen=True)
class InstructionDescriptor:
    """What a descriptor says.

    Attributes:
        kind: e.g. "mxf8f6f4".
        m, n, k: of the whole operation, both CTAs of a pair together.
        a_type, b_type: e.g. "e4m3".
        d_type: "f32", "f16" or "s32".
        negate_a, negate_b: the elements are negated.
        transpose_a, transpose_b: the operand is M-major or N-major in shared memory.
        factors: scale factors for a row of A (a column of B); 0 without block scaling.
        scale_type: "ue8m0" or "ue4m3"; "" without block scaling.
        scale_a_id, scale_b_id: the byte where the scale factors of a row begin.
        max_shift: of .ws, in columns.
        saturate: integer sums stay within their 32 bits, instead of wrapping.
        selector: which columns hold the metadata of a sparse A; None if A is dense.
    """

    kind: str
    m: int
    n: int
    k: int
    a_type: str
    b_type: str
    d_type: str = "f32"
    negate_a: bool = False
    negate_b: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    factors: int = 0
    scale_type: str = ""
    scale_a_id: int = 0
    scale_b_id: int = 0
    max_shift: int = 0
    saturate: bool = False
    selector: int | None = None


@cache
def decode(
    value: int, kind: str, cta_group: int, qualifier: str = "", ws: bool = False, sparse: bool = False
) -> InstructionDescriptor:
    """Decodes and checks the descriptor of a tcgen05.mma.

    Args:
        value: 32 bits.
        kind: the instruction's, e.g. "f16".
        cta_group: 1 or 2.
        qualifier: .scale_vectorsize, e.g. "block32" or "scale_vec::1X"; "" if there is none.
        ws: the instruction is tcgen05.mma.ws.
        sparse: it is tcgen05.mma.sp.

    Raises:
        Finding: descriptor, for reserved bits, and for values and shapes that the kind does not have; illegal, for
            qualifiers.
    """
    if ws and (kind in SCALE_VECTORS or cta_group == 2):
        raise Finding("illegal", f"tcgen05.mma.ws with .kind::{kind}, .cta_group::{cta_group} (Table 39)")
    selector = _selector(value, kind) if sparse else None
    dense = value & ~7 if sparse else value
    found = _block_scaled(dense, kind, qualifier) if kind in SCALE_VECTORS else _plain(dense, kind, ws)
    if sparse:
        found = replace(found, k=2 * found.k, selector=selector)
    _check_transpose(value, found, cta_group)
    _check_shape(value, found, cta_group, ws)
    return found


def _plain(value: int, kind: str, ws: bool) -> InstructionDescriptor:
    """Table 42."""
    if kind == "i8":
        _zero(value, kind, (13, 1, "negate A"), (14, 1, "negate B"))
    else:
        _zero(value, kind, (3, 1, "saturate, which is for integers"))
    _zero(value, kind, (6, 1, "reserved"), (23, 1, "reserved"), (29, 1, "reserved"))
    _dense(value, kind, 0)
    if not ws:
        _zero(value, kind, (30, 2, "the maximum shift of .ws"))
    return InstructionDescriptor(
        kind,
        m=_field(value, 24, 5) << 4,
        n=_field(value, 17, 6) << 3,
        k=_K[kind],
        a_type=_named(value, kind, 7, 3, "atype", _ELEMENTS[kind]),
        b_type=_named(value, kind, 10, 3, "btype", _ELEMENTS[kind]),
        d_type=_named(value, kind, 4, 2, "dtype", _ACCUMULATORS[kind]),
        negate_a=bool(_field(value, 13, 1)),
        negate_b=bool(_field(value, 14, 1)),
        transpose_a=bool(_field(value, 15, 1)),
        transpose_b=bool(_field(value, 16, 1)),
        max_shift=(0, 8, 16, 32)[_field(value, 30, 2)],
        saturate=bool(_field(value, 3, 1)),
    )


def _block_scaled(value: int, kind: str, qualifier: str) -> InstructionDescriptor:
    """Tables 43 and 44."""
    vector = scale_vector(kind, qualifier)
    fours = kind != "mxf8f6f4"
    _zero(value, kind, (0, 2, "reserved"), (3, 1, "reserved"), (6, 1, "reserved"), (24, 3, "reserved"))
    _dense(value, kind, 2)
    if fours:
        _zero(value, kind, (12, 1, "reserved"), (15, 1, "transpose A"), (16, 1, "transpose B"))
        _zero(value, kind, (31, 1, "K = 96, which only sm_103a has"))
    else:
        _zero(value, kind, (31, 1, "reserved"))
    scale_types = {code: t for code, t in {0: "ue4m3", 1: "ue8m0"}.items() if t in vector.types}
    ids = {i: i for i in vector.ids}
    return InstructionDescriptor(
        kind,
        m=_field(value, 27, 2) << 7,
        n=_field(value, 17, 6) << 3,
        k=_K[kind],
        a_type=_named(value, kind, 7, 3, "atype", _ELEMENTS[kind]),
        b_type=_named(value, kind, 10, 2 if fours else 3, "btype", _ELEMENTS[kind]),
        negate_a=bool(_field(value, 13, 1)),
        negate_b=bool(_field(value, 14, 1)),
        transpose_a=bool(_field(value, 15, 1)),
        transpose_b=bool(_field(value, 16, 1)),
        factors=vector.factors,
        scale_type=_named(value, kind, 23, 1, "scale matrix type", scale_types),
        scale_a_id=_named(value, kind, 29, 2, "scale factor A ID", ids),
        scale_b_id=_named(value, kind, 4, 2, "scale factor B ID", ids),
    )


def _field(value: int, start: int, width: int) -> int:
    return value >> start & (1 << width) - 1


def _bits(start: int, width: int) -> str:
    return f"bit {start}" if width == 1 else f"bits {start}-{start + width - 1}"


def _named(value: int, kind: str, start: int, width: int, name: str, legal: dict[int, T]) -> T:
    code = _field(value, start, width)
    if code not in legal:
        raise Finding(
            "descriptor",
            f"instruction descriptor {value:#010x}: {name} ({_bits(start, width)}) is {code}",
            expected=f"for .kind::{kind} {', '.join(f'{c} ({v})' if c != v else str(c) for c, v in legal.items())}",
        )
    return legal[code]


def _zero(value: int, kind: str, *fields: tuple[int, int, str]) -> None:
    for start, width, name in fields:
        if _field(value, start, width):
            raise Finding(
                "descriptor",
                f"instruction descriptor {value:#010x}: {_bits(start, width)} ({name}) not zero for .kind::{kind}",
                expected="0",
            )


def _selector(value: int, kind: str) -> int:
    """Bits 0 to 2 with tcgen05.mma.sp."""
    if not _field(value, 2, 1):
        raise Finding(
            "descriptor",
            f"instruction descriptor {value:#010x}: bit 2 (sparsity) is 0 with tcgen05.mma.sp",
            expected="1: matrix A is sparse",
            fix="use tcgen05.mma",
        )
    selector = _field(value, 0, 2)
    if kind in _WHOLE and selector:
        raise Finding(
            "descriptor",
            f"instruction descriptor {value:#010x}: the sparsity selector (bits 0-1) is {selector}",
            expected=f"0 for .kind::{kind}, whose metadata fill two columns (9.7.16.10.8.4.6)",
        )
    return selector


def _dense(value: int, kind: str, first: int) -> None:
    """Bits `first` to 2 belong to tcgen05.mma.sp."""
    if _field(value, first, 3 - first):
        raise Finding(
            "descriptor",
            f"instruction descriptor {value:#010x}: {_bits(first, 3 - first)} (sparsity) with .kind::{kind}",
            expected="0: matrix A of tcgen05.mma is dense",
            fix="use tcgen05.mma.sp",
        )


def _check_transpose(value: int, found: InstructionDescriptor, cta_group: int) -> None:
    """Tables 51, 52 and 54 (9.7.16.10.1, 9.7.16.10.3). With the kinds that transpose, 16 elements of 4 or 6 bits take
    16 bytes of shared memory, as those of 8 bits do (9.7.16.10.4.4), and are transposed like them: Table 51 excludes no
    type of these kinds, and CUTLASS and DeepGEMM do it. Table 54, a list of type sizes, is read as of what lies there.
    """
    step = 16 * cta_group
    if found.transpose_b and BITS[found.b_type] <= 8 and found.n % step:
        raise Finding(
            "descriptor",
            f"instruction descriptor {value:#010x}: N = {found.n} with a transposed matrix B of 8 bits",
            expected=f"a multiple of {step} with .cta_group::{cta_group} (Table 52)",
        )


def _check_shape(value: int, found: InstructionDescriptor, cta_group: int, ws: bool) -> None:
    """Table 39 (9.7.16.2.1), dense."""
    if ws:
        rows, columns, wording = (32, 64, 128), (64, 128, 256), "64, 128 or 256"
    else:
        scaled = found.kind in SCALE_VECTORS
        rows = (128, 256) if cta_group == 2 else (128,) if scaled else (64, 128)
        whole = found.kind == "i8"  # 16 for each CTA, or 8 and 24 with 64 rows
        step = (16 if whole else 8) * cta_group
        columns, wording = {*range(step, 257, step)}, f"a multiple of {step} up to 256"
        if whole and found.m == 64:
            columns, wording = columns | {8, 24}, f"8, 24, or {wording}"
    if found.m not in rows:
        raise Finding(
            "descriptor",
            f"instruction descriptor {value:#010x}: M = {found.m}",
            expected=f"{' or '.join(map(str, rows))} for .kind::{found.kind} with .cta_group::{cta_group} (Table 39)",
        )
    if found.n not in columns:
        raise Finding(
            "descriptor",
            f"instruction descriptor {value:#010x}: N = {found.n}",
            expected=f"{wording} for .kind::{found.kind} with .cta_group::{cta_group} (Table 39)",
        )
