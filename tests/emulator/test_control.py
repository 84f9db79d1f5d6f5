"""Control flow: divergence and where paths join, loops, exits, tables of branches, calls, guards (PTX ISA 9.7.12)."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from tests.emulator.harness import Out, module, run_ptx
from tests.emulator.lanewise import lanes, u32

LANE = np.arange(32, dtype=np.uint32)


def test_both_sides_and_the_join():
    d, e = lanes(
        """setp.lt.u32 %p0, a, 10; @%p0 bra low; mov.u32 d, 2; bra join; low: mov.u32 d, 1; join: activemask.b32 e;""",
        a=LANE, d="u32", e="u32",
    )  # fmt: skip
    assert d.tolist() == [1] * 10 + [2] * 22
    assert e.tolist() == [0xFFFFFFFF] * 32


def test_nested_divergence():
    d, e, f = lanes(
        """mov.u32 d, 0; mov.u32 e, 0; setp.lt.u32 %p0, a, 16; @!%p0 bra outer;
            and.b32 %r0, a, 1; setp.eq.u32 %p1, %r0, 0; @%p1 bra even;
                setp.lt.u32 %p2, a, 8; @%p2 bra small; or.b32 d, d, 8;
                small: or.b32 d, d, 1; activemask.b32 e; bra inner;
            even: or.b32 d, d, 2;
            inner: or.b32 d, d, 4; activemask.b32 f; bra end;
        outer: or.b32 d, d, 16; mov.u32 f, 0;
        end: add.u32 d, d, 100;""",
        a=LANE, d="u32", e="u32", f="u32",
    )  # fmt: skip
    odd, even = [105 if i < 8 else 113 for i in range(16)], [106] * 16
    assert d.tolist() == [odd[i] if i % 2 else even[i] for i in range(16)] + [116] * 16
    # the odd lanes are together after `small`, all lower ones at `inner`
    assert e.tolist() == [0xAAAA if i % 2 else 0 for i in range(16)] + [0] * 16
    assert f.tolist() == [0xFFFF] * 16 + [0] * 16


def test_loops_with_a_trip_count_for_each_lane():
    d, e = lanes(
        """mov.u32 d, 0; mov.u32 %r0, 0; mov.u32 e, 0;
        loop: setp.ge.u32 %p0, %r0, a; @%p0 bra done; add.u32 %r0, %r0, 1; add.u32 d, d, %r0; bra loop;
        done: activemask.b32 e;""",
        a=LANE, d="u32", e="u32",
    )  # fmt: skip
    assert d.tolist() == [i * (i + 1) // 2 for i in range(32)]
    assert e.tolist() == [0xFFFFFFFF] * 32


def test_loops_in_loops_with_breaks_and_continues():
    # for i in 0..a: if i is odd continue; for j in 0..: if j == i break; d += 1; if d > 20 leave both
    d = lanes(
        """mov.u32 d, 0; mov.u32 %r0, 0;
        outer: setp.gt.u32 %p0, %r0, a; @%p0 bra done; and.b32 %r1, %r0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra next;
            mov.u32 %r2, 0;
            inner: setp.eq.u32 %p2, %r2, %r0; @%p2 bra next; add.u32 d, d, 1; setp.gt.u32 %p3, d, 20; @%p3 bra done;
            add.u32 %r2, %r2, 1; bra inner;
        next: add.u32 %r0, %r0, 1; bra outer;
        done:""",
        a=LANE, d="u32",
    )  # fmt: skip

    def expected(a: int) -> int:
        return min(21, sum(i for i in range(0, a + 1, 2)))

    assert d.tolist() == [expected(a) for a in range(32)]


def test_do_while_with_a_guarded_branch_back():
    d = lanes("mov.u32 d, 0; back: add.u32 d, d, 3; setp.lt.u32 %p0, d, a; @%p0 bra back;", a=LANE, d="u32")
    assert d.tolist() == [max(1, -(-i // 3)) * 3 for i in range(32)]


def test_early_exits():
    text = module(
        """ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %rd0;
        setp.lt.u32 %p0, %r0, 4; @%p0 exit; setp.ge.u32 %p1, %r0, 28; @!%p1 bra rest; st.global.b32 [%rd1], 7; ret;
        rest: mov.u32 %r1, 0; loop: setp.eq.u32 %p2, %r0, 5; @%p2 exit; add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 3;
        @%p3 bra loop; activemask.b32 %r2; st.global.b32 [%rd1], %r2;""",
        params=".param .u64 p0",
    )
    out = np.zeros(32, np.uint32)
    run_ptx(text, [out])
    left = sum(1 << i for i in range(4, 28) if i != 5)
    assert out.tolist() == [0] * 4 + [0 if i == 5 else left for i in range(4, 28)] + [7] * 4


def test_tables_of_branches():
    body = """mov.u32 d, 99; mov.u32 e, 0;
        cases: .branchtargets zero, one, two, one;
        {guard} brx.idx b, cases;
        mov.u32 d, 50; bra out;
        zero: mov.u32 d, 10; bra out;
        one: mov.u32 d, 11; bra out;
        two: mov.u32 d, 12;
        out: activemask.b32 e;"""
    d, e = lanes(body.format(guard=""), b=LANE % 4, d="u32", e="u32")
    assert d.tolist() == [10, 11, 12, 11] * 8
    assert e.tolist() == [0xFFFFFFFF] * 32
    assert lanes(body.format(guard=""), b=u32(*[2] * 32), d="u32", e="u32")[0].tolist() == [12] * 32
    some = LANE < 8
    d, _ = lanes(body.format(guard="@p"), b=LANE % 4, p=some, d="u32", e="u32")
    assert d.tolist() == [10, 11, 12, 11] * 2 + [50] * 24
    with pytest.raises(Finding) as found:
        lanes(body.format(guard=""), b=LANE % 5, d="u32", e="u32")
    assert found.value.kind == "bounds"


def test_uniform_branches():
    assert lanes("mov.u32 d, 1; bra.uni on; mov.u32 d, 2; on:", d="u32").tolist() == [1] * 32
    with pytest.raises(Finding) as found:
        lanes("setp.lt.u32 %p0, a, 16; @%p0 bra.uni on; on:", a=LANE)
    assert found.value.kind == "divergence"


def test_guards():
    p = LANE % 3 == 0
    d = lanes("mov.u32 d, 5; @p mov.u32 d, a; @!p add.u32 d, d, 1;", a=LANE, p=p, d="u32")
    assert d.tolist() == [i if i % 3 == 0 else 6 for i in range(32)]
    # a guard that its own instruction changes
    d, q = lanes(
        "mov.u32 d, 0; mov.pred q, p; @q setp.gt.u32 q, a, 15; @q mov.u32 d, 1;", a=LANE, p=p, d="u32", q="pred"
    )
    assert q.tolist() == [i % 3 == 0 and i > 15 for i in range(32)]
    assert d.tolist() == q.astype(int).tolist()


# -- calls -------------------------------------------------------------------------------------------------------------

FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 x)
{
    .reg .b32 %r<4>;
    ld.param.b32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [r], %r2;
    ret;
}
.func (.reg .u32 r) early(.reg .u32 x, .reg .u32 y)
{
    .reg .pred %p; .reg .u32 t;
    mov.u32 r, 7;
    setp.lt.u32 %p, x, y;
    @%p ret;
    add.u32 t, x, y;
    mov.u32 r, t;
    ret;
}
.func (.param .b32 r) nested(.param .align 8 .b8 pair[8])
{
    .reg .b32 %r<8>; .local .align 4 .b8 own[4];
    ld.param.b32 %r1, [pair]; ld.param.b32 %r2, [pair+4];
    st.local.b32 [own], %r2;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), twice, (a); ld.param.b32 %r3, [b]; }
    ld.local.b32 %r4, [own]; add.u32 %r5, %r3, %r4; st.param.b32 [r], %r5;
    ret;
}
.func nothing() { ret; }
.func (.reg .u32 r) choose(.reg .u32 x)
{
    list: .branchtargets first, second;
    brx.idx x, list;
    first: mov.u32 r, 5; ret;
    second: mov.u32 r, 6; ret;
}
.func (.reg .u32 r) count()
{
    .shared .align 4 .b8 cell[4]; .reg .pred %p; .reg .u32 t;
    mov.u32 t, %tid.x; setp.eq.u32 %p, t, 0;
    @%p atom.shared.add.u32 r, [cell], 1;
    ret;
}
"""


def call(body: str, **registers):
    return lanes(body, head=FUNCTIONS, **registers)


def test_calls_by_parameters():
    d = call(
        """{ .param .b32 x; .param .b32 y; st.param.b32 [x], a; call.uni (y), twice, (x); ld.param.b32 d, [y]; }
        call nothing;""",
        a=LANE, d="u32",
    )  # fmt: skip
    assert d.tolist() == (2 * LANE).tolist()


def test_calls_by_registers_with_an_early_return():
    d, e = call("call (d), early, (a, b); activemask.b32 e;", a=LANE, b=u32(20), d="u32", e="u32")
    assert d.tolist() == [7] * 20 + [i + 20 for i in range(20, 32)]
    assert e.tolist() == [0xFFFFFFFF] * 32


def test_calls_in_calls_twice():
    body = """{{ .param .align 8 .b8 x[8]; .param .b32 y; st.param.v2.b32 [x], {{a, {second}}};
        call.uni (y), nested, (x); ld.param.b32 {to}, [y]; }}"""
    d, e = call(body.format(second="b", to="d") + body.format(second="1000", to="e"), a=LANE, b=u32(*range(100, 132)),
                d="u32", e="u32")  # fmt: skip
    assert d.tolist() == [3 * i + 100 for i in range(32)]
    assert e.tolist() == [2 * i + 1000 for i in range(32)]


def test_calls_of_some_lanes():
    d = call("mov.u32 d, 1; @p call (d), early, (a, 0);", a=LANE, p=LANE < 4, d="u32")
    assert d.tolist() == [0, 1, 2, 3] + [1] * 28


def test_tables_of_branches_in_called_functions():
    d, e = call(
        "and.b32 %r0, a, 1; call (d), choose, (%r0); call (e), choose, (0); add.u32 d, d, 10;",
        a=LANE, d="u32", e="u32",
    )  # fmt: skip
    assert d.tolist() == [15, 16] * 16
    assert e.tolist() == [5] * 32


def test_shared_variables_of_a_function_are_the_same_in_every_call():
    d, e = call("call (d), count; call (e), count;", d="u32", e="u32", ignore=frozenset({"uninitialised"}))
    assert (d[0], e[0]) == (0, 1)


def test_calls_that_are_not_modelled():
    with pytest.raises(NotModelled):
        lanes("call (d), unknown, (a);", a=LANE, d="u32", head=".extern .func (.reg .b32 r) unknown(.reg .b32 x);")
    recursion = ".func again() { call again; ret; }"
    with pytest.raises(NotModelled):
        lanes("call again;", head=recursion)


PRINT = """
    mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, {count}; .local .align 8 .b8 buffer[64];
    {fill}
    .reg .b64 %fmt, %buf; mov.u64 %fmt, text; cvta.global.u64 %fmt, %fmt;
    mov.u64 %buf, buffer; cvta.local.u64 %buf, %buf;
    {{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %fmt; st.param.b64 [b], %buf;
    @!%p0 bra skip; call.uni (c), vprintf, (a, b); ld.param.b32 %r9, [c]; st.global.b32 [%rd0], %r9; skip: }}
"""


def test_printf(capsys):
    text = b"lane %d of %u%%: %5.2f|%-4x|%lld %s %c%c\n\0"
    head = f"""
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 text[{len(text)}] = {{{", ".join(map(str, text))}}};
.global .align 1 .b8 word[4] = {{97, 98, 99, 0}};
"""
    fill = """st.local.b32 [buffer], %r0; st.local.b32 [buffer+4], 32; st.local.b64 [buffer+8], 0d400921FB54442D18;
        st.local.b32 [buffer+16], 0xbeef; mov.u64 %rd5, -5; st.local.b64 [buffer+24], %rd5; mov.u64 %rd6, word;
        cvta.global.u64 %rd6, %rd6; st.local.b64 [buffer+32], %rd6; st.local.b32 [buffer+40], 33;
        st.local.b32 [buffer+44], 63; ld.param.u64 %rd0, [p0];"""
    out = Out(4)
    run_ptx(module(PRINT.format(count=2, fill=fill), params=".param .u64 p0", head=head), [out])
    assert capsys.readouterr().out == "".join(f"lane {i} of 32%:  3.14|beef|-5 abc !?\n" for i in range(2))
    assert out.view(np.uint32).tolist() == [8]


def test_assertions():
    def words(text: str) -> str:
        return ", ".join(str(b) for b in [*text.encode(), 0])

    head = f"""
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 message[6] = {{{words("x > 0")}}}; .global .align 1 .b8 file[5] = {{{words("k.cu")}}};
.global .align 1 .b8 name[5] = {{{words("main")}}};
"""
    body = """mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 9; mov.u64 %rd1, message; cvta.global.u64 %rd1, %rd1;
        mov.u64 %rd2, file; cvta.global.u64 %rd2, %rd2; mov.u64 %rd3, name; cvta.global.u64 %rd3, %rd3; @!%p0 bra fine;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd1;
        st.param.b64 [b], %rd2; st.param.b32 [c], 12; st.param.b64 [d], %rd3; st.param.b64 [e], 1;
        call.uni __assertfail, (a, b, c, d, e); } fine:"""
    with pytest.raises(Finding) as found:
        run_ptx(module(body, params=".param .u64 p0", head=head), [0])
    assert found.value.kind == "illegal"
    assert "k.cu:12: main: the kernel's assertion `x > 0` failed in lane 9" in found.value.message


# -- what stops --------------------------------------------------------------------------------------------------------


def test_a_barrier_in_divergent_code():
    with pytest.raises(Finding) as found:
        lanes("setp.lt.u32 %p0, a, 16; @%p0 bra on; bar.sync 0; on: add.u32 %r0, a, 1;", a=LANE)
    assert found.value.kind == "divergence"


def test_control_past_the_end():
    text = module("bra end; end:", params=".param .u64 p0").replace("ret;", "")
    with pytest.raises(Finding) as found:
        run_ptx(text, [0])
    assert found.value.kind == "illegal"


def test_endless_loops_end():
    with pytest.raises(Finding) as found:
        run_ptx(module("loop: bra loop;", params=".param .u64 p0"), [0], max_instructions=1000)
    assert found.value.kind == "deadlock"


def test_trap():
    with pytest.raises(Finding) as found:
        lanes("setp.eq.u32 %p0, a, 3; @%p0 trap;", a=LANE)
    assert found.value.kind == "illegal"
    assert "lane 3" in found.value.message


def test_labels_belong_to_their_scope():
    d = lanes("mov.u32 d, 0; { bra here; add.u32 d, d, 1; here: } { bra here; add.u32 d, d, 2; here: }", d="u32")
    assert d.tolist() == [0] * 32
    with pytest.raises(PtxSyntaxError):
        lanes("bra nowhere;")


# -- paths that stop the launch, and paths that leave ------------------------------------------------------------------

SYNC = """ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %rd0; setp.ge.u32 %p0, %r0, 40;
    setp.lt.u32 %p1, %r0, 8; setp.gt.u32 %p2, %r0, 1000; """


def synced(body: str, head: str = "") -> list[int]:
    out = np.zeros(64, np.uint32)
    for seed in range(4):
        out[:] = 0
        run_ptx(module(SYNC + body, params=".param .u64 p0", head=head), [out], block=(64, 1, 1), seed=seed)
    return out.tolist()


@pytest.mark.parametrize(
    "stop",
    ["trap;", "trap; exit;", "DEAD: bra DEAD;", "{ .param .b64 q; st.param.b64 [q], 0; call fail, (q); } trap;"],
    ids=["trap", "trap, exit", "endless", "assert"],
)
def test_paths_join_although_one_of_them_would_stop_the_launch(stop: str) -> None:
    """As a device assertion is compiled: `if (lane < 8) { if (bad) trap; } __syncthreads();`"""
    stop = stop.replace("call fail, (q)", "call __assertfail, (q, q, q, q, q)")
    head = ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);"
    body = f"@!%p1 bra JOIN; @%p2 bra BAD; mov.u32 %r1, 1; bra JOIN; BAD: {stop} JOIN: bar.sync 0;"
    assert synced(body + "st.global.u32 [%rd1], 1;", head) == [1] * 64


@pytest.mark.parametrize("leave", ["@%p0 bra OUT;", "@!%p0 bra ON; st.global.u32 [%rd1], 2; bra OUT; ON:"])
def test_threads_that_branch_to_a_ret_are_not_waited_for(leave: str) -> None:
    """As nvcc compiles `if (i >= n) return; __syncthreads();`, and the same with a store before the return."""
    rest = 2 if "st.global" in leave else 0
    assert synced(f"{leave} bar.sync 0; st.global.u32 [%rd1], 1; OUT: ret;") == [1] * 40 + [rest] * 24


def test_lanes_that_are_elsewhere_and_come_back_are_still_missed() -> None:
    with pytest.raises(Finding, match="lanes 8-31 only") as found:
        synced("@%p1 bra OUT; bar.sync 0; OUT: st.global.u32 [%rd1], 1; bar.sync 0;")
    assert found.value.kind == "divergence"
