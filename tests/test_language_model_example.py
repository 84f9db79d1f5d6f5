"""examples/python/language_model.py: its losses are those of float32 on the emulator of every target, and it finds a
gradient that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.examples_table import TARGETS, loaded

torch = pytest.importorskip("torch")


@pytest.fixture
def script(on_the_emulator: None) -> Any:
    return loaded("language_model")


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("only", ["BF16", "FP8"])
def test_losses_are_those_of_float32(target: str, only: str, script: Any, capsys: pytest.CaptureFixture[str]):
    assert script.main(["--target", target, "--only", only, "--steps", "2"]) == 0
    assert capsys.readouterr().out.count("PASS") == 2


@pytest.mark.thorough
def test_a_wrong_gradient_is_found(script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    right = script.fp8_linear

    def wrong(*said: Any) -> Any:
        layer = right(*said)
        return lambda x, w: layer(x, w - 2 * (w - w.detach()))  # w itself, with a gradient that points elsewhere

    monkeypatch.setattr(script, "fp8_linear", wrong)
    assert script.main(["--target", "sm_90a", "--only", "FP8", "--steps", "2"]) == 1
    assert [x.split()[0] for x in capsys.readouterr().out.splitlines() if x.endswith("FAIL")] == ["FP8"]
