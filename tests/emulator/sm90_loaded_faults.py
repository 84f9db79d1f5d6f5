"""Faults in kernels that load the result while a tile is multiplied, and store it with the sums added."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

ADDED = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128) with adds=loaded, cluster=1x1, stages=3"
LOADED = f"{ADDED}, tile=64x64x128"
PANEL = f"{ADDED}, tile=64x128x128, panels=1, staged=1"
_READ = "C[m,n]:f32 = gelu(A[m,k]@B[n,k] scale(1x128,128x128)) + X[m,n]:f32 with cluster=1x1, stages=3, tile=64x64x128"
ROOM = f"{_READ}, inputs=2, adds=memory"
PLACE = f"{_READ}, adds=loaded"
# three tiles for each of the four CTAs, of two boxes that both have room; two tiles, of four boxes of which one has
SIZES = {LOADED: (140, 200, 512), PANEL: (140, 264, 512), ROOM: (140, 200, 512), PLACE: (140, 200, 512)}

LOST = ("deadlock", "barrier", WRONG, *EARLY)
_WAIT = (
    r"@P1 bra DONE;\nbra WAIT;"  # copies, the first box, the second, the K loop, the first box's store, the second's
)

FAULTS = [
    Fault("loaded: consumers do not wait for the first box", LOADED, _WAIT, "bra DONE;", EARLY, at=1),
    Fault("loaded: consumers do not wait for the second box", LOADED, _WAIT, "bra DONE;", EARLY, at=2),
    Fault("loaded: a box is stored before sums are added", LOADED, _WAIT, "bra DONE;",
          ("proxy", "barrier", WRONG, *EARLY), at=4),
    Fault("loaded: the second box is stored before sums are added", LOADED, _WAIT, "bra DONE;",
          ("proxy", "barrier", WRONG, *EARLY), at=5),
    Fault("loaded: the fence behind the sums dropped", LOADED, r"\tfence\.proxy\.async\.shared::cta;\n", "",
          ("proxy",)),
    Fault("loaded: consumers' parity never flips", LOADED,
          r"xor\.b32 \t(%r\d+), (%r\d+), (%r\d+);(?=\n\tselp\.b32 \t%r\d+, 0, %r\d+, %p\d+;\n\tadd\.s32)",
          r"mov.b32 \t\1, \2;", LOST),
    Fault("loaded: the parity of a store flipped", LOADED,
          r"xor\.b32 \t(%r\d+), (%r\d+), 1;(?=\n(?:.*\n){4}mbarrier.*\n(?:.*\n){8}\tcp\.async[^\n]*2d\.global)",
          r"mov.b32 \t\1, \2;", ("proxy", *LOST)),
    Fault("loaded: a store begins at the round that is there", LOADED,
          r"mov\.b32 \t(%r\d+), 1;(?=\n\tmov\.b64 \t%rd\d+, scalec_shared;\n\tmov\.b32 \t%r\d+, %r\d+;\n\$L)",
          r"mov.b32 \t\1, 0;", ("proxy", *LOST)),
    Fault("loaded: expects 16 bytes too many", LOADED, r"mov\.b32 \t(%r\d+), 8192;(?=\n\tmbarrier\.arrive\.expect_tx)",
          r"mov.b32 \t\1, 8208;", ("deadlock", "barrier")),
    Fault("loaded: expects 16 bytes too few", LOADED, r"mov\.b32 \t(%r\d+), 8192;(?=\n\tmbarrier\.arrive\.expect_tx)",
          r"mov.b32 \t\1, 8176;", LOST),
    Fault("loaded: an empty barrier counts a warp too few", LOADED, r"mov\.b32 \t(%r\d+), 4;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 3;", ("proxy", *LOST)),
    Fault("loaded: a box is loaded over what is being stored", LOADED, r"cp\.async\.bulk\.wait_group\.read \t1;",
          "cp.async.bulk.wait_group.read \t2;", ("race", "in-flight")),
    Fault("loaded: the second box is loaded over what is being stored", LOADED,
          r"cp\.async\.bulk\.wait_group\.read \t0;", "cp.async.bulk.wait_group.read \t1;", ("race", "in-flight")),
    Fault("loaded: the wait for the stores at the end dropped", LOADED,
          r"\tcp\.async\.bulk\.wait_group\.read \t0;\n", "", ("exit-read",), at=-1),
    Fault("loaded: a store is not committed", LOADED, r"\tcp\.async\.bulk\.commit_group;\n", "",
          ("race", "in-flight")),
    Fault("loaded: another box is loaded", LOADED,
          r"or\.b32 \t(%r\d+), (%r\d+), 32;(?=\n\tcvt\.u64\.u32 \t%rd\d+, %r\d+;\n\tcp\.async)",
          r"or.b32 \t\1, \2, 64;", (WRONG, "race", "in-flight")),
    Fault("loaded: another box is stored", LOADED, r"(cp\.async\.bulk\.tensor\.2d\.global[^{]*)\{%r\d+, (%r\d+)\}",
          r"\1{0, \2}", (WRONG, "race", "in-flight")),
    Fault("loaded: a pair's place in the next row", LOADED, r"ld\.shared\.v2\.f32 (\{[^}]*\}), \[(%r\d+) \+ 1024\]",
          r"ld.shared.v2.f32 \1, [\2 + 896]", (WRONG, "race")),
    Fault("loaded: a panel is loaded over what is being stored", PANEL, r"cp\.async\.bulk\.wait_group\.read \t0;",
          "cp.async.bulk.wait_group.read \t1;", ("race", "in-flight"), at=1),
    Fault("loaded: a panel is loaded before it is stored", PANEL,
          r"(\tcp\.async\.bulk\.tensor\.2d\.global[^\n]*\n\tcp\.async\.bulk\.commit_group;\n)((?:.*\n){1,30}?"
          r"\tcp\.async\.bulk\.tensor\.2d\.shared::cluster[^\n]*\n)", r"\2\1", (WRONG, "proxy", *EARLY)),
    Fault("inputs: consumers do not wait for the first box", ROOM, _WAIT, "bra DONE;", EARLY, at=2),
    Fault("inputs: consumers do not wait for the second box", ROOM, _WAIT, "bra DONE;", EARLY, at=3),
    Fault("inputs: a box is loaded over what is being read", ROOM, _WAIT, "bra DONE;", ("barrier", *EARLY), at=-2),
    Fault("inputs: a slot is not handed back", ROOM, r"@%p\d+ mbarrier\.arrive\.shared::cta[^\n]*\n", "", ("deadlock",),
          at=-1),
    Fault("inputs: a slot is handed back before its last columns are read", ROOM,
          r"((?:.*ld\.shared\.v2\.f32[^\n]*\n(?:.*\n){1,3}?){2})((?:.*\n){1,11}?"
          r"\t@%p\d+ mbarrier\.arrive\.shared::cta[^\n]*\n\t// end inline asm\n)", r"\2\1", EARLY),
    Fault("inputs: an empty barrier counts a warp too few", ROOM, r"mov\.b32 \t(%r\d+), 4;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 3;", LOST),
    Fault("inputs: expects 16 bytes too few", ROOM, r"mov\.b32 \t(%r\d+), 8192;(?=\n\tmbarrier\.arrive\.expect_tx)",
          r"mov.b32 \t\1, 8176;", LOST),
    Fault("inputs: a pair's place in the next row", ROOM, r"ld\.shared\.v2\.f32 (\{[^}]*\}), \[(%r\d+) \+ 1024\]",
          r"ld.shared.v2.f32 \1, [\2 + 896]", (WRONG, "race")),
    Fault("in place: consumers do not wait for the first box", PLACE, _WAIT, "bra DONE;", EARLY, at=2),
    Fault("in place: a box is stored before the result is there", PLACE, _WAIT, "bra DONE;",
          ("proxy", "barrier", WRONG, *EARLY), at=4),
    Fault("in place: the fence behind the result dropped", PLACE, r"\tfence\.proxy\.async\.shared::cta;\n", "",
          ("proxy",)),
    Fault("in place: a box is loaded over what is being stored", PLACE, r"cp\.async\.bulk\.wait_group\.read \t1;",
          "cp.async.bulk.wait_group.read \t2;", ("race", "in-flight")),
]  # fmt: skip
