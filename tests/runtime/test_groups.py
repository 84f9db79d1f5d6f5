"""Programs with groups at the call, on the emulator: indices that change between calls, the op of torch's, bundles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import scalec
from scalec import layouts
from scalec.errors import ArgumentError, UnsupportedError
from scalec.runtime import bundle, emulated
from scalec.runtime.kernel import Kernel

torch = pytest.importorskip("torch")

N, K, GROUPS = 64, 64, 3
BLOCKS = "C[m,n] = A[m,k] @ B[e[m/64],n,k]"
RAGGED = "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
MASKED = "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]"
GATHERED = "C[m,n] = A[idx[m],k] @ B[n,k]"
SCATTERED = "C[idx[m],n] = A[m,k] @ B[n,k]"
ALONG_K = "C[g,m,n]:f32 = A[m,k] @ B[n,k] for k in off[g]:off[g+1]"
ADDED = "C[g,m,n]:f32 += A[m,k] @ B[n,k] for k in off[g]:off[g+1]"
PROGRAMS = {"blocks": BLOCKS, "ragged": RAGGED, "masked": MASKED}
LATER = {"gathered": GATHERED, "scattered": SCATTERED, "along k": ALONG_K, "added": ADDED}
"""Programs that not every target has a kernel for yet: their tests are skipped until it has."""

FIRST = {"blocks": [2, 0, -1], "ragged": [0, 70, 70, 150], "masked": [50, 0, 33]}
THEN = {"blocks": [-1, 1, 2], "ragged": [10, 20, 130, 131], "masked": [0, 50, 1]}
FIRST |= {"gathered": [5, -1, 79, 5], "scattered": [5, -1, 79, 0], "along k": [0, 7, 7, 64], "added": [0, 7, 7, 64]}
THEN |= {"gathered": [0, 1, 2, 3], "scattered": [1, 2, 3, -1], "along k": [3, 16, 40, 41], "added": [3, 3, 3, 41]}
UNWRITTEN = 7.0


@pytest.fixture(autouse=True)
def _dynamo_anew(on_the_emulator: None) -> None:
    torch._dynamo.reset()


@cache
def kernel(name: str, target: str = "sm_90a") -> Kernel:
    try:
        made = scalec.compile((PROGRAMS | LATER)[name], target=target, dims={"n": N, "k": K})
    except UnsupportedError as error:
        if name in PROGRAMS:
            raise
        pytest.skip(error.message)
    assert isinstance(made, Kernel)
    return made


def arguments(name: str) -> tuple:
    """A, B, the index tensor, and a result that nobody has written."""
    rng = np.random.default_rng(0)
    lead = (GROUPS, 50) if name == "masked" else (150,)

    def drawn(*shape: int):
        return torch.from_numpy(rng.integers(-4, 5, shape).astype(np.float32)).bfloat16()

    index = torch.tensor(FIRST[name], dtype=torch.int32)
    if name in PROGRAMS:
        return drawn(*lead, K), drawn(GROUPS, N, K), index, torch.full((*lead, N), UNWRITTEN, dtype=torch.bfloat16)
    if name in ("along k", "added"):
        return drawn(20, K), drawn(N, K), index, torch.full((GROUPS, 20, N), UNWRITTEN)
    m, rows = (80, 4) if name == "gathered" else (4, 80)
    return drawn(m, K), drawn(N, K), index, torch.full((rows, N), UNWRITTEN, dtype=torch.bfloat16)


def expected(name: str, a, b, index):
    """The result, with UNWRITTEN where nothing is written."""
    if name in LATER:
        return expected_later(name, a.float(), b.float(), index.tolist())
    out = torch.full((*a.shape[:-1], N), UNWRITTEN)
    product, held = [a.float() @ x.T for x in b.float()], index.tolist()
    if name == "masked":
        for g, rows in enumerate(held):
            out[g, :rows] = product[g][g, :rows]
    elif name == "ragged":
        for g, (low, high) in enumerate(pairwise(held)):
            out[low:high] = product[g][low:high]
    else:
        for block, g in enumerate(held):
            if g >= 0:
                out[64 * block : 64 * block + 64] = product[g][64 * block : 64 * block + 64]
    return out.bfloat16()


def expected_later(name: str, a, b, held: list[int]):
    if name in ("along k", "added"):
        parts = [a[:, low:high] @ b[:, low:high].T for low, high in pairwise(held)]
        return torch.stack(parts) + (UNWRITTEN if name == "added" else 0)
    out = torch.full((4 if name == "gathered" else 80, N), UNWRITTEN)
    for m, row in enumerate(held):
        if row >= 0:
            source, target = (row, m) if name == "gathered" else (m, row)
            out[target] = a[source] @ b.T
    return out.bfloat16()


def in_order(name: str, a, b, index) -> tuple:
    """The operands in the program's order."""
    return {"gathered": (a, index, b), "scattered": (index, a, b)}.get(name, (a, b, index))


@pytest.mark.once("name")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", [*PROGRAMS, *LATER])
def test_indices_change_in_place_between_calls(name: str, target: str) -> None:
    found = kernel(name, target)
    a, b, index, out = arguments(name)
    given = in_order(name, a, b, index)
    bound = found.bind(*given, out=out)
    ways: list[Callable[[], object]] = [bound, lambda: found(*given, out=out)]
    for call in ways:
        for held in (FIRST[name], THEN[name], FIRST[name]):
            index.copy_(torch.tensor(held))
            out.fill_(UNWRITTEN)
            assert call() is out
            assert torch.equal(out, expected(name, a, b, index))


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy(name: str) -> None:
    a, b, index, out = arguments(name)
    import ml_dtypes

    given = [x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) for x in (a, b)]
    made = out.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    kernel(name)(*given, index.numpy(), out=made)
    assert torch.equal(out, expected(name, a, b, index))


@pytest.mark.parametrize(
    ("name", "held", "message"),
    [
        ("blocks", [0, 3, 1], "e[1] = 3 is no index of B, which has 3 (B_0)"),
        ("ragged", [0, 70, 60, 150], "off[2] = 60 falls below off[1] = 70"),
        ("ragged", [0, 70, 70, 151], "off[3] = 151 is beyond m = 150"),
        ("masked", [50, 51, 0], "rows[1] = 51 is beyond m = 50"),
    ],
)
def test_the_emulator_always_checks(name: str, held: list[int], message: str) -> None:
    a, b, index, out = arguments(name)
    bound = kernel(name).bind(a, b, index, out=out)
    index.copy_(torch.tensor(held))
    for call in (bound, lambda: kernel(name)(a, b, index, out=out), lambda: kernel(name).op(a, b, index, out)):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert caught.value.message == message
    assert (out == UNWRITTEN).all()


WRONG = [1 << 30, -(1 << 30), 2**31 - 1, 151, 3]


@pytest.mark.once("name")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_out_of_range_writes_nothing_outside(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where nobody checks. The emulator finds any byte outside the tensors that is read or written."""
    monkeypatch.setattr(emulated.EmulatedDevice, "checks", False)
    device = emulated.device(target)  # groups whose offsets fall write the same rows
    monkeypatch.setattr(device, "options", replace(device.options, ignore=frozenset({"race", "in-flight", "proxy"})))
    found = scalec.compile(PROGRAMS[name], target=target, dims={"n": N, "k": K})  # whose plans were made unchecked
    a, b, index, out = arguments(name)
    whole = torch.full((out.numel() + 2 * N,), UNWRITTEN, dtype=torch.bfloat16)
    inner = whole[N:-N].view(out.shape)
    for at in sorted({0, 1, len(index) - 1}):
        for wrong in WRONG:
            index.copy_(torch.tensor(FIRST[name]))
            index[at] = wrong
            found(a, b, index, out=inner)
            assert (whole[:N] == UNWRITTEN).all()
            assert (whole[-N:] == UNWRITTEN).all()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_groups(name: str) -> None:
    a, b, index, out = arguments(name)
    index = {"blocks": torch.full_like(index, -1), "ragged": index[:1], "masked": index[:0]}[name]
    if name == "masked":
        a, out = a[:0], out[:0]
    kernel(name)(a, b[:0], index, out=out)
    assert (out == UNWRITTEN).all()


def test_results_of_no_elements_along_k() -> None:
    found = scalec.compile(RAGGED, target="sm_90a")
    a, b, index, out = arguments("ragged")
    found(a[:, :0], b[..., :0], index, out=out)
    assert (out == 0).all()
    index[3] = 149
    out.fill_(UNWRITTEN)
    found(a[:, :0], b[..., :0], index, out=out)
    assert (out[:149] == 0).all()
    assert (out[149:] == UNWRITTEN).all()


# ---------------------------------------------------------------------------------------------------- the op of torch's


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_op_says_that_it_mutates(name: str) -> None:
    op = kernel(name).op
    assert op.overloads() == ["default"]
    names = [a.name for a in op.default._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    assert names == ["C"]
    assert not op.default._schema.returns
    tests = ("test_schema", "test_faketensor", "test_autograd_registration", "test_aot_dispatch_dynamic")
    assert torch.library.opcheck(op, arguments(name), test_utils=tests) == dict.fromkeys(tests, "SUCCESS")


@pytest.mark.once("name", "backend")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_calls(name: str, backend: str) -> None:
    found = kernel(name)

    @torch.compile(backend=backend, fullgraph=True)
    def run(a, b, index, out):
        return found(a, b, index, out=out) + 1

    a, b, index, out = arguments(name)
    for held in (FIRST[name], THEN[name]):
        index.copy_(torch.tensor(held))
        out.fill_(UNWRITTEN)
        got = run(a, b, index, out)
        assert torch.equal(out, expected(name, a, b, index))
        assert torch.equal(got, out + 1)


def test_a_compiled_call_without_the_result_is_refused() -> None:
    found = kernel("ragged")

    @torch.compile(backend="eager", fullgraph=True)
    def run(a, b, index):
        return found(a, b, index)

    with pytest.raises(Exception, match="C keeps what it holds where nothing is written"):
        run(*arguments("ragged")[:3])


# ------------------------------------------------------------------------------------------------------------- bundles


def test_a_bundle_keeps_what_is_read(tmp_path: Path) -> None:
    bundle.write(tmp_path, {name: kernel(name) for name in PROGRAMS})
    programs = bundle.load(tmp_path)
    specs = {k.spec.source: k.spec for program in programs.values() for k in program.kernels}
    for name, source in PROGRAMS.items():
        assert specs[source] == kernel(name).spec
        assert specs[source].reads
        assert [r.partial for r in specs[source].results] == [True]


def test_quantised_results_are_partly_written_with_their_scales() -> None:
    found = scalec.compile("D[m,n]:mxfp8 = A[m,k]:mxfp8 @ B[e[m/128],n,k]:mxfp8", target="sm_100a")
    assert isinstance(found, Kernel)
    assert [(r.name, r.partial) for r in found.spec.results] == [("D", True), ("D_scale", True)]


@pytest.mark.thorough
def test_a_result_with_scales_by_group() -> None:
    """Compiled calls write what others do, in a tensor of scales that is larger than what rows need; torch's own
    type of scales is taken, and the helper of the layout says where they are."""
    source = f"{RAGGED.replace('C[m,n]', 'D[m,n]:e4m3 scale(1x32:ue8m0@blocked)')} apart"
    found = scalec.compile(source, target="sm_90a", dims={"n": N, "k": K})
    a, b, index, _ = arguments("ragged")

    def room() -> tuple:
        scales = torch.full((128 * (2 + GROUPS), 4), 7, dtype=torch.uint8).view(torch.float8_e8m0fnu)
        return torch.full((150, N), 7, dtype=torch.uint8).view(torch.float8_e4m3fn), scales

    @torch.compile(backend="aot_eager", fullgraph=True)
    def call(a, b, index, values, scales):
        found(a, b, index, out=(values, scales))
        return values.view(torch.uint8) + 0, scales.view(torch.uint8) + 0

    plain, made = room(), room()
    found(a, b, index, out=plain)
    copies = call(a, b, index, *made)
    row = scalec.compile(f"{RAGGED.replace('C[m,n]', 'D[m,n]:mxfp8')}", target="sm_90a", dims={"n": N, "k": K})
    values, scales = torch.zeros(150, N, dtype=torch.float8_e4m3fn), torch.zeros(150, 2, dtype=torch.uint8)
    row(a, b, index, out=(values, scales))
    for x, y, z in zip(plain, made, copies, strict=True):
        assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))
        assert torch.equal(x.view(torch.uint8), z)
    assert torch.equal(plain[0].view(torch.uint8), values.view(torch.uint8))
    places = layouts.blocked_by_group(torch.ones_like(scales), index) > 0
    got = plain[1].view(torch.uint8)
    assert torch.equal(got[places], layouts.blocked_by_group(scales, index)[places])
    words = layouts.blocked_by_group(torch.ones(150, 4, dtype=torch.uint8), index) > 0
    assert (got[words & ~places] == 0).all()  # fill up a row's word of four
    assert (got[~words] == 7).all()
