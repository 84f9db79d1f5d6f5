"""examples/python/moe.py: right on the emulator of every target, and it finds a layer that is wrong."""

from __future__ import annotations

import pytest

from tests.examples_table import TARGETS, loaded

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode  # noqa: E402

TINY = ["--tokens", "6", "--experts", "3", "--topk", "2", "--hidden", "256", "--inter", "128"]


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_both_layouts_are_right(target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SCALEC_DEVICE", "")  # which the script sets; put back afterwards
    assert loaded("moe").main(["--target", target, *TINY]) == 0
    assert capsys.readouterr().out.count("PASS") == 4


@pytest.mark.thorough
def test_a_wrong_layer_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    moe = loaded("moe")
    assert "w[m]:f32" in moe.RAGGED["down"]
    monkeypatch.setitem(moe.RAGGED, "down", moe.RAGGED["down"].replace("w[m]:f32", "(w[m]:f32 + 0.1)"))
    assert moe.main(["--target", "sm_100a", *TINY]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.endswith("FAIL") for line in printed[1:]] == [True, True, False, False]


def test_no_step_of_the_layer_reads_the_routing_on_the_host(on_the_emulator: None):
    # fake tensors have no values: what would read one, as bincount does, raises; so would capturing it in a CUDA graph
    moe = loaded("moe")
    experts = moe.Experts(
        torch.randn(3, 256, 128), torch.randn(3, 128, 128), topk=2, prefill=6, decode=6, target="sm_90a"
    )
    fp8, scale = moe.quantise(torch.randn(6, 128))
    logits = torch.randn(6, 3)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor
        experts.named = {name: {w: fake(t) for w, t in named.items()} for name, named in experts.named.items()}
        for layer in (experts.ragged, experts.masked):
            y = layer(fake(fp8), fake(scale), moe.Routing.of(fake(logits), 2))
            assert y.shape == (6, 128)
        with pytest.raises(DynamicOutputShapeException):
            torch.bincount(fake(logits).topk(2).indices.flatten(), minlength=3)
