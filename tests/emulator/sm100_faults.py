"""Faults for the PTX of sm_100a's kernels: see test_mutations.py."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

# 15 tiles for 4 CTAs: the ring of two accumulators goes round twice, that of stages more often; a tile is taken in two
# parts of 32 columns
TENSOR = (
    "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3 "
    "with tile=128x64x128, cluster=1x1, stages=3, unroll=1, epilogue=bulk, staged=0, swap=0, order=n, band=8"
)
# five K blocks on a ring of three: some tiles begin within a round
ROUNDS = TENSOR.replace("unroll=1", "unroll=3")
DIRECT = "C[m,n]:f32 = A[m,k] @ B[n,k] with tile=128x48x64, cluster=1x1, stages=3, unroll=1, swap=0"
UNPACKED = "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 with tile=128x32x128, cluster=1x1, stages=2, unroll=1, swap=0"
# 27 clusters of two, of which two run at once: the ring of three responses goes round often; one K block a tile,
# so that copies run ahead of those who read the responses
CONTROL = (
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 with tile=128x32x128, cluster=1x2, stages=8, unroll=1, epilogue=bulk, "
    "staged=0, swap=0, order=n, band=8, scheduler=dynamic"
)
# every second tile of columns begins within a tile of scales
BLOCKED = (
    "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked) "
    "with tile=128x64x128, cluster=1x1, stages=3, unroll=1, epilogue=direct, swap=0"
)
ONES = (
    "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 "
    "with tile=128x64x256, cluster=1x1, stages=3, unroll=1, epilogue=direct, swap=0"
)
# four panels of A, two of B, in a swizzle of 32-byte atoms; the last of B beyond N
TRANSPOSED = (
    "C[m,n]:f32 = A[k,m]:tf32 @ B[k,n]:tf32 "
    "with tile=128x64x32, cluster=1x1, stages=3, unroll=1, epilogue=direct, swap=0"
)
SIZES = {
    TENSOR: (530, 136, 640),
    ROUNDS: (530, 136, 640),
    DIRECT: (300, 136, 320),
    UNPACKED: (140, 136, 384),
    BLOCKED: (300, 200, 640),
    ONES: (140, 136, 768),
    CONTROL: (1100, 136, 128),
    TRANSPOSED: (140, 136, 100),
}

_WAIT, _NO_WAIT = r"mbarrier\.try_wait[^\n]*\n@P1 bra DONE;\nbra WAIT;", "bra DONE;"
_ASKED = r"(mbarrier\.try_wait[^\n]*\n)@P1 bra DONE;\nbra WAIT;"
_PRODUCT = (
    r"(\t// begin inline asm\n\t\{\n\.reg[^\n]*\nsetp[^\n]* 1, 0;\n@%p\d+ tcgen05[^\n]*\n\}\n\t// end inline asm\n)"
)
_COMMIT = r"(\tadd\.s32 [^\n]*\n\t// begin inline asm\n\t@%p\d+ tcgen05\.commit[^\n]*\n\t// end inline asm\n)"
_LAST = r"(\ttcgen05\.wait::ld[^\n]*\n\t// end inline asm\n)"
_BACK = r"((?:[^\n]*\n){4}\t// begin inline asm\n\t@%p\d+ mbarrier\.arrive[^\n]*\n\t// end inline asm\n)"
# upper half of a matrix descriptor: 128-byte swizzle, version 1, 1024 bytes from 8 rows to the next
_UPPER, _HALF = r"add\.s32 \t(%r\d+), (%r\d+), 1073758272;", 1073758272
# instruction descriptor: FP32 sums, E4M3 by E4M3, N = 64, M = 128
_WHAT, _IS = r"add\.s32 \t(%r\d+), (%r\d+), 135266320;", 135266320
# likewise of 32-byte atoms: mode 1, 512 bytes from 4 of K to the next
_ATOMS, _ATOMS_ARE = r"add\.s32 \t(%r\d+), (%r\d+), 536887328;", 536887328
_FLAG = r"selp\.b32 \t(%r\d+), 1, 0, (%p\d+);(?=\n\t// begin inline asm\n\t\{\n\.reg)"
# of the warp that issues products, of the consumers, of the thread that copies and asks: a response is waited for, read
# and handed back; the request
_RESPONSE = r"(mbarrier\.try_wait[^\n]*\n)@P1 bra DONE;\nbra WAIT;(?=\nDONE:(?:\n[^\n]*){4,10}\n\.reg \.b128)"
_REQUEST = r"\tclusterlaunchcontrol\.try_cancel[^\n]*\n"
_FENCE = r"(P1 clusterlaunchcontrol[^\n]*\n\}\n[^\n]*\n[^\n]*\n)\tfence\.proxy\.async\.shared::cta;\n"
_SLOT = r"shl\.b32 \t(%r\d+), (%r\d+), 4;(?=\n\tadd\.s32 \t%r\d+, %r\d+, %r\d+;\n\tadd\.s32 \t%r\d+, %r\d+, 172208;)"
_TILES = r"(\[%rd\d+\], \[%rd\d+), \{(%r\d+), (%r\d+)\}"
_LOOP = r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 639;"


def _descriptor(what: str, change: int, *kinds: str) -> Fault:
    return Fault(what, TENSOR, _WHAT, rf"add.s32 \t\1, \2, {_IS + change};", kinds)


FAULTS = [
    Fault("griddepcontrol.wait dropped", TENSOR, r"\tgriddepcontrol\.wait;\n", "", ("dependent",)),
    Fault("the address of tensor memory taken for 0", TENSOR, r"ld\.shared\.b32 (%r\d+), \[%r\d+\];", r"mov.b32 \1, 0;",
          ("tensor-memory", "in-flight", "bounds")),
    Fault("the lane of a warp not in its address", TENSOR, r"shl\.b32 \t(%r\d+), (%r\d+), 21;", r"mov.b32 \t\1, 0;",
          ("lane-field",)),
    Fault("products do not look whether an accumulator is empty", TENSOR, _ASKED, r"\1bra DONE;",
          ("tensor-memory", "barrier"), at=2),
    Fault("tcgen05.commit of a stage dropped", TENSOR, r"\t@%p\d+ tcgen05\.commit[^\n]*\n", "", ("deadlock",), at=1),
    Fault("tcgen05.commit of the sums dropped", TENSOR, r"\t@%p\d+ tcgen05\.commit[^\n]*\n", "", ("deadlock",)),
    Fault("tcgen05.commit of a stage before its last product", TENSOR, _PRODUCT + _COMMIT, r"\2\1", EARLY),
    Fault("tcgen05.commit at the other accumulator's barrier", TENSOR, r"add\.s32 \t(%r\d+), (%r\d+), -16;",
          r"add.s32 \t\1, \2, -8;", ("deadlock", "barrier", "tensor-memory", *EARLY)),
    Fault("tcgen05.commit at another stage's barrier", TENSOR, r"add\.s32 \t(%r\d+), (%r\d+), 90136;",
          r"add.s32 \t\1, \2, 90144;", ("deadlock", "barrier", *EARLY), at=1),
    Fault("the consumers' tcgen05.fence::after_thread_sync dropped", TENSOR,
          r"\ttcgen05\.fence::after_thread_sync;\n", "", ("tensor-memory", *EARLY)),
    Fault("the products' tcgen05.fence::after_thread_sync dropped", TENSOR,
          r"\ttcgen05\.fence::after_thread_sync;\n", "", ("tensor-memory", *EARLY), at=2),
    Fault("the last tcgen05.fence::after_thread_sync dropped", TENSOR,
          r"\ttcgen05\.fence::after_thread_sync;\n", "", ("tensor-memory", *EARLY), at=1),
    Fault("tcgen05.fence::before_thread_sync dropped", TENSOR, r"\ttcgen05\.fence::before_thread_sync;\n", "",
          ("tensor-memory", *EARLY), at=1),
    Fault("tcgen05.wait::ld of the first columns dropped", TENSOR, r"\ttcgen05\.wait::ld[^\n]*\n", "",
          ("in-flight", "tensor-memory"), at=1),
    Fault("tcgen05.wait::ld of the last columns dropped", TENSOR, r"\ttcgen05\.wait::ld[^\n]*\n", "",
          ("in-flight", "tensor-memory"), at=2),
    Fault("bulk copies do not wait for an empty stage", TENSOR, _WAIT, _NO_WAIT, ("barrier", *EARLY)),
    Fault("the consumers do not wait for sums", TENSOR, _WAIT, _NO_WAIT, ("tensor-memory", *EARLY), at=1),
    Fault("products do not wait for an empty accumulator", TENSOR, _WAIT, _NO_WAIT,
          ("barrier", "tensor-memory", *EARLY), at=2),
    Fault("products do not wait for a full stage", TENSOR, _WAIT, _NO_WAIT, EARLY, at=3),
    Fault("the parity of empty accumulators flipped", TENSOR, r"xor\.b32 \t(%r\d+), (%r\d+), 1;", r"mov.b32 \t\1, \2;",
          ("deadlock", "barrier", "tensor-memory", *EARLY), at=1),
    Fault("an accumulator's empty barrier counts one warp too few", TENSOR, r"mov\.b32 \t(%r\d+), 4;(?=\n\tmbarrier)",
          r"mov.b32 \t\1, 3;", ("barrier", "deadlock", "tensor-memory", *EARLY)),
    Fault("an accumulator's empty barrier counts one warp too many", TENSOR,
          r"mov\.b32 \t(%r\d+), 4;(?=\n\tmbarrier)", r"mov.b32 \t\1, 5;", ("deadlock",)),
    Fault("an accumulator's full barrier counts two arrivals", TENSOR, r"mov\.b32 \t(%r\d+), 1;(?=\n\tmbarrier)",
          r"mov.b32 \t\1, 2;", ("deadlock",), at=1),
    # the first of two places is that of warps without rows
    Fault("a warp does not give its accumulator back", TENSOR, r"@%p\d+ mbarrier\.arrive\.shared::cta[^\n]*\n", "",
          ("deadlock",), at=1),
    Fault("all lanes of a warp give its accumulator back", TENSOR, r"@%p\d+ (mbarrier\.arrive\.shared::cta[^\n]*\n)",
          r"\1", ("barrier", "deadlock", "tensor-memory", *EARLY), at=1),
    Fault("an accumulator given back before its last columns are read", TENSOR,
          r"\t// begin inline asm\n" + _LAST + _BACK, r"\2\t// begin inline asm\n\1",
          ("tensor-memory", *EARLY), at=1),
    Fault("the column of tcgen05.ld", TENSOR, r"add\.s32 \t(%r\d+), (%r\d+), 32;(?=\n\t// begin inline asm\n\ttcgen05)",
          r"add.s32 \t\1, \2, 16;", (WRONG,)),
    Fault("columns of tcgen05.ld beyond those allocated", TENSOR,
          r"add\.s32 \t(%r\d+), (%r\d+), 32;(?=\n\t// begin inline asm\n\ttcgen05)", r"add.s32 \t\1, \2, 112;",
          ("tensor-memory", "bounds")),
    Fault("the first 16 lanes of tcgen05.ld twice", TENSOR, r"add\.s32 \t(%r\d+), (%r\d+), 1048608;",
          r"add.s32 \t\1, \2, 32;", (WRONG,)),
    Fault("lanes of tcgen05.ld that are no half", TENSOR, r"add\.s32 \t(%r\d+), (%r\d+), 1048576;",
          r"add.s32 \t\1, \2, 524288;", ("tensor-memory", "alignment")),
    Fault("the lanes of another warp", TENSOR, r"shl\.b32 \t(%r\d+), (%r\d+), 21;", r"shl.b32 \t\1, \2, 20;",
          ("lane-field", "tensor-memory")),
    Fault("the consumers' stride of an accumulator halved", TENSOR,
          r"shl\.b32 \t(%r\d+), (%r\d+), 6;(?=\n\tadd\.s32 \t%r\d+, %r\d+, %r\d+;\n\tadd)", r"shl.b32 \t\1, \2, 5;",
          (WRONG, "tensor-memory", *EARLY)),
    Fault("the products' stride of an accumulator halved", TENSOR,
          r"shl\.b32 \t(%r\d+), (%r\d+), 6;(?=\n\tadd\.s32 \t%r\d+, %r\d+, %r\d+;\n\t// begin inline asm\n\tmov)",
          r"shl.b32 \t\1, \2, 5;",
          (WRONG, "tensor-memory", *EARLY)),
    Fault("fewer columns allocated", TENSOR, r"mov\.b32 \t(%r\d+), 128;(?=\n\t// begin inline asm\n\ttcgen05\.alloc)",
          r"mov.b32 \t\1, 64;", ("tensor-memory",)),
    Fault("tcgen05.dealloc dropped", TENSOR, r"\ttcgen05\.dealloc[^\n]*\n", "", ("tensor-memory",)),
    Fault("tcgen05.dealloc of fewer columns", TENSOR,
          r"mov\.b32 \t(%r\d+), 128;(?=\n\t// begin inline asm\n\ttcgen05\.dealloc)", r"mov.b32 \t\1, 64;",
          ("tensor-memory",)),
    Fault("the barrier before tcgen05.dealloc dropped", TENSOR, r"\tbar\.sync[ \t]+0;\n", "",
          ("tensor-memory", *EARLY), at=1),
    Fault("the barrier after tcgen05.alloc dropped", TENSOR, r"\tbar\.sync[ \t]+0;\n", "",
          ("barrier", "deadlock", "tensor-memory", *EARLY)),
    _descriptor("the type of A in the instruction descriptor", 1 << 7, WRONG),
    _descriptor("the type of the sums in the instruction descriptor", -(1 << 4), WRONG, "uninitialised"),
    _descriptor("A negated by the instruction descriptor", 1 << 13, WRONG),
    _descriptor("A transposed by the instruction descriptor", 1 << 15, WRONG, "descriptor", *EARLY),
    _descriptor("half of the columns in the instruction descriptor", -(4 << 17), WRONG, "uninitialised",
                "tensor-memory"),
    _descriptor("more columns in the instruction descriptor", 2 << 17, "tensor-memory", *EARLY),
    _descriptor("half of the rows in the instruction descriptor", -(4 << 24), WRONG, "uninitialised", "tensor-memory"),
    _descriptor("a reserved bit of the instruction descriptor", 1 << 6, "descriptor"),
    Fault("the swizzle of A's descriptor", TENSOR, _UPPER, rf"add.s32 \t\1, \2, {_HALF + (2 << 29)};",
          (WRONG, *EARLY)),
    Fault("the stride of B's descriptor", TENSOR, _UPPER, rf"add.s32 \t\1, \2, {_HALF - 32};",
          (WRONG, *EARLY), at=1),
    Fault("the version of a descriptor", TENSOR, _UPPER, rf"add.s32 \t\1, \2, {_HALF - (1 << 14)};",
          ("descriptor",)),
    Fault("the K step of A's descriptor", TENSOR, r"or\.b32 \t(%r\d+), (%r\d+), 2;(?=\n\t// begin inline asm\n\tmov)",
          r"or.b32 \t\1, \2, 4;", (WRONG,)),
    Fault("a tile's first product adds to the last tile's sums", TENSOR, _FLAG,
          r"selp.b32 \t\1, 1, 1, \2;", (WRONG, "uninitialised")),
    Fault("a stage's first product overwrites", TENSOR, _FLAG,
          r"selp.b32 \t\1, 0, 0, \2;", (WRONG,)),
    Fault("a stage's second product overwrites", TENSOR, r"setp\.ne\.b32 p, 1, 0;", "setp.ne.b32 p, 0, 0;", (WRONG,)),
    Fault("the K loop of bulk copies one short", TENSOR, _LOOP, r"setp.gt.u32 \t\1, \2, 511;", ("deadlock",)),
    Fault("the products' K loop one short", TENSOR, _LOOP, r"setp.gt.u32 \t\1, \2, 511;",
          ("deadlock", "in-flight", WRONG), at=1),
    Fault("the products' K loop one long", TENSOR, _LOOP, r"setp.gt.u32 \t\1, \2, 767;",
          ("deadlock", "barrier", WRONG, *EARLY), at=1),
    Fault("the products' ring has one stage more", TENSOR, r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 3;",
          r"setp.eq.b32 \t\1, \2, 4;", ("barrier", "deadlock", "bounds", *EARLY), at=1),
    Fault("the products' ring of accumulators has one more", TENSOR, r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 2;",
          r"setp.eq.b32 \t\1, \2, 3;", ("barrier", "deadlock", "bounds", "tensor-memory", *EARLY), at=1),
    Fault("the consumers' ring of accumulators has one more", TENSOR, r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 2;",
          r"setp.eq.b32 \t\1, \2, 3;", ("barrier", "deadlock", "bounds", "tensor-memory", *EARLY)),
    Fault("bytes of a stage 16 too low", TENSOR, r"mov\.b32 \t(%r\d+), 24576;", r"mov.b32 \t\1, 24560;",
          ("deadlock", "barrier", *EARLY)),
    Fault("the last columns stored elsewhere", TENSOR, r"\tor\.b32 \t(%r\d+), (%r\d+), 32;", r"\tor.b32 \t\1, \2, 0;",
          (WRONG, "race", "in-flight")),
    Fault("columns stored before the last ones' copy has read", TENSOR, r"\tcp\.async\.bulk\.wait_group\.read 0;\n",
          "", ("race", "in-flight"), at=1),
    Fault("a staged wave's fence dropped", TENSOR, r"\tfence\.proxy\.async[^\n]*\n", "", ("proxy",), at=1),
    Fault("the column of a later tcgen05.ld", DIRECT, r"add\.s32 \t(%r\d+), (%r\d+), 1048608;",
          r"add.s32 \t\1, \2, 1048592;", (WRONG,)),
    Fault("the distance of accumulators", DIRECT, r"mad\.lo\.s32 \t(%r\d+), (%r\d+), 48, (%r\d+);",
          r"mad.lo.s32 \t\1, \2, 32, \3;", (WRONG, "tensor-memory", *EARLY)),
    Fault("the K step of B's descriptor", DIRECT, r"or\.b32 \t(%r\d+), (%r\d+), 6;(?=\n\t// begin inline asm\n\tmov)",
          r"or.b32 \t\1, \2, 4;", (WRONG,), at=1),
    Fault("e2m1 multiplied as e2m3", UNPACKED, r"add\.s32 \t(%r\d+), (%r\d+), 134747152;",
          rf"add.s32 \t\1, \2, {134747152 - (2 << 10)};", (WRONG, "uninitialised")),
    Fault("bytes of a stage that count what pads", UNPACKED, r"mov\.b32 \t(%r\d+), 18432;", r"mov.b32 \t\1, 20480;",
          ("deadlock",)),
    Fault("no request for a next tile", CONTROL, _REQUEST, "", ("deadlock",)),
    Fault("the response to the asking CTA alone", CONTROL, r"\.multicast::cluster::all", "", ("deadlock",)),
    Fault("every CTA of a cluster asks", CONTROL,
          r"setp\.ne\.b32 \t(%p\d+), (%r\d+), 0;(?=\n\tmov\.b32 \t%r\d+, %r\d+;)", r"setp.ne.b32 \t\1, \2, \2;",
          ("deadlock", "barrier", "illegal", WRONG, *EARLY)),
    Fault("a request does not wait for the slot of its response", CONTROL,
          r"@P1 bra DONE;\nbra WAIT;(?=\nDONE:\n\}\n[^\n]*\n[^\n]*\n\tclusterlaunchcontrol\.try_cancel)", "bra DONE;",
          ("barrier", "proxy", "deadlock", *EARLY)),
    Fault("a response's bytes not expected", CONTROL, r"mov\.b32 \t(%r\d+), 16;(?=\n\tmbarrier\.arrive\.expect_tx)",
          r"mov.b32 \t\1, 0;", ("deadlock", "barrier", *EARLY)),
    Fault("twice a response's bytes expected", CONTROL, r"mov\.b32 \t(%r\d+), 16;(?=\n\tmbarrier\.arrive\.expect_tx)",
          r"mov.b32 \t\1, 32;", ("deadlock",)),
    Fault("the products do not wait for a response", CONTROL, _RESPONSE, r"\1bra DONE;", EARLY),
    Fault("the consumers do not wait for a response", CONTROL, _RESPONSE, r"\1bra DONE;", EARLY, at=1),
    Fault("the copies do not wait for a response", CONTROL, _RESPONSE, r"\1bra DONE;", EARLY, at=2),
    Fault("a response read without a fence after it by the products", CONTROL, _FENCE, r"\1", ("proxy",)),
    Fault("a response read without a fence after it by the consumers", CONTROL, _FENCE, r"\1", ("proxy",), at=1),
    Fault("a response read without a fence after it by the copies", CONTROL, _FENCE, r"\1", ("proxy",), at=2),
    Fault("a warp does not hand a response back", CONTROL, r"@%p\d+ mbarrier\.arrive\.shared::cluster[^\n]*\n", "",
          ("deadlock",)),
    Fault("all lanes of a warp hand a response back", CONTROL, r"@%p\d+ (mbarrier\.arrive\.shared::cluster[^\n]*\n)",
          r"\1", ("barrier", "deadlock", "proxy", *EARLY)),
    Fault("responses handed back in the own CTA", CONTROL, r"mapa\.shared::cluster\.u64 \t(%rd\d+), (%rd\d+), 0;",
          r"mov.b64 \t\1, \2;", ("deadlock", "barrier", "bounds")),
    Fault("a response's empty barrier counts one warp too few", CONTROL, r"mov\.b32 \t(%r\d+), 12;(?=\n\tmbarrier)",
          r"mov.b32 \t\1, 11;", ("barrier", "deadlock", "proxy", *EARLY)),
    Fault("a response's empty barrier counts one warp too many", CONTROL, r"mov\.b32 \t(%r\d+), 12;(?=\n\tmbarrier)",
          r"mov.b32 \t\1, 13;", ("deadlock",)),
    Fault("a failed request is taken for a cluster", CONTROL, r"@P1 (clusterlaunchcontrol\.query_cancel\.get)", r"\1",
          ("illegal",)),
    Fault("the consumers take the wrong axis of a cancelled cluster", CONTROL, r"get_first_ctaid::x",
          "get_first_ctaid::y", (WRONG, *EARLY), at=1),
    Fault("the copies take the wrong axis of a cancelled cluster", CONTROL, r"get_first_ctaid::x", "get_first_ctaid::y",
          (WRONG, *EARLY), at=2),
    Fault("the copies take a CTA's number for its cluster's", CONTROL,
          r"shr\.u32 \t(%r\d+), (%r\d+), 1;(?=\n\tselp\.b32 \t%r\d+, -1,)", r"mov.b32 \t\1, \2;", (WRONG,), at=1),
    Fault("the consumers take a CTA's number for its cluster's", CONTROL,
          r"shr\.u32 \t(%r\d+), (%r\d+), 1;(?=\n\tselp\.b32 \t%r\d+, -1,)", r"mov.b32 \t\1, \2;", (WRONG, *EARLY)),
    Fault("the copies ask again after a failure", CONTROL,
          r"setp\.eq\.b32 \t(%p\d+), (%r\d+), -1;(?=\n\t@%p\d+ bra)", r"setp.eq.b32 \t\1, \2, -2;",
          ("illegal", "deadlock"), at=-1),
    Fault("the ring of responses has one more for the copies", CONTROL,
          r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 3;(?=(?:\n[^\n]*){3}\n\$L)", r"setp.eq.b32 \t\1, \2, 4;",
          ("barrier", "deadlock", "bounds", "alignment", *EARLY), at=-1),
    Fault("the copies' stride of responses halved", CONTROL, _SLOT, r"shl.b32 \t\1, \2, 3;",
          ("alignment", "deadlock", "in-flight", "race", "uninitialised", "proxy"), at=2),
    Fault("bytes of a stage without those of a tile of scales", BLOCKED, r"mov\.b32 \t(%r\d+), 25600;",
          r"mov.b32 \t\1, 25088;", ("deadlock", "barrier", *EARLY)),
    Fault("tiles of scales of other rows", BLOCKED, _TILES, r"\1, {\2, 0}", (WRONG,), at=2),
    Fault("tiles of scales of other columns", BLOCKED, _TILES, r"\1, {\2, 0}", (WRONG,), at=3),
    Fault("tiles of scales of another K block", BLOCKED, _TILES, r"\1, {0, \3}", (WRONG,), at=2),
    Fault("multiplied by the scales of rows before the first", BLOCKED,
          r"or\.b32 \t(%r\d+), %r\d+, 132;(?=\s*// begin inline asm\s*add\.u32 (%r\d+), %r\d+, \1;[\s\S]*\[\2\], p;)",
          r"mov.b32 \t\1, 132;", (WRONG,)),
    Fault("the scales of B where those of A are", BLOCKED, r"add\.s32 \t(%r\d+), (%r\d+), 132;",
          r"add.s32 \t\1, \2, 128;", ("uninitialised",)),
    Fault("ones that are halves", ONES, r"mov\.b32 \t(%r\d+), 2139062143;", r"mov.b32 \t\1, 2122219134;", (WRONG,)),
    Fault("ones of all lanes stored in one place", ONES, r"shl\.b32 \t(%r\d+), (%r\d+), 4;(?=(\n.*){7}st\.shared\.v4)",
          r"and.b32 \t\1, \2, 0;", ("uninitialised", "race")),
    Fault("the fence after ones are stored dropped", ONES, r"(st\.shared\.v4[^\n]*\n(?:.*\n){2})\tfence\.proxy[^\n]*\n",
          r"\1", ("proxy",)),
    Fault("ones elsewhere", ONES, r"(@%p\d+ tcgen05\.cp[^\n]*) \[%r\d+\]", r"\1 [0]", ("tensor-memory", *EARLY)),
    Fault("the rows of a copy of scales", BLOCKED, r"add\.s32 \t(%r\d+), (%r\d+), 16392;",
          r"add.s32 \t\1, \2, 16388;", (WRONG,)),
    Fault("the parity of a round's stages never flips", ROUNDS, r"xor\.b32 \t(%r\d+), (%r\d+), 1;",
          r"mov.b32 \t\1, \2;", ("deadlock", "barrier", *EARLY), at=2),
    Fault("a round waits for its second stage at the third's barrier", ROUNDS, r"\[(%r\d+)\+8\], (%r\d+), 0x989680",
          r"[\1+16], \2, 0x989680", ("deadlock", *EARLY)),
    Fault("a round does not wait for its third stage", ROUNDS, _WAIT, _NO_WAIT, EARLY, at=6),
    Fault("a round begins at any stage", ROUNDS, r"or\.pred \t(%p\d+), %p\d+, (%p\d+);", r"mov.pred \t\1, \2;",
          ("deadlock", "barrier", WRONG, *EARLY)),
    Fault("a round begins at too few K blocks", ROUNDS, r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 383;",
          r"setp.gt.u32 \t\1, \2, 511;", ("deadlock", "barrier", WRONG, *EARLY)),
    Fault("32-byte atoms read as of 16 bytes", TRANSPOSED, _ATOMS, rf"add.s32 \t\1, \2, {_ATOMS_ARE + (1 << 29)};",
          ("descriptor",)),
    Fault("the stride of 32-byte atoms that of others", TRANSPOSED, _ATOMS, rf"add.s32 \t\1, \2, {_ATOMS_ARE + 32};",
          (WRONG, *EARLY)),
    Fault("the distance of panels of 32-byte atoms halved", TRANSPOSED, r"add\.s32 \t(%r\d+), (%r\d+), 16777280;",
          rf"add.s32 \t\1, \2, {16777280 - (128 << 16)};", (WRONG,)),
    Fault("the K step of transposed 32 bits", TRANSPOSED, r"add\.s32 \t(%r\d+), (%r\d+), 16777280;",
          rf"add.s32 \t\1, \2, {16777280 - 32};", (WRONG,), at=1),
    Fault("a round's third stage is multiplied from the second", ROUNDS, r"add\.s32 \t(%r\d+), (%r\d+), 2049;",
          r"add.s32 \t\1, \2, 1025;", (WRONG, *EARLY)),
]  # fmt: skip

# what runs clean, with right numbers: see docs/emulator.md
ESCAPES = {
    # a register of tcgen05.ld may be read before the wait, by the emulator's reading of PTX ISA 9.7.16.6.4.5
    "tcgen05.wait::ld of the first columns dropped",
    # the barrier alone orders all that tcgen05.dealloc must come after
    "the last tcgen05.fence::after_thread_sync dropped",
}
