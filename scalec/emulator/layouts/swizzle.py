"""The swizzles of shared memory (PTX ISA 5.5.7 "Swizzling Modes").

A swizzle exchanges chunks inside spans of 32, 64 or 128 bytes. Which, the number of the 128-byte line decides: in the
ISA's tables chunk c of line l lies at the place of chunk c XOR l, where l counts modulo the chunks of a span. The
pattern repeats after 256, 512 and 1024 bytes; the bits of the absolute address count, so that a tile that begins
elsewhere begins inside the pattern ("swizzle base offset").
"""

from __future__ import annotations

import numpy as np

LINE_SHIFT = 7  # lines of 128 bytes
PATTERN_BYTES = 1024  # after which every swizzle repeats

# Table 14: what a span of 128 bytes may keep together instead of 16 bytes -> (bits of the line number, their place)
ATOMICITIES = {"16B": (3, 4), "32B": (2, 5), "32B+8B": (2, 5), "64B": (1, 6)}


def swizzled(addresses: np.ndarray, span: int, atomicity: str = "16B", base: int = 0) -> np.ndarray:
    """Where bytes lie that would be at `addresses` without a swizzle.

    Args:
        addresses: int64, any shape: absolute addresses in shared memory.
        span: 0 (none), 32, 64 or 128 bytes.
        atomicity: what a span of 128 bytes keeps together; with "32B+8B" the 8-byte halves of each 16 bytes change
            places in every second line.
        base: lines from a multiple of the pattern to where the pattern begins.

    Returns:
        int64, the shape of `addresses`.
    """
    if span == 0:
        return addresses
    line = (addresses >> LINE_SHIFT) - base
    bits, place = ATOMICITIES[atomicity]
    if atomicity == "16B":
        bits = span.bit_length() - 5  # 1, 2, 3 for 32, 64, 128: the chunks of 16 bytes in a span
    result = addresses ^ (line & ((1 << bits) - 1)) << place
    return result ^ (line & 1) << 3 if atomicity == "32B+8B" else result
