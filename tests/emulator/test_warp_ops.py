"""Exchange between lanes: PTX ISA 9.7.9.6, 9.7.13.9 to 9.7.13.14."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import run_ptx
from tests.emulator.lanewise import f32, lanes, u32, u64

LANE = np.arange(32, dtype=np.uint32)
ALL = 0xFFFFFFFF
UNDEFINED = 0xFFF8CDCD


def shfl(mode: str, b: object, c: object) -> tuple[list[int], list[bool]]:
    b, c = (np.broadcast_to(np.asarray(v, np.uint32), 32).copy() for v in (b, c))
    d, p = lanes(f"shfl.sync.{mode}.b32 d|p, a, b, c, -1;", a=LANE + 100, b=b, c=c, d="u32", p="pred")
    return (d - 100).tolist(), p.tolist()


def test_shfl_over_the_whole_warp():
    lane = list(range(32))
    assert shfl("idx", 5, 31) == ([5] * 32, [True] * 32)
    assert shfl("idx", LANE[::-1], 31) == (lane[::-1], [True] * 32)
    assert shfl("idx", 37, 31) == ([5] * 32, [True] * 32)  # only five bits of b count
    assert shfl("bfly", 3, 31) == ([i ^ 3 for i in lane], [True] * 32)
    # .up is clamped from below: c is 0
    assert shfl("up", 2, 0) == ([0, 1, *range(30)], [False, False] + [True] * 30)
    assert shfl("down", 2, 31) == ([*range(2, 32), 30, 31], [True] * 30 + [False, False])


def test_shfl_in_segments():
    # segments of 8 lanes: mask 0b11000 in c[12:8], clamp 7, which is what width 8 gives in CUDA
    c = 0b11000 << 8 | 7
    base = [i & ~7 for i in range(32)]
    assert shfl("idx", 3, c)[0] == [b + 3 for b in base]
    assert shfl("idx", 11, c) == ([b + 3 for b in base], [True] * 32)
    down, valid = shfl("down", 1, c)
    assert down == [i + 1 if i % 8 < 7 else i for i in range(32)]
    assert valid == [i % 8 < 7 for i in range(32)]
    up, valid = shfl("up", 3, 0b11000 << 8)
    assert up == [i - 3 if i % 8 >= 3 else i for i in range(32)]
    assert valid == [i % 8 >= 3 for i in range(32)]
    # butterflies across segments are out of range upwards only: maxLane is the segment's last
    far, valid = shfl("bfly", 8, c)
    assert far == [i ^ 8 if i & 8 else i for i in range(32)]
    assert valid == [bool(i & 8) for i in range(32)]


def test_shfl_clamp_within_the_warp():
    d, p = shfl("down", 1, 19)
    assert d == [i + 1 if i < 19 else i for i in range(32)]
    assert p == [i < 19 for i in range(32)]
    assert shfl("idx", 25, 19) == (list(range(32)), [False] * 32)


def test_shfl_with_constants_and_a_sum():
    steps = (f"shfl.sync.bfly.b32 %r1, d, {n}, 31, -1; add.u32 d, d, %r1;" for n in (16, 8, 4, 2, 1))
    total = lanes(f"mov.b32 d, a; {' '.join(steps)}", a=LANE, d="u32")
    assert total.tolist() == [496] * 32


def test_shfl_of_a_part_of_the_warp():
    # the upper half does not take part; lane 15 reads lane 16 and gets anything
    d = lanes("mov.u32 d, 7; setp.lt.u32 %p0, a, 16; @%p0 shfl.sync.down.b32 d, a, 1, 31, 0xffff;", a=LANE, d="u32")
    assert d[:15].tolist() == list(range(1, 16))
    assert d[15] == UNDEFINED
    assert d[16:].tolist() == [7] * 16


def test_shfl_with_a_membermask_for_each_half():
    d = lanes(
        "setp.lt.u32 %p0, a, 16; selp.b32 %r0, 0xffff, 0xffff0000, %p0; shfl.sync.bfly.b32 d, a, 1, 31, %r0;",
        a=LANE, d="u32",
    )  # fmt: skip
    assert d.tolist() == (LANE ^ 1).tolist()


@pytest.mark.parametrize(
    "instruction",
    [
        "shfl.sync.idx.b32 %r1, %r0, 0, 31, -1", "vote.sync.any.pred %p1, %p0, -1", "match.any.sync.b32 %r1, %r0, -1",
        "redux.sync.add.u32 %r1, %r0, -1", "elect.sync %r1|%p1, -1",
    ],
)  # fmt: skip
def test_named_lanes_that_are_elsewhere(instruction):
    with pytest.raises(Finding) as found:
        lanes(f"setp.lt.u32 %p0, a, 16; mov.u32 %r0, a; @%p0 {instruction};", a=LANE)
    assert found.value.kind == "divergence"
    assert "lanes 16-31" in found.value.message
    with pytest.raises(Finding) as found:
        lanes(f"setp.lt.u32 %p0, a, 16; mov.u32 %r0, a; {instruction.replace('-1', '0xff')};", a=LANE)
    assert found.value.kind == "divergence"
    assert "lanes 8-31" in found.value.message


def test_exited_lanes_are_not_waited_for():
    text = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 20;
    @%p0 exit;
    vote.sync.ballot.b32 %r1, !%p0, -1;
    ld.param.u64 %rd0, [p0];
    mad.wide.u32 %rd0, %r0, 4, %rd0;
    st.global.b32 [%rd0], %r1;
    ret;
}
"""
    out = np.zeros(32, np.uint32)
    run_ptx(text, [out])
    assert out.tolist() == [0xFFFFF] * 20 + [0] * 12


def test_votes():
    some = LANE % 3 == 0
    for mode, of_some, of_all, of_none in (("all", 0, 1, 0), ("any", 1, 1, 0), ("uni", 0, 1, 1)):
        for values, expected in ((some, of_some), (LANE < 32, of_all), (LANE > 32, of_none)):
            d = lanes(f"vote.sync.{mode}.pred d, a, -1;", a=values, d="pred")
            assert d.tolist() == [bool(expected)] * 32, mode
    bits = sum(1 << i for i in range(0, 32, 3))
    assert lanes("vote.sync.ballot.b32 d, a, -1;", a=some, d="u32").tolist() == [bits] * 32
    assert lanes("vote.sync.ballot.b32 d, !a, -1;", a=some, d="u32").tolist() == [ALL ^ bits] * 32
    # lanes that do not take part give 0
    d = lanes("mov.u32 d, 0; setp.lt.u32 %p0, b, 8; @%p0 vote.sync.ballot.b32 d, a, 0xff;", a=some, b=LANE, d="u32")
    assert d.tolist() == [0b01001001] * 8 + [0] * 24


def test_activemask():
    d = lanes("mov.u32 d, 0; setp.gt.u32 %p0, a, 27; @%p0 activemask.b32 d;", a=LANE, d="u32")
    assert d.tolist() == [0] * 28 + [0xF0000000] * 4


def test_match():
    d = lanes("match.any.sync.b32 d, a, -1;", a=LANE // 8, d="u32")
    assert d.tolist() == [0xFF << (i & ~7) for i in range(32)]
    wide = np.where(LANE % 2 == 0, np.uint64(1 << 40), np.uint64(0))  # the low words agree
    assert lanes("match.any.sync.b64 d, a, -1;", a=wide, d="u32").tolist() == [0x55555555, 0xAAAAAAAA] * 16
    d, p = lanes("match.all.sync.b32 d|p, a, -1;", a=u32(*[9] * 32), d="u32", p="pred")
    assert (d.tolist(), p.tolist()) == ([ALL] * 32, [True] * 32)
    d, p = lanes("match.all.sync.b64 d|p, a, -1;", a=u64(*[9] * 31, 8), d="u32", p="pred")
    assert (d.tolist(), p.tolist()) == ([0] * 32, [False] * 32)


def test_redux():
    a = u32(*range(-4, 28))
    for name, expected in (
        ("add.s32", 368), ("add.u32", 368), ("min.s32", -4), ("max.s32", 27), ("min.u32", 0), ("max.u32", -1),
        ("and.b32", 0), ("or.b32", -1), ("xor.b32", 0),
    ):  # fmt: skip
        assert lanes(f"redux.sync.{name} d, a, -1;", a=a, d="s32").tolist() == [expected] * 32, name
    # -4 ^ -3 ^ -2 ^ -1 = 0, and 0 ^ ... ^ 27 = 0; sums wrap
    assert lanes("redux.sync.add.u32 d, a, -1;", a=u32(*[0x08000001] * 32), d="u32").tolist() == [32] * 32


def test_redux_of_floats():
    nan = float("nan")
    a = f32(-0.0, 0.0, *[3.0] * 29, -7.0)
    b = f32(-0.0, 0.0, nan, *[-3.0] * 29)
    run = [
        ("min", a, 0xC0E00000), ("max", a, 0x40400000), ("max.abs", a, 0x40E00000), ("min.abs", a, 0),
        ("max", b, 0), ("min", b, 0xC0400000), ("min.NaN", b, 0x7FFFFFFF), ("max.abs.NaN", b, 0x7FFFFFFF),
        ("min.NaN", a, 0xC0E00000), ("max", f32(nan), 0x7FFFFFFF), ("min", f32(*[0.0] * 31, -0.0), 0x80000000),
    ]  # fmt: skip
    for name, values, expected in run:
        values = np.concatenate([values, np.repeat(values[-1:], 32 - len(values))])
        d = lanes(f"redux.sync.{name}.f32 d, a, -1;", a=values, d="u32", target="sm_100a")
        assert d.tolist() == [expected] * 32, (name, hex(d[0]))
    with pytest.raises(Finding) as found:
        lanes("redux.sync.min.f32 d, a, -1;", a=a, d="u32")
    assert found.value.kind == "illegal"


def test_elect():
    d, p = lanes("elect.sync d|p, -1;", a=LANE, d="u32", p="pred")
    assert (d.tolist(), p.tolist()) == ([0] * 32, [True] + [False] * 31)
    # the leader is a lane of the mask
    d, p = lanes(
        "mov.u32 d, 99; setp.ge.u32 p, a, 40; setp.ge.u32 %p0, a, 20; @%p0 elect.sync d|p, 0xfff00000;",
        a=LANE, d="u32", p="pred",
    )  # fmt: skip
    assert d.tolist() == [99] * 20 + [20] * 12
    assert np.flatnonzero(p).tolist() == [20]
    p = lanes("elect.sync _|p, 0xffffffff;", a=LANE, p="pred")
    assert np.flatnonzero(p).tolist() == [0]
