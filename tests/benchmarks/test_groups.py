"""benchmarks/groups.py without a GPU: data and results of groups along K, and what tells that a sum is wrong."""

from __future__ import annotations

from typing import Any

import scalec
from benchmarks import groups
from benchmarks.groups import ALL_ROWS, COPY, OURS, Case
from scalec.compiler import compile_source


def test_along_k(on_the_emulator: None) -> None:
    case = Case("along", "along", (128, 0, 256), 16, 384, 8)
    assert case.dims == {"g": 3, "m": 8, "n": 16, "k": 384}
    assert case.flops == 2 * 8 * 16 * 384
    kernel: Any = scalec.compile(case.source, "sm_90a", case.dims)
    source, dims = case.dense
    dense: Any = scalec.compile(source, "sm_90a", dims)
    made = groups.inputs(case, kernel.spec, 3, device="cpu")
    assert made.values["off"].tolist() == [0, 128, 128, 384]
    assert made.values["A_scale"].stride() == (1, 8)
    found = groups.contenders(case, {OURS: kernel}, {ALL_ROWS: dense}, [])
    assert list(found) == [OURS, ALL_ROWS, COPY]
    made.outputs["C"].fill_(7)
    groups.blank(kernel.spec, made)
    found[OURS](made)()
    out = made.outputs["C"]
    assert groups.error(case, made, out) < 1e-10
    assert not out[1].any()
    out[2, 3, 5] += 0.1 * out.abs().max()
    assert groups.error(case, made, out) > groups.allowed(case)


def test_rows_are_blank_before() -> None:
    case = Case("masked", "masked", (3, 0), 8, 128, 4)
    spec: Any = compile_source(case.source, target="sm_90a", dims=case.dims, until="nvvm").spec
    made = groups.inputs(case, spec, 3, device="cpu")
    out = made.outputs["C"].fill_(0)
    groups.blank(spec, made)
    assert out.isnan().all()
    assert not groups.error(case, made, out) <= groups.allowed(case)
