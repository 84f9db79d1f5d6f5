"""The boxes of bulk tensor copies, loads and stores, by the tables and figures of PTX ISA 5.5 and 9.7.9.25.5."""

import dataclasses

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.layouts import tensor_copy
from scalec.emulator.layouts.tensor_copy import box, load, store
from scalec.emulator.layouts.tensor_map import TensorMap

BASE = 0x10000
SHARED = 0x2000  # where every swizzle's pattern begins
PLAIN = TensorMap("u8", BASE, (512, 64), (512,), (64, 4))


class Memory:
    """Global memory whose bytes tell their address: byte `a` is a % 251."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def read(self, addresses: np.ndarray, size: int) -> np.ndarray:
        self.reads += [(int(a), size) for a in addresses]
        return ((addresses[:, None] + np.arange(size)) % 251).astype(np.uint8)


def shared_after(m: TensorMap, coordinates, address=SHARED, size=4096, **options) -> np.ndarray:
    """int: what lies in shared memory after a load, -1 where nothing was written."""
    moved = load(m, coordinates, address, Memory().read, **options)
    result = np.full(size, -1)
    result[moved.shared_offsets[:, None] + np.arange(moved.box.piece)] = moved.data
    return result


def content(address: int, count: int = 1) -> list[int]:
    return [a % 251 for a in range(address, address + count)]


def words(addresses: np.ndarray, size: int) -> np.ndarray:
    """A `read_global` of 32-bit words counted from BASE."""
    assert size % 4 == 0
    first = (addresses - BASE) // 4
    return (first[:, None] + np.arange(size // 4)).astype(np.uint32).view(np.uint8)


# --- swizzles: the tables of PTX ISA 5.5.7, a digit for every 16 bytes of a 128-byte line

TABLES = {
    (0, "16B"): ["01234567"],
    (32, "16B"): ["01234567", "10325476"],
    (64, "16B"): ["01234567", "10325476", "23016745", "32107654"],
    (128, "16B"): ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
    (128, "32B"): ["01234567", "23016745", "45670123", "67452301"],
    (128, "64B"): ["01234567", "45670123"],
}


@pytest.mark.parametrize(("swizzle", "atomicity"), TABLES)
@pytest.mark.parametrize("line", [0, 1, 2, 5, 6])
def test_swizzle_tables(swizzle, atomicity, line):
    """Lines are laid out as the table says, begun at the line that the destination's address stands for."""
    table = TABLES[swizzle, atomicity]
    width = swizzle or 128
    m = TensorMap("u8", BASE, (width, 4096), (width,), (width, 1024 // width), swizzle=swizzle, atomicity=atomicity)
    after = shared_after(m, (0, 0), SHARED + 128 * line)
    for n in range(8):
        expected = [content(BASE + 128 * n + 16 * int(chunk), 16) for chunk in table[(n + line) % len(table)]]
        assert after[128 * n : 128 * n + 128].reshape(8, 16).tolist() == expected


def test_swizzle_with_flip():
    """As the table with 32-byte atomicity, and the two 8 bytes of every 16 change places in odd lines (figure 36)."""
    m = TensorMap("u8", BASE, (128, 64), (128,), (128, 4), swizzle=128, atomicity="32B+8B")
    after = shared_after(m, (0, 0))
    for n, line in enumerate(TABLES[128, "32B"]):
        for at, chunk in enumerate(line):
            halves = [content(BASE + 128 * n + 16 * int(chunk) + h, 8) for h in ((0, 8) if n % 2 == 0 else (8, 0))]
            assert after[128 * n + 16 * at : 128 * n + 16 * at + 16].tolist() == halves[0] + halves[1]


def test_rows_narrower_than_the_swizzle_take_its_whole_span():
    # measured: rows of 16 bytes in a 128-byte swizzle lie 128 bytes apart, in chunks 0, 1, 2, ...
    m = TensorMap("u8", BASE, (512, 64), (512,), (16, 20), swizzle=128)
    moved = box(m, (16, 3), SHARED)
    assert moved.shared_offsets[:10, 0].tolist() == [0, 144, 288, 432, 576, 720, 864, 1008, 1024, 1168]
    assert moved.transaction_bytes == 320
    m = dataclasses.replace(m, box=(48, 20), swizzle=64)
    assert box(m, (16, 3), SHARED).shared_offsets[2:4].tolist() == [[144, 128, 176], [208, 192, 240]]


# --- boxes


def test_box_of_three_dimensions():
    m = TensorMap("u16", BASE, (64, 16, 8), (128, 4096), (16, 2, 2))
    moved = load(m, (8, 3, 1), SHARED, Memory().read)
    first = BASE + 8 * 2 + 3 * 128 + 4096
    assert moved.addresses.tolist() == [first, first + 128, first + 4096, first + 4096 + 128]
    assert moved.box.run_bytes == 32
    assert moved.shared_offsets.tolist() == list(range(0, 128, 16))
    assert moved.data.reshape(4, 32).tolist() == [content(int(a), 32) for a in moved.addresses]
    assert moved.box.whole
    assert moved.box.addresses[1].tolist() == [first + 128, first + 144]


def test_partly_out_of_bounds_in_every_dimension():
    m = TensorMap("f32", BASE, (6, 3, 2), (32, 128), (8, 3, 2))
    memory = Memory()
    moved = load(m, (-4, -1, 1), SHARED, memory.read)
    # dimension 0: elements -4 to 3, of which 0 to 3 are in; dimension 1: -1 to 1, of which two; dimension 2: 1 and 2
    rows = [BASE + 128, BASE + 128 + 32]
    assert memory.reads == [(rows[0], 16), (rows[1], 16)]
    expected = np.zeros((6, 32), int)
    expected[1, 16:] = content(rows[0], 16)
    expected[2, 16:] = content(rows[1], 16)
    assert moved.data.reshape(6, 32).tolist() == expected.tolist()
    assert moved.box.transaction_bytes == 192
    assert moved.box.in_bounds.sum() == 32


def test_an_extent_that_is_no_multiple_of_16_bytes_is_filled_element_by_element():
    m = TensorMap("f16", BASE, (21, 2), (48,), (16, 2), fill="nan")
    after = shared_after(m, (8, 1), size=64)
    row = content(BASE + 48 + 16, 26)  # elements 8 to 20
    assert after.tolist() == row + [0xF7, 0x7F] * 3 + [0xF7, 0x7F] * 16


@pytest.mark.parametrize("coordinates", [(-64, 0), (512, 0), (0, 64), (0, -4), (0, 1 << 30), (-(1 << 31), 0)])
def test_wholly_out_of_bounds_reads_nothing(coordinates):
    memory = Memory()
    moved = load(PLAIN, coordinates, SHARED, memory.read)
    assert memory.reads == []
    assert not moved.data.any()
    assert moved.box.transaction_bytes == 256


def test_rank_1_and_5():
    m = TensorMap("u32", BASE, (100,), (), (64,))
    assert load(m, (96,), SHARED, words).data.view(np.uint32).ravel().tolist() == [96, 97, 98, 99] + [0] * 60
    m = TensorMap("u32", BASE, (4, 3, 3, 3, 3), (16, 48, 144, 432), (4, 1, 2, 1, 2))
    found = load(m, (0, 2, 1, 0, 2), SHARED, words).data.view(np.uint32)[:, 0]
    # rows of 4 words: 2 + 3 * (1, 2) + 27 * (2, out)
    assert found.tolist() == [4 * (2 + 3 + 54), 4 * (2 + 6 + 54), 0, 0]


def test_element_strides():
    """Every second row: ceil(7 / 2) of them, counted from the box's corner (measured: also from a negative one)."""
    m = dataclasses.replace(PLAIN, box=(32, 7), element_strides=(4, 2))
    moved = box(m, (0, 5), SHARED)
    assert ((moved.row_addresses - BASE) // 512).tolist() == [5, 7, 9, 11]
    assert moved.transaction_bytes == 128
    moved = box(m, (0, -3), SHARED)
    assert moved.rows_in_bounds.tolist() == [False, False, True, True]
    assert moved.run_addresses.tolist() == [BASE + 512, BASE + 3 * 512]


@pytest.mark.parametrize(
    ("coordinates", "address", "kind"),
    [
        ((0, 0), SHARED + 64, "alignment"),
        ((8, 0), SHARED, "alignment"),
        ((-24, 0), SHARED, "alignment"),
        ((0, 0, 0), SHARED, "descriptor"),
    ],
)
def test_refused_copies(coordinates, address, kind):
    with pytest.raises(Finding) as caught:
        box(PLAIN, coordinates, address)
    assert caught.value.kind == kind


# --- im2col (PTX ISA 5.5.4)

IMAGE = TensorMap("u32", BASE, (8, 5, 4, 3), (32, 160, 640), (4, 9), lower=(-1, -1), upper=(-1, 0))


def walked(m, coordinates, offsets) -> list[int | None]:
    """The same by loops: from the first pixel on, along w, h and n, over the box of one image after the other."""
    _, w, h, n = coordinates
    (low_w, low_h), (high_w, high_h), (_, size_w, size_h, images) = m.lower, m.upper, m.extents
    found = []
    while len(found) < m.box[1]:
        at_w, at_h = w + offsets[0], h + offsets[1]
        inside = 0 <= at_w < size_w and 0 <= at_h < size_h and 0 <= n < images
        found.append((n * size_h + at_h) * size_w + at_w if inside else None)
        w += m.element_strides[1]
        if w > size_w - 1 + high_w:
            w, h = low_w, h + m.element_strides[2]
        if h > size_h - 1 + high_h:
            h, n = low_h, n + 1
    return found


@pytest.mark.parametrize(
    ("changes", "coordinates", "offsets"),
    [
        ({}, (4, -1, -1, 0), (0, 0)),
        ({}, (4, 2, 3, 0), (2, 1)),
        ({"box": (4, 70)}, (4, 0, 1, 0), (1, 2)),
        ({"box": (4, 40)}, (4, 1, 2, 2), (0, 1)),
        ({"element_strides": (1, 3, 2, 1), "box": (4, 14)}, (4, 2, 1, 1), (1, 0)),
        ({"lower": (0, 0), "upper": (0, 0), "box": (4, 33)}, (4, 0, 0, 0), (0, 0)),
        ({"lower": (-3, -2), "upper": (2, 2), "box": (4, 100)}, (4, -2, 0, 0), (-1, 3)),
    ],
)
def test_im2col(changes, coordinates, offsets):
    m = dataclasses.replace(IMAGE, **changes)
    moved = load(m, coordinates, SHARED, words, offsets=offsets)
    expected = walked(m, coordinates, offsets)
    rows = moved.data.view(np.uint32).reshape(m.box[1], 4)
    # channels 4 to 7 of each pixel
    assert rows.tolist() == [[8 * p + c for c in range(4, 8)] if p is not None else [0] * 4 for p in expected]
    assert moved.box.transaction_bytes == 16 * m.box[1]
    assert moved.shared_offsets.tolist() == list(range(0, 16 * m.box[1], 16))


def test_im2col_of_other_ranks():
    line = TensorMap("u32", BASE, (4, 6, 2), (16, 96), (4, 9), lower=(1,), upper=(-1,))
    found = load(line, (0, 2, 0), SHARED, words, offsets=(1,)).data.view(np.uint32)[:, 0] // 4
    # a box of 1 to 4, moved by 1: 3, 4, 5 of the first image, 2 to 5 of the second, then zeros
    assert found.tolist() == [3, 4, 5, 8, 9, 10, 11, 0, 0]
    volume = TensorMap("u32", BASE, (4, 2, 2, 3, 1), (16, 32, 64, 192), (4, 6), lower=(0, 0, -1), upper=(0, 0, 0))
    found = load(volume, (0, 1, 1, -1, 0), SHARED, words, offsets=(0, 0, 1)).data.view(np.uint32)[:, 0] // 4
    assert found.tolist() == [3, 4, 5, 6, 7, 8]


def test_im2col_channels_and_swizzle():
    m = TensorMap("f16", BASE, (72, 5, 5, 1), (144, 720, 3600), (64, 8), swizzle=128, lower=(0, 0), upper=(0, 0))
    moved = load(m, (64, 0, 0, 0), SHARED, Memory().read, offsets=(0, 0))
    assert moved.box.run_bytes == 16  # channels 64 to 71; the rest is filled
    after = shared_after(m, (64, 0, 0, 0), offsets=(0, 0))
    for pixel in range(8):
        row = after[128 * pixel : 128 * pixel + 128].reshape(8, 16)
        assert row[pixel].tolist() == content(BASE + 144 * pixel + 128, 16)
        assert not np.delete(row, pixel, 0).any()


def test_im2col_stores():
    """im2col_no_offs: pixels out of bounds are left out."""
    m = dataclasses.replace(IMAGE, box=(4, 8), lower=(0, 0), upper=(0, 0))
    data = np.arange(128, dtype=np.uint8).reshape(8, 16)
    done = store(m, (0, 3, 3, 2), SHARED, lambda offsets, size: data[offsets // 16], offsets=())
    last = BASE + 2 * 640 + 3 * 160 + 3 * 32
    assert done.addresses.tolist() == [last, last + 32]
    assert done.data.tolist() == data[:2].tolist()


@pytest.mark.parametrize(
    ("m", "offsets", "kind"), [(IMAGE, None, "descriptor"), (PLAIN, (0,), "descriptor"), (IMAGE, (0,), "descriptor")]
)
def test_im2col_refused(m, offsets, kind):
    with pytest.raises(Finding, match=r"mode|offsets") as caught:
        box(m, (0, 0, 0, 0)[: m.rank], SHARED, offsets=offsets)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("changes", "first"), [({}, (-2, 0)), ({}, (0, 4)), ({"element_strides": (1, 2, 1, 1)}, (0, 0))]
)
def test_im2col_from_where_the_isa_says_nothing(changes, first):
    with pytest.raises(NotModelled, match="im2col copies whose first pixel"):
        box(dataclasses.replace(IMAGE, **changes), (0, *first, 0), SHARED, offsets=(0, 0))


# --- interleave (PTX ISA 5.5.6; measured on an H200): dimension 0 counts slices, a copy takes one slice of channels


def test_interleave():
    m = TensorMap("u16", BASE, (10, 6, 3), (512, 4096), (8, 2, 2), interleave=16)
    moved = box(m, (-1, 4, 1), SHARED)
    assert moved.row_addresses.tolist() == [BASE + 4 * 512 + 4096 - 16, BASE + 4 * 512 + 8192 - 16]
    assert (moved.low, moved.high, moved.row_bytes) == (16, 128, 128)
    assert moved.transaction_bytes == 256
    assert box(m, (8, 4, 1), SHARED).high == 32
    strided = dataclasses.replace(m, element_strides=(3, 1, 1))
    assert (box(strided, (1, 0, 0), SHARED).row_addresses - BASE).tolist() == [16, 64, 112, 4112, 4160, 4208]


def test_interleave_of_32_bytes():
    m = TensorMap("u16", BASE, (10, 6, 3), (512, 4096), (8, 1, 1), interleave=32, swizzle=32)
    after = shared_after(m, (2, 1, 1), size=256)
    first = BASE + 64 + 512 + 4096
    assert after[:128].tolist() == content(first, 128)
    assert after[128:160].tolist() == content(first + 144, 16) + content(first + 128, 16)


# --- sub-byte types


def test_b4x16_is_as_it_is():
    m = TensorMap("b4x16", BASE, (256, 4), (128,), (64, 2))
    moved = load(m, (32, 1), SHARED, Memory().read)
    assert moved.addresses.tolist() == [BASE + 128 + 16, BASE + 256 + 16]
    assert (moved.box.run_bytes, moved.box.transaction_bytes) == (32, 64)
    with pytest.raises(Finding, match="coordinate 16"):
        box(m, (16, 1), SHARED)


def test_b4x16_p64():
    """Eight bytes, eight of padding (figure 5); a 128-byte swizzle is of the padded rows; the mbarrier counts data."""
    m = TensorMap("b4x16_p64", BASE, (256, 8), (128,), (128, 2), swizzle=128)
    after = shared_after(m, (128, 3), size=256)
    first = BASE + 3 * 128 + 64
    assert after[:16].tolist() == content(first, 8) + [-1] * 8
    assert after[112:128].tolist() == content(first + 56, 8) + [-1] * 8
    assert after[128:136].tolist() == content(first + 128 + 8, 8)
    moved = box(m, (128, 3), SHARED)
    assert (moved.transaction_bytes, moved.piece) == (128, 8)
    with pytest.raises(Finding, match="coordinate 64") as caught:
        box(m, (64, 3), SHARED)
    assert "128" in caught.value.expected
    with pytest.raises(Finding, match="a store with b4x16_p64"):
        store(m, (0, 0), SHARED, Memory().read)


def test_b6x16_p32():
    m = TensorMap("b6x16_p32", BASE, (256, 8), (192,), (128, 2))
    after = shared_after(m, (128, 3), size=256)
    first = BASE + 3 * 192 + 96
    assert after[:16].tolist() == content(first, 12) + [-1] * 4
    assert after[128:140].tolist() == content(first + 192, 12)
    assert box(m, (128, 3), SHARED).transaction_bytes == 192
    for_stores = dataclasses.replace(m, swizzle=128, atomicity="64B")
    with pytest.raises(Finding, match="for stores"):
        load(for_stores, (0, 0), SHARED, Memory().read)


def test_b6p2x16_store_packs_six_bits_of_every_byte():
    m = TensorMap("b6x16_p32", BASE, (128, 8), (96,), (128, 1))
    source = np.zeros(128, np.uint8)
    source[:4] = [0b11_000001, 0b00_000010, 0b01_100011, 0b10_111111]  # the two high bits are padding
    stored = store(m, (0, 5), SHARED, lambda offsets, size: source[offsets[:, None] + np.arange(size)])
    assert stored.addresses.tolist() == [BASE + 5 * 96]
    assert stored.data.shape == (1, 96)
    # 000001, 000010, 100011, 111111 from the low bit on
    assert stored.data[0, :4].tolist() == [0b10_000001, 0b0011_0000, 0b111111_10, 0]


# --- what loads change


def test_tf32_is_rounded_to_nearest_even():
    pairs = [  # measured on an H200
        (0x3F800FFF, 0x3F800000),
        (0x3F801000, 0x3F800000),
        (0x3F801001, 0x3F802000),
        (0x3F803000, 0x3F804000),
        (0x00001000, 0x00000000),
        (0x807FFFFF, 0x80800000),
        (0x7F7FFFFF, 0x7F800000),
        (0xFF800000, 0xFF800000),
        (0x7F800001, 0x7FFFE000),
        (0xFFC12345, 0x7FFFE000),
        (0x3F802000, 0x3F802000),
        (0x80000001, 0x80000000),
    ]
    source = np.array([before for before, _ in pairs], np.uint32).view(np.uint8)
    m = TensorMap("tf32", BASE, (12,), (), (16,), fill="nan")
    found = load(m, (0,), SHARED, lambda a, n: source[None, :n]).data.view(np.uint32).ravel().tolist()
    assert found == [after for _, after in pairs] + [0x7FF77FF7] * 4
    plain = dataclasses.replace(m, element="f32_ftz")
    assert load(plain, (0,), SHARED, lambda a, n: source[None, :n]).data.view(np.uint8).ravel()[:48].tolist() == (
        source.tolist()
    )


# --- gather4 and scatter4 (PTX ISA 5.5.3.4, figure 10: rows 2, 5, 0 and 9 from column 1 on)


def test_gather4():
    m = TensorMap("u32", BASE, (64, 10), (256,), (32, 1), swizzle=128)
    moved = load(m, (4, 2, 5, 10, 9), SHARED, words, gathered=True)
    assert moved.addresses.tolist() == [BASE + row * 256 + 16 for row in (2, 5, 9)]
    assert moved.box.transaction_bytes == 512
    data = moved.data.view(np.uint32).reshape(4, 32)
    assert data[:, 0].tolist() == [2 * 64 + 4, 5 * 64 + 4, 0, 9 * 64 + 4]
    assert moved.shared_offsets.reshape(4, 8)[:, 0].tolist() == [0, 128 + 16, 256 + 32, 384 + 48]


def test_scatter4():
    m = TensorMap("u32", BASE, (64, 10), (256,), (32, 1))
    stored = store(m, (32, 7, 0, 3, 12), SHARED, lambda o, n: words(o + BASE, n), gathered=True)
    assert stored.addresses.tolist() == [BASE + row * 256 + 128 for row in (7, 0, 3)]
    assert stored.data.view(np.uint32)[:, 0].tolist() == [0, 32, 64]


@pytest.mark.parametrize(
    ("m", "coordinates"),
    [
        (PLAIN, (0, 1, 2, 3, 4)),
        (dataclasses.replace(PLAIN, box=(64, 1)), (0, 1)),
        (TensorMap("u8", BASE, (64,), (), (64,)), (0, 1, 2, 3, 4)),
    ],
)
def test_gather4_wants_two_dimensions_and_one_row(m, coordinates):
    with pytest.raises(Finding, match="gather4") as caught:
        box(m, coordinates, SHARED, gathered=True)
    assert caught.value.kind == "descriptor"


# --- stores


def test_store_reads_swizzled_and_clips():
    m = TensorMap("u8", BASE, (512, 64), (512,), (32, 4), swizzle=32)
    stored = store(m, (496, 62), SHARED + 128, Memory().read)
    # two rows and sixteen bytes of each are in bounds; the destination is an odd line, so chunks 0 and 1 are swapped
    assert stored.addresses.tolist() == [BASE + 62 * 512 + 496, BASE + 63 * 512 + 496]
    assert stored.data.tolist() == [content(16, 16), content(48, 16)]
    assert stored.shared_offsets.tolist() == [16, 0, 48, 32, 80, 64, 112, 96]


def test_store_writes_whole_16_bytes_past_the_extent():
    # measured: elements 16 to 23 of a row of 21 are written, three of them padding of the tensor
    m = TensorMap("u16", BASE, (21, 6), (64,), (8, 2))
    stored = store(m, (16, 5), SHARED, Memory().read)
    assert stored.addresses.tolist() == [BASE + 5 * 64 + 32]
    assert stored.data.tolist() == [content(0, 16)]
    assert store(m, (24, 5), SHARED, Memory().read).data.size == 0
    assert (box(m, (16, 5), SHARED, storing=True).run_bytes, box(m, (16, 5), SHARED).run_bytes) == (16, 10)


def test_store_restrictions():
    for coordinates in ((-16, 0), (0, -1)):
        with pytest.raises(Finding, match="a tensor store at coordinates") as caught:
            store(PLAIN, coordinates, SHARED, Memory().read)
        assert caught.value.kind == "bounds"
    flipped = TensorMap("u8", BASE, (128, 64), (128,), (128, 4), swizzle=128, atomicity="32B+8B")
    with pytest.raises(Finding, match="8-byte flip"):
        store(flipped, (0, 0), SHARED, Memory().read)


def test_store_undoes_load():
    m = TensorMap("bf16", BASE, (100, 9, 4), (208, 1872), (32, 4, 3), swizzle=64)
    moved = load(m, (72, 4, 2), SHARED + 384, Memory().read)
    shared = np.zeros(4096, np.uint8)
    shared[moved.shared_offsets[:, None] + np.arange(16)] = moved.data
    stored = store(m, (72, 4, 2), SHARED + 384, lambda o, n: shared[o[:, None] + np.arange(n)])
    assert stored.addresses.tolist() == moved.addresses.tolist()
    for address, row in zip(stored.addresses.tolist(), stored.data, strict=True):
        assert row[:56].tolist() == content(address, 56)


def test_cluster_destination_on_sm_120a():
    tensor_copy.check_cluster_destination(PLAIN)
    for m in (
        TensorMap("b4x16", BASE, (64,), (), (64,)),
        TensorMap("u8", BASE, (128, 4), (128,), (128, 4), swizzle=128, atomicity="32B"),
    ):
        with pytest.raises(Finding, match="shared::cluster"):
            tensor_copy.check_cluster_destination(m)
