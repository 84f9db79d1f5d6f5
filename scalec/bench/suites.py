"""Named sets of shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scalec.bench.projections import (
    DEEPSEEK,
    LLAMA_8B,
    LLAMA_70B,
    LLAMA_405B,
    QWEN2_7B,
    QWEN3_8B,
    QWEN3_32B,
    QWEN3_235B,
    Projection,
)
from scalec.errors import ScalecError
from scalec.suggestions import did_you_mean

Shape = tuple[int, int, int]
"""Sizes of m, n and k."""


@dataclass(frozen=True)
class Suite:
    """A program and the sizes to measure it at.

    Attributes:
        source: the program.
        shapes: sizes of its dimensions.
        labels: for each shape what has it; empty where that is not said.
        groups: by name, shapes whose geometric means are reported beside that of all.
        published: by source, for some shapes the time of cuBLASLt's block-scaled kernel over that of another kernel,
            as measured elsewhere.
    """

    source: str
    shapes: tuple[dict[str, int], ...]
    labels: tuple[str, ...] = ()
    groups: Mapping[str, tuple[dict[str, int], ...]] = field(default_factory=dict)
    published: Mapping[str, Mapping[Shape, float]] = field(default_factory=dict)

    def label(self, dims: Mapping[str, int]) -> str:
        """What has this shape; empty where the suite does not say."""
        return dict(zip(map(_key, self.shapes), self.labels, strict=False)).get(_key(dims), "")

    def published_at(self, dims: Mapping[str, int]) -> dict[str, float]:
        """By source, the published ratios of this shape."""
        return {source: at[_key(dims)] for source, at in self.published.items() if _key(dims) in at}


def _key(dims: Mapping[str, int]) -> Shape:
    return dims["m"], dims["n"], dims["k"]


def _shapes(*sizes: Shape) -> tuple[dict[str, int], ...]:
    return tuple({"m": m, "n": n, "k": k} for m, n, k in sizes)


# A's scales row-major, as quantisers write them. cuBLASLt and DeepGEMM want them M-contiguous (@col): torch's kernel
# is given them so, and what transposing them would cost it is not counted.
BLOCK_FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BLOCK_FP8_COL = "C[m,n] = A[m,k]@B[n,k] scale(1x128:f32@col,128x128)"
ROW_FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)"  # with promote=0 as torch's fast accumulation
BOTH_FP8 = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)"  # a weight's gradient
BF16 = "C[m,n] = A[m,k]@B[n,k]"

SIX = _shapes(
    (4096, 7168, 2048),
    (4096, 4096, 7168),
    (4096, 24576, 1536),
    (4096, 7168, 16384),
    (8192, 8192, 8192),
    (4096, 2112, 7168),
)

_PEERS: tuple[tuple[int, Projection, float], ...] = (
    (1, DEEPSEEK["expert down"], 1.30),
    (16, DEEPSEEK["expert down"], 1.35),
    (64, DEEPSEEK["qkv_a"], 2.33),
    (64, DEEPSEEK["expert down"], 1.43),
    (128, DEEPSEEK["o"], 1.10),
    (128, DEEPSEEK["q_b"], 1.07),
    (4096, DEEPSEEK["qkv_a"], 1.18),
    (4096, DEEPSEEK["q_b"], 1.14),
    (4096, DEEPSEEK["kv_b"], 1.27),
    (4096, DEEPSEEK["o"], 1.11),
    (4096, DEEPSEEK["expert gate_up"], 1.10),
    (4096, DEEPSEEK["expert down"], 1.13),
    (4096, QWEN3_32B["o"], 1.10),
    (8192, LLAMA_70B["o"], 1.08),
)
"""Rows, layer, and by how much DeepGEMM (54e2261) is faster than cuBLASLt 13.1's block-scaled kernel (H200)."""

DEEPGEMM = "DeepGEMM's ratio, measured 2026-11-21 in another run"

_MORE: tuple[tuple[int, Projection], ...] = (
    (1, LLAMA_8B["qkv"]),
    (1, QWEN3_32B["gate_up"]),
    (2, LLAMA_70B["o"]),
    (2, DEEPSEEK["expert gate_up"]),
    (4, QWEN3_8B["down"]),
    (4, DEEPSEEK["q_b"]),
    (8, LLAMA_8B["gate_up"]),
    (8, QWEN3_235B["qkv"]),
    (16, LLAMA_70B["down"]),
    (16, DEEPSEEK["kv_b"]),
    (32, QWEN3_32B["qkv"]),
    (32, LLAMA_8B["o"]),
    (64, LLAMA_70B["gate_up"]),
    (64, QWEN3_235B["o"]),
    (128, DEEPSEEK["dense down"]),
    (128, QWEN2_7B["qkv"]),
    (256, LLAMA_8B["down"]),
    (256, DEEPSEEK["qkv_a"]),
    (512, QWEN3_32B["o"]),
    (512, LLAMA_70B["qkv"]),
    (1024, DEEPSEEK["expert down"]),
    (1024, QWEN2_7B["down"]),
    (2048, LLAMA_8B["qkv"]),
    (2048, QWEN3_32B["down"]),
    (4096, LLAMA_405B["qkv"]),
    (4096, QWEN3_8B["gate_up"]),
    (8192, DEEPSEEK["dense gate_up"]),
    (8192, LLAMA_70B["down"]),
    (16384, LLAMA_8B["gate_up"]),
    (16384, QWEN3_235B["qkv"]),
)


def _of(layers: Sequence[tuple[int, Projection]]) -> tuple[dict[str, int], ...]:
    return _shapes(*((m, p.n, p.k) for m, p in layers))


_LAYERS = tuple((m, p) for m, p, _ in _PEERS)
PEERS = _of(_LAYERS)
DECODE, LARGE = PEERS[:6], PEERS[6:]


def _peers(source: str, more: Sequence[tuple[int, Projection]] = ()) -> Suite:
    """The shapes at which the peers were measured, with their groups, and `more`."""
    layers = (*_LAYERS, *more)
    return Suite(
        source,
        _of(layers),
        tuple(str(p) for _, p in layers),
        {"decode (six)": DECODE, "large (eight)": LARGE},
        {DEEPGEMM: {(m, p.n, p.k): ratio for m, p, ratio in _PEERS}},
    )


SUITES: dict[str, Suite] = {
    "peers": _peers(BLOCK_FP8),
    "hopper-fp8": _peers(BLOCK_FP8, _MORE),
    "hopper-fp8-col": _peers(BLOCK_FP8_COL, _MORE),
    "hopper-fp8-six": Suite(BLOCK_FP8, SIX),
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
    "hopper-fp8-rows": Suite(ROW_FP8, LARGE),
    "hopper-fp8-rows-fast": Suite(f"{ROW_FP8} with promote=0", LARGE),
    "hopper-fp8-f32": Suite(BOTH_FP8, LARGE),
    "bf16": Suite(BF16, _shapes((4096, 4096, 4096), (4096, 7168, 2048), (4096, 7168, 4096), (8192, 8192, 8192))),
}

DEFAULT_SUITE = "peers"


def get_suite(name: str) -> Suite:
    """The suite `name`.

    Raises:
        ScalecError: no such suite.
    """
    if name not in SUITES:
        raise ScalecError(f"no suite {name!r:.80}", expected=", ".join(SUITES), fix=did_you_mean(name, SUITES))
    return SUITES[name]
