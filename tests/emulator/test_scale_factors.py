"""Scale factors in tensor memory: where they lie, which bytes count, which qualifiers the kinds take."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import NotModelled
from scalec.emulator.layouts import scale_factors as sf
from scalec.emulator.layouts import tensor_memory as tm
from tests.emulator.refusals import found, refused_lines


def memory_of(scales: np.ndarray) -> np.ndarray:
    """Tensor memory (128, 512) that holds scale factors (rows, 4) uint8 at column 0."""
    words = np.zeros((128, 512), np.uint32)
    packed = np.ascontiguousarray(scales, np.uint8).view("<u4")[:, 0]
    for row, word in enumerate(packed):
        for partition in range(4):
            words[32 * partition + row % 32, row // 32] = word
    return words


def test_rows_by_hand():
    cells = sf.scale_cells(256)
    assert cells.lanes.shape == (4, 256)
    assert [(int(cells.lanes[p, 33]), int(cells.columns[p, 33])) for p in range(4)] == [
        (1, 1),
        (33, 1),
        (65, 1),
        (97, 1),
    ]
    assert (int(cells.lanes[0, 255]), int(cells.columns[0, 255])) == (31, 7)
    assert sf.scale_cells(8).columns.max() == 0
    assert sf.scale_cells(40).columns.max() == 1


@pytest.mark.parametrize(
    ("factors", "scale_id", "expected"),
    [
        (1, 0, [0xA0]),
        (1, 1, [0xA1]),
        (1, 2, [0xA2]),
        (1, 3, [0xA3]),
        (2, 0, [0xA0, 0xA1]),
        (2, 2, [0xA2, 0xA3]),
        (4, 0, [0xA0, 0xA1, 0xA2, 0xA3]),
    ],
)
def test_the_id_selects_bytes_of_the_word(factors, scale_id, expected):
    words = np.full((4, 3), 0xA3A2A1A0, np.uint32)
    assert sf.scale_bytes(words, factors, scale_id, "A").tolist() == [expected] * 3


@pytest.mark.parametrize("rows", [8, 32, 128, 200, 256])
def test_every_row_finds_its_own(rows):
    scales = np.stack(
        [np.arange(rows) % 251, np.arange(rows) // 7, 255 - np.arange(rows) % 256, np.arange(rows) % 3], 1
    )
    words = memory_of(scales.astype(np.uint8))
    assert (sf.scale_bytes(words[sf.scale_cells(rows)], 4, 0, "B") == scales).all()


def test_the_copy_for_scale_factors_writes_what_mma_reads():
    """cuBLAS and CUTLASS store 128 rows of 4 factors as 32 of 16 bytes: row r in row r % 32, at byte 4 (r / 32)."""
    rng = np.random.default_rng(0)
    scales = rng.integers(0, 256, (128, 4), dtype=np.uint8)
    source = np.zeros((32, 16), np.uint8)
    for row in range(128):
        source[row % 32, 4 * (row // 32) : 4 * (row // 32) + 4] = scales[row]
    words = np.zeros((128, 512), np.uint32)
    words[tm.copy_cells("32x128b", "warpx4")] = source.view("<u4")
    for scale_id in range(4):
        found_bytes = sf.scale_bytes(words[sf.scale_cells(128)], 1, scale_id, "A")
        assert (found_bytes[:, 0] == scales[:, scale_id]).all()


def test_partitions_that_differ_are_a_finding():
    words = memory_of(np.full((64, 4), 7, np.uint8))
    words[64 + 3, 1] = 0x07070807  # row 35 in partition 2, byte 1
    text = found("tensor-memory", sf.scale_bytes, words[sf.scale_cells(64)], 2, 0, "B").message
    assert "row 35 (column 1 of the matrix): [7, 7] in lane 3, [7, 8] in lane 67" in text
    assert sf.scale_bytes(words[sf.scale_cells(64)], 1, 0, "B").tolist() == [[7]] * 64  # that byte is not read


def test_addresses():
    assert sf.split_scale_address(0x0000_0064) == 100
    assert sf.split_scale_address(0xC000_0064) == 100  # CUTLASS leaves the ID in bits 30 and 31
    found("alignment", sf.split_scale_address, 0x0020_0000)
    found("bounds", sf.split_scale_address, 0x0000_0200)
    found("bounds", sf.split_scale_address, 0x0080_0000)


def test_a_pair_holds_its_own_rows_of_a_and_all_columns_of_b():
    assert sf.rows_in_cta(128, 96, 1) == (128, 96)
    assert sf.rows_in_cta(256, 256, 2) == (128, 256)
    with pytest.raises(NotModelled):
        sf.rows_in_cta(128, 128, 2)


def test_qualifiers():
    assert sf.scale_vector("mxf8f6f4", "").factors == 1
    assert sf.scale_vector("mxf4", "block32") == sf.ScaleVector(2, ("ue8m0",), (0, 2))
    assert sf.scale_vector("mxf4nvf4", "block16") == sf.ScaleVector(4, ("ue8m0", "ue4m3"), (0,))
    assert "block32" in found("illegal", sf.scale_vector, "mxf8f6f4", "scale_vec::2X").expected


def test_ptxas_and_the_table_of_qualifiers_agree(tmp_path):
    lines, expected = [], set()
    for kind, legal in sf.SCALE_VECTORS.items():
        for qualifier in ("", "scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"):
            if qualifier not in legal:
                expected.add(len(lines))
            name = f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale{'.' + qualifier if qualifier else ''}"
            lines.append(f"{name} [%r0], %rd0, %rd1, %r1, [%r2], [%r3], %p0;")
    assert refused_lines(lines, "sm_100a", tmp_path) == expected
