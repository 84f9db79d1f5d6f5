"""Tensor memory: addresses, allocation, the cells of ld, st, cp and mma, packing. Expected values are the ISA's."""

from __future__ import annotations

import re

import numpy as np
import pytest

from scalec.emulator.layouts import tensor_memory as tm
from tests.emulator.refusals import found, refused_lines


def pairs(cells: tm.Cells) -> list[tuple[int, int]]:
    return list(zip(cells.lanes.ravel().tolist(), cells.columns.ravel().tolist(), strict=True))


def cell(cells: tm.Cells, *index: int) -> tuple[int, int]:
    return int(cells.lanes[index]), int(cells.columns[index])


# -- addresses and allocation ------------------------------------------------------------------------------------------


def test_an_address_has_the_lane_in_its_upper_half():
    assert tm.split_address(0x0060_0104) == (96, 260)
    found("bounds", tm.split_address, 128 << 16)
    found("bounds", tm.split_address, 512)


def test_cells_past_the_last_column_are_a_finding():
    assert cell(tm.at(tm.accumulator_cells(128, 256, 1), 0, 256, "D"), 127, 255) == (127, 511)
    assert "column 512" in found("bounds", tm.at, tm.accumulator_cells(128, 256, 1), 0, 257, "D").message
    found("bounds", tm.at, tm.operand_cells(128, 1), 16, 0, "A")


def test_allocations_are_disjoint_and_full_memory_blocks():
    held, first = tm.Allocations().allocate(256)
    held, second = held.allocate(128)
    held, third = held.allocate(128)
    assert [first, second, third] == [0, 256, 384]
    assert held.allocate(32) is None
    held = held.free(256, 128)
    assert held.allocate(64)[1] == 256
    assert held.taken == ((0, 256), (384, 128))


@pytest.mark.parametrize("count", [0, 16, 48, 96, 511, 1024])
def test_only_powers_of_two_from_32_to_512_columns(count):
    found("tensor-memory", tm.Allocations().allocate, count)


def test_rules_of_allocation():
    held, column = tm.Allocations().allocate(64)
    found("tensor-memory", held.allocate, 128)  # "should not increase between any two allocations"
    found("tensor-memory", held.relinquish().allocate, 32)
    found("tensor-memory", held.free, column, 32)
    found("tensor-memory", held.free, column + 64, 64)
    assert held.relinquish().free(column, 64).taken == ()


def test_touching_columns_outside_of_allocations():
    held, _ = tm.Allocations().allocate(64)
    held.check(tm.accumulator_cells(128, 64, 1), "D")
    text = found("tensor-memory", held.check, tm.accumulator_cells(128, 72, 1), "tcgen05.mma").message
    assert "columns 64 to 71" in text


# -- ld and st ---------------------------------------------------------------------------------------------------------

HAND = [  # shape, thread, register, lane, column: figures 183 to 187
    ("32x32b", 5, 3, 5, 3),
    ("16x64b", 0, 0, 0, 0),
    ("16x64b", 1, 0, 8, 0),
    ("16x64b", 2, 0, 0, 1),
    ("16x64b", 3, 0, 8, 1),
    ("16x64b", 4, 0, 1, 0),
    ("16x64b", 31, 3, 15, 7),
    ("16x128b", 0, 0, 0, 0),
    ("16x128b", 3, 0, 0, 3),
    ("16x128b", 4, 0, 1, 0),
    ("16x128b", 0, 1, 8, 0),
    ("16x128b", 0, 2, 0, 4),
    ("16x128b", 31, 3, 15, 7),
    ("16x256b", 0, 1, 0, 1),
    ("16x256b", 1, 0, 0, 2),
    ("16x256b", 4, 0, 1, 0),
    ("16x256b", 0, 2, 8, 0),
    ("16x256b", 0, 4, 0, 8),
    ("16x256b", 31, 7, 15, 15),
]


@pytest.mark.parametrize(("shape", "thread", "register", "lane", "column"), HAND)
def test_fragments_by_hand(shape, thread, register, lane, column):
    repeat = -(-(register + 1) // tm.REGISTERS[shape])
    assert cell(tm.register_cells(shape, repeat), thread, register, 0) == (lane, column)


def test_the_two_accesses_of_16x32bx2():
    cells = tm.register_cells("16x32bx2", 2, split=100)
    assert cell(cells, 3, 1, 0) == (3, 1)
    assert cell(cells, 16 + 3, 1, 0) == (3, 101)
    packed = tm.register_cells("16x32bx2", 2, packed=True, split=100)
    assert [cell(packed, 19, 1, half) for half in (0, 1)] == [(3, 102), (3, 103)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"])
def test_fragments_cover_a_rectangle_once(shape, packed):
    for repeat in (1, 2, 8, 32):
        rows = 32 if shape == "32x32b" else 16
        bits = 64 if shape == "16x32bx2" else int(shape.split("x")[1][:-1])
        width = bits // 32 * repeat * (2 if packed else 1)
        cells = tm.register_cells(shape, repeat, packed, split=width // 2 if shape == "16x32bx2" else 0)
        assert cells.lanes.shape == (32, tm.REGISTERS[shape] * repeat, 2 if packed else 1)
        assert sorted(pairs(cells)) == [(lane, column) for lane in range(rows) for column in range(width)]


def test_packing_takes_the_low_halves_of_adjacent_columns():
    words = np.array([[0xAAAA1111, 0xBBBB2222]], np.uint32)
    assert tm.pack(words).tolist() == [0x22221111]
    assert tm.unpack(np.array([0x22221111], np.uint32), True).tolist() == [[0x1111, 0x2222]]
    assert tm.pack(tm.unpack(np.array([0xDEADBEEF], np.uint32), False)).tolist() == [0xDEADBEEF]
    cells = tm.register_cells("32x32b", 2, packed=True)
    assert [cell(cells, 7, 1, half) for half in (0, 1)] == [(7, 2), (7, 3)]


def test_a_warp_reaches_its_quarter_of_the_lanes():
    for warp, lane in ((0, 0), (3, 96), (5, 32)):
        tm.check_warp("32x32b", lane, warp)
    tm.check_warp("16x64b", 48, 1)
    assert "lanes 32 to 63" in found("tensor-memory", tm.check_warp, "32x32b", 0, 1).expected
    found("tensor-memory", tm.check_warp, "16x64b", 64, 7)
    found("alignment", tm.check_warp, "16x256b", 8, 0)
    found("alignment", tm.check_warp, "32x32b", 16, 0)


def test_ptxas_and_the_table_of_register_counts_agree(tmp_path):
    lines, expected = [], set()
    for shape in tm.REGISTERS:
        for repeat in (1, 2, 4, 8, 16, 32, 64, 128):
            count = tm.REGISTERS[shape] * repeat
            registers = ", ".join(f"%r{i}" for i in range(min(count, 128)))
            split = ", 4" if shape.endswith("x2") else ""
            if count > 128:
                found("illegal", tm.register_cells, shape, repeat)
                expected.add(len(lines))
            lines.append(f"tcgen05.ld.sync.aligned.{shape}.x{repeat}.b32 {{{registers}}}, [%r129]{split};")
    assert refused_lines(lines, "sm_100a", tmp_path) == expected != set()


# -- cp ----------------------------------------------------------------------------------------------------------------


def lanes_of_row(shape: str, multicast: str, row: int) -> list[int]:
    return tm.copy_cells(shape, multicast).lanes[:, row, 0].tolist()


def test_copies_by_hand():
    assert lanes_of_row("128x256b", "", 77) == [77]
    assert lanes_of_row("128x128b", "", 127) == [127]
    assert lanes_of_row("32x128b", "warpx4", 5) == [5, 37, 69, 101]
    assert lanes_of_row("64x128b", "warpx2::02_13", 5) == [5, 69]  # warps 0 and 2 receive the first half
    assert lanes_of_row("64x128b", "warpx2::02_13", 37) == [37, 101]  # warps 1 and 3 the second
    assert lanes_of_row("64x128b", "warpx2::01_23", 5) == [5, 37]  # warps 0 and 1 receive the first half
    assert lanes_of_row("64x128b", "warpx2::01_23", 37) == [69, 101]  # warps 2 and 3 the second
    assert [lanes_of_row("4x256b", "", row) for row in range(4)] == [[0], [32], [64], [96]]


@pytest.mark.parametrize(("shape", "multicast"), tm._COPIES)
def test_copies_write_each_cell_once(shape, multicast):
    rows, bits = (int(n) for n in re.findall(r"\d+", shape))
    cells = tm.copy_cells(shape, multicast)
    assert cells.lanes.shape[1:] == (rows, bits // 32)
    assert cells.columns[0, 0].tolist() == list(range(bits // 32))
    assert len(set(pairs(cells))) == cells.lanes.size
    assert cells.lanes.size == (4 if shape == "4x256b" else 128) * bits // 32


def test_ptxas_and_the_table_of_copies_agree(tmp_path):
    lines, expected = [], set()
    for shape in ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b"):
        for multicast in ("", "warpx2::02_13", "warpx2::01_23", "warpx4"):
            if (shape, multicast) not in tm._COPIES:
                found("illegal", tm.copy_cells, shape, multicast)
                expected.add(len(lines))
            lines.append(f"tcgen05.cp.cta_group::1.{shape}{'.' + multicast if multicast else ''} [%r1], %rd1;")
    assert refused_lines(lines, "sm_100a", tmp_path) == expected
    assert len(lines) - len(expected) == 6


def test_four_bit_elements_are_put_into_the_middle_of_bytes():
    source = np.zeros(16, np.uint8)
    source[:2] = 0xE1, 0x3F  # elements 1, 14, 15, 3
    source[8:] = 0xFF  # padding
    assert tm.decompress(source, "b4x16_p64").tolist() == [0x04, 0x38, 0x3C, 0x0C, *[0] * 12]


def test_six_bit_elements_are_put_into_the_low_bits_of_bytes():
    source = np.zeros((2, 16), np.uint8)
    source[1, :3] = 0x81, 0x30, 0x10  # 1 + (2 << 6) + (3 << 12) + (4 << 18)
    source[1, 9:12] = 0xFF, 0xFF, 0xFF
    source[:, 12:] = 0xFF
    assert tm.decompress(source, "b6x16_p32").tolist() == [[0] * 16, [1, 2, 3, 4, *[0] * 8, 63, 63, 63, 63]]


@pytest.mark.parametrize("bits", [4, 6])
def test_containers_keep_every_code(bits):
    codes = np.arange(1 << bits, dtype=np.uint8)
    assert (tm.from_containers(tm.to_containers(codes, bits), bits) == codes).all()
    assert (tm.from_containers(tm.to_containers(codes, bits) | 0xC0, bits) == codes).all()


# -- mma ---------------------------------------------------------------------------------------------------------------

LAYOUTS = [  # M, cta_group, ws, name, (row, column of N = 128) -> (lane, column): figures 205 to 218
    (256, 2, False, "A", [((0, 0), (0, 0)), ((127, 127), (127, 127)), ((32, 5), (32, 5))]),
    (128, 2, False, "B", [((0, 0), (0, 0)), ((63, 63), (63, 63)), ((0, 64), (64, 0)), ((63, 127), (127, 63))]),
    (128, 1, False, "D", [((0, 0), (0, 0)), ((127, 127), (127, 127)), ((64, 5), (64, 5))]),
    (128, 1, True, "D", [((127, 127), (127, 127))]),
    (64, 1, True, "E", [((0, 0), (0, 0)), ((63, 63), (63, 63)), ((1, 64), (65, 0)), ((63, 127), (127, 63))]),
    (64, 1, False, "F", [((0, 0), (0, 0)), ((15, 9), (15, 9)), ((16, 0), (32, 0)), ((63, 127), (111, 127))]),
    (32, 1, True, "G", [((0, 0), (0, 0)), ((31, 31), (31, 31)), ((2, 32), (34, 0)), ((31, 127), (127, 31))]),
]


@pytest.mark.parametrize(("m", "cta_group", "ws", "name", "points"), LAYOUTS)
def test_accumulators_by_hand(m, cta_group, ws, name, points):
    assert tm.layout_name(m, cta_group, ws) == name
    cells = tm.accumulator_cells(m, 128, cta_group, ws)
    assert cells.lanes.shape == (m // cta_group, 128)
    for place, expected in points:
        assert cell(cells, *place) == expected
    assert len(set(pairs(cells))) == cells.lanes.size
    lanes = 64 if name == "F" else 128
    assert len(np.unique(cells.lanes)) == lanes
    assert cells.columns.max() + 1 == cells.lanes.size // lanes


def test_layouts_that_do_not_exist():
    for m, cta_group, ws in ((64, 2, False), (256, 1, False), (32, 1, False), (256, 2, True)):
        found("descriptor", tm.layout_name, m, cta_group, ws)


def test_matrix_a_in_tensor_memory():
    assert cell(tm.operand_cells(128, 1), 0, 100, 7) == (100, 7)
    assert cell(tm.operand_cells(256, 2), 0, 100, 7) == (100, 7)
    assert cell(tm.operand_cells(64, 1), 0, 17, 2) == (33, 2)  # the lanes of the same rows of D
    assert cell(tm.operand_cells(128, 2), 1, 5, 0) == (69, 0)  # the copy that computes the second half of N
    assert [tm.operand_cells(m, g).lanes.shape[0] for m, g in ((128, 1), (256, 2), (64, 1), (128, 2))] == [1, 1, 1, 2]


@pytest.mark.parametrize(("m", "cta_group"), [(64, 1), (128, 1), (128, 2), (256, 2)])
def test_rows_of_a_lie_in_the_lanes_of_their_rows_of_d(m, cta_group):
    operand, result = tm.operand_cells(m, cta_group), tm.accumulator_cells(m, 128, cta_group)
    copies = len(operand.lanes)
    for i in range(copies):
        width = 128 // copies
        assert (operand.lanes[i, :, :1] == result.lanes[:, i * width : (i + 1) * width]).all()


def test_the_lane_of_a_and_d_is_0_and_for_layout_f_0_or_16():
    tm.check_lane(16, 64, 1, "D")
    tm.check_lane(0, 256, 2, "A")
    found("alignment", tm.check_lane, 16, 128, 1, "D")
    found("alignment", tm.check_lane, 32, 64, 1, "D")
    found("alignment", tm.check_lane, 16, 64, 1, "D", True)


def test_disabled_lanes_begin_with_the_lowest_bit_of_the_first_word():
    mask = tm.disabled_lanes([1, 0, 0, 0x80000000])
    assert mask.shape == (1, 128)
    assert np.flatnonzero(mask).tolist() == [0, 127]
    pair = tm.disabled_lanes([0, 2, 0, 0, 0, 0, 4, 0])
    assert [np.flatnonzero(row).tolist() for row in pair] == [[33], [66]]
