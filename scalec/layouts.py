"""Layouts of scales for groups that are `apart` (docs/language.md): of numpy arrays and torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalec.errors import ArgumentError
from scalec.formats import UNITS

ROWS, COLUMNS = UNITS["blocked"]


def blocked_by_group(scales: Any, offsets: Any) -> Any:
    """`@blocked` scales of rows that groups share out, in `for m in off[g]:off[g+1] apart`: tiles of group g begin at
    tile row `off[g] // 128 + g`.

    Nothing is read on the host: shapes follow from shapes, so it can be captured in a CUDA graph.

    Args:
        scales: one-byte scales, one for each row and block: [M, S], row-major. A numpy array or a torch tensor.
        offsets: int32 or int64 of G + 1, where groups begin and end, on the same device.

    Returns:
        bytes (uint8) of shape [128 (ceil(M / 128) + G), 4 ceil(S / 4)], in the order of the layout; padding is zero.

    Raises:
        ArgumentError: scales that are no matrix of bytes.
    """
    if len(scales.shape) != 2 or scales.dtype.itemsize != 1:
        raise ArgumentError(
            "scales of rows", got=f"{tuple(scales.shape)} of {scales.dtype}", expected="[M, S] of bytes"
        )
    (rows, columns), groups = scales.shape, offsets.shape[0] - 1
    tiles, across = -(-rows // ROWS) + groups, -(-columns // COLUMNS)
    shape = (ROWS * tiles + 1, COLUMNS * across)  # rows of no group go to the last one
    if isinstance(scales, np.ndarray):
        at, raw = np.arange(rows), scales.view(np.uint8)
        group = np.searchsorted(offsets, at, side="right") - 1
        out: Any = np.zeros(shape, np.uint8)
    else:
        import torch

        at, raw = torch.arange(rows, device=scales.device), scales.view(torch.uint8)
        group = torch.searchsorted(offsets.to(at.dtype), at, right=True) - 1
        out = torch.zeros(shape, dtype=torch.uint8, device=scales.device)
    inside = (group >= 0) & (group < groups)
    group = group.clip(0, max(groups - 1, 0))
    low = offsets[group] if groups else at
    place = at - low + (low // ROWS + group) * ROWS
    out[place * inside + ROWS * tiles * (~inside), :columns] = raw
    stored = out[:-1].reshape(tiles, 4, 32, across, 4)
    order = (0, 3, 2, 1, 4)
    stored = stored.transpose(order) if isinstance(stored, np.ndarray) else stored.permute(order)
    return stored.reshape(ROWS * tiles, COLUMNS * across)
