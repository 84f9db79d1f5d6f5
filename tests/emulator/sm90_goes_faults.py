"""Faults in kernels that multiply and promote a wave's columns in several goes."""

from __future__ import annotations

from tests.emulator.faults import WRONG, Fault

GOES = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) with mma_n=40, tile=64x80x128, cluster=1x1, stages=3, unroll=1"
SIZES = {GOES: (140, 296, 512)}  # tiles begin 0, 80, 32 and 112 columns behind the beginning of a block of scales

FAULTS = [
    Fault("goes: both multiply the same columns", GOES, r"add\.s32 \t(%r\d+), (%r\d+), 320;", r"mov.b32 \t\1, \2;",
          (WRONG,)),
    Fault("goes: the second begins eight columns late", GOES, r"add\.s32 \t(%r\d+), (%r\d+), 320;",
          r"add.s32 \t\1, \2, 384;", (WRONG, "in-flight", "race", "uninitialised")),
    Fault("goes: the wait for the first dropped", GOES, r"\twgmma\.wait_group\.sync\.aligned 0;\n", "",
          ("in-flight", "wgmma")),
    Fault("goes: the stage freed before the second is done", GOES,
          r"(\t// begin inline asm\n\twgmma\.wait_group\.sync\.aligned 0;\n\t// end inline asm\n)((?:.*\n){1,8}?"
          r"\t@%p\d+ mbarrier\.arrive\.shared::cta[^\n]*\n\t// end inline asm\n)", r"\2\1",
          ("in-flight", "race", "uninitialised")),
    Fault("goes: the fence before the second dropped", GOES, r"\twgmma\.fence\.sync\.aligned;\n", "", ("wgmma",), at=1),
    Fault("goes: the first's sums not overwritten", GOES, r"setp\.ne\.b32 p, 0, 0;", "setp.ne.b32 p, 1, 0;", (WRONG,),
          at=1),
    Fault("goes: a step takes the next block's factor too soon", GOES, r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 95;",
          r"setp.gt.u32 \t\1, \2, 79;", (WRONG,)),
    Fault("goes: a step of the second takes it too late", GOES, r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 79;",
          r"setp.gt.u32 \t\1, \2, 80;", (WRONG,)),
    Fault("goes: a step takes the other block's factor", GOES, r"selp\.f32 \t(%r\d+), (%r\d+), (%r\d+), ",
          r"selp.f32 \t\1, \3, \2, ", (WRONG,)),
]  # fmt: skip
