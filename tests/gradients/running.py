"""Runs the texts of a program's gradients through the reference, one after the other, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalec.frontend import build
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import parse
from scalec.frontend.program import Program, Rounded, Scales
from scalec.frontend.resolve import Resolver
from scalec.gradients import Gradients
from scalec.gradients.expressions import below
from scalec.gradients.text import Writer
from scalec.ir.context import context
from scalec.reference import make, run

Arrays = dict[str, Any]


def in_f32(text: str) -> str:
    """A program with f32 in place of bf16 and f16: its gradients are right to f32's rounding then, and no worse."""
    source = Source(text, "test")
    program = Resolver(source, {}).program(parse(source))
    tensors = [a for a in program.arguments if not isinstance(a, Scales) and hasattr(a, "levels")]
    for t in [*tensors, *(s.tensor for s in program.statements)]:
        if t.element in ("bf16", "f16") and not t.levels:  # pyright: ignore[reportAttributeAccessIssue]
            t.type = "f32"  # pyright: ignore[reportAttributeAccessIssue]
    for s in program.statements:
        for v in below(s.value):
            if isinstance(v, Rounded):
                object.__setattr__(v, "said", "tf32")
    writer = Writer()
    return "\n".join(map(writer.statement, program.statements))


def drawn(text: str, dims: Mapping[str, int], seed: int = 0) -> Arrays:
    """Arguments of a program: normal ones of f32, so that functions are met where they bend; others as the reference
    draws them."""
    rng = np.random.default_rng(seed)
    with context():
        values = make(build(text, {}), dims, seed)
    for name, v in values.items():
        if np.shape(v) and v.dtype == np.float32 and not name.endswith("_scale"):
            values[name] = rng.standard_normal(v.shape).astype(np.float32)
    if "e" in values:  # groups in their order, with blocks of none behind them
        values["e"] = np.sort(values["e"])
        values["e"] = np.roll(values["e"], -int((values["e"] < 0).sum()))
    return values


def forward(g: Gradients, values: Mapping[str, Any], dims: Mapping[str, int]) -> Arrays:
    """The results of the forward program, and what it keeps, in f32."""
    return _ran(g.forward, values, dims, {})


def backward(
    g: Gradients,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    dims: Mapping[str, int],
    indices: Mapping[str, Any],
) -> Arrays:
    """The gradients of inputs: `given` are those of the results, `indices` what the steps read beside that."""
    values = with_parts(g, values)
    known = {**values, **forward(g, values, dims), **given, **indices}
    for step in g.steps:
        for name in step.reads:
            assert name in known, f"{step.text}: nothing is called {name}"
        shapes = {n: np.zeros_like(values[of]) for n, of in step.results.items() if of and np.shape(values[of])}
        known |= _ran(step.text, {n: known[n] for n in step.reads}, {}, shapes, unwritten=0 if step.zeroed else np.nan)
    for of, name in g.of.items():
        if name not in known:  # made of parts, of which none may be left out
            known[name] = np.full(np.shape(values[of]), np.nan if g.whole(name) else 0, np.float32)
            for n in g.made_of(name):
                g.parts[n].view(known[name])[...] = known[n]
    return {of: known[name] for of, name in g.of.items()}


def with_parts(g: Gradients, values: Mapping[str, Any]) -> Arrays:
    """Arguments, and their parts that steps read."""
    return {**values, **{n: part.view(values[part.of]) for n, part in g.parts.items() if part.of in values}}


def _ran(
    text: str, values: Mapping[str, Any], dims: Mapping[str, int], shapes: Mapping[str, Any], *, unwritten: float = 0
) -> Arrays:
    with context():
        module = build(text, {})
        names = _arguments(text)
        sizes = {d: s for d, s in dims.items() if d in _dims(text)}
        found = run(module, {n: values[n] for n in names}, shapes, dims=sizes)
    results = dict(found.items())
    for name, written in found.written.items():
        results[name] = np.where(written, results[name], results[name].dtype.type(unwritten))
    return results


def resolved(text: str) -> Program:
    """A program, read."""
    source = Source(text, "test")
    return Resolver(source, {}).program(parse(source))


def _dims(text: str) -> Sequence[str]:
    return resolved(text).dims


def _arguments(text: str) -> list[str]:
    names = []
    for a in resolved(text).arguments:
        if isinstance(a, Scales):
            names += [f"{a.tensor.name}_scale{i + 1 if i else ''}" for i in range(a.first, len(a.tensor.levels or ()))]
        else:
            names.append(a.name)
    return names
