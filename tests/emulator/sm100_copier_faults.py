"""Faults for kernels of sm_100a in which a warp copies scales to tensor memory: see test_mutations.py."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

# nine K blocks on a ring of four stages, of which tensor memory has the scales of two
COPIER = (
    "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4 with tile=128x192x256, cluster=1x1, stages=4, unroll=1, "
    "epilogue=direct, swap=0, scale_copier=1"
)
SIZES = {COPIER: (140, 200, 2304)}

_WAIT, _NO_WAIT = r"mbarrier\.try_wait[^\n]*\n@P1 bra DONE;\nbra WAIT;", "bra DONE;"
_COPY = r"(\t@%p\d+ tcgen05\.cp[^\n]*\n\t// end inline asm\n)"
_COMMIT = (
    r"(\t@%p\d+ tcgen05\.commit[^\n]*\[(%r\d+)\];\n)(?=\t// end inline asm\n\t// begin inline asm\n\t@%p\d+ mbarrier)"
)
_ARRIVAL = r"(tcgen05\.commit[^\n]*\n\t// end inline asm\n\t// begin inline asm\n)\t@%p\d+ (mbarrier\.arrive[^\n]*\n)"
_FENCE, _TENSOR = r"\ttcgen05\.fence::after_thread_sync;\n", ("tensor-memory", "barrier", "deadlock", *EARLY)

# a ring of two that goes on, so many lines before the K element does
_NEXT = r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 2;(?=(?:\n[^\n]*){{{}}}\n\tadd\.s32 [^\n]*, 256;)"


def _fault(what: str, pattern: str, replacement: str, *kinds: str, at: int = 0) -> Fault:
    return Fault(f"copier: {what}", COPIER, pattern, replacement, kinds, at=at)


FAULTS = [
    _fault("copies not committed", _COMMIT, "", "deadlock"),
    _fault("its own arrival dropped", _ARRIVAL, r"\1", "deadlock"),
    _fault("all lanes arrive", _ARRIVAL, r"\1\t\2", *_TENSOR),
    _fault("one arrival counted", r"mov\.b32 \t(%r\d+), 2;(?=\n\tmbarrier\.init)", r"mov.b32 \t\1, 1;", *_TENSOR),
    _fault("three arrivals counted", r"mov\.b32 \t(%r\d+), 2;(?=\n\tmbarrier\.init)", r"mov.b32 \t\1, 3;", "deadlock"),
    _fault("copies committed before the last one",
           _COPY + r"(\tadd\.s32 [^\n]*\n)(\t// begin inline asm\n\t@%p\d+ tcgen05\.commit[^\n]*\n"
           r"\t// end inline asm\n)",
           r"\t// end inline asm\n\2\3\t// begin inline asm\n\1", *_TENSOR),
    _fault("products do not wait for its copies", _WAIT, _NO_WAIT, *_TENSOR, at=4),
    _fault("copies do not wait for a full stage", _WAIT, _NO_WAIT, *_TENSOR, at=5),
    _fault("copies do not wait for the products of their columns", _WAIT, _NO_WAIT, *_TENSOR, at=6),
    _fault("copies wait for the products of the block before", r"mov\.b32 \t(%r\d+), 2;(?=\n\tmov\.b32 \t%r\d+, 0;)",
           r"mov.b32 \t\1, 1;", *_TENSOR),
    _fault("its tcgen05.fence::after_thread_sync dropped", _FENCE, "", *_TENSOR, at=-2),
    _fault("the products' tcgen05.fence::after_thread_sync dropped", _FENCE, "", *_TENSOR, at=-3),
    _fault("its stride of a slot halved", r"mad\.lo\.s32 \t(%r\d+), (%r\d+), 48, (%r\d+);",
           r"mad.lo.s32 \t\1, \2, 24, \3;", WRONG, *_TENSOR, at=1),
    _fault("the products' stride of a slot halved", r"mad\.lo\.s32 \t(%r\d+), (%r\d+), 48, (%r\d+);",
           r"mad.lo.s32 \t\1, \2, 24, \3;", WRONG, *_TENSOR),
    _fault("the products' ring of slots has one more", _NEXT.format(3), r"setp.eq.b32 \t\1, \2, 3;",
           "bounds", *_TENSOR),
    _fault("its ring of slots has one more", _NEXT.format(8), r"setp.eq.b32 \t\1, \2, 3;", "bounds", *_TENSOR),
    _fault("copies to the columns of another word",
           r"add\.s32 \t(%r\d+), (%r\d+), 4;(?=\n\t// begin inline asm\n\t@%p\d+ tcgen05\.cp)",
           r"add.s32 \t\1, \2, 8;", WRONG, *_TENSOR),
    _fault("two warps alone counted", r"mov\.b32 \t(%r\d+), 5;(?=\n\tmbarrier\.init)", r"mov.b32 \t\1, 3;", *_TENSOR),
]  # fmt: skip
