"""The stored bytes: one npz for each module of probes, results by probe and buffer.

An npz has two arrays of bytes: "index", JSON, [key, dtype, shape] in order, and "data", all results after one another,
compressed together with LZMA: the roundings of one instruction are nearly alike, and deflate array by array took twice
as much.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent.parent / "data" / "h200"


def save(path: Path, results: dict[str, np.ndarray]) -> None:
    """Writes results, keys "probe/buffer"."""
    index = [[key, array.dtype.str, list(array.shape)] for key, array in results.items()]
    data = lzma.compress(b"".join(array.tobytes() for array in results.values()), preset=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, index=np.frombuffer(json.dumps(index).encode(), np.uint8), data=np.frombuffer(data, np.uint8))


def load(path: Path) -> dict[str, np.ndarray]:
    """What `save` wrote."""
    with np.load(path) as stored:
        index = json.loads(stored["index"].tobytes())
        data = lzma.decompress(stored["data"].tobytes())
    results, at = {}, 0
    for key, dtype, shape in index:
        count = int(np.prod(shape))
        results[key] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += results[key].nbytes
    return results
