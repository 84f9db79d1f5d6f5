"""examples/python/indexer.py: right on the emulator of every target, and it finds a kernel that is wrong."""

from __future__ import annotations

import pytest

from tests.examples_table import TARGETS, loaded

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

TINY = ["--sequences", "3", "--context", "80", "--topk", "16"]


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_picked_is_right(target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SCALEC_DEVICE", "")  # which the script sets; put back afterwards
    assert loaded("indexer").main(["--target", target, *TINY]) == 0
    assert capsys.readouterr().out.count("PASS") == 3


WRONG = {
    "other weights": ("* W[s,h]:f32", "* (W[s,h]:f32 + 0.1)"),
    "no scales of keys": ("@ K[table[s,t/64],t%64,d]:e4m3 scale(none,1x1xd)", "@ K[table[s,t/64],t%64,d]:e4m3"),
    "tokens that are not there": ("else -inf", "else 0"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_found(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    indexer = loaded("indexer")
    right, wrong = WRONG[name]
    assert right in indexer.LOGITS
    compiled = indexer.scalec.compile(indexer.LOGITS.replace(right, wrong), "sm_90a", {"h": 16, "d": 128})
    takes = {t.name for t in compiled.spec.operands} | {"out"}

    def kernel(**given: object) -> object:
        return compiled(**{name: value for name, value in given.items() if name in takes})

    monkeypatch.setattr(indexer.scalec, "compile", lambda *_: kernel)
    assert indexer.main(TINY) == 1
    assert "FAIL" in capsys.readouterr().out


def test_no_step_reads_the_lengths_on_the_host(on_the_emulator: None):
    # fake tensors have no values: what would read one raises, as capturing it in a CUDA graph would
    script = loaded("indexer")
    indexer = script.Indexer(16, 128, 8, "sm_90a")
    with FakeTensorMode():
        pages = script.Pages(6, 128, "cpu")
        q, k, w = torch.empty(3, 16, 128), torch.empty(3, 1, 128), torch.empty(3, 16)
        table, length = torch.empty(3, 2, dtype=torch.int32), torch.empty(3, dtype=torch.int32)
        assert indexer.step(q, k, w, pages, table, length).shape == (3, 8)
