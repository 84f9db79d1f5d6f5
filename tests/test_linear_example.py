"""examples/python/linear.py: right on the emulator of every target, and it finds a gradient that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.examples_table import TARGETS, loaded

torch = pytest.importorskip("torch")

TINY = ["--rows", "48", "--outputs", "128", "--inputs", "128"]


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_both_layers_are_right(target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SCALEC_DEVICE", "")  # which the script sets; put back afterwards
    torch._dynamo.reset()
    assert loaded("linear").main(["--target", target, *TINY]) == 0
    assert capsys.readouterr().out.count("PASS") == 24


@pytest.mark.thorough
def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    linear = loaded("linear")
    right = linear.fp8_linear

    def wrong(*said: Any) -> Any:
        layer = right(*said)
        return lambda x, w: layer(x, w + 0.1 * (w - w.detach()))  # w itself, with a gradient 1.1 times as large

    monkeypatch.setattr(linear, "fp8_linear", wrong)
    assert linear.main(["--target", "sm_90a", *TINY]) == 1
    printed = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.endswith("FAIL")]
    assert printed == ["dW"] * 4  # each by its error and by the slope
