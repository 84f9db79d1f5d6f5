"""Which elements of a matrix the registers of a warp hold: mma.sync, wgmma, ldmatrix, stmatrix.

PTX ISA 9.7.14.5 "Matrix multiply-accumulate operation using mma instruction" gives a formula for each shape and type.
They are one formula: a register holds 4 bytes of K of one row, lane l those of row l / 4 and bytes 4 (l % 4) of 16; the
registers of A go on with the next 8 rows, then with the next 16 bytes of K, those of B with the next 16 bytes of K. So
for 16-bit, 8-bit and 4-bit elements and for tf32, and so for the registers of A of wgmma (9.7.15.5.1.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.layouts.tensor_memory import unpack_bits

ROW_BYTES = 16  # of a row that an address of ldmatrix and stmatrix names


@dataclass(frozen=True, eq=False)
class Fragment:
    """Where the elements of a matrix lie in registers.

    Attributes:
        rows, columns: int64 (registers, 32 lanes, elements): of the element in the lowest bits of a register first.
        shape: of the matrix.
        bits: of an element: 8, 16 or 32.
    """

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]
    bits: int

    @cached_property
    def place(self) -> np.ndarray:
        """(registers, 32, elements): the index of each element in the flat matrix."""
        return self.rows * self.shape[1] + self.columns

    @cached_property
    def source(self) -> np.ndarray:
        """(rows, columns): the index of each element in the flat registers."""
        source = np.empty(self.place.size, np.int64)
        source[self.place.reshape(-1)] = np.arange(source.size)
        return source.reshape(self.shape)

    def matrix(self, registers: np.ndarray) -> np.ndarray:
        """uint32 (..., registers, 32) -> unsigned integers of `bits` (..., rows, columns)."""
        flat = np.ascontiguousarray(registers, np.uint32).reshape(*registers.shape[:-2], -1).view(f"u{self.bits // 8}")
        return flat.take(self.source, axis=-1)

    def registers(self, matrix: np.ndarray) -> np.ndarray:
        """Elements of `bits`, of any dtype (..., rows, columns) -> uint32 (..., registers, 32)."""
        flat = np.ascontiguousarray(matrix).reshape(*matrix.shape[:-2], -1)
        return flat.take(self.place, axis=-1).view(np.uint32)[..., 0]


def _fragment(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Fragment:
    rows, columns = (np.array(x, np.int64) for x in np.broadcast_arrays(rows, columns))
    rows.flags.writeable = columns.flags.writeable = False
    return Fragment(rows, columns, shape, 32 // rows.shape[2])


def _indices(registers: int, elements: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Register, lane and element, to broadcast against each other."""
    return np.ogrid[:registers, :32, :elements]  # type: ignore[return-value]


# -- operands and accumulators -----------------------------------------------------------------------------------------


@cache
def operand_a(registers: int) -> Fragment:
    """The bytes of a warp's 16 rows of A: (16, 8 * registers); row-major.

    mma.sync: 2 registers for m16n8k4 of tf32, m16n8k8 of 16 bits, m16n8k16 of 8 bits; 4 for twice that K, and for
    m16n8k64 of 4 bits (9.7.14.5.6 to 9.7.14.5.11). wgmma: 4; warp w of the warpgroup holds rows 16 w to 16 w + 15.
    """
    register, lane, byte = _indices(registers, 4)
    rows = lane // 4 + 8 * (register % 2)
    return _fragment(rows, lane % 4 * 4 + 16 * (register // 2) + byte, (16, 8 * registers))


@cache
def operand_b(registers: int) -> Fragment:
    """The bytes of the 8 columns of B of mma.sync, transposed: (8 columns, 16 * registers bytes of K); 1 or 2."""
    register, lane, byte = _indices(registers, 4)
    return _fragment(lane // 4, lane % 4 * 4 + 16 * register + byte, (8, 16 * registers))


@cache
def accumulator(n: int, bits: int = 32) -> Fragment:
    """A warp's 16 rows of C or D: (16, n). mma.sync: n = 8 (9.7.14.5.6 to .11); wgmma: figures 149, 151 and 153.

    Args:
        bits: 32 (n / 2 registers), or 16 (n / 4 registers, the lower column in the lower half).
    """
    elements = 32 // bits
    register, lane, half = _indices(n // 2 // elements, elements)
    i = register * elements + half
    return _fragment(lane // 4 + 8 * (i // 2 % 2), i // 4 * 8 + lane % 4 * 2 + i % 2, (16, n))


# -- scale factors of mma.sync: 9.7.14.3 "Block Scaling for mma.sync" --------------------------------------------------

SCALE_BYTES = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}  # factors in a row -> the legal byte-id (table 37)
SCALE_THREADS = {"a": (0, 1), "b": (0, 1, 2, 3)}  # the legal thread-id


def scale_factors(metadata: np.ndarray, matrix: str, count: int, byte_id: int, thread_id: int) -> np.ndarray:
    """The scale factors that the selectors choose.

    Two lanes of a quad give scale_A, for the quad's two rows (figure 43): lanes 0 and 1, or 2 and 3; one lane of a quad
    gives scale_B, for the quad's column (figure 44).

    Args:
        metadata: uint32 (..., 32), scale-a-data or scale-b-data.
        matrix: "a" or "b".
        count: factors in a row: 1, 2 or 4 for .scale_vec::1X, 2X or 4X.

    Returns:
        uint8 (..., 16, count) for A, row by row; (..., 8, count) for B, column by column.

    Raises:
        Finding: illegal, selectors that table 37 does not have.
    """
    for name, value, legal in (("byte", byte_id, SCALE_BYTES[count]), ("thread", thread_id, SCALE_THREADS[matrix])):
        if value not in legal:
            raise Finding(
                "illegal",
                f"{name}-id-{matrix} of {value} with .scale_vec::{count}X",
                expected=" or ".join(map(str, legal)) + " (PTX ISA 9.7.14.3, table 37)",
            )
    lanes = _scale_lanes(matrix, thread_id)
    words = np.ascontiguousarray(metadata[..., lanes], "<u4")
    return words.view(np.uint8).reshape(*words.shape, 4)[..., byte_id : byte_id + count]


@cache
def _scale_lanes(matrix: str, thread_id: int) -> np.ndarray:
    """The lane that holds the factors of each row of A, or column of B."""
    if matrix == "b":
        return 4 * np.arange(8) + thread_id
    row = np.arange(16)
    return 4 * (row % 8) + 2 * thread_id + row // 8


# -- ldmatrix and stmatrix: 9.7.14.5.15, 9.7.14.5.16 -------------------------------------------------------------------


@cache
def row_fragment(shape: str, transposed: bool) -> Fragment:
    """Where the bytes of one matrix of ldmatrix or stmatrix go.

    Its rows are what addresses name: 16 bytes each, in the order of the lanes that give the addresses; the next matrix
    takes the next rows, and the next registers. Without .trans a lane gets 4 bytes of row l / 4. With it, elements of a
    column: two of 16 bits (m8n8), or four of 8 bits (m16n16; two registers, for columns l / 4 and l / 4 + 8, figure
    105; CUTLASS's SM100_U8x8_LDSM_T agrees). m16n8 of stmatrix: the 8-bit accumulators of
    mma.sync, rows of 16 bytes being columns of the matrix (figure 108, CUTLASS's SM100_U8x4_STSM_T).

    Args:
        shape: "m8n8" (16-bit elements), "m8n16", "m16n16", "m16n8" (8-bit elements).

    Returns:
        The bytes (8 or 16 rows, 16), in one register, or two for m16n16.

    Raises:
        Finding: illegal: m16n16 and m16n8 exist with .trans alone, m8n16 without.
    """
    if shape != "m8n8" and transposed == (shape == "m8n16"):
        raise Finding("illegal", f".{shape} {'with' if transposed else 'without'} .trans")
    register, lane, byte = _indices(2 if shape == "m16n16" else 1, 4)
    if shape == "m16n16":
        rows, columns = lane % 4 * 4 + byte + 0 * register, lane // 4 + 8 * register
    elif shape == "m16n8":
        rows, columns = lane % 4 * 2 + byte % 2 + 0 * register, lane // 4 + 8 * (byte // 2)
    elif transposed:
        rows, columns = lane % 4 * 2 + byte // 2 + 0 * register, lane // 4 * 2 + byte % 2
    else:
        rows, columns = lane // 4 + 0 * register, lane % 4 * 4 + byte
    return _fragment(rows, columns, (16 if shape == "m16n16" else 8, ROW_BYTES))


def load_rows(rows: np.ndarray, shape: str, transposed: bool) -> np.ndarray:
    """ldmatrix: uint8 (matrices * 8 or 16 rows, 16) -> uint32 (registers, 32)."""
    fragment = row_fragment(shape, transposed)
    matrices = np.ascontiguousarray(rows).reshape(-1, fragment.rows.size)
    return matrices.take(fragment.place, axis=1).view(np.uint32).reshape(-1, 32)


def store_rows(registers: np.ndarray, shape: str, transposed: bool) -> np.ndarray:
    """stmatrix: uint32 (registers, 32) -> uint8 (matrices * 8 rows, 16)."""
    fragment = row_fragment(shape, transposed)
    matrices = np.ascontiguousarray(registers).view(np.uint8).reshape(-1, fragment.rows.size)
    return matrices.take(fragment.source, axis=1).reshape(-1, ROW_BYTES)


def decompress(rows: np.ndarray, source_format: str) -> np.ndarray:
    """Rows of .b4x16_p64 or .b6x16_p32 (16 elements, then 8 or 4 bytes of padding) as .b8x16: uint8 (n, 16), both.

    The element is in the lowest bits of its byte and zeros above: CUTLASS shifts elements of 4 bits left by two between
    this instruction and mma.sync.kind::f8f6f4, which wants them in bits 2 to 5.
    """
    bits = {"b4x16_p64": 4, "b6x16_p32": 6}[source_format]
    return unpack_bits(rows[..., : 2 * bits], bits)
