"""The stored bytes: one npz for each module of probes, results by probe and buffer.

Rows of an instruction table are nearly alike (the roundings of one instruction), so that each row is stored as its
difference (exclusive or) from the row before: deflate then packs it several times tighter.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

DATA = Path(__file__).parent.parent / "data" / "h200"


def save(path: Path, results: dict[str, np.ndarray]) -> None:
    """Writes results, keys "probe/buffer"."""
    packed = {}
    for key, array in results.items():
        words = array.view(f"u{array.dtype.itemsize}")
        packed[key.replace("/", "__")] = words ^ np.concatenate([np.zeros_like(words[:1]), words[:-1]])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **packed)


def load(path: Path) -> dict[str, np.ndarray]:
    """What `save` wrote; unsigned integers of the results' width."""
    with np.load(path) as packed:
        return {key.replace("__", "/"): np.bitwise_xor.accumulate(packed[key], axis=0) for key in packed.files}
