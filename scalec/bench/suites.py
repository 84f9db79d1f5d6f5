"""Named sets of shapes."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.errors import ScalecError


@dataclass(frozen=True)
class Suite:
    """A program and the sizes to measure it at.

    Attributes:
        source: the program.
        shapes: sizes of its dimensions.
    """

    source: str
    shapes: tuple[dict[str, int], ...]


def _shapes(*sizes: tuple[int, int, int]) -> tuple[dict[str, int], ...]:
    return tuple({"m": m, "n": n, "k": k} for m, n, k in sizes)


# A's scales row-major, as quantisers write them. cuBLASLt and DeepGEMM want them M-contiguous (@col): torch's kernel
# is given them so, and what transposing them would cost it is not counted.
BLOCK_FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BLOCK_FP8_COL = "C[m,n] = A[m,k]@B[n,k] scale(1x128:f32@col,128x128)"

LARGE = _shapes(
    (4096, 7168, 2048),
    (4096, 4096, 7168),
    (4096, 24576, 1536),
    (4096, 7168, 16384),
    (8192, 8192, 8192),
    (4096, 2112, 7168),
)

PEERS = _shapes(
    (1, 7168, 2048),
    (16, 7168, 2048),
    (64, 2112, 7168),
    (64, 7168, 2048),
    (128, 7168, 16384),
    (128, 24576, 1536),
    (4096, 2112, 7168),
    (4096, 24576, 1536),
    (4096, 32768, 512),
    (4096, 7168, 16384),
    (4096, 4096, 7168),
    (4096, 7168, 2048),
    (4096, 5120, 8192),
    (8192, 8192, 8192),
)

SUITES: dict[str, Suite] = {
    "peers": Suite(BLOCK_FP8, PEERS),
    "hopper-fp8": Suite(BLOCK_FP8, LARGE),
    "hopper-fp8-col": Suite(BLOCK_FP8_COL, LARGE),
    "hopper-fp8-decode": Suite(
        BLOCK_FP8,
        _shapes(
            (1, 7168, 2048),
            (16, 7168, 2048),
            (1, 2112, 7168),
            (16, 2112, 7168),
            (64, 2112, 7168),
            (64, 7168, 2048),
            (128, 7168, 16384),
            (128, 24576, 1536),
        ),
    ),
    "bf16": Suite("C[m,n] = A[m,k]@B[n,k]", _shapes((4096, 4096, 4096), (4096, 7168, 2048), (8192, 8192, 8192))),
}

DEFAULT_SUITE = "hopper-fp8"


def get_suite(name: str) -> Suite:
    """The suite `name`.

    Raises:
        ScalecError: no such suite.
    """
    if name not in SUITES:
        raise ScalecError(f"no suite {name!r}", expected=", ".join(SUITES))
    return SUITES[name]
