"""What the kernel spec says of scales: their type, extents and layout."""

from __future__ import annotations

import pytest

from scalec.abi import TensorSpec
from scalec.frontend import build
from scalec.ir.context import context
from scalec.lowering import signature


def tensors(source: str) -> dict[str, TensorSpec]:
    with context():
        module = build(source)
        operands, results, _ = signature.tensors(module.body.operations[0])
    return {t.name: t for t in (*operands, *results)}


def told(t: TensorSpec) -> tuple[str, str, str]:
    return t.dtype, ", ".join(map(str, t.shape)), t.layout


@pytest.mark.parametrize(
    ("scales", "dtype", "shape"),
    [
        ("1x32:ue8m0", "ue8m0", "m, ceil(k/32)"),
        ("1x32:ue8m0@col", "ue8m0", "m, ceil(k/32)"),
        ("1x32:ue8m0@blocked", "ue8m0", "m, ceil(k/32)"),
        ("1x32:ue8m0@packed", "i32", "m, ceil(k/128)"),
        ("128x128:ue8m0@packed", "i32", "ceil(m/128), ceil(k/512)"),
        ("1xk:ue8m0@packed", "i32", "m, 1"),
        ("1x16:ue4m3@blocked", "ue4m3", "m, ceil(k/16)"),
        ("1x128", "f32", "m, ceil(k/128)"),
    ],
)
def test_scales(scales, dtype, shape):
    found = tensors(f"C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale({scales}, none)")
    _, _, layout = scales.partition("@")
    assert told(found["A_scale"]) == (dtype, shape, layout or "row")
    assert found["A"].dtype == "e4m3"


def test_each_level_has_its_type():
    found = tensors("C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4")
    assert told(found["A_scale"]) == ("ue4m3", "m, ceil(k/16)", "row")
    assert told(found["A_scale2"]) == ("f32", "1, 1", "row")
