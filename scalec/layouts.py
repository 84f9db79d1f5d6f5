"""Layouts (docs/language.md), of numpy arrays and torch tensors: scales of groups that are `apart`, and weights of
GPTQ's and AWQ's checkpoints, and such that are reordered for the tensor core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES, FRAGMENTS, UNITS, fragments

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
            "scales of rows",
            got=f"{tuple(scales.shape)} of {scales.dtype}",
            expected="[M, S] of bytes",
            fix="scales.reshape(M, S), of ue8m0, ue4m3 or uint8",
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
    return _in_tiles(out[:-1])


def columns_by_group(scales: Any, offsets: Any, k: int, block: int, layout: str = "row") -> Any:
    """Scales along K, which groups share out in `for k in off[g]:off[g+1] apart`, of those of groups that follow one
    another without padding, as each group's own quantisation makes them.

    Nothing is read on the host: shapes follow from shapes, so it can be captured in a CUDA graph.

    Args:
        scales: [R, S], of which group g has ceil((off[g+1] - off[g]) / block) columns, behind those of the groups
            before it. A numpy array or a torch tensor.
        offsets: int32 or int64 of G + 1, where groups begin and end along K, on the same device.
        k: the extent of K.
        block: elements of K that share a scale.
        layout: "row", "col", "packed" or "blocked"; the last two of one-byte scales.

    Returns:
        what the program takes: where P elements of K share a scale, or a word of four, group g's begin at
        `off[g] // P + g` of ceil(k / P) + G scales or words of a row; "blocked" as bytes (uint8), of 128 ceil(R / 128)
        rows. Padding is zero.

    Raises:
        ArgumentError: scales that are no matrix, or of more than a byte in words; no group; another layout.
    """
    together = {"row": 1, "col": 1, "packed": COLUMNS, "blocked": COLUMNS}.get(layout, 0)
    groups = offsets.shape[0] - 1
    if len(scales.shape) != 2 or not together or groups < 1 or (together > 1 and scales.dtype.itemsize != 1):
        raise ArgumentError(
            "scales of columns",
            got=f"{tuple(scales.shape)} of {scales.dtype}, {groups} groups, layout {layout!r}",
            expected="[R, S], of bytes if packed or blocked; a group; row, col, packed or blocked",
            fix="scales.reshape(R, S), and layout='row' of scales of more than a byte",
        )
    rows, columns = scales.shape
    unit, number = block * together, (-(-k // (block * together)) + groups) * together
    if isinstance(scales, np.ndarray):
        at, each, ends = np.arange(number), np.arange(groups), offsets.astype(np.int64)
    else:
        import torch

        at, each = (torch.arange(x, device=scales.device) for x in (number, groups))
        ends = offsets.to(at.dtype)
    begins, sizes = (ends[:-1] // unit + each) * together, (ends[1:] - ends[:-1] + block - 1) // block
    behind = (at[:, None] >= begins[None]).sum(1)  # groups that begin at a column or before it
    own = (behind - 1).clip(0, groups - 1)
    within = at - begins[own]
    inside = (behind > 0) & (within < sizes[own])
    source = ((sizes.cumsum(0) - sizes)[own] + within).clip(0, max(columns - 1, 0))
    if isinstance(scales, np.ndarray):
        made = np.ascontiguousarray(np.where(inside, scales[:, source], np.zeros(1, scales.dtype)))
        if layout == "blocked":
            return _in_tiles(np.pad(made.view(np.uint8), ((0, -rows % ROWS), (0, 0))))
        made = made.view(np.int32) if layout == "packed" else made
        return made if layout == "row" else np.asfortranarray(made)
    import torch

    raw = scales.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[scales.dtype.itemsize])
    made = raw[:, source] * inside
    if layout == "blocked":
        return _in_tiles(torch.nn.functional.pad(made, (0, 0, 0, -rows % ROWS)))
    made = made.view(torch.int32) if layout == "packed" else made.view(scales.dtype)
    return made if layout == "row" else made.T.contiguous().T


def _in_tiles(raw: Any) -> Any:
    """Bytes [R, S] in the order of "blocked"."""
    tiles, across = raw.shape[0] // ROWS, raw.shape[1] // COLUMNS
    order, stored = (0, 3, 2, 1, 4), raw.reshape(tiles, 4, 32, across, 4)
    stored = stored.transpose(order) if isinstance(stored, np.ndarray) else stored.permute(order)
    return stored.reshape(ROWS * tiles, COLUMNS * across)


def inverse(index: Any, rows: int, most: int) -> Any:
    """The places where each row stands in an index: `idx_inv` of the gradient of `A[idx[m],k]`.

    Nothing is read on the host.

    Args:
        index: a torch tensor, int32 [M]: rows, below `rows`; negative ones name none.
        rows: of what the index is of.
        most: times that one row is named at most. On a GPU a row that is named more often stops the process (torch's
            assertion on the device).

    Returns:
        int32 [rows, most]: the places in their order, and -1 behind the last one.
    """
    import torch

    by_row, order = index.sort(stable=True)
    every = torch.arange(rows, device=index.device, dtype=index.dtype)
    begin, end = torch.searchsorted(by_row, every), torch.searchsorted(by_row, every, right=True)
    torch._assert_async(((end - begin) <= most).all(), f"an index names a row more than {most} times")  # pyright: ignore[reportPrivateImportUsage]
    place = begin[:, None] + torch.arange(most, device=index.device)
    found = torch.nn.functional.pad(order, (0, 1))[place.clamp(max=len(order))]
    return torch.where(place < end[:, None], found, -1).int()


def offsets_of(groups: Any, count: int, block: int, points: int) -> Any:
    """Where the points of each group begin: `e_off` of the gradient of `B[e[m/128],n,k]`.

    Nothing is read on the host.

    Args:
        groups: a torch tensor, int32: the group of each block of points, in their order; negative ones, of none, are
            behind all others. On a GPU another order stops the process (torch's assertion on the device).
        count: of groups.
        block: points of each entry.
        points: how many there are; the last block may be partial.

    Returns:
        int32 [count + 1].
    """
    import torch

    behind = torch.where(groups < 0, count, groups)
    torch._assert_async((behind.diff() >= 0).all(), "groups are not in their order")  # pyright: ignore[reportPrivateImportUsage]
    every = torch.arange(count + 1, device=groups.device, dtype=behind.dtype)
    return (torch.searchsorted(behind, every) * block).clamp(max=points).int()


def places(rows: int, points: int, block: int, modulus: int = 0, *, device: Any = None) -> Any:
    """The points at which each element is read by a computed index: `n_of_x` of the gradient of `x[n%64]`, with a block
    of 1 and a modulus of 64, and `m_of_r` of that of `r[m/128,n]`, with a block of 128.

    Args:
        rows: of what is read: elements along that index.
        points: how many there are.
        block: by what a point is divided.
        modulus: of what the quotient is the remainder; 0: of nothing.
        device: torch's.

    Returns:
        int32 [rows, the most points of an element, 1 at least]: in their order, and -1 behind the last one.
    """
    import torch

    period = block * modulus
    rounds = max(-(-points // period), 1) if modulus else 1
    row, turn, at = (torch.arange(x, device=device) for x in (rows, rounds, block))
    found = row[:, None, None] * block + turn[:, None] * period + at
    valid = (found < points) & (row[:, None, None] < (modulus or rows))
    return torch.where(valid, found, -1).reshape(rows, rounds * block).int()


WORD = 8
"""Numbers of 4 bits in an int32."""

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The column of each number of an AWQ word, from the lowest bits on."""


def gptq_weights(
    qweight: Any, qzeros: Any, scales: Any, *, less_one: bool = True, g_idx: Any = None
) -> tuple[Any, Any, Any]:
    """A GPTQ checkpoint's weights of 4 bits, as
    `C[m,n] = A[m,k]:f16 @ (B[n,k]:u4 - Z[k/128,n]:u4) scale(none, 1x128:f16@col)` takes them, for groups of 128. With
    `(Z[k/128,n]:u4 + 1)` in it Z is `qzeros.view(uint8)`, without a copy, and with `B[k/8,n,k%8]:u4` B is `qweight`.
    What this makes is for programs that take no words: operands that are computed or quantised anew, ranges along K.

    Args:
        qweight: int32 [K/8, N]: eight adjacent K a word, the first in the lowest bits. Numpy or torch, as the others.
        qzeros: int32 [K/g, N/8]: eight adjacent N a word.
        scales: f16 or bf16 [K/g, N].
        less_one: whether zero points are stored less one, as in checkpoints whose `checkpoint_format` is not "gptq_v2".
        g_idx: int32 [K], the group of each K, where the checkpoint has it.

    Returns:
        B, uint8 [N, K/2], a copy; Z, uint8 [K/g, N/2], a copy only where one is added; B_scale, [N, K/g], a view.

    Raises:
        ArgumentError: tensors of other shapes or types; groups of K that are not adjacent; a zero point of 16.
    """
    k, groups = _checked(qweight, qzeros, scales, (WORD, 1))
    if g_idx is not None and not bool((g_idx == _range(g_idx, k) // (k // groups)).all()):
        raise ArgumentError(
            "groups of K are not adjacent",
            got="g_idx in another order (desc_act)",
            expected=f"the same group for each {k // groups} adjacent K",
            fix="reorder K of the weights, and of the activations, by g_idx before they are packed",
        )
    zeros = _as_bytes(qzeros)
    if less_one:
        points = _unpacked(qzeros, range(WORD)) + 1
        if bool((points == 16).any()):
            raise ArgumentError(
                "a zero point is 16, which u4 does not have",
                got="15, stored less one",
                expected="0 to 14",
                fix="less_one=False, if the checkpoint is of gptq_v2; else pass qzeros.view(uint8) as it is, and write "
                "(Z[k/128,n]:u4 + 1)",
            )
        zeros = _packed(points)
    return _as_bytes(qweight.T), zeros, scales.T


def awq_weights(qweight: Any, qzeros: Any, scales: Any) -> tuple[Any, Any, Any]:
    """An AWQ checkpoint's weights of 4 bits, as `gptq_weights` gives them. With
    `Z[k/128, n/8*8 + n%2*4 + n%8/2]:u4` in the program Z is `qzeros`, without a copy, and with
    `B[k, n/8*8 + n%2*4 + n%8/2]:u4` B is `qweight`, whose scales are `128x1:f16`. What this makes is for programs that
    take neither: operands that are computed or quantised anew, ranges along N.

    Args:
        qweight: int32 [K, N/8]: eight adjacent N a word, in AWQ_ORDER. Numpy or torch, as the others.
        qzeros: int32 [K/g, N/8], likewise.
        scales: f16 or bf16 [K/g, N].

    Returns:
        B, uint8 [N, K/2], and Z, uint8 [K/g, N/2], copies; B_scale, [N, K/g], a view.

    Raises:
        ArgumentError: tensors of other shapes or types.
    """
    _checked(qweight, qzeros, scales, (1, WORD))
    at = tuple(AWQ_ORDER.index(column) for column in range(WORD))
    return _packed(_unpacked(qweight, at).T), _packed(_unpacked(qzeros, at)), scales.T


def for_registers(weights: Any, stored: str, multiplied: str) -> Any:
    """Weights of 4 bits with each row in the order in which registers of sm_90a's tensor core have it: a copy for
    programs that say so (docs/language.md; `scalec explain` writes them). Scales and zero points stay as they are.

    Args:
        weights: [..., N, K/2] of bytes, the first of two elements in the lower bits. A numpy array or a torch tensor.
        stored: their type: "i4", "u4" or "e2m1".
        multiplied: as what the tensor core multiplies them, mostly what activations are: "bf16", "f16" or "e4m3".

    Returns:
        uint8 of that shape.

    Raises:
        ArgumentError: no bytes, K that is no multiple of 128, or other types.
    """
    known = stored in ELEMENT_TYPES and multiplied in ELEMENT_TYPES
    order = FRAGMENTS.get(fragments(stored, ELEMENT_TYPES[multiplied]) if known else "")
    if order is None:
        raise ArgumentError(
            "no order of such weights",
            got=f"{stored!r}, multiplied as {multiplied!r}",
            expected="4 bits, multiplied as 8 or 16 bits",
            fix='for_registers(weights, "i4", "bf16"), or "u4", "e2m1", "f16", "e4m3"',
        )
    if weights.dtype.itemsize != 1 or not weights.shape or weights.shape[-1] * 2 % len(order):
        raise ArgumentError(
            "weights of 4 bits to reorder",
            got=f"{tuple(weights.shape)} of {weights.dtype}",
            expected=f"[..., N, K/2] of bytes, K a multiple of {len(order)}",
            fix="weights.view(uint8), two elements a byte; of other K pass them in order",
        )
    raw = weights.view(np.uint8) if isinstance(weights, np.ndarray) else _bytes(weights)
    rows = raw.reshape(-1, raw.shape[-1] * 2 // len(order), len(order) // 2)
    first, second = (_nibbles(rows, [order[i] for i in range(side, len(order), 2)]) for side in (0, 1))
    return (first | second << 4).reshape(weights.shape)


def _bytes(tensor: Any) -> Any:
    import torch

    return tensor.view(torch.uint8)


def _nibbles(rows: Any, which: Sequence[int]) -> Any:
    """Elements of 4 bits of the last index, as bytes."""
    low = [k % 2 == 0 for k in which]
    found = rows[..., [k // 2 for k in which]]
    if isinstance(rows, np.ndarray):
        # of one group a row, numpy has what it indexes so with rows last
        return np.ascontiguousarray(np.where(np.array(low), found & 15, found >> 4))
    import torch

    return torch.where(torch.tensor(low, device=rows.device), found & 15, found >> 4)


def _checked(qweight: Any, qzeros: Any, scales: Any, packed: tuple[int, int]) -> tuple[int, int]:
    """(K, groups of it) of a checkpoint's tensors, of which words of weights have so many K and N."""
    for name, x in (("qweight", qweight), ("qzeros", qzeros)):
        if len(x.shape) != 2 or str(x.dtype).removeprefix("torch.") != "int32":
            raise ArgumentError(
                f"{name} of 4 bits",
                got=f"{tuple(x.shape)} of {x.dtype}",
                expected="a matrix of int32",
                fix=f"pass {name} as the checkpoint has it, or {name}.view(int32)",
            )
    k, n = (extent * count for extent, count in zip(qweight.shape, packed, strict=True))
    groups = qzeros.shape[0]
    if tuple(scales.shape) != (groups, n) or qzeros.shape[1] * WORD != n or not groups or k % groups:
        raise ArgumentError(
            f"qzeros and scales of weights with K = {k} and N = {n}",
            got=f"{tuple(qzeros.shape)} and {tuple(scales.shape)}",
            expected=f"[K/g, {n // WORD}] and [K/g, {n}], with g a divisor of {k}",
            fix="pass all three of one layer; GPTQ packs along K, AWQ along N",
        )
    return k, groups


def _range(like: Any, count: int) -> Any:
    """0 to count - 1, on the device of a tensor."""
    if isinstance(like, np.ndarray):
        return np.arange(count)
    import torch

    return torch.arange(count, device=like.device)


def _unpacked(words: Any, at: Sequence[int]) -> Any:
    """The numbers of a matrix of words, a byte each: number i of a word is `at[i]` times 4 bits from the lowest on."""
    if isinstance(words, np.ndarray):
        each: Any = [((words >> 4 * i) & 15).astype(np.uint8) for i in at]
        return np.stack(each, axis=-1).reshape(words.shape[0], -1)
    import torch

    each = [((words >> 4 * i) & 15).to(torch.uint8) for i in at]
    return torch.stack(each, dim=-1).reshape(words.shape[0], -1)


def _packed(numbers: Any) -> Any:
    """Two adjacent numbers a byte, the first in the lower bits."""
    made = numbers[:, ::2] | numbers[:, 1::2] << 4
    return np.ascontiguousarray(made) if isinstance(made, np.ndarray) else made.contiguous()


def _as_bytes(words: Any) -> Any:
    """Words as the bytes that they are."""
    if isinstance(words, np.ndarray):
        return np.ascontiguousarray(words).view(np.uint8)
    import torch

    return words.contiguous().view(torch.uint8)
