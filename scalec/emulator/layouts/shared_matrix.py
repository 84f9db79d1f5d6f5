"""Matrices in shared memory, as the descriptors of wgmma and tcgen05 describe them.

PTX ISA 9.7.15.5.1 "Register Fragments and Shared Memory Matrix Layouts" (wgmma) and 9.7.16.4.1 "Shared memory
descriptor" (tcgen05). Both know the same canonical layouts, of 16-byte chunks (T elements each):

    K-major    no swizzle  ((8, rows/8), (T, chunks)) : ((16 B, SBO), (1, LBO))
    K-major    S bytes     ((8, rows/8), K)           : ((S, SBO), 1)          then the swizzle
    MN-major   no swizzle  ((T, rows/T), (8, k/8))    : ((1, SBO), (16 B, LBO))
    MN-major   S bytes     ((S, rows/S), (8, k/8))    : ((1, LBO), (S, SBO))   then the swizzle

A swizzle exchanges chunks by address bits: the number of the 128-byte line, modulo S / 16, is XORed into the chunk's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scalec.emulator.findings import Finding, NotModelled

_ADDRESS_MASK = 0x3FFF
_WGMMA_RESERVED = (3 << 14) | (3 << 30) | (7 << 46) | (0x3FF << 52)
_TCGEN05_RESERVED = (3 << 14) | (3 << 30) | (0xFF << 53)
_WGMMA_SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}
_TCGEN05_SWIZZLES = {0: 0, 2: 128, 4: 64, 6: 32}
_TCGEN05_ATOM32 = 1


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
    base: int
    swizzle: int
    atom: int = 16

    @staticmethod
    def wgmma(word: int) -> Descriptor:
        """The matrix descriptor of wgmma: 9.7.15.5.1.2.

        Raises:
            Finding: descriptor, reserved bits.
        """
        _need_clear(word, _WGMMA_RESERVED)
        return _fields(word, _WGMMA_SWIZZLES[word >> 62 & 3], 16)

    @staticmethod
    def tcgen05(word: int) -> Descriptor:
        """The shared memory descriptor of tcgen05: 9.7.16.4.1.

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
        if mode == _TCGEN05_ATOM32:
            return _fields(word, 128, 32)
        if mode not in _TCGEN05_SWIZZLES:
            raise Finding("descriptor", f"swizzle mode {mode} of descriptor {word:#x}", expected="0, 1, 2, 4 or 6")
        return _fields(word, _TCGEN05_SWIZZLES[mode], 16)


def _need_clear(word: int, reserved: int) -> None:
    if word & reserved:
        raise Finding(
            "descriptor", f"reserved bits {word & reserved:#x} of descriptor {word:#x} are set", expected="zero bits"
        )


def _fields(word: int, swizzle: int, atom: int) -> Descriptor:
    address, leading, stride = ((word >> at & _ADDRESS_MASK) << 4 for at in (0, 16, 32))
    return Descriptor(address, leading, stride, word >> 49 & 7, swizzle, atom)


def operand_addresses(d: Descriptor, rows: int, k: int, bits: int, mn_major: bool = False) -> np.ndarray:
    """Addresses of the bytes of an operand of `rows` (M or N) by `k` elements of `bits` bits.

    Returns:
        int64 (rows, k * bits / 8): row by row, the bytes of its elements in the order of K.

    Raises:
        Finding: descriptor, a matrix that the layout cannot hold.
    """
    phase = d.address % 1024
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
        if bits < 8:
            raise Finding("descriptor", "elements of less than a byte cannot be MN-major")
        along = row * size
        element = np.arange(k, dtype=np.int64)
        if swizzle:
            at = along % swizzle + along // swizzle * leading + element % 8 * swizzle + element // 8 * stride
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
    if swizzle:
        line = (addresses >> 7) - base
        addresses = addresses ^ ((line & 3) << 5 if atom == 32 else (line & (swizzle // 16 - 1)) << 4)
    addresses.flags.writeable = False
    return addresses
