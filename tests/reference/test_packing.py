"""Layouts against their formulas, byte by byte."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalec.errors import ScalecError
from scalec.formats import ELEMENT_TYPES
from scalec.reference import (
    decode,
    from_blocked,
    from_layout,
    from_packed,
    numpy_dtype,
    pack4,
    pack6,
    storage,
    to_blocked,
    to_col,
    to_layout,
    to_packed,
    unpack4,
    unpack6,
)


def codes(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)


def test_pack4_puts_the_first_element_in_the_low_nibble() -> None:
    assert pack4(np.array([0x1, 0xA, 0xF], np.uint8)).tolist() == [0xA1, 0x0F]


@given(st.sampled_from(["e2m1", "i4"]), st.integers(1, 9), st.integers(1, 3))
def test_pack4_and_back(element: str, n: int, rows: int) -> None:
    x = (codes(rows, n) & 0xF).view(numpy_dtype(element))
    assert storage(x).shape == (rows, -(-n // 2))
    assert unpack4(storage(x), n, element).view(np.uint8).tolist() == x.view(np.uint8).tolist()
    assert decode(storage(x), element)[..., :n].view(np.uint8).tolist() == x.view(np.uint8).tolist()


def test_i4_is_twos_complement() -> None:
    assert decode(np.array([[0x87, 0xF0]], np.uint8), "i4").astype(int).tolist() == [[7, -8, 0, -1]]


def test_pack6_puts_element_i_at_bit_6i() -> None:
    packed = pack6(np.array([0x01, 0x02, 0x3F, 0x20, 0x15], np.uint8))
    assert int.from_bytes(packed.tobytes(), "little") == 0x01 | 0x02 << 6 | 0x3F << 12 | 0x20 << 18 | 0x15 << 24
    assert packed.size == 4


@given(st.sampled_from(["e3m2", "e2m3"]), st.integers(1, 9), st.integers(1, 3))
def test_pack6_and_back(element: str, n: int, rows: int) -> None:
    x = (codes(rows, n) & 0x3F).view(numpy_dtype(element))
    assert storage(x).shape == (rows, -(-6 * n // 8))
    assert unpack6(storage(x), element, n).view(np.uint8).tolist() == x.view(np.uint8).tolist()
    assert decode(storage(x), element)[..., :n].view(np.uint8).tolist() == x.view(np.uint8).tolist()


@pytest.mark.parametrize("element", ["e2m1", "i4", "e3m2", "e2m3"])
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_packed_elements_of_no_extent(element: str, shape: tuple[int, int]) -> None:
    raw = storage(np.zeros(shape, numpy_dtype(element)))
    assert raw.shape == (shape[0], -(-ELEMENT_TYPES[element].bits * shape[1] // 8))
    assert decode(raw, element).size == 0


def test_packed_columns_begin_at_multiples_of_16_bytes() -> None:
    for shape, strides in (((130, 7), (4, 528)), ((3, 130, 7), (1056, 4, 528)), ((8, 4), (4, 32)), ((1, 4), (4, 16))):
        packed = to_packed(codes(*shape))
        assert packed.shape == (*shape[:-1], -(-shape[-1] // 4))
        assert packed.strides == strides
        assert packed[..., -1, 0].tobytes() == codes(*shape)[..., -1, :4].tobytes()


def test_packed_is_little_endian_along_the_last_index() -> None:
    packed = to_packed(np.array([[1, 2, 3, 4, 5]], np.uint8))
    assert packed.dtype == np.int32
    assert packed.tolist() == [[0x04030201, 0x00000005]]
    assert from_packed(packed, 5).view(np.uint8).tolist() == [[1, 2, 3, 4, 5]]


@pytest.mark.parametrize(("rows", "cols"), [(128, 4), (129, 5), (1, 1), (300, 9), (256, 8)])
def test_blocked_follows_the_formula_of_cublas(rows: int, cols: int) -> None:
    x = codes(rows, cols)
    flat = to_blocked(x).ravel()
    tiles_across = -(-cols // 4)
    seen = np.zeros(flat.size, bool)
    for r in range(rows):
        for c in range(cols):
            tile = (r // 128) * tiles_across + c // 4
            offset = tile * 512 + (r % 32) * 16 + (r % 128) // 32 * 4 + c % 4
            assert flat[offset] == x[r, c]
            seen[offset] = True
    assert not flat[~seen].any()
    assert (from_blocked(flat, rows, cols) == x).all()


def test_blocked_tiles_each_group_on_its_own() -> None:
    x = codes(3, 130, 6)
    assert (to_blocked(x)[1] == to_blocked(x[1])).all()
    assert (from_blocked(to_blocked(x), 130, 6, (3,)) == x).all()


def test_blocked_refuses_a_buffer_of_another_size() -> None:
    with pytest.raises(ScalecError, match="128x4") as e:
        from_blocked(np.zeros(511, np.uint8), 1, 1)
    assert "512 scales" in str(e.value)


@pytest.mark.parametrize("layout", ["row", "col", "blocked", "packed"])
def test_a_vector_of_scales(layout: str) -> None:
    x = codes(9)
    made = to_layout(x, layout)
    assert made.size == {"blocked": 128 * 12, "packed": 3}.get(layout, 9)
    assert from_layout(made, layout, x.shape, "ue8m0").view(np.uint8).tolist() == x.tolist()


def test_col_is_contiguous_along_the_first_block_index() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = to_col(x)
    assert (y == x).all()
    assert y.strides == (4, 12)


@settings(deadline=None)
@given(st.sampled_from(["row", "col", "blocked", "packed"]), st.integers(1, 140), st.integers(1, 9))
def test_every_layout_has_an_inverse(layout: str, rows: int, cols: int) -> None:
    x = codes(rows, cols).view(ml_dtypes.float8_e8m0fnu)
    back = from_layout(to_layout(x, layout), layout, x.shape, "ue8m0")
    assert (back.view(np.uint8) == x.view(np.uint8)).all()


def test_wrong_shapes_are_refused_with_both_shapes() -> None:
    with pytest.raises(ScalecError, match="scales of layout row") as e:
        from_layout(np.zeros((3, 4), np.float32), "row", (3, 5), "f32")
    assert "(3, 4)" in str(e.value)
    assert "(3, 5)" in str(e.value)
    with pytest.raises(ScalecError, match="int32"):
        from_layout(np.zeros((3, 4), np.uint8), "packed", (3, 4), "ue8m0")


def test_decode_and_storage() -> None:
    bf16 = np.array([1.5], ml_dtypes.bfloat16)
    assert decode(bf16.view(np.uint16), "bf16")[0] == 1.5
    assert decode(np.array([0x21], np.uint8), "e2m1").astype(float).tolist() == [0.5, 1.0]
    assert storage(np.array([0.5, 1.0], ml_dtypes.float4_e2m1fn)).tolist() == [0x21]
    assert storage(bf16).dtype == np.uint16
    assert storage(np.ones(2, np.float32)).dtype == np.float32
    with pytest.raises(ScalecError, match="an array of e4m3"):
        decode(np.ones(2, np.float32), "e4m3")
