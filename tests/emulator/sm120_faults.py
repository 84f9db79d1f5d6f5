"""Faults for the PTX of sm_120a's kernels: see test_mutations.py."""

from __future__ import annotations

from tests.emulator.faults import EARLY, WRONG, Fault

MX = (
    "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 "
    "with tile=128x64x128, warps=4x2, stages=3, unroll=1, epilogue=bulk, staged=0, swap=0"
)
NVFP4 = "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4 with tile=128x64x256, warps=4x2, stages=2, unroll=1, swap=0"
PADDED = "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp4 with tile=64x64x128, warps=4x2, stages=3, unroll=1, swap=0"
PROMOTED = (
    "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,128x128) "
    "with tile=64x64x128, warps=4x2, stages=2, unroll=1, scale_path=thread, swap=0"
)
SIZES = {MX: (140, 72, 640), NVFP4: (140, 136, 768), PADDED: (140, 136, 512), PROMOTED: (140, 136, 512)}

# a cursor's advance: the wrap to stage 0 flips the phase
_FLIP = r"(selp\.b32 \t(%r\d+), 1, 0, %p\d+;\n\t)xor\.b32 \t(%r\d+), (%r\d+), \2;"
_NO_WAIT = r"@!P1 bra WAIT;\n"
_BEGIN, _END = r"\t// begin inline asm\n", r"\t// end inline asm\n"
_LOAD = r"\tld\.volatile\.shared\.f32 [^\n]*\n"
_ARRIVE = r"@%p\d+ (mbarrier\.arrive\.shared::cta[^\n]*\n)"

FAULTS = [
    Fault("griddepcontrol.wait dropped", MX, r"\tgriddepcontrol\.wait;\n", "", ("dependent",)),
    Fault("the barrier at the start dropped", MX, r"\tbar\.sync[ \t]+0;\n", "", ("barrier", "deadlock", *EARLY)),
    Fault("a full barrier counts one warp too many", MX, r"mov\.b32 \t(%r\d+), 4;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 5;", ("deadlock",)),
    Fault("a full barrier counts one warp too few", MX, r"mov\.b32 \t(%r\d+), 4;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 3;", ("barrier", "deadlock", *EARLY)),
    Fault("an empty barrier counts one warp too few", MX, r"mov\.b32 \t(%r\d+), 8;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 7;", ("barrier", "deadlock", *EARLY)),
    Fault("an empty barrier counts one warp too many", MX, r"mov\.b32 \t(%r\d+), 8;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 9;", ("deadlock",)),
    Fault("copies do not wait for an empty stage", MX, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;", ("barrier", *EARLY)),
    Fault("the warps of scale bytes do not wait", MX, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;",
          ("barrier", *EARLY), at=1),
    Fault("a tile's first wait for a full stage dropped", MX, _NO_WAIT, "", EARLY),
    Fault("the loop's wait for a full stage dropped", MX, _NO_WAIT, "", EARLY, at=1),
    Fault("the copies' parity flipped", MX, r"xor\.b32 \t(%r\d+), (%r\d+), 1;", r"mov.b32 \t\1, \2;",
          ("deadlock", "barrier", *EARLY)),
    Fault("the parity of the warps of scale bytes flipped", MX, r"xor\.b32 \t(%r\d+), (%r\d+), 1;",
          r"mov.b32 \t\1, \2;", ("deadlock", "barrier", *EARLY), at=1),
    Fault("the consumers' parity does not flip in the loop", MX, _FLIP, r"\1mov.b32 \t\3, \4;",
          ("deadlock", "barrier", *EARLY), at=4),
    Fault("expect_tx of the copies 16 bytes too high", MX, r"mov\.b32 \t(%r\d+), 24576;", r"mov.b32 \t\1, 24592;",
          ("deadlock",)),
    Fault("expect_tx of the copies 16 bytes too low", MX, r"mov\.b32 \t(%r\d+), 24576;", r"mov.b32 \t\1, 24560;",
          ("deadlock", "barrier", *EARLY)),
    Fault("a warp does not free its stage", MX, _ARRIVE, "", ("deadlock",)),
    Fault("all lanes of a warp free its stage", MX, _ARRIVE, r"\1", ("barrier", "deadlock", *EARLY)),
    Fault("the stage that is being read is freed", MX,
          r"(mbarrier\.try_wait\.parity\.shared::cta\.b64 P1, \[(%r\d+)\], %r\d+;\n@!P1 bra WAIT;\n\}"
          r"(?:(?!WAIT)[\s\S])*?@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _, )\[%r\d+\]", r"\1[\2+24]",
          ("barrier", "deadlock", *EARLY)),
    Fault("the scale bytes are not handed over", MX, r"mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];\n", "",
          ("deadlock", *EARLY), at=-1),
    Fault("the copies' ring has one stage more", MX, r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 3;",
          r"setp.eq.b32 \t\1, \2, 4;", ("barrier", "deadlock", "bounds", "alignment", *EARLY)),
    Fault("the consumers' ring has one stage more", MX, r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 3;",
          r"setp.eq.b32 \t\1, \2, 4;", ("barrier", "deadlock", "bounds", *EARLY), at=1),
    Fault("the consumers' stride of a stage halved", MX, r"shl\.b32 \t(%r\d+), (%r\d+), 14;", r"shl.b32 \t\1, \2, 13;",
          (WRONG, *EARLY), at=1),
    Fault("a bit of the swizzle of ldmatrix", MX, r"and\.b32 \t(%r\d+), (%r\d+), 112;", r"and.b32 \t\1, \2, 96;",
          (WRONG,)),
    Fault("the chunk of ldmatrix", MX, r"or\.b32 \t(%r\d+), (%r\d+), 2;(?=\n\txor)", r"or.b32 \t\1, \2, 4;", (WRONG,)),
    Fault("the rows of ldmatrix", MX, r"(ldmatrix[^\n]*) \+ 2048\]", r"\1 + 1024]", (WRONG,)),
    Fault("a byte of the scale words", MX, r", \{1, 0\}, \{(%r\d+)\}, \{1, 0\};", r", {2, 0}, {\1}, {1, 0};", (WRONG,)),
    Fault("the threads that give A's scale words", MX, r", \{0, 1\}, \{(%r\d+)\}, \{0, 0\};",
          r", {0, 0}, {\1}, {0, 0};", (WRONG,)),
    Fault("the thread that gives B's scale words", MX, r", \{0, 0\}, \{(%r\d+)\}, \{0, 3\};",
          r", {0, 0}, {\1}, {0, 2};", (WRONG,)),
    Fault("scale bytes loaded of another K block", MX, r"(@%p\d+ ld\.global\.nc\.b32 %r\d+, \[%rd\d+ \+ )0\]",
          r"\g<1>4]", (WRONG, "bounds"), at=3),
    Fault("scale words of another row", MX, r"(ld\.shared\.b32 %r\d+, \[%r\d+ \+ )0\]", r"\g<1>4]",
          (WRONG, *EARLY), at=2),
    Fault("scale words stored a row too low", MX, r"add\.s32 \t(%r\d+), (%r\d+), 90496;", r"add.s32 \t\1, \2, 90492;",
          ("race", WRONG, "uninitialised")),
    Fault("the copies' K loop one short", MX, r"setp\.lt\.u32 \t(%p\d+), (%r\d+), 640;", r"setp.lt.u32 \t\1, \2, 512;",
          ("deadlock",)),
    Fault("the consumers' K loop one short", MX, r"setp\.lt\.u32 \t(%p\d+), (%r\d+), 640;",
          r"setp.lt.u32 \t\1, \2, 512;", ("deadlock", "in-flight", WRONG), at=1),
    Fault("the consumers' K loop one long", MX, r"setp\.lt\.u32 \t(%p\d+), (%r\d+), 640;",
          r"setp.lt.u32 \t\1, \2, 768;", ("deadlock", "barrier", WRONG, *EARLY), at=1),
    Fault("a warp's fence before its store dropped", MX, r"\tfence\.proxy\.async[^\n]*\n", "", ("proxy",)),
    Fault("a warp's wait for its last store's reads dropped", MX, r"\tcp\.async\.bulk\.wait_group\.read \t0;\n", "",
          ("race", "in-flight")),
    Fault("a warp's wait at the end dropped", MX, r"\tcp\.async\.bulk\.wait_group\.read \t0;\n", "",
          ("exit-read",), at=-1),
    Fault("a warp's store not committed", MX, r"\tcp\.async\.bulk\.commit_group;\n", "", ("race", "in-flight")),
    Fault("rows of a warp's store", MX, r"or\.b32 \t(%r\d+), (%r\d+), 16;(?=\n\tadd)", r"or.b32 \t\1, \2, 32;",
          ("in-flight", "race", WRONG)),
    Fault("an address of stmatrix", MX, r"xor\.b32 \t(%r\d+), (%r\d+), 32;", r"xor.b32 \t\1, \2, 16;",
          (WRONG, "uninitialised")),
    Fault("registers that the producers did not give", MX, r"(setmaxnreg\.inc\.sync\.aligned\.u32) \t\d+",
          r"\1 \t232", ("registers",)),
    Fault("another word of scale bytes", NVFP4, r"(ld\.shared\.b32 %r\d+, \[%r\d+ \+ )512\]", r"\g<1>0]", (WRONG,)),
    Fault("a word of scale bytes in the product", NVFP4,
          r"(mma\.sync[^\n]*\{%r\d+, %r\d+, %r\d+, %r\d+\}, )\{(%r\d+)\}, (\{0, 0\}, )\{(%r\d+)\}", r"\1{\4}, \3{\2}",
          (WRONG,)),
    Fault("packed elements as ue8m0", NVFP4, r"scale_vec::4X\.f32\.e2m1\.e2m1\.f32\.ue4m3",
          "scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", (WRONG,)),
    Fault("e2m1 not shifted into place", PADDED, r"shl\.b32 \t(%r\d+), (%r\d+), 2;(?=\n\tshl\.b32 \t%r\d+, %r\d+, 2;)",
          r"mov.b32 \t\1, \2;", (WRONG,)),
    Fault("e2m1 unpacked as six bits", PADDED, r"b4x16_p64", "b6x16_p32", (WRONG, "uninitialised")),
    Fault("expect_tx counts what pads", PADDED, r"mov\.b32 \t(%r\d+), 12288;", r"mov.b32 \t\1, 16384;", ("deadlock",)),
    Fault("the f32 scale of another row", PROMOTED,
          rf"(or\.b32 \t%r\d+, %r\d+, )32;(?=\n{_BEGIN}{_LOAD})", r"\g<1>0;", (WRONG,)),
    Fault("a block's sums promoted by another block's scale", PROMOTED, r"(ld\.global\.nc\.f32 %r\d+, \[)(%rd\d+)\]",
          r"\1\2+4]", (WRONG, "bounds", "uninitialised"), at=1),
    Fault("the stage freed before its f32 scales are read", PROMOTED,
          rf"({_BEGIN}{_LOAD}{_END}\tor[^\n]*\n{_BEGIN}{_LOAD}{_END}(?:\t(?:mul|fma)[^\n]*\n)+)((?:\t(?:shl|add)[^\n]*\n)+)"
          rf"{_BEGIN}\t\{{ \.reg \.b32 T<2>;[^\n]*\n{_END}{_BEGIN}\t\{{ \.reg \.b32 T;[^\n]*, T, (%r\d+); \}}\n{_END}"
          rf"({_BEGIN}\t@%p\d+ mbarrier\.arrive[^\n]*)\[%r\d+\];\n{_END}",
          r"\2\4[\3];\n\t// end inline asm\n\1", EARLY),
]  # fmt: skip
