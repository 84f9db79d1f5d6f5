"""What a text may hold beside the code that runs: functions and instructions that are refused when they are reached."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import EmulatorError, Finding, NotModelled, PtxSyntaxError
from tests.emulator.harness import Out, module, run_ptx

OTHERS = {
    "vector registers": ".visible .entry other() { .reg .v4 .b32 %q; ret; }",
    "no PTX": ".visible .entry other() { if (x) { y = 1 } ret; }",
    "a label that is not there": ".visible .entry other() { bra NOWHERE; }",
    "an undeclared register": ".func other() { mov.b32 %r0, 1; ret; }",
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_function_that_is_not_used(other):
    out = Out(4)
    text = module("ld.param.u64 %rd0, [p0]; st.global.b32 [%rd0], 7;", head=other, params=".param .u64 p0")
    run_ptx(text, [out], entry="k")
    assert out.view("u4")[0] == 7
    name = "other"
    with pytest.raises(EmulatorError) as first:
        run_ptx(text.replace(".func", ".visible .entry"), [], entry=name)
    called = module("call other;", head=other.replace(".visible .entry", ".func"), params="")
    with pytest.raises(type(first.value)):
        run_ptx(called, [], entry="k")


def test_what_is_read_twice_fails_twice_alike():
    from scalec.emulator.parser import parse

    text = parse(module("", head=OTHERS["no PTX"]))
    said = []
    for _ in range(2):
        with pytest.raises(PtxSyntaxError) as caught:
            text.function("other")
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert text.function("k") is text.function("k")


SELDOM = {
    "an instruction": "mov.b32 %r1, 0; @%p0 tex.2d.v4.f32.s32 {%r1, %r1, %r1, %r1}, [t, {%r1}];",
    "a modifier": "@%p0 bra SELDOM; bra JOIN; SELDOM: add.s32.strange %r1, %r1, 1; JOIN:",
    "a special register": "@%p0 mov.u32 %r1, %pm0;",
    "a call through a pointer": (
        "mov.b64 %rd1, 0; P: .callprototype (.param .b32 _) _ (.param .b64 _);"
        "{ .param .b32 a; .param .b64 b; @%p0 call (a), %rd1, (b), P; }"
    ),
    "a call of what is elsewhere": "@%p0 call absent;",
}


@pytest.mark.parametrize("body", SELDOM.values(), ids=SELDOM)
def test_what_is_not_modelled_is_refused_when_it_is_reached(body):
    head = ".extern .func absent();"
    text = module(f"ld.param.u32 %r2, [p0]; setp.ne.u32 %p0, %r2, 0; {body}", ".param .u32 p0", head=head)
    run_ptx(text, [0])
    with pytest.raises(NotModelled) as caught:
        run_ptx(text, [1])
    assert "CTA 0 warp 0, all lanes" in caught.value.where


def test_directives_without_a_space_behind_them():
    body = """
        .reg.b16 low, high; .reg.pred yes; .shared.align 8 .b8 room[8];
        mov.b16 low, 3; mov.b16 high, 4; mov.b32 %r0, {low, high}; ld.param.u64 %rd0, [p0];
        setp.eq.b16 yes, low, 3; @yes st.shared.b32 [room], %r0; ld.shared.b32 %r1, [room]; st.global.b32 [%rd0], %r1;
    """
    out = Out(4)
    run_ptx(module(body, ".param.u64 p0", head=".global.align 4 .b8 unused[4];"), [out], entry="k")
    np.testing.assert_array_equal(out.view("u2"), [3, 4])


def test_addresses_of_functions():
    """They differ, are the same in code and in initialisers, and nothing can be read there."""
    head = """
        .func one() { ret; } .func two() { ret; }
        .global .align 8 .u64 table[2] = {one, two};
    """
    body = """
        ld.param.u64 %rd0, [p0]; mov.u64 %rd1, one; mov.u64 %rd2, two; st.global.v2.b64 [%rd0], {%rd1, %rd2};
        ld.global.v2.b64 {%rd3, %rd4}, [table]; st.global.v2.b64 [%rd0+16], {%rd3, %rd4};
    """
    out = Out(32)
    run_ptx(module(body, ".param .u64 p0", head=head.replace("align 8", "align 16")), [out])
    one, two, *again = out.view("u8").tolist()
    assert one != two
    assert again == [one, two]
    with pytest.raises(Finding) as caught:
        run_ptx(module("mov.u64 %rd1, one; ld.b32 %r0, [%rd1];", "", head=head), [])
    assert caught.value.kind == "bounds"


def test_registers_of_the_driver():
    """%envreg holds what a cooperative launch or a graph leaves there, and a launch here is neither (10.37, 10.46)."""
    out = Out(12)
    body = """
        .shared .align 4 .b8 room[64]; ld.param.u64 %rd0, [p0]; mov.u32 %r0, %envreg2; st.global.b32 [%rd0], %r0;
        mov.u64 %rd1, %current_graph_exec; cvt.u32.u64 %r1, %rd1; st.global.b32 [%rd0+4], %r1;
        mov.u32 %r2, %aggr_smem_size; st.global.b32 [%rd0+8], %r2; st.shared.b32 [room], %r2;
    """
    run_ptx(module(body, ".param .u64 p0"), [out])
    assert out.view("u4").tolist() == [0, 0, 64 + 1024]
