"""Two dimensions of a call are walked as one where the strides of all its tensors allow, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

import scalec
from scalec.abi import Extent, Launch, TensorSpec
from scalec.errors import ArgumentError
from scalec.runtime import spans
from scalec.runtime.form import Form
from scalec.runtime.kernel import Kernel
from scalec.sizes import MOST
from tests.runtime.fake import FakeDevice, Tensor

LAUNCH = Launch(128, 0, 1, (("s", 128, 1), ("n", 128, 1), ("b", 1, 1)), spans=(("s", "b"),))


def form(
    names: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str = "bf16", layout: str = "row"
) -> Form:
    """`names` are those of dimensions; `s/128` one index for each 128."""
    parts = (name.partition("/") for name in names.split())
    extents = tuple(Extent(name, int(by or 1)) if name != "1" else Extent(size=1) for name, _, by in parts)
    return Form.of(TensorSpec("A", dtype, extents, layout), shape, strides)


@pytest.mark.parametrize(
    ("b", "s", "tensor", "wanted"),
    [
        (3, 20, form("b s k", (3, 20, 64), (1280, 64, 1)), ((1, 60, 64), 64)),
        (3, 20, form("b s k", (3, 20, 64), (1440, 72, 1)), ((1, 60, 64), 72)),  # rows with gaps
        (3, 20, form("b s k", (3, 20, 64), (1344, 64, 1)), None),  # a gap behind each b
        (3, 20, form("s b k", (20, 3, 64), (192, 64, 1)), ((60, 1, 64), 64)),
        (3, 20, form("b s k", (3, 20, 64), (64, 192, 1)), ((1, 60, 64), 64)),  # b within s
        (3, 1, form("b s k", (3, 1, 64), (128, 7, 1)), ((1, 3, 64), 128)),  # who has one index has any stride
        (3, 1, form("b k s", (3, 64, 1), (64, 1, 1)), None),  # copies have s contiguous, and 64 lie between two b
        (3, 1, form("b s", (3, 1), (1, 1)), ((1, 3), 1)),
        (3, 20, form("n k", (64, 64), (64, 1)), ((64, 64), 1)),  # neither
        (3, 20, form("b k", (3, 64), (64, 1)), None),
        (3, 20, form("s k", (20, 64), (64, 1)), None),
        (3, 256, form("b s/128 k/128", (3, 2, 4), (8, 4, 1)), ((1, 6, 4), 4)),
        (3, 200, form("b s/128 k/128", (3, 2, 4), (8, 4, 1)), None),  # blocks would meet
        (3, 20, form("b/128 s k", (1, 20, 4), (80, 4, 1)), None),
        (3, 20, form("b s", (3, 10), (10, 1), "e2m1"), ((1, 30), 1)),
        (3, 21, form("b s", (3, 11), (11, 1), "e2m1"), None),  # rows end in half a byte
        (3, 256, form("b s k/32", (3, 256, 8), (2048, 8, 1), "ue8m0", "blocked"), ((1, 768, 8), 8)),
        (3, 200, form("b s k/32", (3, 256, 8), (2048, 8, 1), "ue8m0", "blocked"), None),  # tiles have rows that pad
        (3, 128, form("k b s/32", (128, 3, 4), (12, 4, 1), "ue8m0", "blocked"), None),
    ],
)
def test_a_tensor(b: int, s: int, tensor: Form, wanted: tuple[tuple[int, ...], int] | None) -> None:
    sizes = {"b": b, "s": s, "n": 64, "k": 64}
    dims, (seen,) = spans.walked(LAUNCH, sizes, [tensor])
    if wanted is None:
        assert (dims, seen) == (sizes, tensor)
        return
    assert dims == {**sizes, "b": 1, "s": b * s}
    names = [e.dim for e in tensor.spec.shape]
    assert (seen.shape, seen.strides[names.index("s") if "s" in names else -1]) == wanted
    assert seen.span == tensor.span


def test_all_tensors_must_allow_it_in_one_order() -> None:
    sizes = {"b": 3, "s": 20, "n": 64, "k": 64}
    rows, others = form("b s k", (3, 20, 64), (1280, 64, 1)), form("b s k", (3, 20, 64), (64, 192, 1))
    assert spans.walked(LAUNCH, sizes, [rows, rows])[0] == {**sizes, "b": 1, "s": 60}
    assert spans.walked(LAUNCH, sizes, [others, others])[0] == {**sizes, "b": 1, "s": 60}
    assert spans.walked(LAUNCH, sizes, [rows, others]) == (sizes, (rows, others))


@pytest.mark.parametrize(
    ("order", "b", "s", "strides", "merges"),
    [
        ("b s n", 3, 20, (1280, 64, 1), True),
        ("b s n", 3, 20, (64, 192, 1), False),  # b within s
        ("s b n", 3, 20, (1280, 64, 1), False),  # s within b
        ("s b n", 3, 20, (64, 192, 1), True),
        ("s b n", 3, 1, (64, 64, 1), True),  # in either order
        ("b n s", 3, 20, (1280, 64, 1), False),
        ("n b s", 3, 20, (1280, 64, 1), True),
        ("n b s", 3, 21, (1344, 64, 1), False),  # rows of s begin within a word of four
        ("n s b", 4, 20, (64, 256, 1), False),  # one of a row would be a row
        ("n s b", 4, 1, (64, 64, 1), False),
        ("n", 3, 20, (64, 192, 1), True),
    ],
)
def test_random_bits_stay_those_of_a_place(order: str, b: int, s: int, strides: tuple[int, ...], merges: bool) -> None:
    sizes, tensor = {"b": b, "s": s, "n": 64, "k": 64}, form("b s k", (b, s, 64), strides)
    dims, _ = spans.walked(replace(LAUNCH, numbered=(tuple(order.split()),)), sizes, [tensor])
    assert dims == (sizes | {"b": 1, "s": b * s} if merges else sizes)


def test_no_more_indices_than_a_kernel_counts() -> None:
    half = MOST // 2 + 1
    tensor = form("b s", (2, half), (half, 1))
    assert spans.walked(LAUNCH, {"b": 2, "s": half}, [tensor]) == ({"b": 2, "s": half}, (tensor,))
    assert spans.walked(LAUNCH, {"b": 1, "s": half}, [form("b s", (1, half), (half, 1))])[0] == {"b": 1, "s": half}


def test_sums_are_counted_as_they_are_walked() -> None:
    """Each of 2^25 b has a block of 64 products where it is walked for itself: more than are counted in 32 bits."""
    device, many = FakeDevice(), 1 << 25
    made = scalec.compile("D[n,k]:f32 += G[b,s,n] @ A[b,s,k]", "sm_90a", dims={"n": 64, "k": 64})
    kernel = Kernel(made.spec, b"", device=device)
    g, a, d = (
        Tensor((many, 1, 64), "<V2"),
        Tensor((many, 1, 64), "<V2", at=1 << 40),
        Tensor((64, 64), "<f4", at=1 << 50),
    )
    kernel(g, a, out=d)
    assert len(device.launches) == 1
    apart = Tensor((many, 2, 64), "<V2", strides=(256, 64, 1))
    with pytest.raises(ArgumentError, match=r"would sum over 2147483648 products\n  got: s = 2, b = 33554432"):
        kernel(apart, Tensor((many, 2, 64), "<V2", at=1 << 40), out=d)
