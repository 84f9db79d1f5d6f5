"""Faults in kernels whose warpgroups take tiles by turns."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
TURNS = f"{BLOCKS} with consumers=pingpong, tile=64x64x128, cluster=1x1, stages=3, unroll=2"
SHORT = "C[m,n] = A[m,k] @ B[n,k] with consumers=pingpong, tile=64x128x64, cluster=1x1, stages=6"
# three tiles for each of the four CTAs, of four K blocks in half a window; one K block, so that epilogues meet
SIZES = {TURNS: (140, 200, 512), SHORT: (500, 264, 64)}

LOST = ("deadlock", "barrier", WRONG, *EARLY)

_PASS = r"add\.s32 \t(%r\d+), (%r\d+), 4;(?=\n\tadd\.s32 \t(%r\d+), \3, %r\d+;\n\tadd)"

FAULTS = [
    Fault("turns: a position passes over one K block too few", TURNS,
          _PASS, r"add.s32 \t\1, \2, 3;", LOST),
    Fault("turns: a position passes over one K block too many", TURNS,
          _PASS, r"add.s32 \t\1, \2, 5;", LOST),
    Fault("turns: the second warpgroup begins at the first one's stage", TURNS,
          r"and\.b32 \t(%r\d+), %r\d+, 4;(?=\n\tshl\.b32)", r"mov.b32 \t\1, 0;", LOST),
    Fault("turns: both begin with the same tile", TURNS,
          r"mad\.lo\.s32 \t(%r\d+), %r\d+, (%r\d+), (%r\d+);\n\tshl\.b32 \t(%r\d+), \2, 1;",
          r"mov.b32 \t\1, \3;\n\tshl.b32 \t\4, \2, 1;", LOST),
    Fault("turns: each takes the other's tiles too", TURNS,
          r"(mad\.lo\.s32 \t%r\d+, %r\d+, (%r\d+), %r\d+;\n)\tshl\.b32 \t(%r\d+), \2, 1;",
          r"\1\tmov.b32 \t\3, \2;", LOST),
    Fault("turns: stages are filled for the first alone", TURNS,
          r"mad\.lo\.s32 \t(%r\d+), %r\d+, 24, (%r\d+);", r"mov.b32 \t\1, \2;", LOST),
    Fault("turns: both wait at the first one's barriers", TURNS,
          r"mad\.lo\.s32 \t(%r\d+), %r\d+, 24, (%r\d+);", r"mov.b32 \t\1, \2;", LOST, at=1),
    Fault("turns: an empty barrier counts both", TURNS, r"mov\.b32 \t(%r\d+), 4;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 8;", ("deadlock",)),
    Fault("turns: the rounds of a stage are not counted", TURNS,
          r"shl\.b32 \t(%r\d+), %r\d+, %r\d+;\n\txor\.b32 \t(%r\d+), (%r\d+), \1;", r"mov.b32 \t\2, \3;", LOST),
    Fault("turns: the round of another stage", TURNS,
          r"shr\.u32 \t(%r\d+), (%r\d+), %r\d+;(?=\n\tand\.b32 \t%r\d+, \1, 1;)", r"shr.u32 \t\1, \2, 1;", LOST),
    Fault("turns: a look at another's stage counts", TURNS,
          r"setp\.ne\.b32 P1, (%r\d+), 0;", r"setp.ne.b32 P1, 1, 0;", LOST),
    Fault("turns: the second begins at the first one's window", TURNS,
          r"shl\.b32 \t(%r\d+), (%r\d+), 3;(?=\n\tadd\.s32 \t%r\d+, %r\d+, 63;)", r"mov.b32 \t\1, 0;", LOST),
    Fault("turns: both stage results in one place", TURNS,
          r"shl\.b32 \t(%r\d+), %r\d+, 13;(?=\n\tadd\.s32 \t%r\d+, %r\d+, \1;\n\tadd\.s32 \t%r\d+, %r\d+, 49152)",
          r"mov.b32 \t\1, 0;", ("race", "in-flight", "proxy", WRONG)),
    Fault("turns: one barrier for both", SHORT,
          r"add\.s32 \t(%r\d+), %r\d+, 1;(?=\n\tbar\.sync)",
          r"mov.b32 \t\1, 1;", ("barrier", "race", "proxy", "deadlock", *EARLY)),
]  # fmt: skip
