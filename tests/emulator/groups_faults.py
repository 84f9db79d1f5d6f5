"""Faults in the PTX of kernels whose work is read from memory: the queue of items, tiles that a range cuts, and rows
that an index names. See test_groups_faults.py."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

RAGGED = (
    "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] with tile=64x32x64, cluster=1x1, stages=3, unroll=1, "
    "epilogue=bulk, swap=0, order=n, band=8, warpgroups=1"
)
BLOCKS = (
    "C[m,n] = A[m,k]:e4m3 @ B[e[m/128],n,k]:e4m3 with tile=128x32x128, cluster=1x1, stages=3, unroll=1, "
    "epilogue=bulk, staged=0, swap=0, order=n, band=8"
)
MASKED = (
    "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g] with tile=64x32x64, warps=4x1, cluster=1x1, stages=3, unroll=1, "
    "epilogue=bulk, swap=0, order=n, band=8"
)
SCATTERED = (
    "C[idx[m],n] = A[m,k] @ B[n,k] with tile=128x64x64, cluster=1x1, stages=3, unroll=1, warpgroups=1, epilogue=rows, "
    "staged=1, swap=0, order=n, band=8"
)
NAMED = (
    "C[m,n] = A[idx[m],k] @ B[n,k] with tile=128x64x64, cluster=1x1, stages=3, unroll=1, warpgroups=2, epilogue=bulk, "
    "swap=0, order=n, band=8"
)

LOST = ("deadlock", "barrier", "bounds", WRONG, *EARLY, "proxy")
"""What comes of items that are read too early, twice or not at all."""

_LOOP, _ON = r"@P1 bra DONE;\nbra WAIT;", "bra DONE;"
_READ = r"(\t// begin inline asm\n\tld\.shared\.v4[^\n]*\n\t// end inline asm\n)"
_BACK = (
    r"((?:\t(?:add|cvt)[^\n]*\n)*\t// begin inline asm\n\tmbarrier\.arrive\.shared::cta\.b64[^\n]*\n"
    r"\t// end inline asm\n)"
)
_ARRIVE = r"\tmbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];\n"
_HAND = r"\t@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];\n"
_ALL = r"@%p\d+ (mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];\n)"
# of the warp that finds items: its cursor, and the number of the next tile
_CURSOR = (
    r"(add\.s32 \t(%r\d+), (%r\d+), 1;\n\t)shr\.u32 \t(%r\d+), \2, 2;(\n\txor\.b32 \t(%r\d+), \6, \4;\n\t)"
    r"and\.b32 \t\3, \2, 3;"
)
_FLIP = r"(setp\.eq\.b32 \t(%p\d+), %r\d+, 4;\n\tselp\.b32 \t(%r\d+), 1, 0, \2;\n\t)xor\.b32 \t(%r\d+), \4, \3;"
_POSTED = r"(@P1 bra DONE;\nbra WAIT;\nDONE:\n\}\n\t// end inline asm\n)\t@%p\d+ bra \t\$L__BB0_\d+;\n"
_NEXT = r"(add\.s32 \t(%r\d+), \2, (%r\d+);\n)(?=\$L__BB0_\d+:\n\tsetp\.ge\.u32 \t%p\d+, )"
_FIRST = r"mov\.u32 \t(%r\d+), %ctaid\.x;"
_LAST = r"mov\.b32 \t(%r\d+), -1;(?=\n\t// begin inline asm\n\tst\.shared\.v4)"
_GROUP = r"add\.s32 \t(%r\d+), (%r\d+), (%r\d+);(?=\n\t// begin inline asm\n\tst\.shared\.v4)"
_CLAMPED = r"(\t// begin inline asm\n\t){}\.s32 (%r\d+), (%r\d+), (%r\d+);"
_TOTAL = r"(shfl\.sync\.idx\.b32 \t(%r\d+), %r\d+, 31, 31, -1;\n\t)add\.s32 \t(%r\d+), \3, \2;"


def _queue(name: str, program: str, copies: int, stores: int, finds: int, warps: int) -> list[Fault]:
    """Faults of the queue; numbers of waits: of the first items of copies and of consumers, of the finder's first."""
    faults = [
        ("copies do not wait for the first item", _LOOP, _ON, LOST, copies),
        ("copies do not wait for the next item", _LOOP, _ON, LOST, copies + 1),
        ("consumers do not wait for the first item", _LOOP, _ON, LOST, stores),
        ("consumers do not wait for the next item", _LOOP, _ON, LOST, stores + 1),
        ("an item is posted in a slot that is not empty", _LOOP, _ON, LOST, finds),
        ("copies do not hand their first slot back", _ARRIVE, "", ("deadlock",), 0),
        ("copies do not hand slots back", _ARRIVE, "", ("deadlock",), 1),
        ("an item is not posted", _ARRIVE, "", ("deadlock",), 2),
        ("the end is not posted", _ARRIVE, "", ("deadlock",), 3),
        ("consumers do not hand their first slot back", _HAND, "", ("deadlock",), 0),
        ("all lanes hand a slot back", _ALL, r"\1", LOST, 1),
        ("copies hand a slot back before it is read", _READ + _BACK, r"\2\1", LOST, 1),
        ("a slot has one taker fewer", rf"mov\.b32 \t(%r\d+), {warps};(?=\n\tmbarrier\.init)",
         rf"mov.b32 \t\1, {warps - 1};", LOST, 0),
        ("a slot has one taker more", rf"mov\.b32 \t(%r\d+), {warps};(?=\n\tmbarrier\.init)",
         rf"mov.b32 \t\1, {warps + 1};", ("deadlock",), 0),
        ("who finds items has a ring of eight", _CURSOR, r"\1shr.u32 \t\4, \2, 3;\5and.b32 \t\3, \2, 7;", LOST, 0),
        ("the phase of who finds items does not change", _CURSOR, r"\1and.b32 \t\3, \2, 3;", LOST, 0),
        ("who finds items does not advance", _CURSOR, r"\1", LOST, 0),
        ("the phase of who takes items does not change", _FLIP, r"\1mov.b32 \t\4, \4;", LOST, 0),
        ("every second item is left out", _NEXT, r"\1\tadd.s32 \t\2, \2, \3;\n", (WRONG,), 0),
        ("all CTAs begin with the first item", _FIRST, r"mov.b32 \t\1, 0;", (WRONG, "race", "in-flight", "proxy"), 0),
        ("the end is an item", _LAST, r"mov.b32 \t\1, 0;", ("deadlock", *LOST), 0),
    ]  # fmt: skip
    return [Fault(f"{name}: {what}", program, old, new, kinds, at) for what, old, new, kinds, at in faults]


RANGES = [
    Fault("ragged: all lanes post", RAGGED, _POSTED, r"\1", LOST),
    Fault("masked: all lanes post", MASKED, _POSTED, r"\1", LOST),
    Fault("ragged: an item of the group's number among those looked at", RAGGED, _GROUP, r"mov.b32 \t\1, \3;",
          (WRONG,)),
    Fault("ragged: an item of the first group of those looked at", RAGGED, _GROUP, r"mov.b32 \t\1, \2;", (WRONG,)),
    Fault("ragged: a step of the prefix sum looks one lane too far", RAGGED,
          r"(shfl\.sync\.up\.b32 \t%r\d+, %r\d+, )4,", r"\g<1>5,",
          (WRONG, "bounds", "race", "in-flight", "proxy", "deadlock")),
    Fault("ragged: a step of the prefix sum takes what no lane has", RAGGED,
          r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 1;", r"setp.gt.u32 \t\1, \2, 0;",
          (WRONG, "bounds", "race", "in-flight", "proxy", "deadlock")),
    Fault("ragged: the last step of the prefix sum left out", RAGGED,
          r"(shfl\.sync\.up\.b32 \t%r\d+, (%r\d+), 16, 0, -1;\n[^\n]*\n\t)add\.s32 \t(%r\d+), \2, %r\d+;",
          r"\1mov.b32 \t\3, \2;", (WRONG, "race", "in-flight", "proxy", "deadlock")),
    Fault("ragged: a tile is looked for in the group before its own", RAGGED,
          r"setp\.lt\.u32 \t(%p\d+), (%r\d+), (%r\d+);(?=\n\tselp\.b32 \t%r\d+, 1, 0, \1;)",
          r"setp.le.u32 \t\1, \2, \3;", (WRONG, "bounds", "race", "in-flight", "proxy", "deadlock")),
    Fault("ragged: the tiles of groups that were looked at are not passed over", RAGGED, _TOTAL,
          r"\1mov.b32 \t\3, \3;", (WRONG, "race", "in-flight", "proxy", "deadlock")),
    Fault("ragged: the next groups begin one too late", RAGGED,
          r"add\.s32 \t(%r\d+), \1, 32;(?=\n\tsetp\.ge)", r"add.s32 \t\1, \1, 33;",
          (WRONG, "race", "in-flight", "proxy")),
    Fault("ragged: lanes load behind the last offset", RAGGED,
          r"min\.u32 \t(%r\d+), (%r\d+), (%r\d+);(?=\n\tmul\.wide)", r"mov.b32 \t\1, \2;", ("bounds",), at=1),
    Fault("ragged: lanes behind the last group have its tiles too", RAGGED,
          r"selp\.b32 \t(%r\d+), (%r\d+), 0, (%p\d+);(?=\n\tshfl\.sync\.up)", r"mov.b32 \t\1, \2;",
          (WRONG, "race", "in-flight", "proxy", "bounds"), at=1),
    Fault("ragged: a range is not ended where the rows end", RAGGED, _CLAMPED.format("min"), r"\1mov.b32 \2, \3;",
          ("bounds", WRONG), at=3),
    Fault("ragged: a range begins before the first row", RAGGED, _CLAMPED.format("max"), r"\1mov.b32 \2, \3;",
          ("bounds", WRONG, "deadlock")),
    Fault("ragged: a cut tile leaves by a copy of all its rows", RAGGED,
          r"(?<=wgmma\.wait_group\.sync\.aligned 0;\n\t// end inline asm\n\t)"
          r"setp\.lt\.u32 \t(%p\d+), (%r\d+), (%r\d+);",
          r"setp.eq.b32 \t\1, \2, \2;", (WRONG, "race", "in-flight", "proxy")),
    Fault("ragged: a tile that lacks a row leaves by a copy", RAGGED,
          r"add\.s32 \t(%r\d+), (%r\d+), 63;(?=\n\tmov\.b32 \t%r\d+, 0f00000000)", r"add.s32 \t\1, \2, 62;",
          (WRONG, "race", "in-flight", "proxy")),
    Fault("ragged: threads do not store a cut tile", RAGGED,
          r"\t@%p\d+ st\.global\.v4[^\n]*\n", "", (WRONG,)),
    Fault("ragged: threads store the row behind the last", RAGGED,
          r"setp\.lt\.u32 \t(%p\d+), (%r\d+), (%r\d+);(?=\n(?:[^\n]*\n){1,6}?\tsetp\.lt\.u32 \t%p\d+, %r\d+, 72;)",
          r"setp.le.u32 \t\1, \2, \3;", (WRONG, "race", "in-flight", "proxy", "bounds")),
    Fault("blocks: an index is read in the block behind", BLOCKS,
          r"(shr\.u32 \t(%r\d+), %r\d+, 7;)(?=\n\tmul\.wide)", r"\1\n\tadd.s32 \t\2, \2, 1;",
          (WRONG, "bounds", "race")),
    Fault("blocks: an item of the matrix before", BLOCKS,
          r"(ld\.global\.b32 (%r\d+), \[%rd\d+\];\n\t// end inline asm\n)(\tsetp[^\n]*\n\t@[^\n]*\n)",
          r"\1\3\tadd.s32 \t\2, \2, -1;\n", (WRONG,)),
    Fault("blocks: an index that leads nowhere is an item", BLOCKS,
          r"setp\.ge\.u32 \t(%p\d+), (%r\d+), (%r\d+);"
          r"(?=\n\t@\1 bra \t\$L__BB0_\d+;\n(?:\t(?:sub|min|add)[^\n]*\n)*\tshl\.b32)",
          r"setp.ne.b32 \t\1, \2, \2;", (WRONG, "bounds")),
    Fault("blocks: the products' warp does not wait for the next item", BLOCKS, _LOOP, _ON,
          (*LOST, "tensor-memory"), at=4),
    Fault("masked: a group's rows are those of the group behind", MASKED,
          r"add\.s64 \t(%rd\d+), (%rd\d+), (%rd\d+);(?=\n(?:[^\n]*\n){0,3}\tld\.global\.b32)",
          r"add.s64 \t\1, \2, \3;\n\tadd.s64 \t\1, \1, 4;", (WRONG, "bounds", "race")),
    Fault("masked: threads store the row behind the last", MASKED,
          r"setp\.lt\.u32 \t(%p\d+), (%r\d+), (%r\d+);(?=\n\tadd\.s32 \t%r\d+, \2, 8;)", r"setp.le.u32 \t\1, \2, \3;",
          (WRONG, "bounds")),
]  # fmt: skip

_STAGED = r"(ld\.shared\.v4\.b32 \{[^}]*\}, \[%r\d+) \+ 0\]"
_GOES = r"shfl\.sync\.idx\.b32 (%r\d+), (%r\d+), (%r\d+), 31, -1;"

ROWS = [
    Fault("scattered: a warp stores the next one's rows", SCATTERED, _STAGED, r"\1 + 2048]", (WRONG, *EARLY)),
    Fault("scattered: a thread stores the chunk beside its own", SCATTERED, _STAGED, r"\1 + 16]", (WRONG, *EARLY)),
    Fault("scattered: a row goes where the warp's first one does", SCATTERED, _GOES,
          r"shfl.sync.idx.b32 \1, \2, 0, 31, -1;", (WRONG, "race")),
    Fault("scattered: the last two warps look up rows of the first two", SCATTERED,
          r"selp\.b32 \t(%r\d+), (%r\d+), (%r\d+), (%p\d+);(?=\n\t// begin inline asm\n\tshfl)",
          r"mov.b32 \t\1, \3;", (WRONG, "race"), at=-1),
    Fault("scattered: odd warps look up rows of even ones", SCATTERED,
          r"and\.b32 \t(%r\d+), (%r\d+), 16;(?=\n\tor\.b32[^\n]*\n\t// begin inline asm\n\tshfl)",
          r"mov.b32 \t\1, 0;", (WRONG, "race")),
    Fault("scattered: a row is stored whatever its index", SCATTERED, r"@%p\d+ (st\.global\.v4)", r"\1",
          ("bounds", WRONG)),
    Fault("scattered: columns behind the last are stored", SCATTERED,
          r"and\.pred \t(%p\d+), (%p\d+), (%p\d+);(?=\n\t// begin inline asm\n\t@\1 st\.global\.v4)",
          r"mov.pred \t\1, \2;", ("bounds", "race", WRONG)),
    Fault("named: rows are staged while copies of the tile before read", NAMED,
          r"cp\.async\.bulk\.wait_group\.read \t0;", "", ("race", "in-flight"), at=1),
    Fault("named: one row of a tile is enough for copies", NAMED, r"vote\.sync\.all", "vote.sync.any", (WRONG,)),
]  # fmt: skip

FAULTS = [
    *_queue("ragged", RAGGED, 0, 3, 6, 5),
    *_queue("blocks", BLOCKS, 0, 8, 6, 6),
    *_queue("masked", MASKED, 0, 3, -2, 5),
    *RANGES,
    *ROWS,
]
