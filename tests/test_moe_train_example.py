"""examples/python/moe_train.py: right on the emulator of every target, and it finds a gradient that is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import scalec
from tests.examples_table import TARGETS, loaded

torch = pytest.importorskip("torch")

TINY = ["--tokens", "8", "--experts", "3", "--topk", "2", "--hidden", "128", "--inter", "128"]


@pytest.fixture
def script(on_the_emulator: None) -> Any:
    return loaded("moe_train")


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("only", ["FP8", "BF16"])
def test_results_and_gradients_are_right(target: str, only: str, script: Any, capsys: pytest.CaptureFixture[str]):
    assert script.main(["--target", target, "--only", only, *TINY]) == 0
    assert capsys.readouterr().out.count("PASS") == 9


@pytest.mark.thorough
def test_a_wrong_gradient_is_found(script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    right = scalec.grad

    def wrong(source: str, **options: Any) -> Any:
        made = right(source, **options)
        steps = [replace(s, text=s.text.replace("1 + G[m,n]", "1 - G[m,n]")) for s in made.steps]
        assert (source == script.BF16["gated"]) == (steps != list(made.steps))
        return replace(made, steps=tuple(steps))

    monkeypatch.setattr(script.scalec, "grad", wrong)
    assert script.main(["--target", "sm_90a", "--only", "BF16", *TINY]) == 1
    printed = [line.split()[1:3] for line in capsys.readouterr().out.splitlines() if line.endswith("FAIL")]
    assert printed == [["dX", "error"], ["dW", "error"], ["dX", "slope"], ["dW", "slope"]]
