"""Matrices in shared memory, as the descriptors of wgmma and tcgen05 describe them.

PTX ISA 9.7.15.5.1.2 "Shared Memory Matrix Layout" (wgmma), 9.7.16.3 "Major-ness supported by Strides" and 9.7.16.4.1
"Shared memory descriptor" (tcgen05). Both know the same canonical layouts (9.7.15.5.1.2.1.3, 9.7.16.3.3). With T
elements in 16 bytes, and rows standing for M or N, an element lies, before the swizzle, at

    K-major    no swizzle  ((8, rows/8), (T, chunks)) : ((16 B, SBO), (1, LBO))
    K-major    S bytes     ((8, rows/8), K)           : ((S, SBO), 1)
    MN-major   no swizzle  ((T, rows/T), (8, K/8))    : ((1, SBO), (16 B, LBO))
    MN-major   S bytes     ((S, rows/S), (8, K/8))    : ((1, LBO), (S, SBO))

from the start address; a swizzle then exchanges chunks by the bits of the absolute address (swizzle.py), which is why a
K-major operand may begin in the midst of a span: the next step in K is 32 bytes further.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.layouts.swizzle import PATTERN_BYTES, swizzled

_FIELD = 0x3FFF  # start address, LBO, SBO: 14 bits, in units of 16 bytes
_WGMMA_RESERVED = (3 << 14) | (3 << 30) | (7 << 46) | (0x3FF << 52)
_TCGEN05_RESERVED = (3 << 14) | (3 << 30) | (0xFF << 53)
_WGMMA_SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}
_TCGEN05_SWIZZLES = {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}  # mode -> (bytes, atom)


@dataclass(frozen=True)
class Descriptor:
    """The fields of a descriptor, offsets in bytes.

    Attributes:
        address: of the matrix in the CTA's shared memory.
        leading, stride: LBO and SBO.
        base: lines of 128 bytes from a multiple of the swizzle's pattern to where the pattern begins.
        swizzle: bytes: 0, 32, 64 or 128.
        atom: bytes that a swizzle keeps together: 16, or 32 (tcgen05, 128 bytes).
    """

    address: int
    leading: int
    stride: int
    base: int = 0
    swizzle: int = 0
    atom: int = 16

    @staticmethod
    def wgmma(word: int) -> Descriptor:
        """The matrix descriptor of wgmma: 9.7.15.5.1.2.2 "Matrix Descriptor Format".

        Raises:
            Finding: descriptor, reserved bits, or a base offset without a swizzle.
        """
        _need_clear(word, _WGMMA_RESERVED)
        return _fields(word, _WGMMA_SWIZZLES[word >> 62 & 3], 16)

    @staticmethod
    def tcgen05(word: int) -> Descriptor:
        """The shared memory descriptor of tcgen05.mma and tcgen05.cp: 9.7.16.4.1, table 40.

        Raises:
            Finding: descriptor, reserved or fixed bits, an unknown swizzle.
            NotModelled: the absolute leading dimension of sm_103a.
        """
        _need_clear(word, _TCGEN05_RESERVED)
        if word >> 46 & 7 != 1:
            raise Finding("descriptor", f"bits 46-48 of descriptor {word:#x} are {word >> 46 & 7}", expected="0b001")
        if word >> 52 & 1:
            raise NotModelled("a leading dimension offset that is an absolute address")
        mode = word >> 61 & 7
        if mode not in _TCGEN05_SWIZZLES:
            raise Finding("descriptor", f"swizzle mode {mode} of descriptor {word:#x}", expected="0, 1, 2, 4 or 6")
        if mode == 0:  # the base offset says nothing, and Triton sets it for every address
            word &= ~(7 << 49)
        return _fields(word, *_TCGEN05_SWIZZLES[mode])


def _need_clear(word: int, reserved: int) -> None:
    if word & reserved:
        raise Finding(
            "descriptor",
            f"reserved bits {word & reserved:#x} of descriptor {word:#x} are set",
            expected="zero bits",
            fix="each field is (x & 0x3FFFF) >> 4: an address or offset that is too large spills into reserved bits",
        )


def _fields(word: int, swizzle: int, atom: int) -> Descriptor:
    address, leading, stride = ((word >> at & _FIELD) << 4 for at in (0, 16, 32))
    base = word >> 49 & 7
    if base and not swizzle:
        raise Finding("descriptor", f"base offset {base} without a swizzle, in descriptor {word:#x}", expected="0")
    return Descriptor(address, leading, stride, base, swizzle, atom)


def operand_addresses(d: Descriptor, rows: int, k: int, bits: int, mn_major: bool = False) -> np.ndarray:
    """Addresses of the bytes of an operand of `rows` (M or N) by `k` elements of `bits` bits.

    `memory[operand_addresses(...)]` is the operand, row by row, whatever its layout: of 16-bit elements a view as
    uint16 has its shape (rows, k). Elements of 4 bits are two to a byte; those of 4 and 6 bits that shared memory pads
    to 16 bytes for 16 of them (.kind::f8f6f4 and .kind::mxf8f6f4 of tcgen05, 9.7.16.10.4.4) are read as `bits` = 8.

    Args:
        rows: any number, also less than 8 (tcgen05.cp).
        k: elements; wgmma and tcgen05.mma take 32 bytes of them, 64 of B beside a sparse A.
        mn_major: transposed.

    Returns:
        int64 (rows, k * bits / 8), read-only or fresh. Nothing is said about whether they lie in an allocation.

    Raises:
        Finding: descriptor, a combination that the layouts do not have (9.7.16.10.3, table 54).
        NotModelled: K-major with the 128-byte swizzle of 32-byte atoms: table 54 has it, table 55 no layout for it.
    """
    if mn_major and (bits < 8 or (bits == 32) != (d.atom == 32)):
        raise Finding(
            "descriptor",
            f"an MN-major operand of {bits}-bit elements in a swizzle of {d.atom}-byte atoms",
            expected="8 or 16 bits and atoms of 16 bytes, or 32 bits and atoms of 32 bytes",
        )
    if d.atom == 32 and not mn_major:
        raise NotModelled("a K-major operand in the 128-byte swizzle of 32-byte atoms")
    if not mn_major and 0 < d.swizzle < k * bits // 8:  # B beside a sparse A, of which CUTLASS has none
        raise NotModelled(f"a K-major operand of {k * bits // 8} bytes in the {d.swizzle}-byte swizzle")
    phase = d.address % PATTERN_BYTES
    offsets = _offsets(d.leading, d.stride, d.base, d.swizzle, d.atom, phase, rows, k, bits, mn_major)
    return offsets + (d.address - phase)


@lru_cache(maxsize=512)
def _offsets(
    leading: int,
    stride: int,
    base: int,
    swizzle: int,
    atom: int,
    phase: int,
    rows: int,
    k: int,
    bits: int,
    mn_major: bool,
) -> np.ndarray:
    """The addresses for a descriptor whose address is `phase`."""
    row = np.arange(rows, dtype=np.int64)[:, None]
    if mn_major:
        size = bits // 8
        along = row * size
        element = np.arange(k, dtype=np.int64)
        if swizzle:
            # the pattern of 32-byte atoms is 4 lines long, and so are its groups of K (CUTLASS: Swizzle<2,5,2> o
            # ((T,8,m),(4,k)); the ISA's text has 8 for all swizzles, its table 55 "8x4" for this one)
            group = 4 if atom == 32 else 8
            at = along % swizzle + along // swizzle * leading + element % group * swizzle + element // group * stride
        else:
            at = along % 16 + along // 16 * stride + element % 8 * 16 + element // 8 * leading
        addresses = (phase + at)[:, :, None] + np.arange(size)
        addresses = addresses.reshape(rows, k * size)
    else:
        byte = np.arange(k * bits // 8, dtype=np.int64)
        if swizzle:
            at = row % 8 * swizzle + row // 8 * stride + byte
        else:
            at = row % 8 * 16 + row // 8 * stride + byte % 16 + byte // 16 * leading
        addresses = phase + at
    addresses = swizzled(addresses, swizzle, f"{atom}B", base)
    addresses.flags.writeable = False
    return addresses
