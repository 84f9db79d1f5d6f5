"""Programs without a contraction, on every target: tails, unaligned rows, negative indices, no rows and no terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, between_guards
from scalec.checking.launch import made_up as drawn
from scalec.checking.launch import values_of
from scalec.commands.explain import explain_program
from scalec.compiler import compile_source
from scalec.errors import ArgumentError, ScheduleError, SlowKernelError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.lowering import ptxas
from scalec.operations import operations
from scalec.runtime import emulated
from scalec.runtime.dispatch import Program
from scalec.sizes import Range
from scalec.tuning import tuner
from tests.emulator.running import launched

COMBINE = "Y[t,n] = sum[j](w[t,j]:f32 * D[inv[t,j],n])"
CASES = [
    (COMBINE, {"t": 3, "n": 131, "j": 3, "D_0": 7}, ""),
    (COMBINE, {"t": 1, "n": 136, "j": 8, "D_0": 7}, "nj"),
    (COMBINE, {"t": 3, "n": 21, "j": 1, "D_0": 7}, "nj"),
    (COMBINE, {"t": 2, "n": 24, "j": 0, "D_0": 7}, ""),
    (COMBINE, {"t": 0, "n": 24, "j": 2, "D_0": 7}, "n"),
    (COMBINE, {"t": 5, "n": 20, "j": 21, "D_0": 7}, "nj"),
    ("Y[t,n]:f16 = sum[j](D[inv[t,j],n]:f32)", {"t": 3, "n": 30, "j": 5, "D_0": 7}, ""),
    ("Y[t,n]:f32 = w[t] * D[inv[t],n]", {"t": 9, "n": 24, "D_0": 7}, ""),
    ("C[m,n] = silu(G[m,n]) * U[m,n]", {"m": 3, "n": 50}, "n"),
    ("C[m,n]:f32 += G[m,n] * s", {"m": 3, "n": 48}, ""),
    ("S[m]:f32 = sum[k](A[k,m]^2) * 2", {"m": 40, "k": 5}, ""),
    ("S[n]:f32 = max[k](A[k,n]:bf16)", {"n": 40, "k": 5}, "n"),
    ("C[b,m,n]:f32 = G[b,m,n] + x[b,n]", {"b": 2, "m": 3, "n": 24}, ""),
    ("C[b,m,n]:f32 = x[b,m] - y[n]", {"b": 2, "m": 3, "n": 27}, ""),
    ("C[m,n]:f32 = x[m] - y[n]:i8", {"m": 3, "n": 516}, "n"),
    ("C[m,n]:f32 = x[m] - y[n]", {"m": 21, "n": 263}, ""),  # single columns by turns, of several rows
    ("C[m,n] = G[m,n] - U[m,n]", {"m": 3, "n": 2051}, ""),  # and of several turns
]
APART = [  # what adjacent columns of the result read does not lie side by side
    ("Y[t,n]:f32 = x[n/4]:f32 * D[t,n]", {"t": 3, "n": 32}, ""),
    ("Y[t,n]:f32 = x[n%12]:f32 * D[t,n]", {"t": 2, "n": 24}, "n"),
    ("Y[t,n]:f32 = D[t,e[n]]", {"t": 3, "n": 24, "D_1": 7}, "n"),
    ("Y[t,n]:f32 = D[e[n/3],t,n]", {"t": 3, "n": 24, "D_0": 7}, ""),
    ("Y[t,n]:f32 = sum[j](w[t]:f32 * D[e[n],j,n])", {"t": 3, "n": 24, "j": 3, "D_0": 7}, ""),
    ("Y[t,n]:f32 = sum[j](w[t,j]:f32 * D[t,j,n%12])", {"t": 3, "n": 24, "j": 3}, "n"),
    ("Y[t]:f32 = sum[j](D[at[t,j]])", {"t": 37, "j": 3, "D_0": 7}, ""),  # the gradient of x[n%37]
    ("Y[m,t]:f32 = sum[j](D[m,at[t,j]] * w[m])", {"m": 3, "t": 5, "j": 3, "D_1": 7}, "j"),
    ("Y[t,n]:f32 = sum[j](D[at[t,j],n])", {"t": 1, "n": 1, "j": 1, "D_0": 7}, ""),
    ("Y[t]:f32 = sum[j](D[at[t,j]])", {"t": 0, "j": 2, "D_0": 7}, ""),
    ("Y[t]:f32 = sum[j](D[at[t,j]])", {"t": 9, "j": 0, "D_0": 7}, ""),
]
SKIPPED = [  # by an index that is the same for each term: the result is not written
    ("S[t]:f32 = sum[n](D[inv[t],n])", {"t": 9, "n": 24, "D_0": 7}, "n"),
    ("Y[t,n]:f32 = sum[j](D[inv[t],j,n])", {"t": 9, "n": 24, "j": 3, "D_0": 7}, "n"),
    ("Y[t,n]:f32 = sum[j](w[j]:f32 * D[inv[t],n])", {"t": 9, "n": 24, "j": 3, "D_0": 7}, ""),
]


def nobody(*_: Any) -> Any:
    """A timer, a compiler and a journal that are not to be asked."""
    raise AssertionError


nobody.facts = nobody.open = nobody  # pyright: ignore


@pytest.mark.once("target", "source")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(("source", "dims", "fixed"), CASES + APART + SKIPPED)
def test_small_integers_are_exact(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    draw = np.random.default_rng(1)
    with context.context():
        program = build(source, {d: n for d, n in dims.items() if n})
        values: dict[str, Any] = dict(reference.make(program, {d: n or 1 for d, n in dims.items()}, 1))
        for t in kernel.spec.operands + tuple(r for r in kernel.spec.results if r.inout):
            shape = tuple(e.value(dims) for e in t.shape)
            made = draw.integers(-3, 4, shape)
            if t.dtype == "i32":
                extent = next(n for d, n in dims.items() if "_" in d)
                made = draw.integers(-2, extent - 1, shape)  # row D_0 - 1 is nobody's
            values[t.name] = made.astype(np.asarray(values[t.name]).dtype) if t.shape else 2.0
            if t.name == "D" and "D_0" in dims:
                values[t.name][-1] = np.nan
        expected = reference.run(build(source), values, dims=dims)
    for fill in FILLS:
        given, (out,) = between_guards(device, kernel.spec, values, dims, fill)
        (r,) = kernel.spec.results
        kernel(*given, out=out)
        reached = expected.reached[r.name]
        assert not out.changed(dims, reached if r.given else None)
        got = np.asarray(values_of(r, out), np.float64)
        if "silu" in source:
            assert np.allclose(got, np.asarray(expected[r.name], np.float64), rtol=2**-7)
        else:
            assert (got[reached] == np.asarray(expected[r.name], np.float64)[reached]).all()


@pytest.mark.once
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_a_sum_of_rows_has_the_same_bits_in_every_run(target: str) -> None:
    """Whatever the order of CTAs and warps, of terms whose sum hangs on the order of additions."""
    dims = {"t": 9, "n": 40, "j": 8, "D_0": 70}
    kernel = scalec.compile(f"{COMBINE.replace('Y[t,n]', 'Y[t,n]:f32')}", target=target, dims={"n": 40, "j": 8})
    kernel.fixed = emulated.EmulatedDevice(target)
    values, expected = drawn(kernel.spec.source, dims, 5)
    first, last = (launched(kernel, values, expected, dims, seed)["Y"].tobytes() for seed in (1, 7))
    assert first == last
    turned = {**values, "w": values["w"][:, ::-1].copy(), "inv": values["inv"][:, ::-1].copy()}
    assert launched(kernel, turned, expected, dims, 1)["Y"].tobytes() != first


def test_a_range_of_sizes_is_one_kernel() -> None:
    program = scalec.compile(COMBINE, target="sm_90a", dims={"t": "1:64", "n": 8, "j": 2})
    assert isinstance(program, Program)
    assert [k.spec.ranges for k in program.kernels] == [{"t": (1, 64)}]


@pytest.mark.parametrize(
    ("run", "arguments"),
    [
        (explain_program, (COMBINE, "sm_90a", {"t": 64}, {})),
        (explain_program, (COMBINE, "sm_90a", {"t": Range(1, 64)}, {})),
        (explain_program, (COMBINE, "sm_90a", {}, {"stages": "4"})),
        (tuner.tune, (tuner.Job(COMBINE, "sm_90a", {"n": 64, "j": 8, "D_0": 7}, Range(1, 64)), nobody, nobody, nobody)),
    ],
)
def test_there_is_no_schedule_to_choose(run: Any, arguments: Any) -> None:
    with pytest.raises(UnsupportedError, match="the program has no contraction, so there is no schedule to choose"):
        run(*arguments)


def test_each_tile_has_a_cta_of_its_own() -> None:
    launch, sizes = scalec.compile(COMBINE, target="sm_90a").spec.launch, {"t": 1000, "n": 4096, "j": 2}
    assert launch.grid(sizes, clusters=1) == launch.units(sizes) > 1000


@pytest.mark.assembled
def test_registers_are_limited_unless_that_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    source, sizes = "M[m] = max[k](X[m,k]); Y[m,k] = exp(X[m,k] - M)", {"k": 7168}
    assert ".maxnreg 56" in compile_source(source, "sm_90a", sizes).ptx
    assemble = ptxas.assemble

    def spills(ptx: str, target: str, what: str) -> Any:
        if ".maxnreg" in ptx:
            raise SlowKernelError("it spills")
        return assemble(ptx, target, what)

    monkeypatch.setattr(ptxas, "assemble", spills)
    made = compile_source(source, "sm_90a", sizes)
    assert made.cubin
    assert ".maxnreg" not in made.ptx


def test_fields_of_schedules_are_refused() -> None:
    with pytest.raises(ScheduleError, match="schedule field stages is of a contraction, and the program has none"):
        compile_source(COMBINE, "sm_90a", schedule={"stages": "4"}, until="tile")


def test_two_operations_are_counted_for_each_term_of_a_sum() -> None:
    sizes = {"t": 3, "n": 5, "j": 7}
    for source, number in ((COMBINE, 2 * 3 * 5 * 7), ("Y[t,n]:f32 = w[t] * D[t,n]", 0)):
        assert operations(scalec.compile(source, target="sm_90a").spec, sizes) == number


def made_up(t: int = 5, beyond: int = 0) -> list[torch.Tensor]:
    """Operands of COMBINE with 2 terms, 8 columns and 4 rows: one index names none, one may lie beyond."""
    draw = torch.Generator().manual_seed(1)
    inverse = torch.randint(0, 4, (t, 2), generator=draw, dtype=torch.int32)
    inverse[-1, 0], inverse[0, 1] = -1, 3 + beyond
    return [torch.randn(t, 2, generator=draw), torch.randn(4, 8, generator=draw).bfloat16(), inverse]


@pytest.mark.thorough  # importing torch's compiler takes most of it: tests/runtime/test_custom_op.py does too
def test_an_op_of_torchs() -> None:
    kernel = scalec.compile(COMBINE, target="sm_90a")
    weights, rows, inverse = given = tuple(made_up())
    tests = ["test_autograd_registration", "test_faketensor", "test_schema"]
    assert torch.library.opcheck(kernel.op.default, given, test_utils=tests) == dict.fromkeys(tests, "SUCCESS")
    found = torch.compile(lambda *x: kernel(*x), fullgraph=True, backend="eager")(*given)
    terms = weights[:, :, None] * rows.float()[inverse.clamp(min=0)] * (inverse >= 0)[:, :, None]
    assert torch.allclose(found.float(), terms.sum(1), rtol=2**-7, atol=2**-7)


def test_an_index_beyond_the_rows() -> None:
    kernel = scalec.compile(COMBINE, target="sm_90a")
    with pytest.raises(ArgumentError, match=r"inv\[0, 1\] = 4 is no index of D, which has 4 \(D_0\)"):
        kernel(*made_up(beyond=1))


def test_what_spills_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_ptx: str, _target: str, what: str) -> None:
        raise SlowKernelError(f"ptxas made a slow kernel of schedule {what}", fix="a smaller tile")

    monkeypatch.setattr(ptxas, "assemble", slow)
    with pytest.raises(SlowKernelError, match="of schedule rows=1, columns=1024") as error:
        compile_source(COMBINE, "sm_90a", {"n": 4096, "j": 8})
    assert error.value.fix == "compute it in several programs, of fewer tensors each"
