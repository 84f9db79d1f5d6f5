"""Scales as torch, cuBLAS and DeepGEMM read them, by formulas written here from what these publish."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from tests.test_quantizers import bits, made


@pytest.fixture(autouse=True, params=["emulator", "host"])
def _where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By kernels and by numpy."""
    monkeypatch.delenv("SCALEC_DEVICE", raising=False)
    if request.param == "emulator":
        monkeypatch.setenv("SCALEC_DEVICE", "emulator")


def as_bytes(x: Any) -> Any:
    """Scales of a byte as numpy has them, in the order of indices."""
    torch = pytest.importorskip("torch")
    return x.contiguous().view(torch.uint8).numpy()


@pytest.mark.once("format", "m")
@pytest.mark.parametrize("format", ["mxfp8", "mxfp4", "1x16:ue4m3"])
@pytest.mark.parametrize(("m", "k"), [(37, 160), (130, 96), (1, 16)])
def test_tiles_of_cublas(format: str, m: int, k: int) -> None:
    """cuBLAS, "1D Block Scaling Factors Layout", which torch calls SWIZZLE_32_4_4: tiles of 128 x 4 scales, 512 bytes,
    one row of tiles after the other; within one, that of row r and column c is byte r % 32 * 16 + r / 32 * 4 + c. Rows
    and columns are padded to whole tiles, columns with zeros."""
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(made(m, k)).bfloat16()
    values, scale = scalec.quantize(x, format, layout="blocked")
    want, rows = scalec.quantize(x, format)
    rows = as_bytes(rows)
    columns = rows.shape[1]
    wide = -(-columns // 4)
    assert bits(values) == bits(want)
    assert (scale.numel(), scale.is_contiguous()) == (-(-m // 128) * wide * 512, True)
    memory = as_bytes(scale).reshape(-1)
    for r in range(m):
        for c in range(4 * wide):
            byte = memory[(r // 128 * wide + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4]
            assert byte == (rows[r, c] if c < columns else 0), (r, c)


@pytest.mark.once("layout", "m")
@pytest.mark.parametrize(("layout", "format"), [("packed", "1x128:ue8m0"), ("packed", "mxfp8"), ("col", "1x128")])
@pytest.mark.parametrize(("m", "k"), [(37, 640), (1, 128), (130, 384)])
def test_columns_of_deep_gemm(layout: str, format: str, m: int, k: int) -> None:
    """DeepGEMM's `get_mn_major_tma_aligned_tensor` and `..._packed_ue8m0_tensor`: [m, columns] with a stride of 1 along
    m and columns a multiple of 16 bytes apart, so 4 f32 or int32, of each matrix of a batch one behind the other.
    Packed, biased exponents of four adjacent columns are an int32, the first in its low byte, 0 where there is none."""
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(made(2, m, k)).bfloat16()
    values, scale = scalec.quantize(x, format, layout=layout, batched=True)
    want, rows = scalec.quantize(x, format, batched=True)
    if layout == "packed":
        columns = np.zeros((2, m, -(-rows.shape[2] // 4) * 4), np.int64)
        columns[..., : rows.shape[2]] = as_bytes(rows)
        words = sum(columns[..., i::4] << (8 * i) for i in range(4))
        expected = torch.from_numpy(np.asarray(words, np.uint32).view(np.int32))
    else:
        expected = rows
    assert bits(values) == bits(want)
    assert (scale.dtype, scale.shape) == (expected.dtype, expected.shape)
    assert torch.equal(scale, expected)
    apart = (m + 3) // 4 * 4
    strides = [s for s, n in zip(scale.stride(), scale.shape, strict=True) if n > 1]
    assert strides == [s for s, n in zip((apart * scale.shape[2], 1, apart), scale.shape, strict=True) if n > 1]


@pytest.mark.parametrize("format", ["tensor", "1xk"])
def test_products_of_torch(format: str) -> None:
    """torch._scaled_mm takes one scale of each tensor, or [m, 1] and [1, n], as they come."""
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(made(n, 64)) for n in (37, 48))
    (q, s), (r, t) = scalec.quantize(a, format), scalec.quantize(b, format)
    got = torch._scaled_mm(q, r.t(), s, t.t(), out_dtype=torch.float32)
    exact = [scalec.dequantize(*pair, format, dtype="f32").double() for pair in ((q, s), (r, t))]
    wanted = exact[0] @ exact[1].t()
    assert float((got.double() - wanted).abs().max()) < 1e-5 * float(wanted.abs().max())
