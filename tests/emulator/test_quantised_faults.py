"""Faults put into the PTX of quantised results: each is found, by the emulator or by the bits of the result."""

from __future__ import annotations

import re

import pytest

from scalec.errors import DeviceError
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import run_quantised

MX = ("sm_90a", "D[m,n]{} = A[m,k] @ B[n,k]", "mxfp8", "tile=64x64x64, cluster=1x1", {"m": 40, "n": 128, "k": 128})
PAIRS = (*MX[:3], "tile=64x64x64, cluster=1x1, permute_n=0", MX[4])  # values are staged two by two
SHARED = (
    "sm_120a",
    "D[m,n]{} = A[m,k] @ B[n,k]",
    "e4m3 scale(1x64:ue4m3)",
    "tile=128x128x64, warps=2x4",
    {"m": 300, "n": 256, "k": 128},
)
PACKED = (
    "sm_90a",
    "D[m,n]{} = A[m,k] @ B[n,k]",
    "e2m1 scale(1x32:ue8m0@packed)",
    "tile=64x32x64, cluster=1x1",
    {"m": 40, "n": 90, "k": 128},
)
F32 = ("sm_90a", "D[m,n]{} = A[m,k] @ B[n,k]", "e4m3 scale(1x64)", "tile=64x64x64", {"m": 40, "n": 64, "k": 64})
# blocks along a tile's rows, two waves each, of which the last has one; two rows share a byte
ROWS = (
    "sm_100a",
    "D[m,n]{} = sigmoid(A[m,k] @ B[n,k])",
    "e2m1 scale(1x32:ue8m0@packed)",
    "swap=1, tile=128x16x64, cluster=1x1",
    {"m": 20, "n": 144, "k": 64},
)
# blocks of 32 rows, of two warps; three tiles of a CTA
MEETS = (
    "sm_90a",
    "D[m,n]{} = A[m,k] @ B[n,k]",
    "mxfp8",
    "swap=1, tile=64x16x64, cluster=1x1",
    {"m": 20, "n": 328, "k": 64},
)

BITS = "bits"
# what, the case, a regular expression and what its match (number `at`) becomes, and what tells
FAULTS = [
    ("magnitudes keep their sign", MX, r"abs\.f32 A, (%r\d+);", r"mov.f32 A, \1;", {BITS}, 0),
    ("lanes exchange with the wrong neighbour", MX, r"(shfl\.sync\.bfly\.b32 %r\d+, %r\d+,) 2,", r"\1 4,", {BITS}, 0),
    ("the second exchange dropped", MX, r"max\.NaN\.f32 (%r\d+), (%r\d+), (%r\d+);(?=\n\t// end inline asm\n\tshr)",
     r"mov.f32 \1, \2;", {BITS}, 0),
    ("the exponent of the largest number", MX, r"(shr\.u32 \t%r\d+, %r\d+, 23;\n\tadd\.s32 \t%r\d+, %r\d+,) -8;",
     r"\1 -7;", {BITS}, 0),
    ("a code below 0", MX, r"max\.s32 (%r\d+), (%r\d+), 0;", r"mov.b32 \1, \2;", {BITS}, 0),
    ("the code of infinity", MX, r"selp\.b32 \t(%r\d+), 255, 254", r"selp.b32 \t\1, 255, 255", {BITS}, 0),
    ("the reciprocal of all others", MX, r"2130706432", "2122317824", {BITS}, 0),
    ("values are not divided", MX, r"mul\.rn\.f32 \t(%r\d+), (%r\d+), %r\d+;", r"mov.b32 \t\1, \2;", {BITS}, 0),
    ("scales of rows beyond m are stored", MX, r"@%p\d+ (st\.global\.b8)", r"\1", {"bounds", "race", BITS}, 0),
    ("what is kept is given", MX, r"selp\.f32 \t(%r\d+), (%r\d+), (%r\d+), (%p\d+);(?=\n\tselp\.f32)",
     r"selp.f32 \t\1, \3, \2, \4;", {BITS}, 0),
    ("the reciprocal of another lane", MX, r"(shfl\.sync\.idx\.b32 %r\d+, %r\d+,) 1, 7171,", r"\1 2, 7171,", {BITS}, 0),
    ("a reciprocal of eight lanes", MX, r"(shfl\.sync\.idx\.b32 %r\d+, %r\d+, 1,) 7171,", r"\1 6151,", {BITS}, 0),
    ("the row of a lane's scale", MX, r"and\.b32 \t(%r\d+), (%r\d+), 8;", r"and.b32 \t\1, \2, 0;", {BITS, "race"}, 0),
    ("the block of a lane's scale", MX, r"bfe\.u32 \t(%r\d+), (%r\d+), 1, 1;", r"bfe.u32 \t\1, \2, 0, 1;",
     {BITS, "race"}, 0),
    ("the rows of staged values", PAIRS, r"(st\.shared\.b16 \[%r\d+ \+) 512\]", r"\1 256]",
     {"race", "uninitialised", BITS}, 0),
    ("the fence before the store dropped", MX, r"\tfence\.proxy\.async[^\n]*\n", "", {"proxy"}, 0),
    ("warps do not meet before they read", SHARED, r"bar\.sync 8, 256;\n", "", {"race", "uninitialised", BITS}, 1),
    ("warps do not meet before the next tile", SHARED, r"bar\.sync 8, 256;\n", "", {"race", BITS}, 0),
    ("a warp's own part alone", SHARED, r"(ld\.shared\.f32 %r\d+, \[%r\d+ \+) 4\]", r"\1 0]", {BITS}, 0),
    ("each warp stores the scale", SHARED, r"@%p\d+ (st\.global\.b8 \[%rd\d+\])", r"\1", {"race", "bounds", BITS}, 0),
    ("a scale that is 0 has a reciprocal", SHARED, r"selp\.f32 \t(%r\d+), 0f00000000, (%r\d+), %p\d+;",
     r"mov.f32 \t\1, \2;", {BITS}, 0),
    ("values beyond n count", PACKED, r"selp\.f32 \t(%r\d+), (%r\d+), 0f00000000, %p\d+;", r"mov.f32 \t\1, 0f7F000000;",
     {BITS}, 0),
    ("a code of e2m1", PACKED, r"min\.u32 \t(%r\d+), (%r\d+), %r\d+;(?=[^;]+abs)", r"mov.u32 \t\1, \2;", {BITS}, 0),
    ("the sign of e2m1", PACKED, r"and\.b32 \t(%r\d+), (%r\d+), 136;", r"and.b32 \t\1, \2, 0;", {BITS}, 0),
    ("a quotient without its correction", F32, r"setp\.lt\.u32 \t(%p\d+), (%r\d+), 2139095040;",
     r"setp.lt.u32 \t\1, \2, 0;", {BITS}, 0),
    ("a correction of infinity", F32, r"setp\.lt\.u32 \t(%p\d+), (%r\d+), 2139095040;",
     r"setp.le.u32 \t\1, \2, 2139095040;", {BITS}, 0),
    ("a column's lanes exchange with the next column's", ROWS, r"(shfl\.sync\.bfly\.b32 %r\d+, %r\d+,) 16,", r"\1 1,",
     {BITS}, 0),
    ("the third exchange dropped", ROWS, r"max\.NaN\.f32 (%r\d+), (%r\d+), (%r\d+);(?=\n\t// end inline asm\n\tshr)",
     r"mov.f32 \1, \2;", {BITS}, 0),
    ("a second wave's rows beyond n count", ROWS, r"selp\.f32 \t(%r\d+), (%r\d+), 0f00000000, %p\d+;",
     r"mov.f32 \t\1, 0f7F000000;", {BITS}, 2),
    ("the other row's element comes from two rows away", ROWS, r"(shfl\.sync\.bfly\.b32 %r\d+, %r\d+,) 4,", r"\1 8,",
     {BITS}, 0),
    ("every lane stores a column's scale", ROWS, r"@%p\d+ (st\.global\.b8 \[%rd\d+\], %r\d)", r"\1",
     {"bounds", "race", BITS}, 0),
    ("warps of a block of rows do not meet before they read", MEETS, r"bar\.sync %r\d+, %r\d+;\n", "",
     {"race", "uninitialised", BITS}, 0),
    ("warps of a block of rows meet those of another", MEETS,
     r"shr\.u32 \t(%r\d+), (%r\d+), 1;(?=\n\tadd\.s32 \t%r\d+, %r\d+, 9;)", r"shr.u32 \t\1, \2, 2;",
     {"race", "uninitialised", BITS}, 0),
    ("two tiles have one place for what warps exchange", MEETS, r"xor\.b32 \t(%r\d+), \1, 1;", r"mov.b32 \t\1, \1;",
     {"race", BITS}, 0),
    ("the next column's part of another warp", MEETS, r"(ld\.shared\.f32 %r\d+, \[%r\d+ \+) 64\]", r"\1 68]",
     {BITS, "uninitialised"}, 0),
    ("a warp's own rows alone", MEETS, r"(ld\.shared\.f32 %r\d+, \[%r\d+ \+) 64\]", r"\1 0]", {BITS}, 0),
    ("every lane stores a block of rows' scale", MEETS, r"@%p\d+ (st\.global\.b8 \[%rd\d+\], %r\d)", r"\1",
     {"bounds", "race", BITS}, 0),
    ("a block of zeros", F32, r"0f3F800000", "0f40000000", {BITS}, 0),
]  # fmt: skip


@pytest.mark.once(touches=lambda case, kinds, **_: [case[0], *kinds])
@pytest.mark.parametrize(("what", "case", "old", "new", "kinds", "at"), FAULTS, ids=[f[0] for f in FAULTS])
def test_fault(what: str, case, old: str, new: str, kinds: set[str], at: int) -> None:
    target, program, result, settings, dims = case

    def change(kernel: Kernel) -> Kernel:
        found = list(re.finditer(old, kernel.ptx))
        if len(found) <= at:  # no AssertionError, which would be a fault that is found
            pytest.fail(f"no match of {old!r}")
        changed = kernel.ptx[: found[at].start()] + found[at].expand(new) + kernel.ptx[found[at].end() :]
        if changed == kernel.ptx:
            pytest.fail(f"{old!r} becomes itself")
        return Kernel(kernel.spec, b"", ptx=changed)

    found = None
    for seed in range(3):
        try:
            run_quantised(program, result, dims, ("n", "k"), seed, target, settings, change)
        except AssertionError:
            found = BITS
        except DeviceError as error:
            found = getattr(error.__cause__, "kind", str(error))
        if found is not None:
            break
    assert found in kinds, f"{what}: {found or 'not found'}"
