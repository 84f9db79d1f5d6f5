"""Register fragments against the formulas and tables of the ISA, written down as it has them."""

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.layouts import fragments

# -- mma.sync: 9.7.14.5.6 to 9.7.14.5.11. (row, col) of ai, bi, ci; g = %laneid >> 2, t = %laneid % 4 -----------------

A = {  # shape and type: bits of an element, K, elements a0 ... in a lane, formula
    "m16n8k4 tf32": (32, 4, 2, lambda i, g, t: (g if i == 0 else g + 8, t)),
    "m16n8k8 bf16": (16, 8, 4, lambda i, g, t: (g if i < 2 else g + 8, t * 2 + (i & 1))),
    "m16n8k8 tf32": (32, 8, 4, lambda i, g, t: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4)),
    "m16n8k16 bf16": (
        16, 16, 8,
        lambda i, g, t: (g if 0 <= i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8)),
    ),
    "m16n8k16 e4m3": (8, 16, 8, lambda i, g, t: (g if i < 4 else g + 8, t * 4 + (i & 3))),
    "m16n8k32 e4m3": (
        8, 32, 16,
        lambda i, g, t: (g if 0 <= i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)),
    ),
    "m16n8k64 e2m1": (
        4, 64, 32,
        lambda i, g, t: (g if 0 <= i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (0 if i < 16 else 32)),
    ),
}  # fmt: skip
B = {
    "m16n8k4 tf32": (32, 4, 1, lambda i, g, t: (t, g)),
    "m16n8k8 bf16": (16, 8, 2, lambda i, g, t: (t * 2 + i, g)),
    "m16n8k8 tf32": (32, 8, 2, lambda i, g, t: (t if i == 0 else t + 4, g)),
    "m16n8k16 bf16": (16, 16, 4, lambda i, g, t: (t * 2 + (i & 1) + (0 if i < 2 else 8), g)),
    "m16n8k16 e4m3": (8, 16, 4, lambda i, g, t: (t * 4 + i, g)),
    "m16n8k32 e4m3": (8, 32, 8, lambda i, g, t: (t * 4 + (i & 3) + (0 if i < 4 else 16), g)),
    "m16n8k64 e2m1": (4, 64, 16, lambda i, g, t: (t * 8 + (i & 7) + (0 if i < 8 else 32), g)),
}


def accumulator_formula(i, g, t):
    return (g if i < 2 else g + 8), t * 2 + (i & 1)


def place(matrix, bits, count, formula):
    """The registers (n, 32) of a warp: elements as wide as `bits`, a0 in the lowest bits of the first register."""
    registers = np.zeros((count * bits // 32, 32), np.uint64)
    for lane in range(32):
        for i in range(count):
            value = int(matrix[formula(i, lane >> 2, lane % 4)])
            registers[i * bits // 32, lane] |= np.uint64(value << i * bits % 32)
    return registers.astype(np.uint32)


def codes(shape, bits, seed):
    return np.random.default_rng(seed).integers(0, 1 << bits, shape, dtype=np.uint64)


def row_bytes(matrix, bits):
    """Rows of elements as bytes, two elements of 4 bits to a byte, the first below."""
    if bits == 4:
        return (matrix[:, 0::2] | matrix[:, 1::2] << np.uint64(4)).astype(np.uint8)
    return np.ascontiguousarray(matrix.astype(f"<u{bits // 8}")).view(np.uint8)


@pytest.mark.parametrize("name", A)
def test_a(name):
    bits, k, count, formula = A[name]
    matrix = codes((16, k), bits, 1)
    registers = place(matrix, bits, count, formula)
    fragment = fragments.operand_a(len(registers))
    np.testing.assert_array_equal(fragment.matrix(registers), row_bytes(matrix, bits))
    np.testing.assert_array_equal(fragment.registers(row_bytes(matrix, bits)), registers)


@pytest.mark.parametrize("name", B)
def test_b(name):
    bits, k, count, formula = B[name]
    matrix = codes((k, 8), bits, 2)
    registers = place(matrix, bits, count, formula)
    found = fragments.operand_b(len(registers)).matrix(registers)
    np.testing.assert_array_equal(found, row_bytes(np.ascontiguousarray(matrix.T), bits))


@pytest.mark.parametrize("bits", [16, 32])
def test_accumulators_of_mma(bits):
    matrix = codes((16, 8), bits, 3).astype(f"u{bits // 8}")
    registers = place(matrix, bits, 4, accumulator_formula)
    fragment = fragments.accumulator(8, bits)
    np.testing.assert_array_equal(fragment.matrix(registers), matrix)
    np.testing.assert_array_equal(fragment.registers(matrix), registers)


def test_rows_and_columns_name_the_elements():
    fragment = fragments.accumulator(8, 16)
    # lane 13: g = 3, t = 1: c0, c1 in row 3, columns 2 and 3; c2, c3 in row 11
    assert fragment.rows[:, 13].tolist() == [[3, 3], [11, 11]]
    assert fragment.columns[:, 13].tolist() == [[2, 3], [2, 3]]
    # a register of A has 4 bytes: lane 13, register 3 of 4: row 11, bytes 16 + 4 to 16 + 7
    assert fragments.operand_a(4).rows[3, 13].tolist() == [11] * 4
    assert fragments.operand_a(4).columns[3, 13].tolist() == [20, 21, 22, 23]


# -- wgmma: figures 148 to 153 -----------------------------------------------------------------------------------------


def test_accumulators_of_wgmma():
    # figure 149: thread 0 has d0, d1 at (0, 0), (0, 1), d2, d3 at (8, 0), (8, 1), d4, d5 at (0, 8), (0, 9); thread 6
    # (g = 1, t = 2) d6, d7 at (9, 12), (9, 13); the last is dW of thread 31 at (15, N - 1)
    single = fragments.accumulator(40)
    assert single.rows.shape == (20, 32, 1)
    found = [(int(single.rows[i, 0, 0]), int(single.columns[i, 0, 0])) for i in range(6)]
    assert found == [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9)]
    assert [(int(single.rows[i, 6, 0]), int(single.columns[i, 6, 0])) for i in (6, 7)] == [(9, 12), (9, 13)]
    assert (single.rows[19, 31, 0], single.columns[19, 31, 0]) == (15, 39)
    # two halves to a register: register 3 of thread 6 has d6 below and d7 above
    half = fragments.accumulator(40, 16)
    assert half.rows[3, 6].tolist() == [9, 9]
    assert half.columns[3, 6].tolist() == [12, 13]


@pytest.mark.parametrize("n", [8, 24, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_accumulators_go_there_and_back(n, dtype):
    matrix = np.random.default_rng(n).standard_normal((16, n)).astype(dtype)
    fragment = fragments.accumulator(n, 8 * matrix.itemsize)
    registers = fragment.registers(matrix)
    assert registers.shape == (n * matrix.itemsize // 8, 32)
    np.testing.assert_array_equal(fragment.matrix(registers).view(dtype), matrix)


# -- scale factors: 9.7.14.3 -------------------------------------------------------------------------------------------


def metadata():
    """Byte b of lane l is 4 l + b."""
    return np.arange(128, dtype=np.uint8).view(np.uint32)


def test_scale_a_comes_from_a_pair_of_lanes():
    # figure 43: thread-id 0: lanes 0 and 1 of a quad, for rows g and g + 8; thread-id 1: lanes 2 and 3
    found = fragments.scale_factors(metadata(), "a", 1, 2, 0)
    assert found.shape == (16, 1)
    assert found[[0, 8, 3, 11], 0].tolist() == [4 * 0 + 2, 4 * 1 + 2, 4 * 12 + 2, 4 * 13 + 2]
    found = fragments.scale_factors(metadata(), "a", 1, 0, 1)
    assert found[[0, 8, 7, 15], 0].tolist() == [4 * 2, 4 * 3, 4 * 30, 4 * 31]


def test_scale_b_comes_from_one_lane():
    # figure 44: lane % 4 == thread-id, for column g
    for thread in range(4):
        found = fragments.scale_factors(metadata(), "b", 1, 1, thread)
        assert found[:, 0].tolist() == [4 * (4 * g + thread) + 1 for g in range(8)]


def test_bytes_of_scale_vectors():
    # figure 45: 2X takes the lower or the upper pair, 4X all
    assert fragments.scale_factors(metadata(), "b", 2, 0, 0)[1].tolist() == [16, 17]
    assert fragments.scale_factors(metadata(), "b", 2, 2, 0)[1].tolist() == [18, 19]
    assert fragments.scale_factors(metadata(), "a", 4, 0, 0)[9].tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize(
    ("matrix", "count", "byte", "thread"),
    [("a", 1, 4, 0), ("a", 2, 1, 0), ("b", 2, 3, 0), ("b", 4, 2, 0), ("a", 1, 0, 2), ("b", 1, 0, 4)],
)
def test_selectors_that_table_37_does_not_have(matrix, count, byte, thread):
    with pytest.raises(Finding, match=f"-id-{matrix} of") as caught:
        fragments.scale_factors(metadata(), matrix, count, byte, thread)
    assert caught.value.kind == "illegal"


# -- ldmatrix, stmatrix ------------------------------------------------------------------------------------------------


def test_m8n8():
    # two matrices of 16-bit elements, 1000 m + 10 r + c; lane l: elements 2 (l % 4), + 1 of row l / 4 (figure 104)
    r, c = np.mgrid[:8, :8]
    matrices = np.stack([1000 * m + 10 * r + c for m in range(2)]).astype(np.uint16)
    rows = matrices.view(np.uint8).reshape(16, 16)
    plain = fragments.load_rows(rows, "m8n8", False)
    assert plain.shape == (2, 32)
    assert plain[1].view(np.uint16).reshape(32, 2)[[0, 5, 31]].tolist() == [[1000, 1001], [1012, 1013], [1076, 1077]]
    # .trans: the elements of column l / 4, rows 2 (l % 4) and + 1
    turned = fragments.load_rows(rows, "m8n8", True)
    assert turned[1].view(np.uint16).reshape(32, 2)[[0, 5, 31]].tolist() == [[1000, 1010], [1021, 1031], [1067, 1077]]
    np.testing.assert_array_equal(fragments.store_rows(plain, "m8n8", False), rows)
    np.testing.assert_array_equal(fragments.store_rows(turned, "m8n8", True), rows)


def test_m16n16():
    # figure 105: register 0: column l / 4 of memory, its rows 4 (l % 4) to + 3; register 1: column l / 4 + 8
    rows = np.arange(512).reshape(2, 256).astype(np.uint8).reshape(32, 16)  # row r, byte c: 16 r + c modulo 256
    rows[16:] += 5
    found = fragments.load_rows(rows, "m16n16", True)
    assert found.shape == (4, 32)
    lanes = found.view(np.uint8).reshape(4, 32, 4)
    assert lanes[0, 0].tolist() == [0, 16, 32, 48]
    assert lanes[0, 6].tolist() == [16 * r + 1 for r in (8, 9, 10, 11)]
    assert lanes[1, 6].tolist() == [16 * r + 9 for r in (8, 9, 10, 11)]
    assert lanes[3, 31].tolist() == [(16 * r + 15 + 5) % 256 for r in (12, 13, 14, 15)]


def test_m16n16_is_the_operand_b_of_a_row_major_matrix():
    """What the instruction is for: B (K x N, rows of N in memory) becomes fragments whose rows are N."""
    b = np.random.default_rng(4).integers(0, 256, (16, 16), dtype=np.uint8)
    registers = fragments.load_rows(b, "m16n16", True)
    for half in range(2):
        operand = fragments.operand_b(1).matrix(registers[half : half + 1])
        np.testing.assert_array_equal(operand, b.T[8 * half : 8 * half + 8])


def test_m8n16_with_decompression():
    # 16 elements of 4 bits: 8 bytes, the first element below; then padding, which does not show
    rows = np.full((8, 16), 0xEE, np.uint8)
    rows[:, :8] = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]
    assert fragments.decompress(rows, "b4x16_p64").tolist() == [list(range(16))] * 8
    found = fragments.load_rows(fragments.decompress(rows, "b4x16_p64"), "m8n16", False)
    assert found.view(np.uint8).reshape(32, 4)[[0, 1, 6]].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    # 6 bits: elements 1, 2, 3, 63 fill 24 bits: 0xFC3081
    rows[:, :12] = [0x81, 0x30, 0xFC] * 4
    assert fragments.decompress(rows, "b6x16_p32")[3].tolist() == [1, 2, 3, 63] * 4


def test_m16n8_stores_accumulators_in_columns():
    # figure 108: e0, e1 in row l / 4 of the matrix, columns 2 (l % 4) and + 1; e2, e3 in row l / 4 + 8. Column-major:
    # the row of memory is the matrix's column
    matrix = np.arange(128, dtype=np.uint8).reshape(16, 8)
    registers = np.zeros((2, 32), np.uint32)
    for lane in range(32):
        for i in range(4):
            value = int(matrix[accumulator_formula(i, lane >> 2, lane % 4)])
            registers[0, lane] |= value << 8 * i
            registers[1, lane] |= (value + 128) << 8 * i
    stored = fragments.store_rows(registers, "m16n8", True)
    np.testing.assert_array_equal(stored, np.concatenate([matrix.T, matrix.T + 128]))


@pytest.mark.parametrize(("shape", "transposed"), [("m16n16", False), ("m16n8", False), ("m8n16", True)])
def test_shapes_and_trans(shape, transposed):
    with pytest.raises(Finding, match=shape) as caught:
        fragments.row_fragment(shape, transposed)
    assert caught.value.kind == "illegal"
