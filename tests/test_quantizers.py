"""scalec.quantize, dequantize and silu_mul_quantize on the emulator: bit for bit the reference's quantisers."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE, Granularity
from scalec.reference.packing import pack4
from scalec.reference.stochastic import random_bits

TARGETS = ["sm_90a", "sm_100a", "sm_120a"]
BLOCKS = {
    "1x128": Granularity((1, 128)),
    "128x128": Granularity((128, 128)),
    "1xk": Granularity((1, WHOLE)),
    "e5m2 scale(1x32:ue8m0)": Granularity((1, 32), "ue8m0"),
}
QUANTISED = ("mxfp8", "mxfp8_e5m2", "mxfp6", "mxfp6_e2m3", "mxfp4", "nvfp4", "fp8_block")


pytestmark = pytest.mark.usefixtures("on_the_emulator")


def made(*shape: int, dtype: Any = np.float32) -> Any:
    """Values whose scales differ by row, by block and by batch."""
    rng = np.random.default_rng(sum(shape))
    by_row, by_column = (np.exp2(rng.integers(-6, 7, n)) for n in ((*shape[:-1], 1), shape[-1] // 16 + 1))
    return (rng.standard_normal(shape) * by_row * np.repeat(by_column, 16)[: shape[-1]]).astype(dtype)


def expected(x: Any, format: str, layout: str = "row", seed: tuple[int, ...] = ()) -> list[Any]:
    """Values and scales of the reference, and the second level, as bytes in memory."""
    random = random_bits(x.shape, seed) if seed else None
    row = FORMATS.get(format)
    element = row.element if row else "e5m2" if "e5m2" in format else "e4m3"
    inner, *outer = row.result if row else [BLOCKS[format]]
    level = Granularity(inner.block, inner.type, layout)
    if outer:
        largest = np.float32(ELEMENT_TYPES[element].max * ELEMENT_TYPES[inner.type].max)
        amax = np.abs(x.astype(np.float32)).max()
        scale2 = amax / largest if amax else np.float32(1)
        found = reference.quantize_given(x, element, level, float(scale2), random)
        rest = [scale2]
    else:
        found, rest = reference.quantize(x, element, [level], bits=random), []
    return [reference.storage(found.values), found.memory()[0], *rest]


def same(got: Any, wanted: list[Any]) -> None:
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        assert bits(g) == np.ascontiguousarray(w).tobytes()


def bits(x: Any) -> bytes:
    """The elements' bytes in the order of indices, of an array or a torch tensor."""
    if not isinstance(x, np.ndarray):
        torch = pytest.importorskip("torch")
        x = x.contiguous().reshape(-1).view(torch.uint8).numpy()
    return np.ascontiguousarray(x).tobytes()


@pytest.mark.once("format", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("format", [*QUANTISED, *BLOCKS])
def test_quantize(format: str, target: str) -> None:
    for shape in ((37, 160), (5, 42), (1, 16)):
        x = made(*shape)
        same(scalec.quantize(x, format, target=target), expected(x, format))


@pytest.mark.once("format", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("format", ["mxfp8", "nvfp4", "128x128"])
def test_transposed_and_both(format: str, target: str) -> None:
    x = made(70, 96, dtype=ml_dtypes.bfloat16)
    turned = np.ascontiguousarray(x.T)
    same(scalec.quantize(x, format, transposed=True, target=target), expected(turned, format))
    straight, other = scalec.quantize(x, format, both=True, target=target)
    same(straight, expected(x, format))
    same(other, expected(turned, format))


@pytest.mark.parametrize("layout", ["row", "col", "packed", "blocked"])
def test_leading_indices_and_layouts(layout: str) -> None:
    x = made(2, 3, 20, 160)
    values, scale = scalec.quantize(x, "mxfp8", layout=layout)
    want, want_scale = expected(x.reshape(120, 160), "mxfp8", layout)
    assert values.shape == x.shape
    assert scale.shape == ((2, 3, 20, 5) if layout == "row" else want_scale.shape)
    blocks = np.ones(want_scale.shape, bool)
    if layout == "blocked":  # rows that pad a tile are not written
        rows = np.zeros((120, 5), np.uint8)
        blocks = reference.to_blocked(rows + 1).astype(bool).reshape(want_scale.shape)
    assert bits(values) == want.tobytes()
    got = np.asarray(scale).reshape(want_scale.shape)
    assert bits(got[blocks]) == np.ascontiguousarray(want_scale[blocks]).tobytes()
    back = scalec.dequantize(values, scale, "mxfp8", layout=layout, dtype="f32")
    assert back.shape == x.shape
    exact = reference.quantize_format(x.reshape(120, 160), "mxfp8").dequantized()
    assert back.tobytes() == exact.astype(np.float32).tobytes()


@pytest.mark.parametrize("format", ["128x128", "mxfp8"])
def test_batches(format: str) -> None:
    x = made(2, 3, 20, 48)
    pairs = scalec.quantize(x, format, both=True, batched=True)
    for (values, scale), each in zip(pairs, (x, x.swapaxes(-1, -2)), strict=True):
        assert values.shape == each.shape
        for i in np.ndindex(2, 3):
            same((values[i], scale[i]), expected(np.ascontiguousarray(each[i]), format))
    (values, scale), _ = pairs
    back = scalec.dequantize(values, scale, format, batched=True, dtype="f32")
    assert back.shape == x.shape
    assert np.abs(back - x).max() < 0.1 * np.abs(x).max()


@pytest.mark.parametrize("format", QUANTISED)
def test_dequantize(format: str) -> None:
    x = made(9, 64)
    values, scale, *scale2 = scalec.quantize(x, format)
    back = scalec.dequantize(values, scale, format, *scale2, dtype="f32")
    row = FORMATS[format]
    whole = [np.asarray(s).reshape(1, 1) for s in scale2]
    exact = reference.dequantize(values, [scale, *whole], row.element, row.result)
    np.testing.assert_allclose(back, exact, rtol=2**-22)


@pytest.mark.once("device")
@pytest.mark.parametrize("device", ["emulator", None])
@pytest.mark.parametrize(("format", "k"), [("mxfp4", 33), ("mxfp6", 67), ("nvfp4", 1)])
def test_rows_of_a_length_that_bytes_do_not_tell(
    format: str, k: int, device: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device is None:
        monkeypatch.delenv("SCALEC_DEVICE")
    x = made(2, 5, k)
    values, scale, *scale2 = scalec.quantize(x, format)
    whole = scalec.dequantize(values, scale, format, *scale2, dtype="f32")
    back = scalec.dequantize(values, scale, format, *scale2, dtype="f32", k=k)
    assert (whole.shape, back.shape) == ((2, 5, k + 1), x.shape)
    assert bits(back) == bits(whole[..., :k])
    for wrong in (k + 2, k - 2, True, float(k)):
        with pytest.raises(ArgumentError, match=rf"k = .*\n  got: values with .*\n  expected: {k} to {k + 1}, "):
            scalec.dequantize(values, scale, format, *scale2, k=wrong)


def test_a_scale_of_the_whole_tensor() -> None:
    x = made(4, 64)
    given = scalec.quantize(x, "nvfp4", scale2=2.0)
    level = FORMATS["nvfp4"].result[0]
    found = reference.quantize_given(x, "e2m1", level, 2.0)
    same(given, [pack4(found.values), found.memory()[0], np.float32(2)])
    zeros = scalec.quantize(np.zeros((4, 64), np.float32), "nvfp4")
    assert zeros[2] == 1
    assert not zeros[0].any()
    assert scalec.quantize(np.zeros((0, 64), np.float32), "nvfp4")[0].shape == (0, 32)


def test_gate_of_two_tensors_and_of_one() -> None:
    torch = pytest.importorskip("torch")
    both = torch.from_numpy(made(2, 21, 160)).bfloat16()
    gate, up = both[..., :80], both[..., 80:]
    one = scalec.silu_mul_quantize(both, None, "1x128")
    two = scalec.silu_mul_quantize(gate.contiguous(), up.contiguous(), "1x128")
    assert one[0].shape == (2, 21, 80)
    for a, b in zip(one, two, strict=True):
        assert bits(a) == bits(b)
    wanted = torch.nn.functional.silu(gate.float()) * up.float()
    got = scalec.dequantize(two[0], two[1], "1x128", dtype="f32")
    assert float((got - wanted).abs().max() / wanted.abs().max()) < 0.04


def test_torch_and_under_torch_compile() -> None:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    x = torch.from_numpy(made(2, 20, 64)).bfloat16()

    def there_and_back(x: Any) -> Any:
        values, scale, scale2 = scalec.quantize(x, "nvfp4")
        (q, s), (t, u) = scalec.silu_mul_quantize(x, None, "mxfp8", both=True)
        back = [scalec.dequantize(values, scale, "nvfp4", scale2, k=k) for k in (None, 63)]
        return values, scale, scale2, *back, q, s, t, u

    plain = there_and_back(x)
    same(plain[:3], expected(x.float().numpy().reshape(40, 64), "nvfp4"))
    compiled = torch.compile(there_and_back, fullgraph=True, dynamic=True, backend="aot_eager")(x)
    for a, b in zip(plain, compiled, strict=True):
        assert bits(a) == bits(b)


SEED = 0xFEDCBA9876543210


@pytest.mark.parametrize("format", ["mxfp8", "nvfp4", "1x128"])
def test_by_chance(format: str) -> None:
    x, words = made(5, 96), np.array([SEED & 0xFFFFFFFF, SEED >> 32, 0, 0], np.uint32).view(np.int32)
    same(scalec.quantize(x, format, seed=SEED), expected(x, format, seed=(SEED & 0xFFFFFFFF, SEED >> 32)))
    same(scalec.quantize(x, format, seed=words), expected(x, format, seed=(SEED & 0xFFFFFFFF, SEED >> 32)))
    later = scalec.quantize(x, format, seed=words + np.array([0, 0, 1, 0], np.int32))
    same(later, expected(x, format, seed=(SEED & 0xFFFFFFFF, SEED >> 32, 1)))
    assert bits(later[0]) != bits(scalec.quantize(x, format, seed=SEED)[0])
    assert bits(scalec.quantize(x, format, seed=np.int32(7))[0]) == bits(scalec.quantize(x, format, seed=7)[0])


def test_by_chance_turned_and_of_torch() -> None:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    x, words = torch.from_numpy(made(32, 64)).bfloat16(), torch.tensor([5, -6, 7, -8], dtype=torch.int32)

    def run(x: Any, words: Any) -> Any:
        return scalec.quantize(x, "mxfp8", both=True, seed=words)

    (q, s), (t, u) = run(x, words)
    seed = (5, -6, 7, -8)
    same((q, s), expected(x.float().numpy(), "mxfp8", seed=seed))
    same((t, u), expected(x.float().numpy().T, "mxfp8", seed=seed))
    (q2, s2), (t2, u2) = torch.compile(run, fullgraph=True, backend="aot_eager")(x, words)
    assert [bits(a) for a in (q, s, t, u)] == [bits(a) for a in (q2, s2, t2, u2)]
    h = scalec.silu_mul_quantize(x, None, "mxfp8", seed=3)
    assert bits(h[1]) == bits(scalec.silu_mul_quantize(x, None, "mxfp8")[1])
    assert bits(h[0]) != bits(scalec.silu_mul_quantize(x, None, "mxfp8", seed=4)[0])


def test_tensors_without_memory_have_results_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.delenv("SCALEC_DEVICE")
    values, scale = scalec.quantize(torch.zeros(9, 64, device="meta"), "mxfp8")
    assert (values.device.type, tuple(values.shape), tuple(scale.shape)) == ("meta", (9, 64), (9, 2))


def test_scales_of_16_bits_are_dequantised() -> None:
    values, scale = made(8, 128).clip(-448, 448).astype(ml_dtypes.float8_e4m3fn), made(8, 2, dtype=ml_dtypes.bfloat16)
    got = scalec.dequantize(values, scale, "1x64:bf16", dtype="f32")
    assert got.tobytes() == (values.astype(np.float32) * np.repeat(scale.astype(np.float32), 64, 1)).tobytes()


@pytest.mark.parametrize("format", ["i8 scale(1xk)", "i8 scale(tensor)"])
def test_i8(format: str) -> None:
    """Within half of one of what is divided by a 127th of the largest magnitude."""
    x = made(9, 96)
    values, scale, *_ = scalec.quantize(x, format)
    largest = np.abs(x).max(None if "tensor" in format else 1, keepdims=True)
    assert np.allclose(np.broadcast_to(scale, largest.shape), largest / 127)
    assert values.dtype == np.int8
    assert np.abs(x / scale - values).max() <= 0.5001
    assert np.array_equal(scalec.dequantize(values, scale, format, dtype="f32"), values.astype(np.float32) * scale)


def test_the_second_level_of_a_gate_is_found() -> None:
    """That of the product, of both orders; and of batches all have one."""
    gate, up = made(9, 96), made(9, 96, dtype=ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        product = gate / (1 + np.exp(-gate)) * up.astype(np.float32)
    (q, s, z), (t, u, y) = scalec.silu_mul_quantize(gate, up, "nvfp4", both=True)
    np.testing.assert_allclose([z, y], np.abs(product).max() / 2688, rtol=1e-5)
    same((q, s, z), [*scalec.silu_mul_quantize(gate, up, "nvfp4", scale2=z)])
    same((t, u, y), [*scalec.silu_mul_quantize(gate, up, "nvfp4", scale2=y, transposed=True)])
    x = made(2, 3, 9, 96)
    assert scalec.quantize(x, "nvfp4", batched=True)[2] == np.abs(x).max() / np.float32(2688)


def test_whole_rows_transposed() -> None:
    """In launches of their own (scalec.frontend.cut_reductions)."""
    ones = np.ones((4, 64), np.float32)
    values, scale = scalec.quantize(ones, "1xk", transposed=True)
    wanted = scalec.quantize(np.ascontiguousarray(ones.T), "1xk")
    assert [bits(values), bits(scale)] == [bits(x) for x in wanted]
    both = scalec.quantize(ones, "1xk", both=True)
    assert [bits(x) for x in both[0]] == [bits(x) for x in scalec.quantize(ones, "1xk")]
    assert [bits(x) for x in both[1]] == [bits(x) for x in wanted]


def test_one_scale_of_the_whole_tensor() -> None:
    x = made(20, 48)
    scale = np.float32(np.abs(x).max() / np.float32(448))
    values, found = scalec.quantize(x, "tensor")
    assert (float(found), found.shape) == (float(scale), ())
    assert bits(values) == bits((x * (np.float32(1) / scale)).astype(ml_dtypes.float8_e4m3fn))
    back = scalec.dequantize(values, found, "tensor", dtype="f32")
    assert bits(back) == bits(values.astype(np.float32) * scale)
    numbers: Any = {"scale": float(found), "k": np.int64(48)}
    assert bits(back) == bits(scalec.dequantize(values, format="tensor", dtype="f32", **numbers))
    (q, _), (t, _) = scalec.quantize(x, "e5m2 scale(tensor)", both=True, scale2=0.5)
    assert bits(q) == bits((x * 2).clip(-57344, 57344).astype(ml_dtypes.float8_e5m2))
    assert bits(t) == bits(q.T)
    largest = np.abs(scalec.silu_mul_quantize(x, None, "1x24", scale2=None)[1]).max()
    assert scalec.silu_mul_quantize(x, None, "tensor")[1] == largest  # of blocks the largest is that of all


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(("format", "layout"), [("1x128", "col"), ("mxfp8", "packed"), ("nvfp4", "row")])
def test_masked_rows(format: str, layout: str, library: str) -> None:
    x, rows = made(3, 12, 160), np.array([0, 12, 5], np.int32)
    x[0], x[2, 5:] = np.nan, np.nan  # what nobody reads
    more: dict[str, Any] = {"scale2": 0.25} if format == "nvfp4" else {}
    if library == "torch":
        torch = pytest.importorskip("torch")
        x, rows = torch.from_numpy(x), torch.from_numpy(rows)
    values, scale, *_ = scalec.quantize(x, format, layout=layout, batched=True, rows=rows, **more)
    for g, n in ((1, 12), (2, 5)):
        alone = scalec.quantize(x[g, :n], format, layout=layout, **more)
        assert bits(values[g, :n]) == bits(alone[0])
        assert bits(scale[g, :n]) == bits(alone[1])
    gated = scalec.silu_mul_quantize(x, None, "mxfp8", batched=True, rows=rows)
    assert bits(gated[0][2, :5]) == bits(scalec.silu_mul_quantize(x[2, :5], None, "mxfp8")[0])


def test_rows_of_groups_have_tiles_of_their_own() -> None:
    from scalec.layouts import blocked_by_group

    x, offsets = made(150, 64), np.array([3, 10, 10, 140], np.int32)
    values, scale = scalec.quantize(x, "mxfp8", layout="blocked", offsets=offsets)
    want, rows = scalec.quantize(x, "mxfp8")
    assert bits(values[3:140]) == bits(want[3:140])
    ones = np.zeros((150, 2), np.uint8)
    ones[3:140] = 1
    reached = blocked_by_group(ones, offsets).astype(bool)
    wanted = blocked_by_group(rows.view(np.uint8), offsets)
    assert scale.shape == wanted.shape
    assert bits(scale.view(np.uint8)[reached]) == bits(wanted[reached])


def test_turned_rows_of_groups_have_blocks_of_their_own() -> None:
    x, offsets = made(150, 64), np.array([3, 10, 10, 140], np.int32)
    _, (values, scale) = scalec.quantize(x, "mxfp8", both=True, offsets=offsets)
    for g, (low, high) in enumerate(pairwise(offsets)):
        alone = scalec.quantize(x[low:high], "mxfp8", transposed=True)
        assert bits(np.ascontiguousarray(values[:, low:high])) == bits(alone[0])
        first = low // 32 + g
        assert bits(np.ascontiguousarray(scale[:, first : first + alone[1].shape[1]])) == bits(alone[1])


@pytest.mark.parametrize(("format", "layout"), [("mxfp4", "packed"), ("mxfp6", "row"), ("1x32:ue8m0", "blocked")])
def test_masked_rows_that_are_turned(format: str, layout: str) -> None:
    x, rows = made(3, 72, 32), np.array([0, 72, 40], np.int32)
    x[0], x[2, 40:] = np.nan, np.nan
    values, scale = scalec.quantize(x, format, layout=layout, batched=True, rows=rows, transposed=True)
    for g, n in ((1, 72), (2, 40)):
        alone, its = scalec.quantize(x[g, :n], format, layout=layout, transposed=True)
        assert bits(values[g, :, : alone.shape[1]]) == bits(alone)
        if layout == "row" or (
            layout == "packed" and n == 72
        ):  # of others not all that pads words and tiles is written
            assert bits(scale[g][..., : its.shape[-1]]) == bits(its)


@pytest.mark.parametrize(
    ("format", "by", "more"), [("mxfp4", 2, {}), ("mxfp6", 4, {"seed": 3}), ("mxfp8", 1, {"seed": 3})]
)
def test_turned_groups_share_no_bytes(
    format: str, by: int, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which who calls promises; kernels and numpy give the same bytes, by chance too."""
    x, offsets = made(152, 64), np.array([by, 12, 12, 140], np.int32)
    every: list[Any] = [scalec.quantize(x, format, transposed=True, offsets=offsets, by=by, **more)]
    monkeypatch.delenv("SCALEC_DEVICE")
    every.append(scalec.quantize(x, format, transposed=True, offsets=offsets, by=by, **more))
    bytes_ = slice(
        by * ELEMENT_TYPES[FORMATS[format].element].bits // 8, 140 * ELEMENT_TYPES[FORMATS[format].element].bits // 8
    )
    (one, its), (other, ours) = every
    assert bits(np.ascontiguousarray(one[:, bytes_])) == bits(np.ascontiguousarray(other[:, bytes_]))
    places = [
        low // 32 + g + i for g, (low, high) in enumerate(pairwise(offsets)) for i in range(-(-(high - low) // 32))
    ]
    assert bits(its[:, places]) == bits(ours[:, places])


@pytest.mark.thorough
def test_masked_rows_under_torch_compile() -> None:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    x, rows = torch.from_numpy(made(2, 8, 64)).bfloat16(), torch.tensor([3, 8], dtype=torch.int32)

    def run(x: Any, rows: Any) -> Any:
        return scalec.quantize(x, "mxfp8", batched=True, rows=rows)

    plain, compiled = run(x, rows), torch.compile(run, fullgraph=True, backend="aot_eager")(x, rows)
    for a, b in zip(plain, compiled, strict=True):
        assert [bits(a[0, :3]), bits(a[1])] == [bits(b[0, :3]), bits(b[1])]


@pytest.mark.once("library", "format")
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("format", "more"),
    [
        ("mxfp8", {"both": True}),
        ("nvfp4", {"seed": SEED}),
        ("mxfp6", {"transposed": True}),
        ("mxfp8_e5m2", {}),
        ("128x128", {}),
        ("1x128", {"layout": "col"}),
        ("mxfp8", {"layout": "packed"}),
        ("tensor", {}),
    ],
)
def test_on_the_host_without_a_kernel(
    format: str, more: dict[str, Any], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x: Any = made(37, 160, dtype=ml_dtypes.bfloat16)
    if format not in ("nvfp4", "tensor"):  # of which all is NaN then
        x[3, 5], x[4, 7], x[5, 9] = np.nan, np.inf, -np.inf
    if library == "torch":
        torch = pytest.importorskip("torch")
        x = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)

    def results() -> list[Any]:
        made: Any = scalec.quantize(x, format, **more)
        pairs: Any = made if more.get("both") else (made,)
        layout = more.get("layout", "row")
        back: Any = [scalec.dequantize(p[0], p[1], format, *p[2:], layout=layout) for p in pairs]
        back = [] if more.get("transposed") else back
        return [t for p in pairs for t in p] + back

    kernels = results()
    monkeypatch.delenv("SCALEC_DEVICE")
    monkeypatch.setattr("scalec.quantizers._compiled", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hosts = results()
    for a, b in zip(hosts, kernels, strict=True):
        assert (type(a), a.shape, a.dtype) == (type(b), b.shape, b.dtype)
        assert bits(a) == bits(b)
        if more.get("layout"):
            strides: Any = [getattr(t, "strides", None) or t.stride() for t in (a, b)]
            assert strides[0] == strides[1]


@pytest.mark.parametrize(
    ("format", "layout", "scales", "target"),
    [("1x128", "col", "1x128@col", "sm_90a"), ("mxfp8", "packed", "1x32:ue8m0@packed", "sm_100a")],
)
def test_a_product_reads_columns_of_scales(format: str, layout: str, scales: str, target: str) -> None:
    """37 rows: columns of as many scales do not begin at multiples of 16 bytes by themselves."""
    a, b = made(37, 256), made(16, 256)
    (x, x_scale), (y, y_scale) = (scalec.quantize(t, format, layout=layout, target=target) for t in (a, b))
    got = scalec.compile(f"C[m,n]:f32 = A[m,k] @ B[n,k] scale({scales}, {scales})", target)(x, y, x_scale, y_scale)
    exact = [
        scalec.dequantize(v, s, format, layout=layout, dtype="f32").astype(np.float64)
        for v, s in ((x, x_scale), (y, y_scale))
    ]
    wanted = exact[0] @ exact[1].T
    assert np.abs(got - wanted).max() < 1e-4 * np.abs(wanted).max()
