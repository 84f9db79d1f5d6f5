"""What bulk copies that reduce make of values (PTX ISA 9.7.13.5), and what they may be asked for."""

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.layouts.bulk_reduction import BULK_REDUCTIONS, TENSOR_REDUCTIONS, reduce
from tests.emulator.harness import Out, module, run_ptx


def reduced(operation, element, dtype, old, new, **options):
    old, new = (np.array(x, np.uint64).astype(dtype).view(np.uint8) for x in (old, new))
    return reduce(operation, element, old, new, **options).view(dtype).tolist()


TOP = (1 << 32) - 1


@pytest.mark.parametrize(
    ("operation", "element", "old", "new", "expected"),
    [
        ("add", "u32", [TOP, 5], [1, 6], [0, 11]),
        ("min", "u32", [TOP, 5], [1, 6], [1, 5]),
        ("max", "u32", [TOP, 5], [1, 6], [TOP, 6]),
        ("min", "s32", [TOP, 5], [1, 6], [TOP, 5]),
        ("max", "s32", [TOP, 5], [1, 6], [1, 6]),
        # atom.inc: old >= new ? 0 : old + 1; atom.dec: old == 0 or old > new ? new : old - 1 (PTX ISA 9.7.13.5)
        ("inc", "u32", [0, 4, 5, 6], [5, 5, 5, 5], [1, 5, 0, 0]),
        ("dec", "u32", [0, 4, 5, 6], [5, 5, 5, 5], [5, 3, 4, 5]),
        ("and", "u32", [0b1100], [0b1010], [0b1000]),
        ("or", "s32", [0b1100], [0b1010], [0b1110]),
        ("xor", "u32", [0b1100], [0b1010], [0b0110]),
        # 1.0 + 2.0; subnormals stay; NaN is one NaN; inf - inf
        (
            *("add", "f32", [0x3F800000, 1, 0xFFC12345, 0x7F800000], [0x40000000, 1, 0, 0xFF800000]),
            [0x40400000, 2, 0x7FFFFFFF, 0x7FFFFFFF],
        ),
        ("add", "f32_ftz", [1, 0x80000001, 0x00800000], [1, 0x80000001, 0x807FFFFF], [0, 0x80000000, 0x00800000]),
    ],
)
def test_reduce_words(operation, element, old, new, expected):
    assert reduced(operation, element, np.uint32, old, new) == expected


@pytest.mark.parametrize(
    ("operation", "element", "old", "new", "expected"),
    [
        # 2048 + 1 and 2050 + 1 are ties, to even; 65504 + 16 is a tie to infinity
        ("add", "f16", [0x6800, 0x6801, 0x7BFF, 1], [0x3C00, 0x3C00, 0x4C00, 1], [0x6800, 0x6802, 0x7C00, 2]),
        ("add", "bf16", [0x4380, 0x7F80, 0x0001], [0x3F80, 0xFF80, 0x0001], [0x4380, 0x7FFF, 0x0002]),
        ("min", "f16", [0x0000, 0x8000, 0x7E00, 0xFE55, 0xBC00], [0x8000, 0, 0x3C00, 0x7C01, 0x3C00], None),
        ("max", "bf16", [0x0000, 0x8000, 0x7FC0, 0xBF80, 0xBF80], [0x8000, 0, 0x7F80, 0x7FFF, 0xC000], None),
    ],
)
def test_reduce_halves(operation, element, old, new, expected):
    if expected is None:
        expected = {
            "min": [0x8000, 0x8000, 0x3C00, 0x7FFF, 0xBC00],
            "max": [0x0000, 0x0000, 0x7F80, 0xBF80, 0xBF80],
        }[operation]
    assert reduced(operation, element, np.uint16, old, new) == expected


def test_reduce_doublewords():
    assert reduced("min", "s64", np.uint64, [(1 << 64) - 1], [3]) == [(1 << 64) - 1]
    assert reduced("max", "u64", np.uint64, [1 << 63], [3]) == [1 << 63]
    one = np.array([1.5]).view(np.uint64).tolist()
    assert reduced("add", "f64", np.uint64, one, one, allowed=BULK_REDUCTIONS) == np.array([3.0]).view(np.uint64)
    assert reduced("xor", "b64", np.uint64, [6], [3], allowed=BULK_REDUCTIONS) == [5]


@pytest.mark.parametrize(
    ("operation", "element"),
    [("add", "u8"), ("add", "s64"), ("add", "f64"), ("add", "tf32"), ("min", "f32"), ("inc", "s32"), ("and", "s64")],
)
def test_reductions_that_the_isa_does_not_have(operation, element):
    with pytest.raises(Finding) as caught:
        reduce(operation, element, np.zeros(16, np.uint8), np.zeros(16, np.uint8), TENSOR_REDUCTIONS)
    assert caught.value.kind == "illegal"


MASKED = """
    .shared .align 16 .b8 room[128]; mov.u32 %r0, %tid.x; mov.u32 %r1, room; mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.b32 [%r2], 0x44332211; fence.proxy.async.shared::cta; bar.warp.sync 0xffffffff;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra DONE; ld.param.u64 %rd0, [p0]; mov.b16 %h0, {mask};
    cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [%r1], 64, %h0;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:
"""


@pytest.mark.parametrize("mask", [0x8421, 0xFFFF, 0])
def test_bytes_of_a_mask(mask):
    """.cp_mask: bit i for byte i of every 16 (PTX ISA 9.7.9.27.4.1); the others stay unwritten."""
    out = Out(64)
    run_ptx(module(MASKED.replace("{mask}", str(mask)), target="sm_100a"), [out, 0])
    chosen = np.array([bool(mask >> i % 16 & 1) for i in range(64)])
    np.testing.assert_array_equal(out.written, chosen)
    np.testing.assert_array_equal(out.data, np.where(chosen, np.tile([0x11, 0x22, 0x33, 0x44], 16), 0))
    with pytest.raises(Finding, match="sm_90a"):
        run_ptx(module(MASKED.replace("{mask}", str(mask))), [Out(64), 0])


WHOLE_WARP = """
    .shared .align 16 .b8 room[128]; mov.u32 %r0, %tid.x; mov.u32 %r1, room; mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.b32 [%r2], %r0; fence.proxy.async.shared::cta; bar.warp.sync 0xffffffff; ld.param.u64 %rd0, [p0];
    {place}
    {copy} [%rd0], [%r1], 64;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
"""
STORE = "cp.async.bulk.global.shared::cta.bulk_group"


@pytest.mark.parametrize("seed", range(4))
def test_a_store_of_a_whole_warp(seed):
    """Lanes that store the same to the same place do it once; what overlaps otherwise is a fault."""
    out = Out(96)
    run_ptx(module(WHOLE_WARP.replace("{place}", "").replace("{copy}", STORE)), [out, 0], seed=seed)
    np.testing.assert_array_equal(out.view("u4")[:16], np.arange(16))
    shifted = "and.b32 %r3, %r0, 1; mad.wide.u32 %rd0, %r3, 16, %rd0;"
    with pytest.raises(Finding) as caught:
        run_ptx(module(WHOLE_WARP.replace("{place}", shifted).replace("{copy}", STORE)), [Out(96), 0], seed=seed)
    assert caught.value.kind in ("in-flight", "race")


def test_reductions_of_a_whole_warp():
    """Each of them counts."""
    numbers = np.zeros(16, "u4")
    copy = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    run_ptx(module(WHOLE_WARP.replace("{place}", "").replace("{copy}", copy)), [numbers, 0])
    np.testing.assert_array_equal(numbers, 32 * np.arange(16))
