"""Faults for the PTX of sm_100a's kernels in which two CTAs multiply together: see test_mutations.py."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

_SCHEDULE = "tile=128x64x128, cluster=2x1, cta_group=2, stages=3, unroll=1, swap=0, order=n, band=8"
# 15 pairs of tiles for two pairs of CTAs, the last half beyond M
PAIR = f"C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8 with {_SCHEDULE}"
PROMOTED = f"C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128@col) with {_SCHEDULE}"
UNSCALED = f"C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3 with {_SCHEDULE}"
PAIRS = UNSCALED.replace("cluster=2x1", "cluster=4x1")
SIZES = {PAIR: (530, 136, 640), PROMOTED: (300, 136, 512), UNSCALED: (300, 136, 512), PAIRS: (600, 136, 512)}

_MAPA = r"mapa\.shared::cluster\.u64 \t(%rd\d+), (%rd\d+), %r\d+;"
_MASK = r"mov\.b16 \t(%rs\d+), 3;"
_LOST = ("deadlock", "barrier", "tensor-memory", *EARLY)
_CLUSTER = r"\tbarrier\.cluster\.arrive\.relaxed\.aligned;\n\tbarrier\.cluster\.wait\.aligned;\n"
# instruction descriptor: FP32 sums, E4M3 by E4M3, N = 64, M = 256
_WHAT, _IS = r"add\.s32 \t(%r\d+), (%r\d+), 269484048;", 269484048

FAULTS = [
    Fault("pair: a stage handed back to the leader alone", PAIR, _MASK, r"mov.b16 \t\1, 1;", ("deadlock",), at=1),
    Fault("pair: sums handed to the leader alone", PAIR, _MASK, r"mov.b16 \t\1, 1;", ("deadlock",)),
    Fault("pair: copies and scales arrive at the own CTA", PAIR, _MAPA, r"mov.b64 \t\1, \2;", ("deadlock",)),
    Fault("pair: accumulators given back to the own CTA", PAIR, _MAPA, r"mov.b64 \t\1, \2;", ("deadlock",), at=1),
    Fault("pair: bytes of the leader's copies alone", PAIR, r"mov\.b32 \t(%r\d+), 40960;", r"mov.b32 \t\1, 20480;",
          _LOST),
    Fault("pair: bytes of copies that the other CTA does not make", PAIR, r"mov\.b32 \t(%r\d+), 40960;",
          r"mov.b32 \t\1, 45056;", ("deadlock",)),
    Fault("pair: a bulk copy for one CTA", PAIR, r"(complete_tx::bytes)\.cta_group::2", r"\1", ("barrier",)),
    Fault("pair: both CTAs multiply", PAIR, r"(elect\.sync[^\n]*\n\t)setp\.ne\.b32 \t(%p\d+), %r\d+, 0;(?=\n\t@\2 bra)",
          r"\1setp.ne.b32 \t\2, 0, 0;", ("deadlock",)),
    Fault("pair: both CTAs copy the same half of B", PAIR, r"shl\.b32 \t(%r\d+), %r\d+, 5;(?=\n\tor\.b32)",
          r"mov.b32 \t\1, 0;", (WRONG,)),
    Fault("pair: scales of one CTA counted", PAIR, r"mov\.b32 \t(%r\d+), 5;(?=\n\tmbarrier)", r"mov.b32 \t\1, 3;",
          _LOST),
    Fault("pair: more arrivals of scales counted", PAIR, r"mov\.b32 \t(%r\d+), 5;(?=\n\tmbarrier)",
          r"mov.b32 \t\1, 6;", ("deadlock",)),
    Fault("pair: the consumers of one CTA counted", PAIR, r"mov\.b32 \t(%r\d+), 8;(?=\n\tmbarrier)",
          r"mov.b32 \t\1, 4;", _LOST),
    Fault("pair: a warp of scales does not arrive", PAIR,
          r"@%p\d+ (mbarrier\.arrive\.relaxed[^\n]*)(?=\n\t// end inline asm\n\tadd\.s32 [^\n]* 1;)", "",
          ("deadlock",)),
    Fault("pair: all threads of scales arrive", PAIR,
          r"@%p\d+ (mbarrier\.arrive\.relaxed[^\n]*)(?=\n\t// end inline asm\n\tadd\.s32 [^\n]* 1;)", r"\1",
          ("proxy", *_LOST)),
    Fault("pair: scale words not fenced", PAIR, r"\tfence\.proxy\.async::generic\.release[^\n]*\n", "",
          ("race", "proxy")),
    Fault("pair: the cluster barrier at the start dropped", PAIR, _CLUSTER, "",
          ("cluster-start", "proxy", "bounds", *_LOST)),
    Fault("pair: the cluster barrier at the end dropped", PAIR, _CLUSTER, "", ("bounds", *_LOST), at=1),
    Fault("pair: tcgen05.alloc of one CTA", PAIR, r"(tcgen05\.alloc\.cta_group)::2", r"\1::1", ("illegal",)),
    Fault("pair: tcgen05.commit of one CTA", PAIR, r"(tcgen05\.commit\.cta_group)::2", r"\1::1", ("illegal",)),
    Fault("pair: B's scales copied into the leader alone", PROMOTED, _MASK + r"(?=\n\tcp\.async)",
          r"mov.b16 \t\1, 1;", ("deadlock",)),
    Fault("pair: the rows of one CTA in the instruction descriptor", UNSCALED, _WHAT,
          rf"add.s32 \t\1, \2, {_IS - (8 << 24)};", (WRONG, "tensor-memory", *EARLY)),
    Fault("pair: the columns of B's half in the instruction descriptor", UNSCALED, _WHAT,
          rf"add.s32 \t\1, \2, {_IS - (4 << 17)};", (WRONG, "tensor-memory", *EARLY)),
    Fault("pairs: half of B copied into the first pair alone", PAIRS, r"mov\.b32 \t(%r\d+), 5;(?=\n\tshl)",
          r"mov.b32 \t\1, 1;", ("deadlock",)),
    Fault("pairs: the other half of B copied into the other pair", PAIRS, r"mov\.b32 \t(%r\d+), 5;(?=\n\tshl)",
          r"mov.b32 \t\1, 9;", ("deadlock", "barrier", "bounds", *EARLY)),
    Fault("pairs: a stage handed back to the first pair alone", PAIRS, r"mov\.b16 \t(%rs\d+), 15;",
          r"mov.b16 \t\1, 3;", ("deadlock",)),
    Fault("pairs: a stage handed back by one pair", PAIRS, r"mov\.b32 \t(%r\d+), 2;(?=\n\tmbarrier)",
          r"mov.b32 \t\1, 1;", ("deadlock", "barrier", *EARLY)),
    Fault("pairs: sums handed to the first CTA of each", PAIRS, r"mov\.b32 \t(%r\d+), 3;(?=\n\tshl)",
          r"mov.b32 \t\1, 1;", ("deadlock",)),
]  # fmt: skip
