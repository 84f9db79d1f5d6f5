"""scalec.quantize of some rows: scales of all of them are found, and bytes that others share; and of rows whose number
torch.compile does not know."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import scalec
from scalec.formats import ELEMENT_TYPES
from tests.test_quantizers import bits, made

pytestmark = pytest.mark.usefixtures("on_the_emulator")


@pytest.mark.once("device", "format", "mask")
@pytest.mark.parametrize("device", ["emulator", None])
@pytest.mark.parametrize("mask", ["rows", "offsets"])
@pytest.mark.parametrize("format", ["nvfp4", "tensor", "e2m3 scale(tensor)"])
def test_a_scale_of_all_rows_that_are_quantised(
    format: str, mask: str, device: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all groups, and of none but their rows, which alone are numbers here."""
    if device is None:
        monkeypatch.delenv("SCALEC_DEVICE")
    x, ends = made(3, 12, 80), np.array([0, 12, 5], np.int32)
    reached = np.arange(12) < ends[:, None]
    more: dict[str, Any] = {"rows": ends, "batched": True}
    if mask == "offsets":
        x, ends = x.reshape(36, 80), np.array([2, 6, 6, 30], np.int32)
        reached, more = (np.arange(36) >= 2) & (np.arange(36) < 30), {"offsets": ends, "by": 2}
    x[~reached] = np.nan
    largest = {"nvfp4": 2688, "tensor": 448}.get(format, 7.5)
    scale = np.abs(x[reached]).max() / np.float32(largest)
    (q, *_, z), (t, *_, y) = scalec.quantize(x, format, both=True, seed=3, **more)
    assert (z, y) == (scale, scale)
    given = scalec.quantize(x, format, both=True, seed=3, scale2=scale, **more)
    assert bits(q[reached]) == bits(given[0][0][reached])
    elements = ELEMENT_TYPES["e2m1" if format == "nvfp4" else format[:4] if " " in format else "e4m3"].bits
    for i, n in enumerate(ends if mask == "rows" else ()):
        whole = n * elements // 8
        assert bits(t[i, :, :whole]) == bits(given[1][0][i, :, :whole])
    if mask == "offsets":
        whole = slice(2 * elements // 8, 30 * elements // 8) if elements != 6 else slice(2, 22)
        assert bits(t[:, whole]) == bits(given[1][0][:, whole])
    more |= {"rows": ends * 0} if mask == "rows" else {"offsets": ends[:1] * 0}
    empty: Any = scalec.quantize(x[..., :0, :], format, **more)
    assert empty[-1] == 1


@pytest.mark.once("format")
@pytest.mark.parametrize("format", ["mxfp4", "mxfp6", "e2m1 scale(tensor)"])
def test_bytes_of_which_some_elements_are_written(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they hold else is whatever was there, also in numpy arrays on the emulator, which were never written."""
    x, rows = made(2, 9, 48), np.array([3, 8], np.int32)
    more: dict[str, Any] = {"scale2": 2.0} if "tensor" in format else {}
    values, *_ = scalec.quantize(x, format, batched=True, rows=rows, transposed=True, **more)
    monkeypatch.delenv("SCALEC_DEVICE")
    wanted, *_ = scalec.quantize(x, format, batched=True, rows=rows, transposed=True, **more)
    for i, n in enumerate(rows):
        count = 6 if "6" in format else 4
        have, want = (
            np.unpackbits(v[i].view(np.uint8), axis=-1, bitorder="little")[:, : n * count] for v in (values, wanted)
        )
        assert np.array_equal(have, want)


IN_ANOTHER_PROCESS = """
import sys, torch, scalec
format, mask = sys.argv[1:]
ends = torch.tensor([0, 4, 8], dtype=torch.int32)
def run(x, ends):
    if mask == "rows":
        return scalec.quantize(x, format, batched=True, rows=ends[1:])
    return scalec.quantize(x[0], format, **({"offsets": ends} if mask == "offsets" else {}))
seen = []
def backend(graph, inputs):
    seen.append([x.target for x in graph.graph.nodes if "scalec" in str(x.target)])
    return graph.forward
compiled = torch.compile(run, fullgraph=True, dynamic=True, backend=backend)
for rows in (8, 12, 37):
    x = torch.randn(2, rows, 64).bfloat16()
    for a, b in zip(run(x, ends), compiled(x, ends)):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
print(*map(len, seen))
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("format", "mask", "ops"), [("tensor", "rows", 2), ("mxfp8", "", 1), ("nvfp4", "offsets", 1)])
def test_one_graph_of_any_number_of_rows(format: str, mask: str, ops: int) -> None:
    """Read once, with symbols for sizes. Torch ended the process where it unloaded an op with two like overloads."""
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, format, mask], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, [str(ops)]), done.stderr
