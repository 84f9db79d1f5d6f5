"""A kernel's results beside the reference's: two errors, each with the most that is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scalec.reference import Results

MAX_ERROR = 0.02
"""Largest max|x-y| / max|y|: one wrong element or row shows here, not in diff. Rounding to bf16 gives 2^-9 at most."""

MAX_DIFF = 1e-5
"""Largest diff of a result whose own rounding is smaller; rounding to bf16 alone gives (2^-9)^2 / 3, about 1.3e-6."""


@dataclass(frozen=True)
class Checked:
    """One result beside its reference."""

    name: str  # of the result
    diff: float  # 1 - 2<x,y>/(|x|^2+|y|^2)
    max_error: float  # max|x-y| / max|y|
    limit: float  # the largest diff accepted
    error_limit: float = MAX_ERROR  # the largest max_error accepted

    @property
    def ok(self) -> bool:
        return self.diff <= self.limit and self.max_error <= self.error_limit


def compare(got: Mapping[str, NDArray[Any]], expected: Results) -> list[Checked]:
    """Each result beside its reference; the scales of a quantised one, one a block, beside its own.

    Quantised values count what they stand for in units of the reference's scale: blocks of small scale as much as
    others, and right where a sum that is rounded differently took a block's largest magnitude across a power of two, to
    another scale, and all its values with it.
    """
    import numpy as np

    from scalec.reference import decode
    from scalec.reference.packing import from_layout
    from scalec.reference.quantize import block_shape, counted, expand_scales, scale_shape, spread, taken

    checks = {}
    # the others are row by row, maybe to a byte's end
    laid_out = {scales for scales, *_ in expected.scales.values()} | {*expected.copied}
    got = {n: x if n in laid_out else x[..., : expected[n].shape[-1]] for n, x in got.items()}
    for name, (scales, g, places) in expected.scales.items():
        values = got[name]
        block, every = block_shape(g, values.shape), counted(values.shape, places)
        stood_for = values.astype(np.float64) * expand_scales(got[scales], g, values.shape, places)
        unit = np.broadcast_to(taken(spread(expected[scales], block, every), places), values.shape)
        np.divide(stood_for, unit, out=stood_for, where=unit != 0)
        checks[name] = check(name, stood_for, expected[name], values.dtype)
        each = got[scales] if g.layout == "packed" else decode(got[scales], g.type)
        each = from_layout(each, g.layout, scale_shape(block, every), g.type)
        checks[scales] = check(scales, each, expected[scales])
    for name, g in expected.copied.items():
        each = got[name] if g.layout == "packed" else decode(got[name], g.type)
        checks[name] = check(name, from_layout(each, g.layout, expected[name].shape, g.type), expected[name])
    return [checks.get(name) or check(name, values, expected[name]) for name, values in got.items()]


def check(name: str, got: NDArray[Any], expected: NDArray[Any], dtype: Any = None) -> Checked:
    """Compares a result with its reference, which is not rounded; what its own type (or `dtype`) rounds away is allowed
    for. Beyond the type's largest number the reference saturates, or where the type's conversion gives infinity, both
    count as the power of two that comes next."""
    import ml_dtypes
    import numpy as np

    from scalec import reference

    own, off = np.dtype(got.dtype if dtype is None else dtype), (0.0, 0.0)
    try:
        facts = ml_dtypes.finfo(own)
        eps, most = float(facts.eps), float(facts.max)
        if facts.bits > 8:
            most = 2.0 ** (int(np.frexp(most)[1]))
        # an infinity that is meant stays one, or it would be all that counts; narrow types have their largest number
        meant = np.isinf(expected) & (facts.bits > 8)

        def clipped(x: NDArray[Any]) -> NDArray[Any]:  # those of a quantised result may be counted in other units
            return np.where(meant, x, np.clip(x, -most, most))

        got, expected = clipped(got.astype(np.float64)), clipped(expected)
    except ValueError:  # an integer type
        eps = 0.0
        expected = np.clip(expected, np.iinfo(own).min, np.iinfo(own).max)
        written = expected[~np.isnan(expected)]
        if written.any():  # off by half of one at most, whatever the value
            off = float(0.125 / np.mean(written**2)), float(0.51 / np.abs(written).max())
    # rounding to nearest is off by eps/4 to eps/2 of a value at most; twice the mean square of eps/2
    limit, error_limit = max(MAX_DIFF, eps**2 / 6, off[0]), max(MAX_ERROR, eps, off[1])
    return Checked(name, reference.diff(got, expected), reference.max_error(got, expected), limit, error_limit)
