"""Texts that no compiler writes: each is refused with one sentence of the emulator's own, in little time and memory."""

from __future__ import annotations

import contextlib
import random
import re

import pytest

from scalec.emulator import tokens
from scalec.emulator.body import MOST_REGISTERS
from scalec.emulator.declarations import MOST_DEPTH
from scalec.emulator.findings import EmulatorError
from scalec.emulator.launch import launch, load
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.parser import parse

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
MANY = "9" * 100_000


def kernel(body: str, params: str = "") -> str:
    return f"{HEAD}.visible .entry k({params}) .reqntid 32 {{\n{body}\nret;\n}}\n"


WHOLE = (
    f"{HEAD}.global .align 4 .b32 table[4] = {{1, 2, 0x3, -4}};\n.global .u64 at = generic(table);\n"
    ".visible .entry k(.param .u64 p) .reqntid 32 {\n"
    ".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<3>; .shared .align 16 .b8 room[64];\n"
    "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @!%p1 bra DONE;\n"
    "mad.lo.s32 %r2, %r1, 3, -7; { .reg .f32 %f; mov.f32 %f, 0f3F800000; }\n"
    "st.global.b32 [%rd1 + 4], %r2; /* a comment */ // another\nDONE: ret;\n}\n"
)

TEXTS = {
    "2^40 bytes of .global": f"{HEAD}.global .b8 x[1099511627776];",
    "many of .global": HEAD + "".join(f".global .b8 x{i}[1000000000];\n" for i in range(40)),
    "2^40 bytes of .const": f"{HEAD}.const .b8 x[1099511627776];",
    "a megabyte of .const": f"{HEAD}.const .b8 x[1048576];",
    "2^40 bytes of .shared": kernel(".shared .b8 x[1099511627776];"),
    "2^30 bytes of .local": kernel(".local .b8 x[1073741824];"),
    "extents": f"{HEAD}.global .b8 x{'[4294967296]' * 30};",
    "a negative extent": f"{HEAD}.global .b8 x[-5];",
    "more values than elements": f"{HEAD}.global .b8 x[2] = {{1, 2, 3}};",
    "no type": f"{HEAD}.global x[2];",
    "an alignment of 0": f"{HEAD}.global .align -8 .b8 x[2];",
    "an alignment of 3": f"{HEAD}.global .align 3 .b8 x[2];",
    "nested values": f"{HEAD}.global .b8 x[2] = " + "{" * 5000,
    "nested blocks": kernel("{" * 5000),
    "nested operands": kernel("mov.b32 " + "{" * 5000),
    "nested brackets": kernel("ld.b32 " + "[" * 5000),
    "nested groups": kernel("call " + "(" * 5000),
    "negations": kernel("mov.pred " + "!" * 5000 + "p;"),
    "complements": kernel("mov.b32 x, " + "~" * 5000 + "1;"),
    "a long number": kernel(f".reg .b32 %r; mov.b32 %r, {MANY};"),
    "a long hexadecimal number": kernel(f".reg .b32 %r; mov.b32 %r, 0x{MANY};"),
    "a long extent": f"{HEAD}.global .b8 x[{MANY}];",
    "a long version": f".version {MANY}.{MANY}\n.target sm_90a\n",
    "a word as version": ".version new\n.target sm_90a\n",
    "a long register": kernel(f".reg .b32 %r<4>; mov.b32 %r{MANY}, 1;"),
    "65 bits": kernel(".reg .b64 %r; mov.b64 %r, 0x1FFFFFFFFFFFFFFFF;"),
    "an octal 9": kernel(".reg .b32 %r; mov.b32 %r, 089;"),
    "2000000000 registers": kernel(".reg .b32 %r<2000000000>;"),
    "registers again and again": kernel(".reg .b32 %r<200000>;\n" * 40),
    "fewer than no registers": kernel(".reg .b32 %r<-5>;"),
    "an unfinished comment": HEAD + "/*" * 100_000,
    "an unfinished string": HEAD + '.file 1 "' + '\\"' * 100_000,
    "an unfinished section": f"{HEAD}.section .debug {{ .b8 1",
    "an unfinished pragma": f"{HEAD}.pragma",
    "unfinished parameters": f"{HEAD}.visible .entry k(.param .u64 p",
    "an unfinished instruction": f"{HEAD}.visible .entry k() {{ add.s32",
    "an unfinished label": f"{HEAD}.visible .entry k() {{ L",
    "an alias of nothing": f"{HEAD}.alias f, g;",
    "an address of nothing": f"{HEAD}.global .u64 x = nothing;",
    "a branch to nothing": kernel("bra NOWHERE;"),
    "a table of nothing": kernel(".reg .b32 %r; T: .branchtargets A, B; brx.idx %r, T;"),
    "a function of itself": f"{HEAD}.func f() {{ call f; ret; }}\n" + kernel("call f;").removeprefix(HEAD),
    "NUL": HEAD + "\0",
    "other alphabets": f"{HEAD}.visible .entry κ() {{ ret; }}",
    "nothing": "",
    "no target": ".version 8.7",
    "another target": ".version 8.7\n.target sm_20\n.visible .entry k() .reqntid 32 { ret; }",
    "a trap behind a float beyond f32": f"{HEAD}.global .f32 x = 1e300;\n" + kernel("trap;").removeprefix(HEAD),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_refused(text: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        launch(load(text, GlobalMemory()), "k", (1, 1, 1), (32, 1, 1), [])
    assert len(str(caught.value)) < 1000


def _broken(draw: random.Random) -> str:
    """WHOLE with one to three tokens taken out, doubled, changed places, or replaced by another text's."""
    words = re.findall(r"\s+|[\w.%$]+|.", WHOLE)
    for _ in range(draw.randrange(1, 4)):
        at, other = draw.randrange(len(words)), draw.randrange(len(words))
        how = draw.randrange(5)
        if how == 0:
            words[at] = ""
        elif how == 1:
            words[at] *= 2
        elif how == 2:
            words[at], words[other] = words[other], words[at]
        elif how == 3:
            words[at] = words[other]
        else:
            words = words[: max(at, 1)]
    return "".join(words)


COUNT = 400


def _run(text: str) -> None:
    memory = GlobalMemory()
    result = memory.allocate(256)
    with contextlib.suppress(EmulatorError):
        launch(load(text, memory), "k", (1, 1, 1), (32, 1, 1), [result.base])


@pytest.mark.parametrize("part", range(4))
def test_broken_texts(part: int) -> None:
    """None ends otherwise than by the emulator's own errors."""
    for seed in range(part * COUNT, part * COUNT + COUNT):
        text = _broken(random.Random(seed))
        try:
            _run(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text}") from error


def test_limits_are_beyond_what_is_used() -> None:
    """What reaches them, and a text that all of them allow."""
    parse(kernel("{" * (MOST_DEPTH - 1) + "}" * (MOST_DEPTH - 1) + f".reg .b32 %r<{MOST_REGISTERS}>;")).function("k")
    assert tokens.integer_of("0xFFFFFFFFFFFFFFFF") == 2**64 - 1
    assert tokens.integer_of("0b" + "1" * 64) == 2**64 - 1
    _run(WHOLE)
