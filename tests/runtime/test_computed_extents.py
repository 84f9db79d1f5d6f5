"""Results with gaps at the call: given by the caller, of the extent that the sizes tell, written where points are."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.abi import Extent, KernelSpec, Term
from scalec.errors import ArgumentError, FormatError
from scalec.runtime.kernel import Kernel

torch = pytest.importorskip("torch")

ENDS = "D[m, n/8*12 + n%8]:f32 = A[m,k] @ B[n,k]"
FRONT = "D[m, n + n/8*4 + 8]:f32 = A[m,k] @ B[n,k]"


pytestmark = pytest.mark.usefixtures("on_the_emulator")


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return scalec.compile(ENDS, target="sm_90a", dims={"k": 16})


def operands(n: int, m: int = 3, k: int = 16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-4, 5, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))


def places(n: int) -> list[int]:
    return [i // 8 * 12 + i % 8 for i in range(n)]


def test_the_spec_says_the_extent(kernel: Kernel) -> None:
    extent = kernel.spec.results[0].shape[1]
    assert extent == Extent(size=-4, terms=(Term("n", 12, divisor=8),))
    assert (str(extent), extent.names) == ("12*ceil(n/8) - 4", ("n",))
    assert [extent.value({"n": n}) for n in (0, 1, 8, 9, 16)] == [0, 8, 8, 20, 20]
    assert KernelSpec.from_json(kernel.spec.to_json()) == kernel.spec
    assert kernel.spec.results[0].given


@pytest.mark.parametrize(
    ("extent", "text", "values"),
    [
        (Extent(terms=(Term("n"), Term("n", 64, 128, 256)), size=-64), "n + 64*ceil((n + 128)/256) - 64", (1, 320)),
        (Extent(terms=(Term("n", offset=-3),)), "n - 3", (0, 253)),
        (Extent(terms=(Term("n", 2, 1),), size=5), "2*(n + 1) + 5", (9, 519)),
    ],
)
def test_extents(extent: Extent, text: str, values: tuple[int, int]) -> None:
    assert str(extent) == text
    assert (extent.value({"n": 1}), extent.value({"n": 256})) == values


def test_a_spec_with_an_extent_below_0_is_refused(kernel: Kernel) -> None:
    with pytest.raises(FormatError, match="an extent below 0, expected 0 or more"):
        KernelSpec.from_json(kernel.spec.to_json().replace('"size": 0', '"size": -1', 1))
    with pytest.raises(FormatError, match="no dimension 'q'"):
        KernelSpec.from_json(re.sub(r'"dim": "n"(?=,\s+"factor")', '"dim": "q"', kernel.spec.to_json()))


def test_gaps_keep_what_they_have(kernel: Kernel) -> None:
    a, b = operands(20)
    out = np.full((3, 32), 7, np.float32)
    assert kernel(a, b, out=out) is out
    np.testing.assert_array_equal(out[:, places(20)], a.astype(float) @ b.astype(float).T)
    gaps = np.setdiff1d(np.arange(32), places(20))
    assert (out[:, gaps] == 7).all()


def test_columns_of_wider_rows(kernel: Kernel) -> None:
    a, b = (torch.from_numpy(x.astype(np.float32)).bfloat16() for x in operands(16))
    whole = torch.full((3, 24), 7.0)
    kernel(a, b, out=whole[:, :20])
    assert torch.equal(whole[:, places(16)], a.float() @ b.float().T)
    assert (whole[:, [8, 9, 10, 11, 20, 21, 22, 23]] == 7).all()


@pytest.mark.parametrize("given", [lambda x: x, lambda x: torch.from_numpy(x.astype(np.float32)).bfloat16()])
def test_the_result_must_be_given(kernel: Kernel, given) -> None:
    a, b = map(given, operands(16))
    for call in (kernel, kernel.bind):
        with pytest.raises(ArgumentError) as caught:
            call(a, b)
    assert str(caught.value).startswith("D keeps what lies between the columns that are written and must be given")
    assert "fix: D=tensor, or out=tensor" in str(caught.value)


def test_another_extent_is_refused(kernel: Kernel) -> None:
    with pytest.raises(ArgumentError) as caught:
        kernel(*operands(16), out=np.zeros((3, 24), np.float32))
    assert "D has extent 24 along index 1 (12*ceil(n/8) - 4), expected 20 (n = 16)" in str(caught.value)


@pytest.mark.parametrize("source", [ENDS, FRONT])
def test_sizes_of_0(source: str) -> None:
    kernel = scalec.compile(source, target="sm_90a")
    extent = kernel.spec.results[0].shape[1]
    for sizes in ({"n": 0}, {"k": 0}, {"m": 0}):
        m, n, k = ({"m": 3, "n": 16, "k": 16} | sizes).values()
        a, b = operands(n, m, k)
        out = np.full((m, extent.value({"n": n})), 7, np.float32)
        kernel(a, b, out=out)
        written = [x + 8 * (source == FRONT) for x in places(n)]
        assert (out[:, written] == 0).all()
        assert (np.delete(out, written, axis=1) == 7).all()


def test_as_an_op_of_torch(kernel: Kernel) -> None:
    a, b = (torch.from_numpy(x.astype(np.float32)).bfloat16() for x in operands(16))

    @torch.compile(backend="eager", fullgraph=True)
    def run(a, b, out):
        return kernel(a, b, out=out) + 1

    out = torch.full((3, 20), 7.0)
    got = run(a, b, out)
    assert torch.equal(out[:, places(16)], a.float() @ b.float().T)
    assert torch.equal(got, out + 1)
    assert kernel.op.overloads() == ["default"]
