"""Runs a program without a contraction between guards, beside the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, Guarded, between_guards
from scalec.checking.launch import values_of
from scalec.emulator.stats import Stats
from scalec.formats import WHOLE
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.packing import decode, from_layout
from scalec.reference.quantize import block_amax, block_shape, counted, placed, scale_shape
from scalec.runtime import emulated
from scalec.runtime.device import Device
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import changed, codes, same
from tests.emulator.running import TARGETS as TARGETS

Values = dict[str, Any]


def ran(
    source: str,
    dims: Mapping[str, int],
    fixed: str,
    target: str,
    *,
    change: Callable[[Values], None] = lambda _: None,
    fault: Callable[[Kernel], Kernel] = lambda kernel: kernel,
    exact: bool = False,
    on: Device | None = None,
) -> tuple[Values, Any, Values, Stats]:
    """What two launches over different bytes leave, the same; what the reference has; the arguments.

    Checked on the way: no argument changes, and of the results no byte that is not to be written.

    Args:
        fixed: the dimensions, by their first letters, whose sizes are known when the program is compiled.
        change: of what is made up.
        on: a device; None for an emulated one.
    """
    kernel = fault(scalec.compile(source, target=target, dims={d: n for d, n in dims.items() if d[0] in fixed}))
    device = kernel.fixed = emulated.EmulatedDevice(target) if on is None else on
    if isinstance(device, emulated.EmulatedDevice):
        device.options = replace(device.options, seed=sum(dims.values()))
    kernel.load(device)
    with context.context():
        program = build(source, {d: n for d, n in dims.items() if n})
        values: Values = dict(reference.make(program, {d: n or 1 for d, n in dims.items()}, 1))
        for t in kernel.spec.operands:
            if t.shape and not all(dims.values()):
                shape = tuple(e.value(dims) for e in t.shape)
                values[t.name] = values[t.name][tuple(slice(n) for n in shape)]
        change(values)
        with np.errstate(all="ignore"):
            expected = reference.run(build(source), values, dims=dims, exact=exact)
    runs: list[Values] = []
    for fill in FILLS:
        given, outs = between_guards(device, kernel.spec, values, dims, fill)
        kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
        for x in given:
            assert not isinstance(x, Guarded) or not x.changed(), f"{x.spec.name} has changed"
        reached = {r.name: points_of(r.name, expected) if r.given else None for r in kernel.spec.results}
        for x in outs:
            wrong = x.changed(dims, reached[x.spec.name])
            assert not wrong, f"{wrong} bytes around {x.spec.name} have changed"
        runs.append({x.spec.name: x for x in outs} | {"bytes": [x.contents(dims, reached[x.spec.name]) for x in outs]})
    assert runs[0]["bytes"] == runs[1]["bytes"], "two launches differ, or do not write all of it"
    stats = getattr(device, "stats", None)
    assert stats is not None or on is not None or not all(dims.values())
    made = {r.name: values_of(r, runs[0][r.name]) for r in kernel.spec.results}
    known = scales_of(expected)  # packed elements end with a byte
    made = {n: x if n in known else x[..., : expected[n].shape[-1]] for n, x in made.items()}
    return made, expected, values, stats  # pyright: ignore


def points_of(name: str, expected: Any) -> Any:
    """The elements of a result that are written; of scales, one a block, those of which one is, or that are of all
    of an index."""
    if name not in (known := scales_of(expected)):
        return expected.reached[name]
    of, g = known[name]
    if WHOLE in g.block and g.layout == "row":
        return expected.written[name]
    points, places = expected.reached[of], expected.scales[of][2]
    return block_amax(placed(points, places), block_shape(g, points.shape)) > 0


def scales_of(expected: Any) -> dict[str, tuple[str, Any]]:
    """The results that are scales: of which, and their granularities."""
    return {scales: (of, g) for of, (scales, g, _) in expected.scales.items()}


def unpacked(scales: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """One scale a block."""
    each = scales if g.layout == "packed" else decode(scales, g.type)
    return from_layout(each, g.layout, scale_shape(block_shape(g, shape), shape), g.type)


def bit_equal(source: str, dims: Mapping[str, int], fixed: str, target: str, **more: Any) -> Stats:
    """`ran`, and all results are the reference's, bit for bit."""
    made, expected, _, stats = ran(source, dims, fixed, target, **more)
    known = scales_of(expected)
    for name, got in made.items():
        wanted = expected[name]
        if name in known:
            of, g = known[name]
            places = expected.scales[of][2]
            shape = counted(made[of].shape, places)
            got, wanted = unpacked(got, g, shape), unpacked(wanted, g, shape)
            if g.layout in ("packed", "blocked") and expected.reached[of].all() and not places:
                padded_with_zeros(made[name], g, shape)
        reached = points_of(name, expected)
        got, wanted = (codes(np.ascontiguousarray(x))[reached] for x in (got, wanted))
        same(got, wanted, f"{name} of {source}, {dims}")
    return stats


def bit_equal_of_0_and_1(source: str, size: int, fixed: str, target: str) -> None:
    """Of a program over m and k with `size` of either; a known size of 0 is not given."""
    for dims in ({"m": size, "k": 33}, {"m": 3, "k": size}):
        if dims["m"] or "m" not in fixed:
            bit_equal(source, dims, fixed, target)


def bits_are_equal(
    rows: Sequence[tuple[str, dict[str, int], str]],
    change: Callable[[Values], None] = lambda _: None,
    once: Sequence[str] = ("source", "target"),
) -> Callable[..., None]:
    """A test of programs, with sizes and those that are known, on every target: `bit_equal`."""

    @pytest.mark.once(*once)
    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize(("source", "dims", "fixed"), rows)
    def test_bits(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
        bit_equal(source, dims, fixed, target, change=change)

    return test_bits


def bits_of_0_and_1(program: str, results: Sequence[str]) -> Callable[..., None]:
    """A test of a program with each of these results, with a size of 0 or 1, on every target."""

    @pytest.mark.once("result", "size")
    @pytest.mark.parametrize("size", [0, 1])
    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize("fixed", ["", "mk"])
    @pytest.mark.parametrize("result", results)
    def test_sizes_of_0_and_1(result: str, size: int, fixed: str, target: str) -> None:
        bit_equal_of_0_and_1(program.format(result), size, fixed, target)

    return test_sizes_of_0_and_1


def fault_is_found(source: str, dims: Mapping[str, int], fixed: str, old: str, new: str, **more: Any) -> None:
    """With what the regular expression finds in the kernel changed so, something is wrong, or found."""
    fault: Any = changed(old, new)
    with pytest.raises((AssertionError, scalec.ScalecError)):
        bit_equal(source, dims, fixed, "sm_90a", fault=fault, **more)


def padded_with_zeros(scales: Any, g: Any, shape: tuple[int, ...]) -> None:
    """What fills up a row's last word of four scales is zeros."""
    *rows, count = scale_shape(block_shape(g, shape), shape)
    across = -(-count // 4) * 4
    if not across:
        return
    words = from_layout(scales if g.layout == "packed" else decode(scales, g.type), g.layout, (*rows, across), g.type)
    assert not np.ascontiguousarray(words).view(np.uint8).reshape(*rows, across)[..., count:].any()


def extreme(special: float | None) -> Callable[[Values], None]:
    """What makes the first element of X, or for a zero all of it, this; None: nothing."""

    def change(values: Values) -> None:
        if special is not None:
            at = slice(None) if special == 0 else slice(1)
            values["X"].reshape(-1)[at] = np.array(special).astype(values["X"].dtype)

    return change


def spoiled(values: Values) -> None:
    """Rows of X that are zeros, and with a NaN, infinities, -0, and of many magnitudes."""
    x = values["X"]
    with np.errstate(over="ignore"):
        x[...] = (np.asarray(x, np.float64) * 2.0 ** (np.arange(x.size).reshape(x.shape) % 41 - 20)).astype(x.dtype)
    rows = x.reshape(-1, x.shape[-1] or 1)
    for row, what in ((1, 0), (2, -0.0), (3, np.nan), (4, np.inf), (5, -np.inf)):
        if row < len(rows):
            rows[row, : None if row < 3 else 1 + x.shape[-1] // 2] = what
            rows[row, : 0 if row < 3 else x.shape[-1] // 2] = 1
