"""The benchmark of host time: what it calls a fresh tensor, what it times, in which order."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from benchmarks import launch
from scalec.runtime import torch_calls
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, gemm_spec

DIMS = {"m": 4, "n": 256, "k": 256}


def test_contenders_call_what_they_say():
    device = FakeDevice(place=("cpu", 0), native=True)
    kernel = Kernel(gemm_spec(n=256, k=256), b"", device=device)
    contenders = launch.of_kernel(torch, kernel, DIMS, "cpu", sets=5)

    def addresses(name: str, calls: int = 5) -> list[list]:
        device.launches.clear()
        for _ in range(calls):
            contenders[name]()
        assert len(device.launches) == calls
        # of A, B, A's scales, B's scales, the result
        return [[p[0].address, p[1].address, p[2], p[4], p[6]] for p in (x.parameters for x in device.launches)]

    alone = [f"the driver alone{how}" for how in ("", ", natively", ", natively, not dependent")]
    for name in ("bound", "repeated, out=", "repeated, out=, no trampoline", "part: trampoline", *alone):
        assert len(set(map(tuple, addresses(name)))) == 1
        assert {x.native for x in device.launches} == {name not in ("repeated, out=, no trampoline", alone[0])}
    called = {"fresh tensors, out=": 5, "fresh tensors, out=, no trampoline": 5, "fresh tensors": 1, "repeated": 1}
    for name, result in (*called.items(), ("as torch's op", 1)):
        found = [len(set(column)) for column in zip(*addresses(name), strict=True)]
        fresh = 5 if name.startswith("fresh") else 1
        assert found[:4] == [fresh, 1, fresh, 1]
        assert found[4] >= result
        assert {x.native for x in device.launches} == {"no trampoline" not in name and "op" not in name}
    assert "part: addresses, by data_ptr" in contenders
    launches = len(device.launches)
    for name in contenders:
        if name.startswith("part: ") and name != "part: trampoline":
            contenders[name]()
    assert len(device.launches) == launches


def test_addresses_are_found_by_the_way_named():
    """By handles and by DLPack along with sizes, which data_ptr does not say; nothing is launched."""
    device = FakeDevice(place=("cpu", 0), native=True)
    tensors = [torch.zeros(n, 3) for n in (4, 5, 6)]
    make: Any = device.trampoline
    asks = torch_calls.asked(torch, tensors[:2], tensors[2:], True, lambda: (), lambda _: 0, 0)
    ways = launch.by_ways(asks, 2)
    assert list(ways)[-1] == "by data_ptr"
    assert len(ways) == 1 + bool(asks.handles.dim) + bool(asks.exchange)
    for way, found in ways.items():
        looks = make(None, 1, 1, 0, *found)
        assert looks(tuple(tensors[:2]), tuple(tensors[2:]), (), 0) is None
        other = looks(tuple(tensors[:2]), (torch.zeros(7, 3),), (), 0)
        assert other is (None if way == "by data_ptr" else False)
    assert device.tried == 0


def test_torchs_contenders_run():
    made = launch.of_torch(torch, DIMS, "cpu")
    for name in ("torch.mm, out=", "torch.mm", "torch.empty"):
        assert made[name]().shape == (4, 256)


def test_only_the_calls_are_timed_and_bursts_are_interleaved():
    now, calls, waits = itertools.count(), [], []
    clock = [0]

    def contender(name: str, takes: int):
        def call() -> None:
            calls.append(name)
            clock[0] += takes

        return call

    def wait() -> None:
        waits.append(next(now))
        clock[0] += 10**9

    rows = launch.measure({"a": contender("a", 2000), "b": contender("b", 500)}, 8, 10, wait, lambda: clock[0])
    assert rows == {
        "a": dict.fromkeys(("us", "decile", "least"), 2.0),
        "b": dict.fromkeys(("us", "decile", "least"), 0.5),
    }
    assert len(calls) == 2 * 8 * (10 + launch.WARM)
    assert len(waits) == 2 * 2 * 8
    order = [name for name, _ in itertools.groupby(calls)]
    assert len(order) > 4
