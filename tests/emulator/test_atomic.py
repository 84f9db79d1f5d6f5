"""Atomic operations: PTX ISA 9.7.13.5 and 9.7.13.6."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled
from tests.emulator.harness import START, Out, module, run_ptx


def run(body: str, memory: np.ndarray, out: Out | None = None, **options):
    """The kernel's memory afterwards, and what it wrote to %rd1."""
    out = out or Out(128)
    head = options.pop("head", "")
    target = options.pop("target", "sm_90a")
    run_ptx(module(START + body, head=head, target=target), [memory, out], **options)
    return memory, out


def one(operation: str, memory: int, b: int, c: int | None = None, bits: int = 32) -> tuple[int, int]:
    """What one thread finds and leaves: (d, memory)."""
    place = np.array([memory & ((1 << bits) - 1)], f"u{bits // 8}")
    register, third = {16: "%h", 32: "%r", 64: "%rd"}[bits], "" if c is None else f", {c}"
    body = f"atom.global.{operation} {register}9, [%rd0], {b}{third}; st.global.b{bits} [%rd1], {register}9;"
    if bits == 16:
        body = f"mov.b16 %h1, {b}; mov.b16 %h2, {c}; atom.global.{operation} %h9, [%rd0], %h1, %h2;"
        body += "st.global.b16 [%rd1], %h9;"
    _, out = run(body, place, Out(bits // 8), block=(1, 1, 1))
    return int(out.view(place.dtype)[0]), int(place[0])


ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("operation", "memory", "b", "left"),
    [
        ("and.b32", 0b1100, 0b1010, 0b1000), ("or.b32", 0b1100, 0b1010, 0b1110), ("xor.b32", 0b1100, 0b1010, 0b0110),
        ("exch.b32", 5, 9, 9), ("add.u32", ONES, 2, 1), ("add.s32", 5, -7, ONES - 1),
        ("min.s32", ONES, 3, ONES), ("min.u32", ONES, 3, 3), ("max.s32", ONES, 3, 3), ("max.u32", ONES, 3, ONES),
        # inc: 0 once the limit is reached; dec: back to the limit from zero, or from above it
        ("inc.u32", 4, 5, 5), ("inc.u32", 5, 5, 0), ("inc.u32", 9, 5, 0),
        ("dec.u32", 4, 5, 3), ("dec.u32", 0, 5, 5), ("dec.u32", 9, 5, 5),
    ],
)  # fmt: skip
def test_operations(operation, memory, b, left):
    assert one(operation, memory, b) == (memory, left)


def test_operations_of_64_bits():
    assert one("add.u64", (1 << 64) - 1, 2, bits=64) == ((1 << 64) - 1, 1)
    assert one("max.s64", 1 << 63, 2, bits=64) == (1 << 63, 2)
    assert one("exch.b64", 7, 1 << 40, bits=64) == (7, 1 << 40)
    assert one("cas.b64", 7, 7, 1 << 40, bits=64) == (7, 1 << 40)


def test_compare_and_swap():
    assert one("cas.b32", 5, 5, 9) == (5, 9)
    assert one("cas.b32", 5, 6, 9) == (5, 5)
    assert one("cas.b16", 5, 5, 9, bits=16) == (5, 9)
    assert one("cas.b16", 5, 6, 9, bits=16) == (5, 5)


def test_lanes_on_one_address_follow_one_another():
    memory, out = run(
        "and.b32 %r1, %r0, 3; mad.wide.u32 %rd4, %r1, 4, %rd0; atom.global.add.u32 %r2, [%rd4], %r0;"
        "st.global.b32 [%rd3], %r2;",
        np.array([100, 200, 300, 400], np.uint32),
    )
    # 0 + 4 + ... + 28 = 112, and one more a lane for every next residue
    assert memory.tolist() == [212, 320, 428, 536]
    # in the order of the lanes: lane 8 finds what lanes 0 and 4 left
    found = out.view(np.uint32)
    assert found[[0, 4, 8, 12]].tolist() == [100, 100, 104, 112]
    assert found[31] == 400 + sum(range(3, 31, 4))


def test_only_one_lane_takes_a_lock():
    memory, out = run(
        """atom.global.cas.b32 %r2, [%rd0], 0, 1; setp.eq.u32 %p0, %r2, 0; selp.u32 %r3, 1, 0, %p0;
        st.global.b32 [%rd3], %r3;""",
        np.zeros(1, np.uint32),
    )  # fmt: skip
    assert memory.tolist() == [1]
    assert out.view(np.uint32).tolist() == [1] + [0] * 31


def test_red_and_guards():
    memory, _ = run(
        "setp.lt.u32 %p0, %r0, 5; @%p0 red.global.add.u32 [%rd0], 1; red.relaxed.gpu.global.max.s32 [%rd0+4], %r0;"
        "red.global.or.b32 [%rd0+8], %r0;",
        np.zeros(3, np.uint32),
    )
    assert memory.tolist() == [5, 31, 31]


def test_shared_and_generic_addresses():
    out = Out(4)
    run(
        """mov.u32 %r1, cell; st.shared.b32 [%r1], 0; bar.warp.sync -1; atom.shared.add.u32 %r2, [%r1], 2;
        red.shared::cta.add.u32 [cell], 1; cvt.u64.u32 %rd5, %r1; cvta.shared.u64 %rd6, %rd5;
        atom.add.u32 %r3, [%rd6], 1;
        ld.shared.b32 %r4, [cell]; st.global.b32 [%rd1], %r4;""",
        np.zeros(1, np.uint32), out, head=".shared .align 4 .b8 cell[4];",
    )  # fmt: skip
    assert out.view(np.uint32).tolist() == [128]


def test_across_warps_and_ctas():
    for seed in range(3):
        memory, _ = run(
            "red.global.add.u32 [%rd0], %r0;", np.zeros(1, np.uint32), block=(96, 1, 1), grid=(3, 1, 1), seed=seed
        )
        assert memory.tolist() == [3 * 95 * 96 // 2]


# -- floats ------------------------------------------------------------------------------------------------------------


def bits(*values: float) -> np.ndarray:
    return np.array(values, np.float32).view(np.uint32)


def test_float_sums():
    memory, _ = run("red.global.add.f32 [%rd0], 0f3F800000;", bits(2.0**24))
    assert memory.view(np.float32).tolist() == [2.0**24]  # each one is lost by itself: ties go to even
    memory, _ = run("red.global.add.f64 [%rd0], 0d3FF0000000000000;", np.array([0.5]))
    assert memory.tolist() == [32.5]
    memory, _ = run("red.global.add.f32 [%rd0], 0f7F800000;", bits(-np.inf), block=(1, 1, 1))
    assert memory.tolist() == [0x7FFFFFFF]


def test_nan_sums_of_64_bits():
    # as on an H200: global memory lets the register's NaN through, or else memory's; infinities give one with the sign
    nans = np.array([0x7FF0000000000001, 0x3FF0000000000000, 0x7FF0000000000000, 0x7FF8000000000003], np.uint64)
    body = """mov.b64 %rd4, 0x7ff8000000000005; red.{0}add.f64 [{1}], 0d3FF0000000000000;
        red.{0}add.f64 [{1}+8], %rd4; red.{0}add.f64 [{1}+16], 0dFFF0000000000000; red.{0}add.f64 [{1}+24], %rd4;"""
    memory = nans.copy()
    run(body.format("global.", "%rd0"), memory, block=(1, 1, 1))
    five, infinity = 0x7FF8000000000005, 0xFFF8000000000000
    assert memory.tolist() == [0x7FF0000000000001, five, infinity, five]
    # shared memory makes them quiet, and takes memory's first
    copies = "ld.global.v2.b64 {%rd5, %rd6}, [%rd0+{1}]; st.shared.v2.b64 [cells+{1}], {%rd5, %rd6};"
    back = "ld.shared.v2.b64 {%rd5, %rd6}, [cells+{1}]; st.global.v2.b64 [%rd1+{1}], {%rd5, %rd6};"
    text = "".join(copies.replace("{1}", n) for n in ("0", "16"))
    text += body.format("shared.", "cells") + "".join(back.replace("{1}", n) for n in ("0", "16"))
    _, out = run(text, nans, Out(32), block=(1, 1, 1), head=".shared .align 16 .b8 cells[32];")
    assert out.view(np.uint64).tolist() == [0x7FF8000000000001, five, infinity, 0x7FF8000000000003]


def test_float_sums_flush_in_global_memory_alone():
    memory, _ = run("red.global.add.f32 [%rd0], 0f00000001;", np.array([0x80000001], np.uint32), block=(1, 1, 1))
    assert memory.tolist() == [0]  # -0 + 0
    memory, _ = run("red.global.add.f32 [%rd0], 0f80000001;", np.array([0x00800000], np.uint32), block=(1, 1, 1))
    assert memory.tolist() == [0x00800000]
    out = Out(4)
    run(
        """st.shared.b32 [cell], 1; red.shared.add.f32 [cell], 0f00000002; ld.shared.b32 %r1, [cell];
        st.global.b32 [%rd1], %r1;""",
        np.zeros(1, np.uint32), out, head=".shared .align 4 .b8 cell[4];", block=(1, 1, 1),
    )  # fmt: skip
    assert out.view(np.uint32).tolist() == [3]


def test_half_precision_sums():
    # f16: 1 + 2^-11 ties to even, 1 + 3 * 2^-11 goes up; subnormals stay
    memory, _ = run(
        """mov.b32 %r1, 0x00011000; mov.b16 %h1, 0x1000; mov.b16 %h2, 0x1600; red.global.add.noftz.f16 [%rd0], %h1;
        red.global.add.noftz.f16 [%rd0+2], %h2; atom.global.add.noftz.f16x2 %r2, [%rd0+4], %r1;
        mov.b16 %h3, 0x3B80; red.global.add.noftz.bf16 [%rd0+8], %h3; mov.b32 %r3, 0x3F803F80;
        red.relaxed.gpu.global.add.noftz.bf16x2 [%rd0+12], %r3;""",
        np.array([0x3C00, 0x3C00, 0x3C00, 0x0001, 0x3F80, 0, 0x4000, 0xBF80], np.uint16), block=(1, 1, 1),
    )  # fmt: skip
    # bf16: 1 + 2^-8 ties to even; 2 + 1 and -1 + 1
    assert [hex(v) for v in memory] == [hex(v) for v in (0x3C00, 0x3C02, 0x3C00, 0x0002, 0x3F80, 0, 0x4040, 0)]


def test_vectors():
    memory = np.arange(4, dtype=np.float32)
    _, out = run(
        """mov.b32 %r1, 0f3F800000; mov.b32 %r2, 0f40000000; setp.lt.u32 %p0, %r0, 2;
        @%p0 atom.global.v4.f32.add {%r4, %r5, %r6, %r7}, [%rd0], {%r1, %r2, %r1, %r2};
        @!%p0 bra done; mad.wide.u32 %rd4, %r0, 16, %rd1; st.global.v4.b32 [%rd4], {%r4, %r5, %r6, %r7};
        done:""",
        memory, Out(32),
    )  # fmt: skip
    assert memory.tolist() == [2, 5, 4, 7]
    assert out.view(np.float32).tolist() == [0, 1, 2, 3, 1, 3, 3, 5]
    halves = np.array([0x3C00, 0x4000, 0x7E00, 0x8000], np.uint16)
    run(
        """mov.b16 %h1, 0x4000; mov.b16 %h2, 0x3C00; mov.b16 %h3, 0x4200; mov.b16 %h4, 0x0000;
        red.global.max.noftz.v4.f16 [%rd0], {%h1, %h2, %h3, %h4};""",
        halves, block=(1, 1, 1),
    )  # fmt: skip
    # a number beats NaN, +0 beats -0
    assert [hex(v) for v in halves] == ["0x4000", "0x4000", "0x4200", "0x0"]
    pairs = np.array([0x3F80, 0x4000, 0x4040, 0x4080], np.uint16)
    run(
        "mov.b32 %r1, 0x3F804000; mov.b32 %r2, 0x40004080; red.global.v2.bf16x2.min.noftz [%rd0], {%r1, %r2};",
        pairs, block=(1, 1, 1),
    )  # fmt: skip
    assert [hex(v) for v in pairs] == ["0x3f80", "0x3f80", "0x4040", "0x4000"]


def test_128_bits():
    memory = np.array([1, 2, 3, 4], np.uint64)
    _, out = run(
        """mov.b64 %rd5, 1; mov.b64 %rd6, 2; mov.b64 %rd7, 8; mov.b64 %rd8, 9; mov.b128 %q0, {%rd5, %rd6};
        mov.b128 %q1, {%rd7, %rd8}; atom.global.b128.cas %q2, [%rd0], %q0, %q1;
        atom.global.cas.b128 %q3, [%rd0+16], %q0, %q1;
        atom.global.exch.b128 %q4, [%rd0+16], %q1; mov.b128 {%rd9, %rd10}, %q3; st.global.v2.b64 [%rd1], {%rd9, %rd10};
        mov.b128 {%rd9, %rd10}, %q4; st.global.v2.b64 [%rd1+16], {%rd9, %rd10};""",
        memory, Out(32), block=(1, 1, 1),
    )  # fmt: skip
    assert memory.tolist() == [8, 9, 8, 9]
    assert out.view(np.uint64).tolist() == [3, 4, 3, 4]


# -- what stops --------------------------------------------------------------------------------------------------------


def test_mistakes():
    for body, kind in (
        ("red.global.add.u32 [%rd0+2], 1;", "alignment"),
        ("red.global.add.u32 [%rd2], 1;", "bounds"),
        ("mov.u64 %rd4, 16; red.shared.add.u32 [%rd4], 1;", "bounds"),
    ):
        with pytest.raises(Finding) as found:
            run(body, np.zeros(1, np.uint32))
        assert found.value.kind == kind, body
    with pytest.raises(Finding) as found:
        run_ptx(module(START + "red.global.add.u32 [%rd1], 1;"), [np.zeros(1, np.uint32), Out(4)])
    assert found.value.kind == "uninitialised"
    with pytest.raises(NotModelled):
        run("red.global.mul.u32 [%rd0], 2;", np.zeros(1, np.uint32))


def test_atomics_race_with_plain_accesses_alone():
    plain = "ld.global.b32 %r1, [%rd0];", "st.global.b32 [%rd0], %r0;"
    atomic = "red.global.add.u32 [%rd0], 1;"
    two_warps = "setp.lt.u32 %p0, %r0, 32; @%p0 {} {barrier} @!%p0 {}"
    for seed in range(3):
        run(atomic + atomic, np.zeros(1, np.uint32), block=(64, 1, 1), seed=seed)
        for access in plain:
            for pair in ((access, atomic), (atomic, access)):
                with pytest.raises(Finding) as found:
                    run(two_warps.format(*pair, barrier=""), np.zeros(1, np.uint32), block=(64, 1, 1), seed=seed)
                assert found.value.kind == "race", pair
                run(two_warps.format(*pair, barrier="bar.sync 0;"), np.zeros(1, np.uint32), block=(64, 1, 1), seed=seed)
