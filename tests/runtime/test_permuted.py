"""Tensor maps whose copies permute rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scalec.abi import KernelSpec, permuted_rows
from scalec.errors import UnsupportedError
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, Tensor, gemm_spec, gemm_tensors


def spec_with(n: int | None = 512, **changes: Any) -> KernelSpec:
    """A GEMM whose copies of 128 rows of B permute rows within 16."""
    spec = gemm_spec(n=n)
    arguments = list(spec.arguments)
    arguments[1] = replace(arguments[1], **{"box": (128, 2, 4, 2, 8), "permuted": 16, **changes})
    return replace(spec, arguments=tuple(arguments))


def test_rows_are_counted_by_four_dimensions():
    device = FakeDevice()
    tensors = gemm_tensors()
    Kernel(spec_with(), b"", device=device)(
        *{**tensors, "B": Tensor((512, 1024), strides=(2048, 1), at=1 << 34)}.values()
    )
    found = device.launches[-1].parameters[1]
    assert found.extents == (1024, 2, 4, 2, 32)
    assert found.strides == (2048, 4 * 2048, 2 * 2048, 16 * 2048)
    assert (found.box, found.swizzle) == ((128, 2, 4, 2, 8), 128)


@pytest.mark.parametrize("within", [8, 16, 32])
def test_each_row_comes_once_and_threads_have_adjacent_ones(within):
    rows = 96
    places = [0]
    for extent, step in permuted_rows(within, rows):
        places = [place + i * step for i in range(extent) for place in places]
    assert sorted(places) == list(range(rows))
    for quad in range(4):  # of each eight, a lane has numbers 2 * quad and the next (PTX ISA 9.7.15.5.1, figure D)
        mine = [places[8 * group + 2 * quad + i] for group in range(within // 8) for i in (0, 1)]
        assert mine == list(range(within // 4 * quad, within // 4 * (quad + 1)))


@pytest.mark.parametrize(
    ("n", "changes", "got"),
    [
        (520, {}, "n = 520 rows"),
        (None, {}, "n = None rows"),
        (512, {"permuted": 20, "box": (128, 2, 4, 2, 8)}, "n = 512 rows"),
        (512, {"permuted": 32}, r"a box \(128, 2, 4, 2, 8\)"),
        (512, {"box": (128, 128)}, r"a box \(128, 128\)"),
        (512, {"element": "padded"}, "elements 'padded'"),
    ],
)
def test_maps_that_would_permute_other_rows(n, changes, got):
    with pytest.raises(UnsupportedError, match=f"permutes rows within .*\n  got: .*{got}"):
        Kernel(spec_with(n, **changes), b"")
