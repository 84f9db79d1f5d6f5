"""benchmarks/logits.py without a GPU: its data, its contenders, and what tells that logits are wrong or missing."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import pytest

import scalec
from benchmarks import logits
from benchmarks.logits import ALLOWED, COPY, OURS, SOURCES, Case
from scalec.bench.contenders import Contender


@pytest.mark.parametrize("kind", ["windows", pytest.param("pages", marks=pytest.mark.thorough)])
def test_contenders_and_errors(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    monkeypatch.setattr(logits, "H", 8)
    case = Case(kind, 3, 100, "rising")
    assert case.length == [33, 66, 100]
    kernel: Any = scalec.compile(SOURCES[kind], "sm_90a", {"h": 8, "d": logits.D})
    made = logits.inputs(case, 3, device="cpu")
    asked: list[dict[str, int]] = []

    def theirs(spec: Any, dims: dict[str, int]) -> dict[str, Contender]:
        asked.append(dims)
        return {"theirs": Contender({"": lambda inputs: lambda: inputs.outputs["L"]})}

    found = logits.contenders(case, kernel, [theirs])
    assert list(found) == [OURS, "theirs", COPY]
    assert {*asked[0].values()} == {3, 100, 8, logits.D}
    out = made.outputs["L"].fill_(math.nan)
    found[OURS](made)()
    assert logits.error(case, made, out) < ALLOWED / 100
    assert out[0, 33:].isnan().all()
    out[1, 65] += 2 * ALLOWED * out.nan_to_num().abs().max()
    assert logits.error(case, made, out) > ALLOWED
    out[1, 65] = math.nan
    assert math.isnan(logits.error(case, made, out))


def test_keys_and_scales_of_pages_share_a_buffer() -> None:
    case = Case("pages", 2, 130, "all")
    v = logits.inputs(case, 3, device="cpu").values
    assert v["table"].shape == (2, 3)
    page = logits.PAGE * (logits.D + 4)
    assert v["K"].stride() == (page, logits.D, 1)
    assert v["K_scale"].data_ptr() == v["K"].data_ptr() + logits.PAGE * logits.D
    assert v["K"].untyped_storage().nbytes() == 6 * page


def test_a_case_that_is_not_there() -> None:
    runner = import_module("click.testing").CliRunner()
    assert runner.invoke(logits.main, ["--only", "none such"]).exit_code == 2
