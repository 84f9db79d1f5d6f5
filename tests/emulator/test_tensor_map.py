"""Tensor maps, as the host encodes them and as `tensormap.replace` changes them, by the tables of PTX ISA 5.5."""

import dataclasses

import pytest

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.layouts.tensor_map import TensorMap, decode, encode, replace_field

BASE = 0x10000
PLAIN = TensorMap("u8", BASE, (512, 64), (512,), (64, 4))
SLAB = {"extents": (512, 20, 64), "strides": (512, 10240), "element_strides": (), "lower": (0,), "upper": (0,)}


# --- the object


@pytest.mark.parametrize(
    "m",
    [
        PLAIN,
        TensorMap("f32_ftz", BASE, (1 << 32,), (), (256,), fill="nan", l2_promotion=256),
        TensorMap("bf16", BASE, (8, 7, 6, 5, 4), (16, 112, 672, (1 << 40) - 16), (8, 7, 6, 5, 4), (1, 2, 8, 1, 3)),
        TensorMap("u16", BASE, (10, 6, 3), (512, 4096), (16, 1, 2), (2, 1, 1), interleave=32, swizzle=32),
        TensorMap("b4x16_p64", BASE, (256, 9), (128,), (128, 9), swizzle=128, atomicity="32B"),
        TensorMap("u8", BASE, (128, 9), (128,), (128, 9), swizzle=128, atomicity="32B+8B"),
        TensorMap("f16", BASE, (72, 7, 2), (144, 1008), (64, 1024), lower=(-32768,), upper=(32767,)),
        TensorMap("f16", BASE, (72, 7, 9, 3, 2), (144, 1008, 9072, 27216), (64, 128), (1, 2, 2, 1, 1), swizzle=128,
                  lower=(0, -2, -1), upper=(-1, 0, 0)),
    ],
)  # fmt: skip
def test_round_trip(m):
    data = encode(m)
    assert len(data) == 128
    assert decode(data) == m


@pytest.mark.parametrize(
    ("changes", "message", "expected"),
    [
        ({"extents": (), "strides": (), "box": (), "element_strides": ()}, "rank 0", "1 to 5"),
        ({"strides": ()}, "0 values of strides with rank 2", "1"),
        ({"box": (64,)}, "1 values of box with rank 2", "2"),
        ({"element": "e4m3"}, "element type e4m3", "u8, u16"),
        ({"swizzle": 96}, "swizzle 96", "0, 32, 64, 128"),
        ({"address": BASE + 8}, "global address 0x10008", "a multiple of 16"),
        ({"extents": (0, 64)}, "extent 0 of dimension 0", "1 to 2^32"),
        ({"extents": (512, (1 << 32) + 1)}, "extent 4294967297 of dimension 1", "1 to 2^32"),
        ({"strides": (520,)}, "stride 520 of dimension 1", "a multiple of 16"),
        ({"strides": (1 << 40,)}, "stride 1099511627776 of dimension 1", "below 2^40"),
        ({"box": (64, 257)}, "box of 257 along dimension 1", "1 to 256"),
        ({"box": (64, 0)}, "box of 0 along dimension 1", "1 to 256"),
        ({"box": (24, 4)}, "inner box of 24 bytes", "a multiple of 16"),
        ({"box": (128, 4), "swizzle": 64}, "inner box of 128 bytes in a swizzle of 64", "at most 64"),
        ({"box": (256, 256), "element": "u32"}, "box of 262144 bytes", "at most 232448"),
        ({"element_strides": (1, 9)}, "element stride 9 of dimension 1", "1 to 8"),
        ({"element_strides": (0, 1)}, "element stride 0 of dimension 0", "1 to 8"),
        ({"lower": (0,)}, "im2col with rank 2", "3 to 5"),
        ({**SLAB, "box": (64,)}, "1 values of box with rank 3", "2"),
        ({**SLAB, "upper": ()}, "0 values of the upper corner with rank 3", "1"),
        ({**SLAB, "box": (64, 1025)}, "box of 1025 pixels", "1 to 1024"),
        ({**SLAB, "upper": (-20,)}, "corners 0 and -20 of 20 along dimension 1", "at least one pixel"),
        ({**SLAB, "lower": (32768,)}, "32768 in the lower corner with rank 3", "-32768 to 32767"),
        ({"interleave": 16}, "interleave with rank 2", "rank 3 to 5"),
        ({"swizzle": 64, "atomicity": "32B"}, "atomicity 32B with a swizzle of 64 bytes", "table 14"),
        ({"fill": "nan"}, "NaN fill of u8 elements", "floating-point"),
        ({"element": "b4x16", "extents": (511, 64)}, "extent 511 of dimension 0", "a multiple of 2"),
        ({"element": "b4x16", "fill": "nan"}, "NaN fill of b4x16 elements", "floating-point"),
        ({"element": "b4x16_p64"}, "box of 64 along dimension 0", "128"),
        ({"element": "b4x16_p64", "box": (128, 4), "address": BASE + 16}, "address 0x10010", "a multiple of 32"),
        ({"element": "b6x16_p32", "box": (128, 4), "strides": (400,)}, "stride 400", "a multiple of 32"),
        ({"element": "b6x16_p32", "box": (128, 4), "extents": (500, 64)}, "extent 500", "a multiple of 128"),
        ({"element": "b4x16_p64", "box": (128, 4), "swizzle": 64}, "swizzle of 64 bytes", "none, or 128"),
        (
            {"element": "b4x16_p64", "box": (128, 4), "swizzle": 128, "atomicity": "64B"},
            "atomicity 64B, with b4x16_p64",
            "16B or 32B",
        ),
    ],
)
def test_rules(changes, message, expected):
    with pytest.raises(Finding) as caught:
        encode(dataclasses.replace(PLAIN, **changes))
    assert caught.value.kind == "descriptor"
    assert message in caught.value.message
    assert expected in caught.value.expected


def test_interleave_of_32_bytes_wants_its_swizzle_and_alignment():
    good = TensorMap("u16", BASE, (10, 6, 3), (512, 4096), (8, 1, 2), interleave=32, swizzle=32)
    encode(good)
    for changes in ({"swizzle": 0}, {"strides": (528, 4096)}, {"address": BASE + 16}):
        with pytest.raises(Finding):
            encode(dataclasses.replace(good, **changes))


@pytest.mark.parametrize(("data", "what"), [(bytes(128), "all zero"), (b"\x40" * 128, "begin 40 40 40")])
def test_what_is_no_map(data, what):
    with pytest.raises(Finding, match=what) as caught:
        decode(data)
    assert caught.value.kind == "descriptor"


# --- tensormap.replace


def test_replace_one_field():
    data = encode(PLAIN)
    for field, value, ordinal, changes in [
        ("global_address", BASE + 64, 0, {"address": BASE + 64}),
        ("global_dim", 100, 1, {"extents": (512, 100)}),
        ("global_stride", 1024, 0, {"strides": (1024,)}),
        ("box_dim", 32, 0, {"box": (32, 4)}),
        ("element_stride", 2, 1, {"element_strides": (1, 2)}),
        ("elemtype", 10, 0, {"element": "bf16"}),
        ("swizzle_mode", 3, 0, {"swizzle": 128}),
        ("global_dim", 0, 0, {"extents": (1 << 32, 64)}),
    ]:
        assert decode(replace_field(data, field, value, ordinal)) == dataclasses.replace(PLAIN, **changes)
    assert decode(data) == PLAIN


def test_replace_rank_is_zero_based():
    data = encode(TensorMap("u8", BASE, (512, 64, 3), (512, 32768), (64, 4, 2)))
    assert decode(replace_field(data, "rank", 1)) == PLAIN
    assert decode(replace_field(replace_field(data, "rank", 1), "rank", 2)) == decode(data)


def test_replace_builds_a_map_from_zeros():
    fields = [
        ("global_address", BASE, 0),
        ("rank", 1, 0),
        ("box_dim", 64, 0),
        ("box_dim", 4, 1),
        ("global_dim", 512, 0),
        ("global_dim", 64, 1),
        ("global_stride", 512, 0),
        ("element_stride", 1, 0),
        ("element_stride", 1, 1),
        ("elemtype", 0, 0),
        ("interleave_layout", 0, 0),
        ("swizzle_mode", 3, 0),
        ("swizzle_atomicity", 1, 0),
        ("fill_mode", 0, 0),
    ]
    data = bytes(128)
    for field, value, ordinal in fields:
        data = replace_field(data, field, value, ordinal)
    assert decode(data) == dataclasses.replace(PLAIN, swizzle=128, atomicity="32B")
    without_box = bytes(128)
    for field, value, ordinal in fields:
        if (field, ordinal) != ("box_dim", 1):
            without_box = replace_field(without_box, field, value, ordinal)
    with pytest.raises(Finding, match="box of 0 along dimension 1"):
        decode(without_box)


@pytest.mark.parametrize(
    ("field", "value", "ordinal"),
    [
        ("rank", 5, 0),
        ("box_dim", 257, 0),
        ("box_dim", 16, 5),
        ("global_stride", 512, 4),
        ("element_stride", 0, 1),
        ("elemtype", 16, 0),
        ("interleave_layout", 3, 0),
        ("swizzle_atomicity", 4, 0),
        ("fill_mode", 2, 0),
    ],
)
def test_replace_out_of_range(field, value, ordinal):
    with pytest.raises(Finding) as caught:
        replace_field(encode(PLAIN), field, value, ordinal)
    assert caught.value.kind == "descriptor"


def test_replace_of_what_is_no_map():
    with pytest.raises(Finding, match="no tensor map"):
        replace_field(b"\1" * 128, "rank", 0)
    with pytest.raises(NotModelled, match="96-byte"):
        replace_field(encode(PLAIN), "swizzle_mode", 4)
