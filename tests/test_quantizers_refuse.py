"""What scalec.quantize, dequantize and silu_mul_quantize refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.errors import ArgumentError, UnsupportedError

X = np.ones((4, 64), np.float32)


pytestmark = pytest.mark.usefixtures("on_the_emulator")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("masked", "x is a masked array"),
        ("foreign", "x has the other byte order"),
        ("sparse", "x is not a dense tensor"),
        ("lazy", "x is a lazy view"),
        ("nested", "x does not fit"),
        ("format", "format and layout: a scale cannot be f33"),
        ("seed", "seed = 1.5\n  expected: a number"),
    ],
)
def test_wrong_arguments_on_the_host(kind: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.delenv("SCALEC_DEVICE")
    x: Any = {
        "masked": lambda: np.ma.masked_array(X, X > 0),
        "foreign": lambda: X.astype(">f4"),
        "sparse": lambda: torch.zeros(4, 32).to_sparse(),
        "lazy": lambda: torch._neg_view(torch.zeros(4, 32)),
        "nested": lambda: torch.nested.nested_tensor([torch.zeros(3, 32), torch.zeros(2, 32)]),
    }.get(kind, lambda: X)()
    for format in ("1x128:f33",) if kind == "format" else ("mxfp8", "tensor"):
        with pytest.raises(ArgumentError, match=message):
            scalec.quantize(x, format, seed=1.5 if kind == "seed" else None)


def test_the_host_refuses_what_kernels_do(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    x, values, scale = np.ones((2, 12, 64), np.float32), np.zeros((4, 64), np.int8), np.ones((4, 2), np.uint8)

    def rows(*counts: int) -> Any:
        return lambda: scalec.silu_mul_quantize(x, None, "mxfp8", batched=True, rows=np.array(counts, np.int32))

    def offsets(*ends: int) -> Any:
        return lambda: scalec.quantize(x[0], "mxfp8", offsets=np.array(ends, np.int32))

    calls = {
        r"offsets\[1\] = 13 is beyond m = 12": offsets(0, 13),
        r"offsets\[0\] = -1 is no offset": offsets(-1, 12),
        r"offsets\[2\] = 3 falls below": offsets(0, 5, 3),
        "offsets has extent 0": offsets(),
        r"rows\[0\] = 13 is beyond m = 12": rows(13, 0),
        "rows has b = 3": rows(1, 2, 3),
        "offsets = ": lambda: scalec.quantize(torch.from_numpy(x[0]), "mxfp8", offsets=np.zeros(2, np.int32)),
        "tensors of two libraries": lambda: scalec.silu_mul_quantize(x, torch.from_numpy(x), "mxfp8"),
        "seed is int64": lambda: scalec.quantize(x, "mxfp8", seed=np.zeros(4, np.int64)),
        "up is on meta, gate is on cpu": lambda: scalec.silu_mul_quantize(
            torch.from_numpy(x), torch.zeros(2, 12, 64, device="meta"), "mxfp8"
        ),
        "rows is on meta, x is on cpu": lambda: scalec.quantize(
            torch.from_numpy(x), "mxfp8", batched=True, rows=torch.zeros(2, dtype=torch.int32, device="meta")
        ),
        r"offsets\[1\] = 13 is beyond m = 12\n(.*\n)*.*m\Z": lambda: scalec.quantize(
            x[0], "tensor", offsets=np.array([0, 13], np.int32)
        ),
        "scale2 requires grad": lambda: scalec.quantize(
            torch.from_numpy(x), "tensor", scale2=torch.ones(()).requires_grad_()
        ),
        "scale requires grad": lambda: scalec.dequantize(
            torch.from_numpy(values), torch.ones(()).requires_grad_(), "i8 scale(tensor)"
        ),
        "scale2 is given": lambda: scalec.dequantize(values, 2.0, "i8 scale(tensor)", 2.0),
        "scale = .*\n  got: type ndarray\n  expected: one number": lambda: scalec.dequantize(
            values, np.ones(3), "i8 scale(tensor)"
        ),
        "the element type in format = 'f16' is unknown": lambda: scalec.dequantize(
            x[0].astype(np.float16), np.ones((12, 2), np.float32), "f16 scale(1x32)"
        ),
        "x requires grad": lambda: scalec.quantize(torch.from_numpy(x).requires_grad_(), "mxfp8"),
        "values is i8": lambda: scalec.dequantize(values, scale, "mxfp8"),
        "values_scale has extent 1": lambda: scalec.dequantize(values.view(np.uint8), scale[:, :1], "mxfp8"),
    }
    found = []
    for device in ("emulator", None):
        if device is None:
            monkeypatch.delenv("SCALEC_DEVICE")
        for message, call in calls.items():
            with pytest.raises(ArgumentError, match=message) as caught:
                call()
            found.append(str(caught.value))
    assert found[: len(calls)] == found[len(calls) :]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"format": "mxfp9"}, "format = 'mxfp9' is unknown\n  expected: mxfp8, .*\n  fix: did you mean mxfp"),
        ({"format": "1x128:f33"}, "format and layout: a scale cannot be f33"),
        ({"format": "e4m4 scale(1x128)"}, "the element type in format = 'e4m4' is unknown"),
        (
            {"format": "bf16 scale(tensor)"},
            "the element type in format = 'bf16' is unknown\n  expected: e4m3, .*, i8\n",
        ),
        ({"format": "e5m2 scale(1x128"}, "format = 'e5m2 scale.1x128' is unknown"),
        ({"format": "1x128)"}, "is unknown"),
        ({"format": "1x128) = x[m,k]; y[m,k]:e4m3 scale(1x128"}, "is unknown"),
        ({"format": "mxfp8", "layout": "column"}, "layout = 'column' is unknown\n  expected: row, col, blocked"),
        (
            {"format": "1x128", "layout": "packed"},
            "format and layout: packed scales .*\n  got: f32 layout=packed\n(.*\n)*  fix: write 1x128:ue8m0 l",
        ),
        ({"format": "mxfp8", "scale2": 1.0}, "scale2 and format do not go together"),
        ({"format": "nvfp4", "scale2": "x"}, "scale2 = 'x'"),
        ({"format": "mxfp8", "seed": -1}, "seed = -1\n  expected: a number from 0"),
        ({"format": "mxfp8", "seed": True}, "seed = True"),
        ({"format": "mxfp8", "seed": "x"}, "seed"),
        ({"format": "mxfp8", "seed": np.zeros(3, np.int32)}, "seed"),
        ({"format": "mxfp8", "seed": np.zeros(4, np.int64)}, "seed"),
        ({"format": "mxfp8", "both": True, "transposed": True}, "both and transposed are given"),
        ({"format": "mxfp8", "rows": X[0].astype(np.int32)}, "rows without batched=True"),
        ({"format": "mxfp8", "x": X[None], "batched": True, "rows": [1]}, r"rows = \[1\]\n  expected: an int32"),
        (
            {"format": "mxfp8", "x": X[None], "batched": True, "rows": np.ones(1)},
            "rows = .*\n  got: a tensor of f.*\n  expected: an int32",
        ),
        (
            {"format": "mxfp8", "x": X.reshape(2, 2, 1, 64), "batched": True, "rows": np.ones((4, 1), np.int32)},
            r"rows does not fit\n  got: shape \[4, 1\]\n  expected: \[2, 2\], or one index\n  fix: rows.reshape\(-1\)",
        ),
        ({"format": "mxfp8", "offsets": 3, "rows": 3}, "rows and offsets are given"),
        ({"format": "mxfp8", "x": X[None], "batched": True, "offsets": 3}, "offsets are of the rows of one matrix"),
        (
            {"format": "mxfp6", "both": True, "offsets": np.zeros(2, np.int32), "by": 2},
            "by = 2\n  got: elements of 6 bits.*\n  expected: a multiple of 4, .*\n  fix: by=4",
        ),
        (
            {"format": "1xk", "transposed": True, "offsets": np.zeros(2, np.int32)},
            "format is one of whole rows, along which groups lie",
        ),
        ({"format": "mxfp8", "by": 2}, "by = 2\n  expected: .*without offsets 1"),
        ({"format": "mxfp8", "by": 0, "offsets": np.zeros(2, np.int32)}, "by = 0\n"),
        ({"format": "mxfp8", "batched": True}, "x does not fit\n  got: float32, 2 indices\n  expected: .* 3 indices"),
        (
            {"format": "mxfp8", "x": X.astype(np.float64)},
            "x does not fit\n  got: float64.*\n.*bf16, f16, f32",
        ),
        ({"format": "mxfp8", "x": [1.0]}, r"x does not fit\n  got: \[1.0\], of type list"),
    ],
)
def test_wrong_arguments(named: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        scalec.quantize(**{"x": X, **named})


def test_what_has_no_kernel() -> None:
    for format in ("f32 scale(1x128)", "1x64:bf16", "i4 scale(1x128)"):
        with pytest.raises((ArgumentError, UnsupportedError), match=r"f32|bf16|i4"):
            scalec.quantize(X, format)
    with pytest.raises(ArgumentError, match="gate and up differ"):
        scalec.silu_mul_quantize(X, X[:2], "mxfp8")
    with pytest.raises(ArgumentError, match="got: no scale2"):
        scalec.dequantize(X.view(np.uint8), X, "nvfp4")


def test_turned_groups_that_may_share_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of an argument, by numpy too; by=2 is the way out."""
    ends, said = np.array([0, 2, 4], np.int32), set()
    for device in ("emulator", None):
        if device is None:
            monkeypatch.delenv("SCALEC_DEVICE")
        for format in ("mxfp4", "nvfp4"):
            with pytest.raises(ArgumentError, match=r"by = 1\n  got: elements of 4 bits(.*\n)*  fix: by=2") as caught:
                scalec.quantize(X, format, transposed=True, offsets=ends)
            said.add(str(caught.value))
            scalec.quantize(X, format, transposed=True, offsets=ends, by=2)
    assert len(said) == 1
