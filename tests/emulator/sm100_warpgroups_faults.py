"""Faults for the PTX of sm_100a's kernels in which two warpgroups share an accumulator: see test_mutations.py."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

_SCHEDULE = "tile=128x128x128, cluster=1x1, stages=3, unroll=1, swap=0, order=n, band=8, warpgroups=2"
# 10 tiles for 4 CTAs; each warp takes two parts of 32 columns, and stages them alone
TAKEN = f"C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3 with {_SCHEDULE}, epilogue=bulk, staged=0"
HELD = f"C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128@col) with {_SCHEDULE}, epilogue=direct, scale_path=thread"
SIZES = {TAKEN: (530, 200, 640), HELD: (300, 200, 512)}

_LOST = ("deadlock", "barrier", "tensor-memory", *EARLY)
# columns of the second warpgroup beside a warp's lanes, in bits 16 and up
_APART = r"(and\.b32 \t(%r\d+), %r\d+, 6291456;\n(?:\t[^\n]*\n){1,2})\tor\.b32 \t(%r\d+), \2, %r\d+;"


def _fault(what: str, program: str, pattern: str, replacement: str, *kinds: str, at: int = 0) -> Fault:
    return Fault(f"two warpgroups: {what}", program, pattern, replacement, kinds, at=at)


FAULTS = [
    _fault("the arrivals of one counted at an accumulator", TAKEN, r"mov\.b32 \t(%r\d+), 8;(?=\n\tmbarrier)",
           r"mov.b32 \t\1, 4;", *_LOST),
    _fault("one arrival more counted at an accumulator", TAKEN, r"mov\.b32 \t(%r\d+), 8;(?=\n\tmbarrier)",
           r"mov.b32 \t\1, 9;", "deadlock"),
    _fault("both take the same columns", TAKEN, _APART, r"\1\tmov.b32 \t\3, \2;", WRONG),
    _fault("the second one takes lanes of its own", TAKEN, r"and\.b32 \t(%r\d+), (%r\d+), 6291456;",
           r"mov.b32 \t\1, \2;", "tensor-memory", "bounds"),
    _fault("the second part within the first ones", TAKEN,
           r"add\.s32 \t(%r\d+), (%r\d+), 64;(?=\n\t// begin inline asm\n\ttcgen05)", r"add.s32 \t\1, \2, 32;", WRONG),
    _fault("both stage results in one place", TAKEN, r"shl\.b32 \t(%r\d+), (%r\d+), 12;",
           r"and.b32 \t\1, \2, 3;\n\tshl.b32 \t\1, \1, 12;", WRONG, "race", "in-flight"),
    _fault("the arrivals of one counted at a stage", HELD, r"mov\.b32 \t(%r\d+), 9;(?=(?:\n[^\n]*){1,2}mbarrier)",
           r"mov.b32 \t\1, 5;", *_LOST),
    _fault("both add the same columns up", HELD, _APART, r"\1\tmov.b32 \t\3, \2;", WRONG),
    _fault("both read the factors of the same columns", HELD, r"shl\.b32 \t(%r\d+), (%r\d+), 8;(?=\n\tor\.b32)",
           r"mov.b32 \t\1, 0;", WRONG),
    _fault("both write the same columns", HELD,
           r"(shl\.b32 \t%r\d+, %r\d+, 1;\n[^\n]*, 6;\n)\tor\.b32 \t(%r\d+), (%r\d+), %r\d+;",
           r"\1\tmov.b32 \t\2, \3;", WRONG, "race"),
]  # fmt: skip
