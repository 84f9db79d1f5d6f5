"""How torch's calls reach a device that is none."""

from __future__ import annotations

import pytest
import torch

from scalec.runtime import dlpack, ready, torch_calls
from scalec.runtime.handles import Handles
from tests.runtime.fake import FakeDevice


@pytest.fixture(params=["prepared", "native"])
def device(request, monkeypatch):
    """Launched as prepared, and by trampolines from the second launch on."""
    monkeypatch.setattr(ready, "OFTEN", 1)
    return FakeDevice(place=("cpu", 0), native=request.param == "native")


@pytest.fixture(params=["handles", "exchange", "guards", "attributes"])
def ways(request, monkeypatch):
    """With torch's guards and its stable functions of C, with DLPack's exchange of addresses and sizes in their place,
    without that, and without guards too."""
    if request.param != "handles":
        monkeypatch.setattr(torch_calls, "_handles", lambda _torch: Handles())
    if request.param == "attributes":
        monkeypatch.setattr(torch_calls, "_guards", lambda _torch: None)
    else:
        assert torch_calls._guards(torch) is not None
    if request.param not in ("handles", "exchange"):
        monkeypatch.setattr(torch_calls, "_exchange", lambda _torch: dlpack.Exchange(0, 0))
    elif hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        assert all(torch_calls._exchange(torch))


@pytest.fixture
def quick(monkeypatch):
    """quick(kernel): from now on its calls must be like earlier ones."""

    def forbid(*_: object) -> None:
        raise AssertionError("a call unlike any before")

    return lambda kernel: monkeypatch.setattr(kernel, "_first", forbid)
