"""Programs of several launches on every target: results quantised by whole rows that no tile has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.compare import compare
from scalec.checking.launch import made_up, upload, values_of
from scalec.commands.explain import explain_program
from scalec.errors import ArgumentError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.launches import launches
from scalec.runtime import emulated
from scalec.runtime.sequence import Sequence, kernels_of
from scalec.sizes import Range
from tests.emulator.quantised import run_quantised
from tests.emulator.running import TARGETS, refusals

BF16 = "D[m,n]{} = A[m,k] @ B[n,k]"
FP8 = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
BIAS = "D[m,n]{} = relu(A[m,k] @ B[n,k] + bias[n])"


@pytest.mark.once("target", "program")
@pytest.mark.parametrize(
    ("program", "result", "n", "fixed"),
    [
        (BF16, "e4m3 scale(1xn)", 264, ("k",)),
        (BIAS, "e5m2 scale(1xn:ue8m0)", 400, ("k",)),
        (FP8, "e4m3 scale(1xn@col)", 328, ("k",)),
        (BF16, "e2m1 scale(1xn)", 40, ()),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_bits(target: str, program: str, result: str, n: int, fixed: tuple[str, ...]) -> None:
    """Rows with NaN, infinities and zeros among them: the reference's quantising of the f32 result."""
    kernel = run_quantised(program, result, {"m": 70, "n": n, "k": 128}, fixed, 5, target, times=1)
    assert isinstance(kernel, Sequence)
    assert [t.name for t in kernel.between] == ["D_f32"]
    assert [t.name for t in kernel.spec.results] == ["D", "D_scale"]


@pytest.mark.once("target", "program")
@pytest.mark.parametrize(
    ("program", "sizes", "between"),
    [
        ("D[b,m,n]:e4m3 scale(1x1xn) = A[b,m,k] @ B[b,n,k]", {"b": 2, "m": 9, "n": 264, "k": 64}, 1),
        (
            "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]",
            {"g": 3, "m": 40, "n": 264, "k": 64},
            1,
        ),
        ("D[g,m,n]:e4m3 scale(1x1xn) = A[g,m,k] @ B[g,n,k] for m < rows[g]", {"g": 2, "m": 20, "n": 264, "k": 64}, 1),
        (
            "D[g,m,n]:e4m3 scale(1x1xn) = A[m,k] @ B[n,k] for k in off[g]:off[g+1]",
            {"g": 3, "m": 9, "n": 264, "k": 96},
            1,
        ),
        (
            "T[m,n] = A[m,k] @ B[n,k] # both\nE[m,n]:bf16 = T[m,n]; D[m,n]:e4m3 scale(1xn) = relu(T); "
            "R[m] = max[n](abs(T)); F[m,n]:e5m2 scale(1xn:ue8m0) = -T[m,n]",
            {"m": 9, "n": 264, "k": 64},
            2,
        ),
        (
            "G[m,n] = X[m,k]@Wg[n,k]; U[m,n] = X[m,k]@Wu[n,k]; D[m,n]:e4m3 scale(1xn) = silu(G)*U",
            {"m": 9, "n": 264, "k": 64},
            1,
        ),
        ("D[m,n]:e4m3 scale(1xn) = stochastic(x * (A[m,k] @ B[n,k]), w[0])", {"m": 9, "n": 264, "k": 64}, 1),
        ("D[m,n]:e4m3 scale(1x264:ue8m0@blocked) = A[m,k] @ B[n,k] + b[n]", {"m": 9, "n": 400, "k": 64}, 1),
    ],
    ids=["batch", "ragged", "masked", "ranges of K", "several", "gated", "by chance", "blocks"],
)
@pytest.mark.parametrize("target", TARGETS)
def test_against_the_reference(target: str, program: str, sizes: dict[str, int], between: int) -> None:
    kernel = scalec.compile(program, target=target, dims={} if "for k" in program else {"k": sizes["k"]})
    assert isinstance(kernel, Sequence)
    assert len(kernel.between) == between
    with context.context():
        module = build(program, {})
        names = [str(a["scale.name"]).strip('"') for a in module.body.operations[0].attributes["arg_attrs"]]
    assert [t.name for t in kernel.spec.operands] == names
    values, expected = made_up(program, sizes, 3)
    outs, _ = launched(kernel, target, values, sizes)
    for found in compare(dict(zip((r.name for r in kernel.spec.results), outs, strict=True)), expected):
        assert found.ok, found


ADDED = "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:f32 += T; D[m,n]:e4m3 scale(1xn) = relu(T)"


@pytest.mark.once
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_a_result_that_is_added_to(target: str, bound: bool) -> None:
    """Where a later launch refuses its result, nothing has been added."""
    sizes = {"m": 40, "n": 272, "k": 64}
    kernel = scalec.compile(ADDED, target=target)
    assert isinstance(kernel, Sequence)
    values, expected = made_up(ADDED, sizes, 3)
    device = kernel.fixed = emulated.EmulatedDevice(target)
    arguments, outs = upload(device, kernel.spec, values, sizes)
    before = outs[0].numpy().tobytes()
    with pytest.raises(ArgumentError, match="D_scale"):
        kernel(*arguments, out=(*outs[:2], outs[0]))
    assert outs[0].numpy().tobytes() == before
    _ = kernel.bind(*arguments, out=tuple(outs))() if bound else kernel(*arguments, out=tuple(outs))
    found = {r.name: values_of(r, o) for r, o in zip(kernel.spec.results, outs, strict=True)}
    for each in compare(found, expected):
        assert each.ok, each


def launched(kernel: Sequence, target: str, values: Mapping[str, Any], sizes: dict[str, int]) -> tuple[list, list]:
    device = kernel.fixed = emulated.EmulatedDevice(target)
    arguments, outs = upload(device, kernel.spec, values, sizes)
    kernel(*arguments, out=tuple(outs))
    return [values_of(r, o) for r, o in zip(kernel.spec.results, outs, strict=True)], outs


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_of_a_call(target: str) -> None:
    """Of 0 and 1 too, by position and name, with results given and not, bound, and the same bits as two programs."""
    first, second = "C[m,n]:f32 = A[m,k] @ B[n,k]", "D[m,n]:e4m3 scale(1xn) = C[m,n]:f32"
    kernel = scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", target=target)
    one, other = scalec.compile(first, target=target), scalec.compile(second, target=target)
    for m, n, k in [(0, 264, 64), (1, 1, 64), (9, 264, 64), (3, 300, 0)]:
        sizes = {"m": m, "n": n, "k": k}
        with context.context():
            values = reference.make(build(first, {}), sizes, 7)
        a, b = values["A"], values["B"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SCALEC_DEVICE", "emulator")
            wanted = other(one(a, b))
            got = kernel(a, B=b)
            given = tuple(np.empty_like(x) for x in got)
            assert kernel(a, b, out=given) is not None
            bound = kernel.bind(a, b, out=tuple(np.empty_like(x) for x in got))
            again = bound()
        for x, y, z, w in zip(got, given, again, wanted, strict=True):
            assert x.shape == w.shape
            assert x.tobytes() == y.tobytes() == z.tobytes() == w.tobytes(), sizes


@pytest.mark.thorough
def test_what_nothing_reads_is_not_written() -> None:
    """The scale of an operand without rows, which no launch could write; of one without K its product has zeros."""
    kernel = scalec.compile("C[m,n] = quantize(A[m,k], e4m3, tensor) @ B[n,k]:e4m3", "sm_90a")
    assert isinstance(kernel, Sequence)
    kernel.fixed = emulated.EmulatedDevice("sm_90a")

    def made(m: int, n: int, k: int, **more: Any) -> Any:
        return kernel(np.ones((m, k), ml_dtypes.bfloat16), np.ones((n, k), ml_dtypes.float8_e4m3fn), **more)

    assert [made(m, n, 64).shape for m, n in ((0, 9), (3, 0), (0, 0), (3, 9))] == [(0, 9), (3, 0), (0, 0), (3, 9)]
    out = made(0, 9, 64)
    assert made(0, 9, 64, out=out) is out
    message = (
        r"k = 0 leaves no tile to write the scale of quantize\(A\[m,k\], e4m3, tensor\) by\n"
        "  expected: at least one k\n  fix: call the program where k is not 0, and else"
    )
    for more in ({}, {"out": np.zeros((3, 9), ml_dtypes.bfloat16)}):
        with pytest.raises(ArgumentError, match=message):
            made(3, 9, 0, **more)
    with pytest.raises(ArgumentError, match=message):
        kernel.bind(*(np.ones((x, 0), t) for x, t in ((3, ml_dtypes.bfloat16), (9, ml_dtypes.float8_e4m3fn))), out=out)


def test_a_range_of_sizes() -> None:
    """A ladder of kernels for the first launch, one for the second."""
    kernel = scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a", {"n": 512, "k": 64, "m": "1:64"})
    assert isinstance(kernel, Sequence)
    assert len(kernels_of(kernel.launches[1])) == 1
    assert len(kernels_of(kernel.launches[0])) > 1
    assert kernel._written("D_f32") == "A[m,k] @ B[n,k]"
    with pytest.raises(ArgumentError, match="several kernels for one launch"):
        _ = kernel.op


def test_rows_that_a_tile_has_take_one_launch() -> None:
    kernel = scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a", {"n": 256, "k": 64})
    assert not isinstance(kernel, Sequence)


test_what_no_cut_helps_is_refused = refusals(
    [
        ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k] + x[idx[n]]", "by whole rows, and n is not known"),
        ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[e[g],n,k] for m in off[g]:off[g+1]", "by whole rows, and n is not known"),
        (
            "G[m,n] = A[m,k] @ B[n,k] for m < rows[0]; U[m,n] = A[m,k] @ E[n,k] for m < rows[1];"
            " D[m,n]:e4m3 scale(1xn) = G * U",
            "by whole rows, and n is not known|different ranges",
        ),
        ("D[m,n]:e4m3 scale(1xn:bf16) = A[m,k] @ B[n,k]", "scales in bf16"),
        ("C[m,n] = quantize(A[m,k], e4m3, 1xk:ue8m0) @ B[n,k]:e4m3", "A is quantised anew in blocks of 1xall"),
        ("C[m,n] = quantize(A[m,k], e4m3, 1xk) @ B[n,k]:e4m3; S[m] = sum[k](A[m,k])", "in blocks of 1xall"),
    ]
)


def test_one_op_of_torch() -> None:
    """Shapes and types of tensors without memory, and of none other."""
    torch = pytest.importorskip("torch")
    kernel = scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a")
    assert isinstance(kernel, Sequence)
    a, b = (torch.empty(s, 64, dtype=torch.bfloat16, device="meta") for s in (9, 264))
    values, scales = kernel.op(a, b)
    assert (values.shape, values.dtype) == ((9, 264), torch.float8_e4m3fn)
    assert (scales.shape, scales.dtype) == ((9, 1), torch.float32)
    assert [x.shape for x in kernel(a, b)] == [(9, 264), (9, 1)]


def test_explain_names_both_launches(capsys: pytest.CaptureFixture[str]) -> None:
    explain_program("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a", {"m": 500, "n": 3000, "k": 64}, {})
    told = capsys.readouterr().out
    assert "launch 1 of 2: D_f32[m,n]:f32 = A[m,k] @ B[n,k]\n" in told
    assert "launch 2 of 2: D[m,n]:e4m3 scale(1xn) = D_f32[m,n]:f32 (between them D_f32, 6.0 MB," in told


def test_explain_names_the_launch_before(capsys: pytest.CaptureFixture[str]) -> None:
    program = "C[m,n] = quantize(A[m,k], e4m3, 1xk) @ B[n,k] scale(none, 1xk)"
    explain_program(program, "sm_90a", {"m": 500, "n": 1000, "k": 2000}, {})
    told = capsys.readouterr().out
    assert "launch 1 of 2: A_e4m3[m,k]:e4m3 scale(1xk) = A[m,k] (between it and those behind it A_e4m3, 1.0 MB," in told
    assert "launch 2 of 2: C[m,n] = A_e4m3[m,k]:e4m3 @ B[n,k] scale(1xk, 1xk)\n" in told


def test_an_op_with_gradients_has_all_launches() -> None:
    """What autograd sees are the program's results, not those of its first launch."""
    torch = pytest.importorskip("torch")
    program = "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]"
    a, b = torch.randn(5, 64).bfloat16().requires_grad_(), torch.randn(264, 64).bfloat16()
    made = scalec.differentiable(program, "sm_90a", straight_through=True)(a, b)
    wanted = scalec.compile(program, "sm_90a")(a.detach(), b)
    assert [x.dtype for x in made] == [torch.float8_e4m3fn, torch.float32]
    assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(made, wanted, strict=True))


@pytest.mark.parametrize(
    ("pair", "bound"),
    [
        ("E over D", False),
        ("E_scale over D_scale", True),
        ("D over C", True),
        ("D over seed", False),
        ("E over A", True),
    ],
)
def test_tensors_of_two_launches_that_overlap_are_refused(pair: str, bound: bool) -> None:
    """Each launch sees but its own: the second would write over results of the first, or over what the third reads."""
    torch = pytest.importorskip("torch")
    program = (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:f32 = T; D[m,n]:e4m3 scale(1xn) = T + 1;"
        " E[m,n]:e4m3 scale(1xn) = stochastic(T, seed[0])"
    )
    kernel = scalec.compile(program, "sm_90a", {"n": 264, "k": 16})
    tensors = {
        "A": torch.randn(200, 16).bfloat16()[:20],
        "B": torch.randn(264, 16).bfloat16(),
        "seed": torch.zeros(20 * 264, dtype=torch.int32)[:1],
        "C": torch.zeros(20, 264),
        "D": torch.zeros(20, 264, dtype=torch.float8_e4m3fn),
        "D_scale": torch.zeros(20, 1),
        "E": torch.zeros(20, 264, dtype=torch.float8_e4m3fn),
        "E_scale": torch.zeros(20, 1),
    }
    operands = [tensors[t.name] for t in kernel.spec.operands]
    outs = [tensors[t.name] for t in kernel.spec.results]
    wanted = [x.clone() for x in kernel(*operands, out=tuple(outs))]
    call = kernel.bind(*operands, out=tuple(outs)) if bound else lambda: kernel(*operands, out=tuple(outs))
    call()
    name, other = pair.split(" over ")
    moved, before = tensors[name], tensors[name].clone()
    moved.set_(tensors[other].untyped_storage(), 0, moved.shape, moved.stride())
    with pytest.raises(ArgumentError, match=f"{name} overlaps {other} in memory"):
        call()
    moved.set_(before)
    for x, y in zip(call(), wanted, strict=True):
        assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))


@pytest.mark.parametrize(
    ("target", "sizes", "count"),
    [
        ("sm_90a", {"m": 8192, "n": 512, "k": 7168}, 1),
        ("sm_90a", {"m": 64, "n": 512, "k": 7168}, 2),
        ("sm_90a", {"m": Range(1, 8192), "n": 512, "k": 7168}, 2),  # few rows are among them
        ("sm_100a", {"m": 8192, "n": 1024, "k": 7168}, 1),
        ("sm_100a", {"m": 8192, "n": 4096, "k": 7168}, 2),  # longer rows than clusters have
        ("sm_120a", {"m": 8192, "n": 512, "k": 7168}, 2),
    ],
)
def test_rows_of_a_cluster_where_these_are_predicted_to_be_faster(target: str, sizes: dict, count: int) -> None:
    assert len(launches("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", target, sizes).texts) == count


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_any_length_between_two_launches(target: str) -> None:
    """An operand that is quantised before has rows of 75 bytes, and copies begin at multiples of 16."""
    program = "C[m,n]:f32 = quantize(A[m,k], e4m3, 1xk) @ B[n,k]:e4m3 scale(none, 1xk)"
    sizes = {"m": 9, "n": 24, "k": 75}
    kernel = scalec.compile(program, target=target)
    assert isinstance(kernel, Sequence)
    values, expected = made_up(program, sizes, 3)
    outs, _ = launched(kernel, target, values, sizes)
    for found in compare(dict(zip((r.name for r in kernel.spec.results), outs, strict=True)), expected):
        assert found.ok, found


def test_what_is_asked_for_is_done() -> None:
    program = "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k] with cluster=1x4"
    assert len(launches(program, "sm_90a", {"m": 64, "n": 512, "k": 64}).texts) == 1
    assert len(launches(program, "sm_90a", {"m": 64, "n": 1100, "k": 64}).texts) == 2  # rows that four CTAs do not have


def test_rows_that_no_cluster_shares_take_two_launches() -> None:
    every = launches("D[m,n]:e4m3 scale(1xn) = A[idx[m],k] @ B[n,k]", "sm_90a", {"n": 512, "k": 64})
    assert every.texts[1] == "D[m,n]:e4m3 scale(1xn) = D_f32[idx[m],m,n]:f32"


GATHERED = "G[m,n] = X[idx[m],k] @ V[g,n,k]{0}; U[m,n] = X[idx[m],k] @ W[g,n,k]{0}; H[m,n]:{1} = silu(G)*U"
ROWS = " for m in off[g]:off[g+1]"


@pytest.mark.parametrize("result", ["e4m3 scale(1x128)", "fp8_block"])
def test_blocks_that_no_tile_has_take_two_launches(result: str) -> None:
    """Of a gated layer with gathered rows, which no cluster shares; a text that says no two programs is refused."""
    every = launches(GATHERED.format(ROWS, result), "sm_100a", {"n": 512, "k": 64})
    assert every.texts[1] == f"H[m,n]:{result} = H_f32[idx[m],m,n]:f32{ROWS}"
    with pytest.raises(UnsupportedError, match="C is quantised in blocks of 384"):
        launches("C[m, n + n/384*384]:e4m3 scale(1x384) = A[m,k] @ B[n,k]", "sm_120a")


def test_rows_that_no_cluster_shares_are_refused_where_no_text_says_two_programs() -> None:
    program = "D[m,n]:e4m3 scale(1xn) = A[idx[m],k] @ B[e[g],n,k] for m in off[g]:off[g+1]"
    with pytest.raises(UnsupportedError) as refusal:
        launches(program, "sm_90a", {"n": 512, "k": 64})
    assert "blocks of 512, which 2 or 4 or 8 CTAs of a cluster would share" in refusal.value.message
    assert "share tiles of A, whose rows idx[m] names" in refusal.value.got
    assert refusal.value.fix.startswith("write D[m,n]:f32 here, and quantise it by a program of its own")
