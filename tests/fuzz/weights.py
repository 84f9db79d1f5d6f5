"""What cases are drawn from: rows of tables, each with its weight."""

from __future__ import annotations

from random import Random
from typing import Any

from scalec.ir.schedule import FIELDS
from tests.fuzz.data import TWISTS

Weighted = dict[Any, int]

TARGET: Weighted = {"sm_90a": 4, "sm_100a": 4, "sm_103a": 1, "sm_120a": 4}

PAIRS: dict[str, Weighted] = {
    "sm_90a": {("8", "8"): 6, ("bf16", "bf16"): 3, ("f16", "f16"): 1},
    "blackwell": {
        ("8", "8"): 5,
        ("8", "narrow"): 1,
        ("narrow", "8"): 1,
        ("narrow", "narrow"): 2,
        ("e2m1", "e2m1"): 2,
        ("bf16", "bf16"): 2,
        ("f16", "f16"): 1,
        ("tf32", "tf32"): 1,
        ("bf16", "tf32"): 1,
        ("f16", "bf16"): 1,
    },
}
"""Kinds of elements of the two operands."""

KINDS: dict[str, Weighted] = {
    "8": {"e4m3": 3, "e5m2": 1},
    "narrow": {"e2m1": 3, "e3m2": 1, "e2m3": 1},
    "e2m1": {"e2m1": 1},
    "bf16": {"bf16": 1},
    "f16": {"f16": 1},
    "tf32": {"tf32": 1},
}

ROWS: Weighted = {"1": 5, "128": 3, "64": 2, "all": 1, "8": 1, "24": 1, "256": 1, "16": 1, "32": 1, "40": 1, "3": 1}
"""Rows that share a scale."""

ROW_STEPS: dict[str, tuple[int, int]] = {"sm_90a": (64, 8), "sm_120a": (16, 8), "blackwell": (128, 8)}
"""Multiples of which they are on the left and on the right, where scales in f32 vary along K."""

F32_K: Weighted = {"128": 5, "256": 1, "384": 1}
"""Elements along K that do, of scales that are promoted."""

FINE_K: Weighted = {"128": 3, "64": 3, "32": 2, "96": 1}
"""Likewise where sums are promoted more often, of operands that are converted."""

NUMBERS: Weighted = {"f32": 3, "bf16": 2, "f16": 2}
"""Types of scales that sums are promoted by."""

BLOCK_K: Weighted = {"32": 4, "64": 1, "128": 2, "96": 1}
"""Likewise of scales that the tensor core applies, in ue8m0; of ue4m3 16 and multiples."""

LAYOUT: dict[str, Weighted] = {
    "f32": {"row": 3, "col": 1},
    "bf16": {"row": 3, "col": 1},
    "f16": {"row": 3, "col": 1},
    "ue8m0": {"row": 2, "col": 1, "packed": 1, "blocked": 2},
    "ue4m3": {"row": 2, "col": 1, "blocked": 2},
}

RESULT_TYPE: Weighted = {"": 4, "f32": 5, "f16": 1, "bf16": 1, "e4m3": 2, "e5m2": 1, "e2m1": 1}

RESULT_FORMAT: Weighted = {"mxfp8": 3, "mxfp8_e5m2": 1, "mxfp4": 2, "nvfp4": 2, "fp8_block": 2}

RESULT_BLOCK: Weighted = {"8": 1, "16": 2, "24": 1, "32": 3, "64": 1, "128": 2, "40": 1, "n": 1}

SIZE: Weighted = {
    "few": 3,  # 1 to 8
    "odd": 4,  # 1 to 100, whatever
    "edge": 4,  # a multiple of 8, 16, 32 or 64, and one more or less
    "two": 2,  # up to 300
    "none": 0,
}

CONVERTED = 0.12
"""How many of the cases have operands that no instruction takes as they are, on sm_90a at least."""

MIXED: Weighted = {
    ("bf16", "nvfp4"): 4,
    ("bf16", "mxfp4"): 3,
    ("f16", "nvfp4"): 2,
    ("e4m3", "nvfp4"): 4,
    ("bf16", "e4m3"): 4,
    ("f16", "e5m2"): 2,
    ("nvfp4", "nvfp4"): 1,
    ("mxfp8", "mxfp4"): 1,
    ("bf16", "e2m1"): 1,
    ("bf16", "i4"): 4,
    ("f16", "i4"): 2,
    ("e4m3", "i4"): 4,
    ("i4", "i4"): 1,
    ("tf32", "i4"): 1,
    ("bf16", "u4"): 4,
    ("e4m3", "u4"): 4,
    ("f16", "u4"): 1,
    ("e4m3", "e5m2"): 3,
    ("tf32", "tf32"): 1,
}
"""Types or formats of their two operands, either way round."""

ZEROS: Weighted = {"": 2, "k/64": 3, "k/128": 2, "k/32": 1, "k/16": 1, "k/80": 1, "k/64 + 1": 1, "8": 2, "5": 1}
"""Zero points of integers, of one operand."""

COMPUTED = 0.08
"""How many of the cases have operands that are computed, by one of PLAIN."""

TEXTS = 0.7
"""How many of the seeds are texts, of forms.py."""

GROUPS = 0.25
"""How many of the cases read indices or ranges from memory."""

GROUP_KIND: Weighted = {"blocks": 3, "masked": 2, "ragged": 3}
GROUP_BLOCK: Weighted = {128: 3, 64: 1, 32: 2, 16: 1, 8: 2, 24: 1, 40: 1, 256: 1, 3: 1}
GROUP_COUNT: Weighted = {1: 1, 2: 3, 3: 3, 5: 2, 9: 1, 40: 1}
GROUP_ROUTING: Weighted = {"drawn": 5, "small": 2, "one": 1, "whole": 2, "ones": 1, "none": 1, "beyond": 1}

FIELD_VALUES: dict[str, Weighted] = {
    "swap": {"0": 1, "1": 3},
    "cluster": {"1x1": 2, "1x2": 2, "2x1": 2, "2x2": 1, "4x1": 1, "1x4": 1},
    "cta_group": {"1": 1, "2": 2},
    "split": {"1": 1, "2": 4, "3": 2, "4": 2, "5": 1, "8": 1},
    "parts": {"memory": 1, "columns": 2, "cluster": 2},
    "stages": {"2": 3, "3": 2, "4": 1, "5": 1, "6": 1, "7": 1},
    "swizzle_a": {"0": 1, "32": 1, "64": 1, "128": 1},
    "swizzle_b": {"0": 1, "32": 1, "64": 1, "128": 1},
    "swizzle_c": {"0": 1, "32": 1, "64": 1, "128": 1},
    "warpgroups": {"1": 2, "2": 2, "3": 1},
    "consumers": {"cooperative": 1, "pingpong": 3},
    "warps": {"4x1": 1, "2x2": 1, "1x4": 1, "2x4": 1, "4x2": 1, "8x1": 1, "1x8": 1, "12x1": 1},
    "registers": {"40x232": 1, "56x224": 1, "24x240": 1, "32x160": 1},
    "scale_path": {"bulk": 1, "thread": 1},
    "scale_copier": {"0": 1, "1": 1},
    "permute_n": {"0": 1, "16": 1, "32": 1},
    "promote": {"0": 1, "128": 2, "64": 1, "256": 1, "32": 1},
    "mma_n": {"0": 1, "8": 1, "16": 1, "32": 1, "40": 1, "64": 1},
    "early_wait": {"0": 1, "1": 1},
    "unroll": {"1": 2, "2": 2, "3": 1, "4": 1, "5": 1, "8": 1},
    "epilogue": {"bulk": 1, "rows": 1, "turned": 1, "direct": 1},
    "staged": {"0": 1, "1": 2, "2": 1, "3": 1},
    "panels": {"0": 1, "1": 2, "2": 2, "3": 1},
    "adds": {"memory": 1, "loaded": 2},
    "inputs": {"0": 1, "1": 1, "2": 1, "3": 1, "5": 1},
    "scheduler": {"static": 1, "dynamic": 2},
    "dependent": {"0": 1, "8": 1},
    "order": {"m": 1, "n": 1},
    "band": {"1": 1, "2": 1, "3": 1, "8": 1},
    "run": {"1": 1, "2": 1, "5": 1},
    "stationary": {"0": 1, "1": 1},
    "invariant": {"1": 1},
}
"""What fields of the schedule are drawn from; `tile` is drawn by the elements' bytes."""

WAYS: dict[str, dict[str, tuple[str, ...]]] = {
    "parts in a cluster": {"split": ("2", "3", "4"), "parts": ("cluster",)},
    "parts by columns": {"split": ("2", "3"), "parts": ("columns",), "scheduler": ("static",), "epilogue": ("direct",)},
    "parts in memory": {"split": ("2", "3", "5"), "parts": ("memory",)},
    "by turns": {"consumers": ("pingpong",), "tile": ("64x64x64", "64x32x128", "64x128x64")},
    "loaded": {"adds": ("loaded",), "epilogue": ("bulk",)},
    "pairs": {"cta_group": ("2",), "cluster": ("2x1", "2x2", "4x1")},
    "transposed": {"swap": ("1",)},
    "turned": {"swap": ("1",), "epilogue": ("turned",)},
    "by rows": {"epilogue": ("rows",), "staged": ("0", "1")},
    "waves": {"epilogue": ("bulk",), "staged": ("1", "2"), "panels": ("0", "1", "2")},
    "narrow results": {"epilogue": ("bulk",), "swizzle_c": ("0", "32", "64")},
    "from registers": {"epilogue": ("direct",)},
    "multicast": {"cluster": ("1x2", "2x1", "2x2", "1x4")},
    "deep": {"stages": ("2", "3", "6")},
    "in a row": {"unroll": ("2", "3", "4", "8")},
    "runs": {"run": ("2", "3", "5"), "scheduler": ("static", "queue")},
    "stationary": {"stationary": ("0", "1"), "run": ("2", "5")},
    "permuted": {"permute_n": ("16", "32")},
    "promoted": {"promote": ("0", "32", "64", "128")},
    "some columns": {"mma_n": ("8", "16", "32", "40")},
    "early": {"early_wait": ("0", "1")},
    "warps": {"warps": ("1x4", "4x1", "2x2", "2x4", "8x1")},
    "groups of warps": {"warpgroups": ("1", "2", "3")},
    "dealt out": {"scheduler": ("dynamic",)},
    "scales by threads": {"scale_path": ("thread",)},
    "scales by a warp": {"scale_copier": ("0", "1")},
    "bands": {"order": ("m", "n"), "band": ("1", "2", "3")},
    "invariant": {"invariant": ("1",)},
    "early launches": {"dependent": ("0", "8")},
    "small tiles": {"tile": ("64x8x128", "64x16x64", "128x16x64", "32x32x64", "128x32x128", "64x24x128")},
    "large tiles": {"tile": ("128x128x64", "192x64x64", "256x64x64", "128x176x64")},
}
"""Ways of a kernel that are seldom chosen, and the fields that make it go them."""

CONVERTERS: Weighted = {"1": 1, "2": 1}
"""Of cases that are CONVERTED, where they have a schedule; `convert` is drawn where it may be `registers`."""

assert {*FIELD_VALUES, "tile", "converters", "convert"} == set(FIELDS)

FUNCTIONS = ("relu", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "abs", "sign")
PLAIN = ("relu", "abs", "sign")
"""Those that are exact."""

TWIST_OF: dict[str, tuple[str, ...]] = {
    "exact": ("integers", "zeros", "same", "one sign", "specials", "integers", "outer"),
    "rounded": tuple(TWISTS),
}


def pick(random: Random, weights: Weighted) -> Any:
    return random.choices(list(weights), list(weights.values()))[0]
