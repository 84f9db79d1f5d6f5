"""The gradients of the programs of programs.py, run by the reference, against those of torch's autograd in float64."""

from __future__ import annotations

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import scalec  # noqa: E402
from scalec.frontend import affine, build  # noqa: E402
from scalec.frontend.program import Tensor  # noqa: E402
from scalec.gradients import Gradients, MadeIndex  # noqa: E402
from scalec.ir.context import context  # noqa: E402
from scalec.reference import run  # noqa: E402
from tests.gradients.dense import Dense  # noqa: E402
from tests.gradients.programs import CASES, MORE, Case, dequantised  # noqa: E402
from tests.gradients.running import Arrays, backward, drawn, in_f32, resolved, with_parts  # noqa: E402

ALL = [*CASES, *(pytest.param(c, marks=pytest.mark.thorough) for c in MORE)]


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.text.replace(" ", ""))
def test_gradients_are_those_of_autograd(case: Case):
    text = in_f32(case.text)
    g = scalec.grad(text, **case.options)
    values = drawn(text, case.dims) | dict(case.given)
    wanted, given = of_torch(case, text, g, values)
    got = backward(g, values, given, case.dims, made(g, values, case.dims))
    assert set(got) == set(wanted)
    for name, expected in wanted.items():
        found = np.asarray(got[name], np.float64).reshape(expected.shape)
        assert np.abs(expected).max() > 0, f"{name}: the check is of nothing"
        limit = (2e-2 if case.rounds else 1e-5) * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit, err_msg=f"{name}\n{g}")


GATED = "G[m,n] = X[m,k] @ W[{},k]; U[m,n] = X[m,k] @ W[{},k]; H[m,n] = silu(G)*U"


@pytest.mark.parametrize(("gate", "up"), [("n", "n+size(n)"), ("2*n", "2*n+1")])
def test_gradients_of_a_tensor_in_parts_are_differences(gate: str, up: str):
    """Of what numpy computes in float64."""
    text, dims, rng = in_f32(GATED.format(gate, up)), {"m": 7, "n": 6, "k": 5}, np.random.default_rng(2)
    g, values = scalec.grad(text), drawn(text, dims)
    d = rng.standard_normal((7, 6)).astype(np.float32)
    got = backward(g, values, {"dH": d}, dims, {})

    def loss(x: np.ndarray, w: np.ndarray) -> float:
        one, other = (w[:6], w[6:]) if gate == "n" else (w[::2], w[1::2])
        gates = x @ one.T
        return float((gates / (1 + np.exp(-gates)) * (x @ other.T) * d).sum())

    exact = [values[n].astype(np.float64) for n in ("X", "W")]
    for i, name in enumerate(("X", "W")):
        for at in np.ndindex(*exact[i].shape):
            ends = []
            for step in (1e-4, -1e-4):
                moved = [x.copy() for x in exact]
                moved[i][at] += step
                ends.append(loss(*moved))
            assert abs(got[name][at] - (ends[0] - ends[1]) / 2e-4) < 1e-4 * np.abs(got[name]).max(), (name, at)


def of_torch(case: Case, text: str, g: Gradients, values: Arrays) -> tuple[Arrays, Arrays]:
    """The gradients of every input, and those of the results that they are of: where a result is not written, anything,
    but for points that an index leaves out."""
    program, exact = resolved(text), dequantised(values, text)
    with context():
        stored = run(build(text, {}), values, {}, dims=case.dims)
    leaves = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in exact.items() if n in g.of}
    rest = {n: v if v.dtype == np.int32 else torch.tensor(v) for n, v in exact.items() if n not in leaves}
    sizes = dict(case.dims)
    for a in (a for a in program.arguments if isinstance(a, Tensor)):
        sizes |= {affine.plain(e) or "": n for e, n in zip(a.shape, np.shape(values[a.name]), strict=False)}
    dense, rng, given = Dense(program, sizes, {**rest, **leaves}), np.random.default_rng(1), {}
    total = torch.zeros((), dtype=torch.float64)
    skipped = any(v.dtype == np.int32 and (v < 0).any() for v in map(np.asarray, values.values()))
    for s in (s for s in program.statements if not s.temporary and s.tensor.name in g.given):
        name, shape = s.tensor.name, np.shape(stored[s.tensor.name])
        result, written = dense.result(s, shape)
        np.testing.assert_array_equal(written, stored.written[name], err_msg=f"where {name} is written")
        if not s.accumulate:  # to which Dense adds nothing
            here = [np.where(written, x, 0) for x in (stored[name], result.detach().numpy())]
            np.testing.assert_allclose(*here, rtol=2e-2, atol=2e-2, err_msg=name)
        d = rng.standard_normal(shape).astype(np.float32)
        total = total + (torch.where(torch.tensor(written), result, 0.0) * torch.tensor(d)).sum()
        d = np.where(written, d, d if skipped else np.nan).astype(np.float32)
        for x in g.left_out.get(g.given[name], ()):
            for at in np.ndindex(*shape):
                if values[x.source][tuple(at[axis] // block for axis, block in x.axes)] < 0:
                    d[at] = 0
        given[g.given[name]] = d
    total.backward()
    return {n: t.grad.numpy() for n, t in leaves.items()}, given


def made(g, values, dims) -> dict[str, np.ndarray]:
    """The index tensors that steps read, by their definition, one row after the other."""
    return {name: _made(index, with_parts(g, values), dims) for name, index in g.indices.items()}


def _made(index: MadeIndex, values, dims) -> np.ndarray:
    if index.kind == "count":
        return np.arange(values[index.of].shape[index.axis], dtype=np.int32)
    if index.points is not None:
        return _at_points(index, values, dims)
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


def _at_points(index: MadeIndex, values, dims) -> np.ndarray:
    """At every point of some dimensions what is read there, noted at that element."""
    at = index.points
    assert at is not None
    texts = [re.sub(r"size\((\w+)\)", lambda x: str(dims[x[1]]), str(i).replace("/", "//")) for i in at.index]
    if index.kind == "computed":
        known, made = {n: v for n, v in values.items() if np.asarray(v).dtype == np.int32}, []
        for point in np.ndindex(*(dims[d] for d in at.dims)):
            (x,) = (eval(text, {**known, **dict(zip(at.dims, point, strict=True))}) for text in texts)
            made.append(x if x >= 0 else -1)
        return np.array(made, np.int32).reshape([dims[d] for d in at.dims])
    found = {x: [] for x in np.ndindex(*(values[index.of].shape[a] for a in at.axes))}
    known = {n: v for n, v in values.items() if np.asarray(v).dtype == np.int32}
    for point in np.ndindex(*(dims[d] for d in at.own)):
        named = dict(zip(at.own, point, strict=True))
        each = [eval(text, {**known, **named}) for text in texts]
        if all(x >= 0 for x in each):
            found[tuple(map(int, each))].append(named[at.dim])
    made = np.full((*(values[index.of].shape[a] for a in at.axes), max(map(len, found.values())) or 1), -1, np.int32)
    for x, places in found.items():
        made[x][: len(places)] = places
    return made
