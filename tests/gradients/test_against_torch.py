"""The gradients of the programs of programs.py, run by the reference, against those of torch's autograd in float64."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import scalec  # noqa: E402
from scalec.gradients import MadeIndex  # noqa: E402
from tests.gradients.programs import CASES, Case, dequantised  # noqa: E402
from tests.gradients.running import backward, drawn, in_f32  # noqa: E402


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text.replace(" ", ""))
def test_gradients_are_those_of_autograd(case: Case):
    text = in_f32(case.text)
    g = scalec.grad(text, **case.options)
    values = drawn(text, case.dims) | dict(case.given)
    wanted, given = of_torch(case, g, values)
    got = backward(g, values, given, case.dims, made(g, values, case.dims))
    assert set(got) == set(wanted)
    for name, expected in wanted.items():
        found = np.asarray(got[name], np.float64).reshape(expected.shape)
        assert np.abs(expected).max() > 0, f"{name}: the check is of nothing"
        limit = (2e-2 if case.rounds else 1e-5) * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit, err_msg=f"{name}\n{g}")


def of_torch(case: Case, g, values):
    """The gradients of every input, and those of the results that they are of."""
    exact = dequantised(values, case.text)
    leaves = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in exact.items() if n in g.of}
    rest = {n: torch.tensor(v) for n, v in exact.items() if n not in leaves}
    sizes = {"rows": case.dims["C_0"]} if "C_0" in case.dims else {}

    class Values(SimpleNamespace):
        def __getitem__(self, name: str):
            return getattr(self, name)

    results = case.same(Values(**{**sizes, **rest, **leaves}))
    results = results if isinstance(results, tuple) else (results,)
    rng = np.random.default_rng(1)
    made = [rng.standard_normal(r.shape).astype(np.float32) for r in results]
    torch.autograd.backward(list(results), [torch.tensor(d, dtype=torch.float64) for d in made])
    order = [n for n in _results(case.text) if n in g.given]
    given = {g.given[n]: d for n, d in zip(order, made, strict=True)}
    return {n: t.grad.numpy() for n, t in leaves.items()}, given


def _results(text: str) -> list[str]:
    from tests.gradients.running import _program

    return [s.tensor.name for s in _program(text).statements if not s.temporary]


def made(g, values, dims) -> dict[str, np.ndarray]:
    """The index tensors that steps read, by their definition, one row after the other."""
    return {name: _made(index, values, dims) for name, index in g.indices.items()}


def _made(index: MadeIndex, values, dims) -> np.ndarray:
    count = values[index.of].shape[index.axis]
    if index.kind == "places":
        dim = next(d for d in dims if d in re.split(r"\W", index.source))
        source = np.array([eval(index.source.replace("/", "//"), {dim: x}) for x in range(dims[dim])])
    else:
        source = values[index.source]
    if index.kind != "offsets":
        places = [np.flatnonzero(source == t) for t in range(count)]
        found = np.full((count, max(map(len, places), default=0) or 1), -1, np.int32)
        for t, at in enumerate(places):
            found[t, : len(at)] = at
        return found
    valid = source[source >= 0]
    return (np.searchsorted(valid, np.arange(count + 1)) * index.block).astype(np.int32)
