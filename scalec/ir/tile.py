"""The `tile` dialect: how to compute it, on any target.

A `tile.kernel` reads as the kernel's schedule: which warps do what, which tiles they walk in which order, what is
copied where, when a stage is handed over, what the tensor core multiplies and how the result reaches memory.

Storage is explicit and named by handles: shared tiles (rings of stages), accumulator fragments (registers of a
warpgroup or warp, or tensor memory), rings (the full and empty barriers of the stages), cursors (which stage a role is
at). Ops on a handle happen in program order within one role; roles meet only at rings. Handles, not SSA values, carry
loop state: accumulators are memory on some targets, and what a loop carries would have to be of one type in IRDL.

Coordinates are in elements of the whole tensor. `wave` numbers the groups of rows that one tensor-core instruction
covers within the rows of one warpgroup or warp.
"""

# ruff: noqa: F401, F403 - what imports this file has the whole dialect: the ops, by name, and what is read of them

from __future__ import annotations

from scalec.ir import (
    tile_control,
    tile_convert,
    tile_copied_scales,
    tile_copies,
    tile_launch,
    tile_panes,
    tile_parts,
    tile_pointwise,
    tile_pointwise_reductions,
    tile_powers,
    tile_quantize,
    tile_reductions,
    tile_relays,
    tile_row_stores,
    tile_runs,
    tile_scales,
    tile_turns,
    tile_zero_points,
)
from scalec.ir.tile_checks import Op, element_in, plane_of
from scalec.ir.tile_compute import axes_of, gaps_in, slice_of
from scalec.ir.tile_cut import CHUNK
from scalec.ir.tile_fold_columns import folded_columns
from scalec.ir.tile_gather import COPY_ALIGN
from scalec.ir.tile_items import ITEM_ALIGN
from scalec.ir.tile_registers import STEP_BYTES
from scalec.ir.tile_results import VECTOR
from scalec.ir.tile_tensor import LANES, SHIFT, WORD_ROWS, words_of
from scalec.ir.tile_types import *
