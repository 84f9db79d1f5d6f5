"""Registers without a value: no finding until one decides something, and one then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import module, run_ptx

HEAD = """.shared .align 16 .b8 buf[1024]; .shared .align 8 .b64 bar; .local .align 16 .b8 own[64];
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %laneid; mad.wide.u32 %rd3, %r1, 4, %rd2;
    mov.u32 %r3, buf; mov.u32 %r4, %tid.x; mad.wide.u32 %rd4, %r4, 4, %rd1; shl.b32 %r4, %r4, 2;
    add.u32 %r4, %r3, %r4; setp.lt.u32 %p1, %r1, 16; setp.lt.u32 %p2, %r1, 99;
"""
LAST = "st.global.u32 [%rd3], 7;"


def launch(body: str, threads: int, **options: Any) -> Finding | None:
    """The finding; None if all lanes are done."""
    out = np.zeros(32, np.uint32)
    try:
        run_ptx(module(HEAD + body), [np.zeros(64, np.uint32), out], block=(threads, 1, 1), **options)
    except Finding as finding:
        return finding
    assert out.tolist() == [7] * 32
    return None


def outcome(body: str, **options: Any) -> str:
    """The message of the finding, which is of one kind, or ""."""
    alone, together = (launch(body, threads, **options) for threads in (32, 64))
    assert (alone is None) == (together is None)
    if alone is None:
        return ""
    assert alone.kind == "uninitialised"
    assert "line" in alone.where
    return alone.message


@pytest.mark.parametrize(
    "use",
    [
        "st.global.u32 [%rd4], %r9;", "ld.global.u32 %r8, [%rd9];", "@%p9 bra END;", "@%p9 st.global.u32 [%rd3], 1;",
        "setp.eq.u32 %p8, %r9, 0; @%p8 bra END;",
        "add.u32 %r8, %r9, 1; st.shared.u32 [%r4], %r8; ld.shared.u32 %r7, [%r4];"
        "st.global.u32 [%rd4], %r7;",
        "bar.sync %r9;", "shfl.sync.idx.b32 %r8, %r9, 0, 31, -1; st.global.u32 [%rd4], %r8;",
        "shfl.sync.idx.b32 %r8, %r1, %r9, 31, -1;", "shfl.sync.idx.b32 %r8|%p8, %r9, 0, 31, -1;",
        "vote.sync.any.pred %p8, %p9, -1;",
        "selp.u32 %r8, 1, 2, %p9; st.global.u32 [%rd4], %r8;", "mbarrier.init.shared.b64 [bar], %r9;", "@!%p9 ret;",
        "mov.b64 {%r7, %r8}, %rd9; add.u32 %r8, %r8, %r4; ld.shared.u32 %r8, [%r8];", "bar.warp.sync %r9;",
        "@%p2 mov.u32 %r8, %r9; @%p2 st.global.u32 [%rd4], %r8;",
        "mov.u32 %r7, 0x7654; prmt.b32 %r8, %r1, %r9, %r7; st.global.u32 [%rd4], %r8;",
        "prmt.b32 %r8, %r1, %r1, %r9; st.global.u32 [%rd4], %r8;", "shl.b32 %r8, %r1, %r9; st.global.u32 [%rd4], %r8;",
        "lop3.b32 %r8, %r9, 0xFFFF, %r1, 0xEA; st.global.u32 [%rd4], %r8;",
        "prmt.b32 %r8, %r1, %r9, 0x5410; bfi.b32 %r8, %r1, %r8, 0, 16; st.global.u32 [%rd4], %r8;",
        "xor.b32 %r8, %r9, -1; not.b32 %r8, %r8; st.global.u32 [%rd4], %r8;",
    ],
)  # fmt: skip
def test_a_register_that_nothing_wrote_decides_something(use: str) -> None:
    message = outcome(use + "END: " + LAST)
    assert ("was never written" if "st.shared" in use else "nothing wrote it on the way here") in message
    assert "all lanes" in message


@pytest.mark.parametrize(
    "body",
    [
        "mov.b64 %rd9, {%r1, %r9}; mov.b64 {%r8, %r7}, %rd9; st.global.u32 [%rd4], %r8;",
        "prmt.b32 %r8, %r1, %r9, 0x5410; and.b32 %r8, %r8, 0xFFFF; st.global.u32 [%rd4], %r8;",
        "mov.b32 %r8, {%h1, %h2}; mov.u16 %h3, 4; mov.b32 %r8, {%h3, %h2}; cvt.u16.u32 %h4, %r8; cvt.u32.u16 %r8, %h4;"
        "st.global.u32 [%rd4], %r8;",
        "shl.b32 %r8, %r9, 16; shr.u32 %r7, %r8, 32; or.b32 %r7, %r8, 0xFFFF0000; st.global.u32 [%rd4], %r7;",
        "add.u32 %r8, %r9, 4; selp.u32 %r8, %r1, %r8, %p2; st.global.u32 [%rd4], %r8;",
        "and.b32 %r8, %r9, 0; st.global.u32 [%rd4], %r8;",
        "mov.u32 %r8, %r9; mov.u32 %r8, 4; st.global.u32 [%rd4], %r8;",
        "add.u32 %r8, %r9, 4; cvt.rn.f32.u32 %r8, %r8;",
        "st.local.u32 [own], %r9; st.local.u32 [own+4], %r1; ld.local.v2.u32 {%r7, %r8}, [own];"
        "st.global.u32 [%rd4], %r8;",
        "st.shared.u32 [%r4], %r9; st.shared.u32 [%r4], %r1; ld.shared.u32 %r8, [%r4]; st.global.u32 [%rd4], %r8;",
        "prmt.b32 %r8, %r1, %r9, 0x5410; lop3.b32 %r8, %r8, 0xFFFF, %r1, 0xEA; st.global.u32 [%rd4], %r8;",
        "prmt.b32 %r8, %r9, 0x12345678, 0x7654; st.global.u32 [%rd4], %r8;",
        "mov.u32 %r7, 0x7654; prmt.b32 %r8, %r9, %r1, %r7; st.global.u32 [%rd4], %r8;",
        "shf.l.wrap.b32 %r8, %r9, 5, 0; st.global.u32 [%rd4], %r8;",
        "prmt.b32 %r8, %r1, %r9, 0x5410; bfi.b32 %r8, %r1, %r8, 16, 16; st.global.u32 [%rd4], %r8;",
        "prmt.b32 %r8, %r1, %r9, 0x5410; bfe.u32 %r8, %r8, 0, 16; st.global.u32 [%rd4], %r8;",
        "mov.b64 %rd9, {%r9, 5}; mov.b64 {%r7, %r8}, %rd9; st.global.u32 [%rd4], %r8;",
        "@%p2 mov.u32 %r9, 5; st.global.u32 [%rd4], %r9;",
        "@%p1 mov.u32 %r9, 5; @!%p1 mov.u32 %r9, 6; st.global.u32 [%rd4], %r9;",
        "@%p1 mov.u32 %r9, 5; @%p1 st.global.u32 [%rd4], %r9;",
        "shfl.sync.bfly.b32 %r8, %r9, 1, 31, -1; max.u32 %r8, %r8, %r9;",
        "@%p1 mov.u32 %r9, 5; shfl.sync.idx.b32 %r8, %r9, 0, 31, -1; st.global.u32 [%rd4], %r8;",
        "@%p1 bra LOW; mov.u32 %r9, 1; bra ON; LOW: mov.u32 %r8, 2; ON: @%p1 bra OUT; st.global.u32 [%rd4], %r9; OUT:",
    ],
)  # fmt: skip
def test_bits_that_are_never_used(body: str) -> None:
    assert outcome(body + LAST) == ""


@pytest.mark.parametrize(
    ("body", "lanes"),
    [
        ("@%p1 mov.u32 %r9, 5; st.global.u32 [%rd4], %r9;", "lanes 16-31"),
        ("@%p1 bra ON; mov.u32 %r9, 1; ON: st.global.u32 [%rd4], %r9;", "lanes 0-15"),
        ("selp.u32 %r8, %r9, 1, %p1; st.global.u32 [%rd4], %r8;", "lanes 0-15"),
        ("@%p1 mov.u32 %r9, 5; shfl.sync.bfly.b32 %r8, %r9, 16, 31, -1; st.global.u32 [%rd4], %r8;", "lanes 0-15"),
        ("@%p1 mov.pred %p9, %p2; @%p9 bra ON; ON: ", "lanes 16-31"),
        ("mov.u32 %r8, 0; LOOP: @!%p1 mov.u32 %r9, %r8; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 3; @%p3 bra LOOP;"
         "st.global.u32 [%rd4], %r9;", "lanes 0-15"),
    ],
)  # fmt: skip
def test_lanes_without_a_value(body: str, lanes: str) -> None:
    assert lanes in outcome(body + LAST)


LOADED = "ld.shared.v2.u32 {%r8, %r9}, [buf+64];"


@pytest.mark.parametrize(
    "body",
    [
        LOADED,
        "@%p1 st.shared.u32 [%r4], 3; bar.warp.sync -1; ld.shared.u32 %r8, [%r4]; @%p1 st.global.u32 [%rd4], %r8;",
        "mov.u16 %h1, 3; st.shared.u8 [%r4], %h1; ld.shared.u32 %r8, [%r4]; and.b32 %r8, %r8, 255;"
        "st.global.u32 [%rd4], %r8;",
        LOADED + "add.u32 %r8, %r8, %r9; selp.u32 %r8, %r1, %r8, %p2; st.global.u32 [%rd4], %r8;",
        "ld.local.u32 %r8, [own];",
        LOADED + "mov.b32 %r9, 0; cvt.rn.satfinite.e4m3x2.f32 %h1, %r8, %r9; st.global.u8 [%rd4], %h1;",
    ],
)  # fmt: skip
def test_bytes_without_a_value_that_are_never_used(body: str) -> None:
    assert outcome(body + LAST) == ""


@pytest.mark.parametrize(
    "use",
    [
        "st.global.u32 [%rd4], %r8;", "add.u32 %r8, %r8, 1; st.global.u32 [%rd4], %r8;",
        "@%p1 add.u32 %r4, %r4, %r9; @%p1 ld.shared.u32 %r8, [%r4];", "setp.lt.u32 %p3, %r9, 8; @%p3 bra END;",
    ],
)  # fmt: skip
def test_bytes_without_a_value_that_are_used(use: str) -> None:
    message = outcome(LOADED + use + "END: " + LAST)
    assert "it was loaded at line" in message
    assert "was never written" in message
    assert (
        outcome(LOADED + use + "END: " + LAST, ignore=frozenset({"uninitialised", "bounds", "alignment", "race"})) == ""
    )
