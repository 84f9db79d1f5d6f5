"""Pages that have rows and their scales in one buffer, two views with strides that are taken as they are, on every
target."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import made_up
from scalec.errors import ArgumentError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from tests.emulator.test_several_results import TARGETS

LOGITS = "L[s,t]:f32 = sum[h](relu({}) * W[s,h]:f32) for t < len[s] else -inf"
FORMS = {
    "FP8": ("Q[s,h,d]:e4m3 @ K[table[s,t/64],t%64,d]:e4m3 scale(none,1x1xd)", 128),
    "MXFP4": ("Q[s,h,d]:mxfp4 @ K[table[s,t/64],t%64,d]:mxfp4", 128),  # DeepGEMM's 64 x 68 bytes
    "MXFP8": ("Q[s,h,d]:mxfp8 @ K[table[s,t/64],t%64,d]:mxfp8", 128),
    "NVFP4": ("Q[s,h,d]:nvfp4 @ K[table[s,t/32],t%32,d]:nvfp4", 128),
    "MXFP8 by MXFP4, of two words a row": ("Q[s,h,d]:mxfp8 @ K[table[s,t/64],t%64,d]:mxfp4", 256),
    "MXFP4, of less than a word a row": ("Q[s,h,d]:mxfp4 @ K[table[s,t/16],t%16,d]:mxfp4", 64),
    "BF16 by MXFP4": ("Q[s,h,d] @ K[table[s,t/64],t%64,d]:mxfp4", 128),
    "promoted": ("Q[s,h,d]:e4m3 @ K[table[s,t/64],t%64,d]:e4m3 scale(none,1x1x128)", 256),
    "MXFP4, of pages that tiles cut": ("Q[s,h,d]:mxfp4 @ K[table[s,t/40],t%40,d]:mxfp4", 128),
    "FP8, row by row": ("Q[s,h,d]:e4m3 @ K[table[s,t/33],t%33,d]:e4m3 scale(none,1x1xd)", 128),
    "FP8 of short rows, row by row": ("Q[s,h,d]:e4m3 @ K[table[s,t/20],t%20,d]:e4m3 scale(none,1x1xd)", 64),
    "MXFP4, row by row": ("Q[s,h,d]:mxfp4 @ K[table[s,t/20],t%20,d]:mxfp4", 128),
    "NVFP4, row by row": ("Q[s,h,d]:nvfp4 @ K[table[s,t/100],t%100,d]:nvfp4", 128),
    "MXFP8 by MXFP4, row by row": ("Q[s,h,d]:mxfp8 @ K[table[s,t/33],t%33,d]:mxfp4", 256),
    "BF16 by MXFP4, row by row": ("Q[s,h,d] @ K[table[s,t/3],t%3,d]:mxfp4", 128),
    "promoted, row by row": ("Q[s,h,d]:e4m3 @ K[table[s,t/100],t%100,d]:e4m3 scale(none,1x1x128)", 256),
}
LENGTHS = [0, 1, 128, 150]
GAP = 32
"""Bytes behind the scales of a page, which nothing reads: each is NaN. There may be more: pages begin at multiples."""


class Pages:
    """K and its scales of `values` in one buffer: of each page its rows, then their scales, then a gap; and views of
    both."""

    def __init__(self, device: Any, values: Mapping[str, Any], gap: int | None = None) -> None:
        parts = {name: np.ascontiguousarray(reference.storage(values[name])) for name in ("K", "K_scale")}
        rows = {name: x.view(np.uint8).reshape(len(x), -1) for name, x in parts.items()}
        sizes = [rows["K"].shape[1], rows["K_scale"].shape[1]]
        ends = np.cumsum([*sizes, GAP + -sum(sizes) % GAP if gap is None else gap]).tolist()
        memory = np.full((len(rows["K"]), ends[-1]), 0xFF, np.uint8)
        memory[:, : ends[0]], memory[:, ends[0] : ends[1]] = rows["K"], rows["K_scale"]
        self.bytes, self.begins, self.parts = ends[-1], {"K": 0, "K_scale": ends[0]}, parts
        self.device, self.buffer = device, DeviceArray.from_host(device, memory, "i8")

    def beside(self, values: Any, dtype: str) -> DeviceArray:
        """Another tensor."""
        return DeviceArray.from_host(self.device, reference.storage(values), dtype)

    def view(self, name: str, dtype: str, moved: int = 0) -> DeviceArray:
        """One of them, `moved` bytes further on."""
        seen, part = copy.copy(self.buffer), self.parts[name]
        seen.pointer, seen.dtype, seen.shape = self.buffer.pointer + self.begins[name] + moved, dtype, part.shape
        seen.itemsize = part.itemsize
        seen.strides = (self.bytes // part.itemsize, part.shape[2], 1)
        return seen


def tables(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Pages in any order, one twice, and one that is there for nothing behind the context."""
    some = np.random.default_rng(7).permutation(len(values["K"]))
    drawn = np.resize(some, values["table"].shape).astype(np.int32)
    twice = drawn.copy()
    twice[:, -1] = twice[:, 0]
    return {"in any order": drawn, "a page twice": twice, "no page": np.where(drawn == drawn[0, 0], -1, drawn)}


def given(kernel: Kernel, values: Mapping[str, Any], pages: Pages) -> dict[str, Any]:
    """The arguments of a call."""
    others = {
        t.name: float(values[t.name]) if t.scalar else pages.beside(values[t.name], t.dtype)
        for t in kernel.spec.operands
        if t.name not in pages.parts
    }
    return others | {t.name: pages.view(t.name, t.dtype) for t in kernel.spec.operands if t.name in pages.parts}


def compiled(source: str, target: str, fixed: Mapping[str, int]) -> Kernel:
    kernel = scalec.compile(source, target=target, dims=dict(fixed))
    kernel.fixed = emulated.EmulatedDevice(target)
    return kernel


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("known", ["hd", "h"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_rows_and_scales_in_one_buffer(name: str, target: str, known: str) -> None:
    """Contexts of 0, of one, of whole pages and all."""
    product, d = FORMS[name]
    source = LOGITS.format(product)
    page = int(re.findall(r"t%(\d+)", product)[0])
    dims = {"s": 4, "t": 150, "d": d, "h": 16, "K_0": 4 * -(-150 // page) + 1}
    values = dict(made_up(source, dims, 3)[0]) | {"len": np.array(LENGTHS, np.int32)}
    kernel = compiled(source, target, {x: dims[x] for x in known})
    pages = Pages(kernel.fixed, values)
    for table in tables(values).values():
        with context.context():
            wanted = reference.run(build(source, dims), values | {"table": table}, dims=dims, exact=True)["L"]
        arguments = given(kernel, values | {"table": table}, pages)
        out = DeviceArray(pages.device, (4, 150), "f32")
        got = kernel(*(arguments[t.name] for t in kernel.spec.operands), out=out).numpy()
        outside = np.isinf(wanted)
        assert (got[outside] == -np.inf).all()
        assert np.abs(got[~outside] - wanted[~outside]).max() < 1e-2 * np.abs(wanted[~outside]).max()


MISPLACED = {
    "scales": ("K_scale", {"moved": 2}, "K_scale begins at address 0x[0-9a-f]+, not a multiple of 4 bytes"),
    "pages": ("K_scale", {"gap": 6}, r"K_scale has a stride of 4358 elements \(4358 bytes\) along index 0 .*4 bytes"),
    "rows": ("K", {"gap": 4}, r"K has a stride of 4356 elements \(4356 bytes\) along index 0 .*16 bytes"),
}


@pytest.mark.parametrize("case", MISPLACED)
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_what_is_misplaced_is_refused(target: str, case: str) -> None:
    """Copies of K's rows begin at multiples of 16 bytes, and threads load four of their scales at once."""
    name, how, words = MISPLACED[case]
    source = LOGITS.format(FORMS["MXFP4"][0])
    dims = {"s": 2, "t": 150, "d": 128, "h": 16, "K_0": 7}
    values, kernel = made_up(source, dims, 3)[0], compiled(source, target, {"h": 16, "d": 128})
    pages, moved = Pages(kernel.fixed, values, how.get("gap", 0)), how.get("moved", 0)
    arguments = given(kernel, values, pages)
    dtype = next(t.dtype for t in kernel.spec.operands if t.name == name)
    if case == "pages":  # of K a copy with gaps that fit: its own stride is refused first
        arguments["K"] = pages.beside(values["K"], "e2m1")
    arguments[name] = pages.view(name, dtype, moved)
    with pytest.raises(ArgumentError, match=words):
        kernel(*(arguments[t.name] for t in kernel.spec.operands), out=DeviceArray(pages.device, (2, 150), "f32"))
