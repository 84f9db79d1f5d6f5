"""tcgen05.alloc, tcgen05.ld and tcgen05.st, against values worked out here from the ISA's figures."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import Out, module, run_ptx
from tests.emulator.tcgen05_kernels import epilogue, load_out, prologue, registers, run

EMPTY = np.zeros(2048, np.uint8)


# -- loads and stores --------------------------------------------------------------------------------------------------


def lane_of(shape: str, thread: int, register: int) -> int:
    """The row that a register holds, by figures 183 to 187; in 16-lane shapes, of the first sixteen lanes."""
    return {
        "32x32b": thread,
        "16x64b": thread // 4 + 8 * (thread % 2),
        "16x128b": thread // 4 + 8 * (register % 2),
        "16x256b": thread // 4 + 8 * (register // 2 % 2),
        "16x32bx2": thread % 16,
    }[shape]


def column_of(shape: str, thread: int, register: int) -> int:
    return {
        "32x32b": register,
        "16x64b": 2 * register + thread // 2 % 2,
        "16x128b": 4 * (register // 2) + thread % 4,
        "16x256b": 8 * (register // 4) + 2 * (thread % 4) + register % 2,
        "16x32bx2": register + 16 * (thread // 16),  # with a split of 16 columns
    }[shape]


SHAPES = [
    ("32x32b", 16, 16), ("16x64b", 16, 16), ("16x128b", 8, 16), ("16x256b", 4, 16), ("16x32bx2", 16, 16),
    ("32x32b", 1, 1), ("16x64b", 1, 1), ("16x128b", 1, 2), ("16x256b", 1, 4),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "repeat", "count"), SHAPES)
def test_a_load_of_each_shape(shape, repeat, count):
    split = ", 16" if shape == "16x32bx2" else ""
    stores = "\n".join(f"mad.lo.u32 %r{40 + i}, %r1, 1000, {i};" for i in range(32))
    out = "\n".join(f"st.global.u32 [%rd9+{4 * i}], %r{100 + i};" for i in range(count))
    body = f"""{prologue(2048, 32)}
    {stores}
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%r9], {registers(40, 32)};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.{shape}.x{repeat}.b32 {registers(100, count)}, [%r9]{split};
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd9, %r1, {4 * count};
    add.u64 %rd9, %rd2, %rd9;
    {out}
    {epilogue(32)}"""
    found, stats = run(body, EMPTY, 128 * 4 * count)
    expected = [
        [1000 * (t // 32 * 32 + lane_of(shape, t % 32, r)) + column_of(shape, t % 32, r) for r in range(count)]
        for t in range(128)
    ]
    np.testing.assert_array_equal(found.reshape(128, count), expected)
    assert stats.bytes["registers -> tensor memory"] == 128 * 32 * 4
    assert stats.bytes["tensor memory -> registers"] == 128 * count * 4


_QUIET, _MINUS = 0x7FFFFFFF, 0x80000000  # NaN, -0.0
_ONE, _MINUS_TWO = 0x3F800000, 0xC0000000


@pytest.mark.parametrize(
    ("reduction", "words", "expected"),
    [
        ("min.s32", (5, 2**32 - 7), 2**32 - 7),
        ("max.s32", (5, 2**32 - 7), 5),
        ("min.u32", (5, 2**32 - 7), 5),
        ("max.u32", (5, 2**32 - 7), 2**32 - 7),
        ("min.f32", (_ONE, _MINUS_TWO), _MINUS_TWO),
        ("max.abs.f32", (_ONE, _MINUS_TWO), 0x40000000),
        ("min.f32", (0, _MINUS), _MINUS),
        ("max.f32", (_MINUS, 0), 0),
        ("max.f32", (_QUIET, _MINUS_TWO), _MINUS_TWO),
        ("max.NaN.f32", (0x7F800001, _MINUS_TWO), _QUIET),
        ("min.f32", (_QUIET, _QUIET), _QUIET),
    ],
)
@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
def test_a_load_that_reduces(shape, reduction, words, expected):
    """tcgen05.ld.red: what was loaded, and beside it the least or greatest of each lane's."""
    split = ", 2" if shape == "16x32bx2" else ""
    body = f"""{prologue(2048, 32)}
    mov.b32 %r40, {words[0]}; mov.b32 %r41, {words[1]};
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r9], {{%r40, %r41, %r40, %r41}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.red.sync.aligned.{shape}.x2.{reduction} {registers(100, 2)}, %r102, [%r9]{split};
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd9, %r1, 16; add.u64 %rd9, %rd2, %rd9; st.global.v2.b32 [%rd9], {{%r100, %r101}};
    st.global.v2.b32 [%rd9+8], {{%r102, %r102}};
    {epilogue(32)}"""
    found, _ = run(body, EMPTY, 128 * 16, target="sm_103a")
    assert (found.reshape(128, 4) == [*words, expected, expected]).all()


@pytest.mark.parametrize(
    ("name", "target"),
    [("32x32b.x2.min.f32", "sm_100a"), ("32x32b.x1.min.f32", "sm_103a"), ("16x64b.x2.min.f32", "sm_103a")],
)
def test_loads_that_must_not_reduce(name, target):
    count = int(name.split(".")[1][1:])
    body = f"""{prologue(2048, 32)}
    tcgen05.ld.red.sync.aligned.{name} {registers(100, count)}, %r102, [%r9]; {epilogue(32)}"""
    with pytest.raises(Finding) as caught:
        run(body, EMPTY, 16, target=target)
    assert caught.value.kind == "illegal"


@pytest.mark.parametrize(("shape", "repeat", "count"), [s for s in SHAPES if s[1] > 1])
def test_a_store_of_each_shape(shape, repeat, count):
    """Into the upper sixteen lanes of each partition where the shape has sixteen."""
    split = "16, " if shape == "16x32bx2" else ""
    upper = 0 if shape == "32x32b" else 16
    values = "\n".join(f"mad.lo.u32 %r{40 + i}, %r1, 1000, {i};" for i in range(count))
    body = f"""{prologue(2048, 32)}
    mov.b32 %r99, 7;
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%r9], {"{" + ", ".join(["%r99"] * 32) + "}"};
    tcgen05.wait::st.sync.aligned;
    {values}
    add.u32 %r98, %r9, {upper << 16};
    tcgen05.st.sync.aligned.{shape}.x{repeat}.b32 [%r98], {split}{registers(40, count)};
    tcgen05.wait::st.sync.aligned;
    {load_out(32)}
    {epilogue(32)}"""
    found, _ = run(body, EMPTY, 128 * 4 * 32)
    expected = np.full((128, 32), 7)
    for t in range(128):
        for r in range(count):
            row = t // 32 * 32 + upper + lane_of(shape, t % 32, r)
            expected[row, column_of(shape, t % 32, r)] = 1000 * t + r
    np.testing.assert_array_equal(found.reshape(128, 32), expected)


def test_packing_and_unpacking():
    """Figure 193: a register is the low halves of two columns."""
    body = f"""{prologue(2048, 32)}
    shl.b32 %r30, %r1, 16;
    add.u32 %r30, %r30, 3;
    add.u32 %r31, %r30, 7;
    tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r9], {{%r30, %r31}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {registers(32, 4)}, [%r9];
    tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {registers(36, 2)}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd9, %r1, 24;
    add.u64 %rd9, %rd2, %rd9;
    st.global.v2.u32 [%rd9], {registers(32, 2)};
    st.global.v2.u32 [%rd9+8], {registers(34, 2)};
    st.global.v2.u32 [%rd9+16], {registers(36, 2)};
    {epilogue(32)}"""
    found, _ = run(body, EMPTY, 128 * 24)
    expected = [[3, t, 10, t, t << 16 | 3, t << 16 | 10] for t in range(128)]
    np.testing.assert_array_equal(found.reshape(128, 6), expected)


# -- allocation --------------------------------------------------------------------------------------------------------


def allocating(body: str, warps: int = 2, seed: int = 0, **options: Any) -> np.ndarray:
    """Runs a body with slots [%r5], [%r5+4] in shared memory, %r2 the warp, %rd2 an output of 8 bytes."""
    head = """
    .shared .align 8 .b32 slot[2];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    mov.b32 %r5, slot;
    setp.ne.u32 %p2, %r2, 0;
    ld.param.u64 %rd2, [p0];
    """
    out = Out(8)
    text = module(head + body, params=".param .u64 p0", target="sm_100a")
    run_ptx(text, [out], block=(32 * warps, 1, 1), seed=seed, **options)
    return out.view(np.uint32)


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32"
TWO_WARPS = f"""
    @%p2 bra SECOND;
    {ALLOC} [%r5], 512;
    ld.shared.u32 %r8, [%r5];
    {FREE} %r8, 512;
    st.global.u32 [%rd2], %r8;
    bra END;
SECOND:
    add.u32 %r5, %r5, 4;
    {ALLOC} [%r5], 512;
    ld.shared.u32 %r8, [%r5];
    {FREE} %r8, 512;
    st.global.u32 [%rd2+4], %r8;
END:
"""


@pytest.mark.parametrize("seed", range(6))
def test_an_allocation_waits_until_columns_are_free(seed):
    np.testing.assert_array_equal(allocating(TWO_WARPS, seed=seed), [0, 0])


ONE = f"{ALLOC} [%r5], 128; ld.shared.u32 %r8, [%r5]; st.global.u32 [%rd2], %r8; {FREE} %r8, 128;"


def test_the_first_column_is_drawn_on_request():
    assert {int(allocating(ONE, warps=1, seed=s, check=frozenset())[0]) for s in range(6)} == {0}
    assert len({int(allocating(ONE, warps=1, seed=s, check=frozenset({"first-column"}))[0]) for s in range(6)}) > 1


def test_allocations_lie_beside_each_other():
    body = f"""
    {ALLOC} [%r5], 128;
    {ALLOC} [%r5+4], 64;
    ld.shared.v2.u32 {registers(8, 2)}, [%r5];
    st.global.v2.u32 [%rd2], {registers(8, 2)};
    {FREE} %r8, 128;
    {FREE} %r9, 64;
    """
    first, second = (int(column) for column in allocating(body, warps=1))
    assert first % 128 == 0
    assert second % 64 == 0
    assert second + 64 <= first or first + 128 <= second


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (f"{ALLOC} [%r5], 512; {ALLOC} [%r5+4], 32;", "deadlock", "32 columns of tensor memory"),
        (f"{ALLOC} [%r5], 48;", "tensor-memory", "power of two"),
        (f"{ALLOC} [%r5], 32; {ALLOC} [%r5+4], 64;", "tensor-memory", "largest block first"),
        ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + f"{ALLOC} [%r5], 32;", "tensor-memory",
         "after tcgen05.relinquish_alloc_permit"),
        (f"{ALLOC} [%r5], 32;", "tensor-memory", "exits with tensor memory allocated"),
        (f"{ALLOC} [%r5], 64; ld.shared.u32 %r8, [%r5]; {FREE} %r8, 32;", "tensor-memory", r"of the CTA: \d+ to \d+"),
        (f"{ALLOC} [%r5], 32; tcgen05.wait::ld.sync.aligned; ld.shared.u32 %r8, [%r5];"
         "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%r8+32];", "tensor-memory", r"columns (\d+) to \1,"),
        (f"{ALLOC} [%r5], 32; ld.shared.u32 %r8, [%r5]; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r9}}, [%r8];"
         "st.global.u32 [%rd2], %r9;", "uninitialised", r"lane 0, column \d+"),
        (f"{ALLOC} [%r5], 32; ld.shared.u32 %r8, [%r5]; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r9}}, [%r8+2097152];",
         "tensor-memory", "lanes 0 to 31"),
        ("setp.lt.u32 %p5, %r1, 7; @%p5 " + f"{ALLOC} [%r5], 32;", "divergence", "lanes 0-6"),
    ],
)  # fmt: skip
def test_wrong_allocations(body, kind, says):
    with pytest.raises(Finding) as caught:
        allocating(body, warps=1)
    assert caught.value.kind == kind
    assert re.search(says, str(caught.value))
    assert "line" in caught.value.where or kind == "deadlock"
