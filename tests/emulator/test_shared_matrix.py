"""Swizzles, matrix descriptors and the layouts behind them, against the ISA's tables and examples."""

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.layouts.shared_matrix import Descriptor, operand_addresses
from scalec.emulator.layouts.swizzle import swizzled
from scalec.emulator.layouts.tensor_copy import load
from scalec.emulator.layouts.tensor_map import TensorMap

# -- PTX ISA 5.5.7: each row is a line of 128 bytes, each number the 16-byte chunk of the source that lies there -------

TABLES = {
    (32, "16B"): ["0 1 2 3 4 5 6 7", "1 0 3 2 5 4 7 6"],
    (64, "16B"): ["0 1 2 3 4 5 6 7", "1 0 3 2 5 4 7 6", "2 3 0 1 6 7 4 5", "3 2 1 0 7 6 5 4"],
    (128, "16B"): [
        "0 1 2 3 4 5 6 7", "1 0 3 2 5 4 7 6", "2 3 0 1 6 7 4 5", "3 2 1 0 7 6 5 4",
        "4 5 6 7 0 1 2 3", "5 4 7 6 1 0 3 2", "6 7 4 5 2 3 0 1", "7 6 5 4 3 2 1 0",
    ],
    (128, "32B"): ["0 1 2 3 4 5 6 7", "2 3 0 1 6 7 4 5", "4 5 6 7 0 1 2 3", "6 7 4 5 2 3 0 1"],
    (128, "64B"): ["0 1 2 3 4 5 6 7", "4 5 6 7 0 1 2 3"],
}  # fmt: skip


@pytest.mark.parametrize(("span", "atomicity"), TABLES)
def test_tables_of_the_swizzles(span, atomicity):
    table = np.array([line.split() for line in TABLES[span, atomicity]], int)
    source = np.arange(2048, dtype=np.int64)
    memory = np.zeros(2048, int)
    memory[swizzled(source + 4096, span, atomicity) - 4096] = source
    for line in range(16):
        expected = (128 * line + 16 * table[line % len(table)][:, None] + np.arange(16)).ravel()
        np.testing.assert_array_equal(memory[128 * line :][:128], expected)


def test_halves_flip_in_every_second_line():
    # the 32-byte pattern above, and bytes 0-7 against 8-15 of each 16 in lines 1, 3, ...
    assert swizzled(np.array([0, 8, 128, 136, 128 + 32]), 128, "32B+8B").tolist() == [0, 8, 168, 160, 136]
    assert swizzled(np.array([256, 384]), 128, "32B+8B").tolist() == [256 + 64, 384 + 96 + 8]


def test_no_swizzle_and_a_pattern_that_begins_elsewhere():
    addresses = np.array([0, 130, 1040])
    assert swizzled(addresses, 0).tolist() == [0, 130, 1040]
    # the pattern begins at line 4 (512): there nothing moves, and line 5 has the table's second row
    assert swizzled(np.array([512, 640, 640 + 16, 0]), 128, base=4).tolist() == [512, 640 + 16, 640, 64]


# -- descriptors -------------------------------------------------------------------------------------------------------


def test_fields_of_the_wgmma_descriptor():
    # start 0x12340, LBO 256 (encoded 16), SBO 1024 (encoded 64), base offset 5, 64-byte swizzle (mode 2)
    word = 0x1234 | 16 << 16 | 64 << 32 | 5 << 49 | 2 << 62
    assert Descriptor.wgmma(word) == Descriptor(0x12340, 256, 1024, 5, 64)
    assert [Descriptor.wgmma(mode << 62).swizzle for mode in range(4)] == [0, 128, 64, 32]
    assert Descriptor.wgmma(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32) == Descriptor(0x3FFF0, 0x3FFF0, 0x3FFF0)


def test_fields_of_the_tcgen05_descriptor():
    word = 0x0040 | 1 << 16 | 64 << 32 | 1 << 46 | 3 << 49 | 6 << 61
    assert Descriptor.tcgen05(word) == Descriptor(0x400, 16, 1024, 3, 32)
    modes = {mode: Descriptor.tcgen05(1 << 46 | mode << 61) for mode in (0, 1, 2, 4, 6)}
    assert {m: (d.swizzle, d.atom) for m, d in modes.items()} == {
        0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)
    }  # fmt: skip


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 47, 48, 52, 57, 61])
def test_reserved_bits_of_the_wgmma_descriptor(bit):
    with pytest.raises(Finding, match="reserved bits") as caught:
        Descriptor.wgmma(0x100 | 1 << bit)
    assert caught.value.kind == "descriptor"


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 53, 60])
def test_reserved_bits_of_the_tcgen05_descriptor(bit):
    with pytest.raises(Finding, match="reserved bits") as caught:
        Descriptor.tcgen05(1 << 46 | 1 << bit)
    assert caught.value.kind == "descriptor"


@pytest.mark.parametrize("fixed", [0, 2, 3, 5])
def test_fixed_bits_of_the_tcgen05_descriptor(fixed):
    with pytest.raises(Finding, match="46-48") as caught:
        Descriptor.tcgen05(fixed << 46)
    assert caught.value.expected == "0b001"


@pytest.mark.parametrize("mode", [3, 5, 7])
def test_unknown_swizzles_of_tcgen05(mode):
    with pytest.raises(Finding, match=f"swizzle mode {mode}"):
        Descriptor.tcgen05(1 << 46 | mode << 61)


def test_what_descriptors_may_not_say():
    with pytest.raises(Finding, match="base offset 2 without a swizzle"):
        Descriptor.wgmma(2 << 49)
    assert Descriptor.tcgen05(1 << 46 | 2 << 49).base == 0
    with pytest.raises(NotModelled, match="absolute address"):
        Descriptor.tcgen05(1 << 46 | 1 << 52)


# -- layouts: the examples of 9.7.15.5.1.2.1.3 and 9.7.16.3.3, "Exact layout" as the ISA writes it ---------------------


def cute(shape, stride):
    """All offsets of one mode of a CuTe layout, in elements: the first part of the shape runs fastest."""
    result = np.zeros(1, int)
    for extent, step in zip(shape, stride, strict=True):
        result = (result[None, :] + np.arange(extent)[:, None] * step).ravel()
    return result


def cute_swizzle(offsets, bits):
    """Swizzle<bits, 4, 3> of byte offsets: `bits` bits from bit 7 on are XORed into those from bit 4 on."""
    return offsets ^ (offsets >> 3 & ((1 << bits) - 1) << 4)


EXAMPLES = {
    # name: element bytes, Swizzle<b, 4, 3>, rows ((shape), (stride)), K ((shape), (stride)), LBO, SBO, MN-major
    "figure 166": (4, 0, ((8, 2), (4, 32)), ((4, 4), (1, 64)), 64, 32, False),
    "figure 167": (4, 1, ((8, 2), (8, 64)), ((4, 2), (1, 4)), 1, 64, False),
    "figure 168": (2, 0, ((8, 1, 2), (1, 8, 64)), ((8, 2), (8, 128)), 128, 64, True),
    "figure 169": (2, 1, ((8, 2, 2), (1, 8, 128)), ((8, 2), (16, 256)), 128, 256, True),
    "figure 170": (2, 2, ((8, 4, 2), (1, 8, 256)), ((8, 2), (32, 512)), 256, 512, True),
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("start", [0, 0x2400, 0x3FC00])
def test_examples_of_canonical_layouts(name, start):
    size, swizzle, rows, columns, leading, stride, mn_major = EXAMPLES[name]
    elements = cute(*rows)[:, None] + cute(*columns)[None, :]
    expected = start + cute_swizzle(elements[:, :, None] * size + np.arange(size), swizzle)
    mode = {0: 0, 1: 3, 2: 2}[swizzle]
    word = start >> 4 | (leading * size >> 4) << 16 | (stride * size >> 4) << 32 | mode << 62
    found = operand_addresses(Descriptor.wgmma(word), *elements.shape, 8 * size, mn_major)
    np.testing.assert_array_equal(found, expected.reshape(len(expected), -1))


def test_k_steps_inside_a_128_byte_span():
    """A tile of 64 rows of 128 bytes, swizzled by 128: the four steps of K are the quarters of its rows."""
    tile, start = np.arange(64 * 128).reshape(64, 128), 0x1800
    memory = np.zeros(0x1800 + 8192 + 2048, int)
    for row in range(64):
        for chunk in range(8):  # as a tensor copy lays it down: chunk c of row r at c ^ (r % 8)
            at = start - 0x400 + 128 * row + 16 * (chunk ^ row % 8)
            memory[at : at + 16] = tile[row, 16 * chunk :][:16]
    for step in range(4):
        d = Descriptor(start - 0x400 + 32 * step, 16, 1024, 0, 128)
        np.testing.assert_array_equal(memory[operand_addresses(d, 64, 32, 8)], tile[:, 32 * step :][:, :32])


def test_base_offset_moves_the_pattern():
    # pattern and matrix begin at 0x200, line 4 of 8: base offset (0x200 >> 7) & 7 = 4; row 1 is the table's second row
    rows = operand_addresses(Descriptor(0x200, 16, 1024, 4, 128), 8, 16, 16)
    assert rows[0, [0, 16]].tolist() == [0x200, 0x210]
    assert rows[1, [0, 16]].tolist() == [0x290, 0x280]
    assert rows[7, [0, 31]].tolist() == [0x580 + 0x70, 0x580 + 0x60 + 15]
    # without it, bits 7 to 9 of the address say 4 for row 0
    assert operand_addresses(Descriptor(0x200, 16, 1024, 0, 128), 8, 16, 16)[0, 0] == 0x240


def test_mn_major_of_8_bits_and_of_a_part_of_an_atom():
    # tcgen05, 128-byte swizzle: 128 rows lie along a line, line k; groups of 8 k are SBO apart, groups of 128 rows LBO
    a = operand_addresses(Descriptor(0, 0x4000, 0x800, 0, 128), 256, 32, 8, True)
    assert a.shape == (256, 32)
    assert a[[0, 15, 16, 127], 0].tolist() == [0, 15, 16, 127]
    assert a[[0, 16, 127], 1].tolist() == [128 + 16, 128, 128 + 111]  # line 1: chunks c ^ 1
    assert a[0, [8, 31]].tolist() == [0x800, 3 * 0x800 + 7 * 128 + 7 * 16]
    assert a[128, 0] == 0x4000
    # 24 columns of 16 bits: three of the eight chunks
    b = operand_addresses(Descriptor(0, 0x4000, 0x400, 0, 128), 24, 16, 16, True)
    assert b[23].reshape(16, 2)[9].tolist() == [0x400 + 128 + (2 ^ 1) * 16 + 14, 0x400 + 128 + (2 ^ 1) * 16 + 15]


def test_mn_major_of_32_bits_in_32_byte_atoms():
    # Swizzle<2,5,2>: bits 7 and 8 into bits 5 and 6; K in groups of four lines (table 55: 8x4)
    a = operand_addresses(Descriptor(0, 0x1000, 0x200, 0, 128, 32), 64, 8, 32, True).reshape(64, 8, 4)[:, :, 0]
    assert a[[0, 7, 8, 31], 0].tolist() == [0, 28, 32, 124]
    assert a[[0, 8, 16, 31], 1].tolist() == [128 + 32, 128, 128 + 96, 128 + 92]
    assert a[0, :].tolist() == [0, 160, 320, 480, 0x200, 0x200 + 160, 0x200 + 320, 0x200 + 480]
    assert a[32, 0] == 0x1000


def test_a_copied_box_is_an_mn_major_operand_of_32_bits():
    """Two boxes of 32 rows by 16 of K, one after the other: K 8 to 15 of 64 rows, as 1024 bytes further on."""
    stored = np.arange(16 * 64, dtype=np.uint32).reshape(16, 64)
    raw, start, panel = stored.view(np.uint8).reshape(-1), 0x1400, 16 * 128
    memory = np.zeros(0x4000, np.uint8)
    m = TensorMap("f32", 0x10000, (64, 16), (256,), (32, 16), swizzle=128, atomicity="32B")
    for side in range(2):
        to = start + side * panel
        copied = load(m, (32 * side, 0), to, lambda at, size: raw[(at - 0x10000)[:, None] + np.arange(size)])
        memory[to + copied.shared_offsets[:, None] + np.arange(copied.data.shape[1])] = copied.data
    found = memory[operand_addresses(Descriptor(start + 1024, panel, 512, 0, 128, 32), 64, 8, 32, True)]
    np.testing.assert_array_equal(np.ascontiguousarray(found).view(np.uint32), stored[8:].T)


def test_sources_of_tcgen05_cp():
    # 4 rows of 32 bytes, no swizzle: the two chunks LBO apart
    a = operand_addresses(Descriptor(0x100, 0x80, 0x1000), 4, 32, 8)
    assert a.shape == (4, 32)
    assert a[3, [0, 15, 16]].tolist() == [0x130, 0x13F, 0x1B0]
    # packed elements of 4 bits: 64 of them are 32 bytes
    assert operand_addresses(Descriptor(0, 0x80, 0x100), 8, 64, 4).shape == (8, 32)


@pytest.mark.parametrize(("bits", "atom"), [(4, 16), (32, 16), (16, 32), (8, 32)])
def test_combinations_that_table_54_does_not_have(bits, atom):
    with pytest.raises(Finding, match=f"MN-major operand of {bits}-bit") as caught:
        operand_addresses(Descriptor(0, 1024, 1024, 0, 128, atom), 64, 256 // bits, bits, True)
    assert caught.value.kind == "descriptor"


def test_k_major_in_32_byte_atoms_is_not_modelled():
    with pytest.raises(NotModelled):
        operand_addresses(Descriptor(0, 0, 1024, 0, 128, 32), 64, 8, 32)
