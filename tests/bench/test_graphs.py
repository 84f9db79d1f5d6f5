"""How blocks are timed: the GPU is replaced by one whose clock advances with what is enqueued."""

from __future__ import annotations

import importlib
import sys
import weakref
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

from scalec.bench import method


class Gpu:
    """Runs what is enqueued at once; `log` has all of it, in order."""

    def __init__(self) -> None:
        self.now, self.log = 0.0, []

    def event(self, enable_timing: bool) -> SimpleNamespace:
        assert enable_timing
        made = SimpleNamespace(at=None)

        def record() -> None:
            made.at = self.now
            self.log.append("event")

        made.record, made.synchronize = record, lambda: self.log.append("wait")
        made.elapsed_time = lambda end: 1e3 * (end.at - made.at)
        return made

    def replay(self, name: str, seconds: float, first: float) -> SimpleNamespace:
        """A graph of `seconds`, which takes `first` times as long right after one of another contender."""

        def run() -> None:
            before = [x for x in self.log if x not in ("event", "wait", "synchronize", "spin")]
            self.now += seconds * (first if before and before[-1] != name else 1)
            self.log.append(name)

        return SimpleNamespace(replay=run)


@pytest.fixture
def gpu(monkeypatch):
    """scalec.bench.graphs on such a GPU."""
    made, torch = Gpu(), ModuleType("torch")
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        Event=made.event,
        synchronize=lambda: made.log.append("synchronize"),
        _sleep=lambda cycles: made.log.append("spin"),
        CUDAGraph=None,
        Stream=None,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "scalec.bench.graphs", raising=False)
    made.graphs = importlib.import_module("scalec.bench.graphs")
    monkeypatch.setattr(made.graphs.time, "sleep", lambda seconds: made.log.append("pause"))
    yield made
    sys.modules.pop("scalec.bench.graphs", None)


def graphs(gpu: Gpu, first: float = 1.0, **seconds: float):
    return {name: gpu.graphs.Graph(gpu.replay(name, s, first), 10, "its stream") for name, s in seconds.items()}


def blocks(log: list[str]) -> list[tuple[str, int]]:
    """Replays in a row, by contender."""
    runs: list[tuple[str, int]] = []
    for entry in (x for x in log if x != "event"):
        name, count = runs[-1] if runs else ("", 0)
        runs[-1:] = [(entry, count + 1)] if entry == name else [*runs[-1:], (entry, 1)]
    return runs


def test_sustained_blocks_follow_each_other_without_a_wait(gpu):
    found = gpu.graphs.sustained(graphs(gpu, ours=0.002, other=0.003), rounds=4, block_seconds=0.06)
    assert {name: t.samples for name, t in found.items()} == {
        "ours": pytest.approx((200.0,) * 4),
        "other": pytest.approx((300.0,) * 4),
    }
    log = gpu.log
    first = max(i for i, entry in enumerate(log) if entry == "wait")  # of the replays that tell how long one takes
    assert [entry for entry in log[first + 1 :] if entry not in ("ours", "other", "event")] == ["synchronize"]
    assert log[-1] == "synchronize"
    counted = [entry for entry in log[first + 1 : -1] if entry != "event"]
    assert sum(entry == "ours" for entry in counted) == 30 * 5  # nobody counts the first round
    assert sum(entry == "other" for entry in counted) == 20 * 5
    assert len(blocks(counted)) < 10  # shuffled: somewhere a contender has two blocks in a row


def test_the_first_part_of_a_block_does_not_count(gpu):
    slow_start = graphs(gpu, first=7.0, ours=0.002, other=0.002)
    found = gpu.graphs.sustained(slow_start, rounds=3, block_seconds=0.06)
    assert all(t.samples == pytest.approx((200.0,) * 3) for t in found.values())


def test_the_first_round_does_not_count(gpu):
    """A GPU that runs twice as fast until it has worked for a while."""
    seen = graphs(gpu, ours=0.002)
    cool = seen["ours"].graph.replay
    warm = graphs(gpu, ours=0.004)["ours"].graph.replay
    seen["ours"].graph.replay = lambda: (cool if gpu.now < 0.06 else warm)()
    found = gpu.graphs.sustained(seen, rounds=3, block_seconds=0.06)
    assert found["ours"].samples == pytest.approx((400.0,) * 3)


def test_burst_pauses_before_each_replay(gpu):
    found = gpu.graphs.burst(graphs(gpu, ours=0.002, other=0.003), rounds=5)
    assert found["ours"].samples == pytest.approx((200.0,) * 5)
    assert found["other"].samples == pytest.approx((300.0,) * 5)
    log = [entry for entry in gpu.log if entry not in ("event", "wait", "spin", "synchronize")]
    assert log[:2] == ["ours", "other"]  # nobody counts these
    assert log[2::2] == ["pause"] * 10
    assert sorted(log[3::2]) == ["other"] * 5 + ["ours"] * 5


def test_the_fastest_variant_goes_on(gpu, monkeypatch):
    def captured(launches, walks, stream="its stream"):
        assert stream == "its stream"  # workspaces belong to streams
        (name,), seconds = launches, {"a": 3e-4, "b": 2e-4, "c": 4e-4}
        return gpu.graphs.Graph(gpu.replay(name, walks * seconds[name], 1.0), walks, stream)

    monkeypatch.setattr(gpu.graphs, "_captured", captured)
    monkeypatch.setattr(gpu.graphs, "_one_walk", lambda launches: captured(launches, 1))
    name, graph = gpu.graphs.fastest({name: [name] for name in "abc"})
    assert (name, graph.launches) == ("b", round(method.GRAPH_SECONDS / 2e-4))
    replays = [entry for entry in gpu.log if entry in "abc"]
    assert replays == [*"abc" * method.PICK_ROUNDS, "b"]  # in turns; once more to see how many walks
    assert gpu.graphs.fastest({"c": ["c"]})[0] == "c"
    assert gpu.graphs.capture(["a"]).launches == round(method.GRAPH_SECONDS / 3e-4)


def test_a_graph_holds_the_tensors_of_its_launches(gpu, monkeypatch):
    """It reads their memory, which torch gives to others once nobody holds them."""

    class Launch:
        def __call__(self):
            gpu.log.append("launched")

    cuda = sys.modules["torch"].cuda
    monkeypatch.setattr(cuda, "CUDAGraph", object)
    monkeypatch.setattr(cuda, "graph", lambda graph, stream: nullcontext(), raising=False)
    launch = Launch()
    alive = weakref.ref(launch)
    graph = gpu.graphs._captured([launch], 2, "its stream")
    del launch
    assert gpu.log == ["launched"] * 2
    assert alive() is not None
    del graph
    assert alive() is None


@pytest.mark.parametrize(("graph", "block"), [(0.002, 0.12), (0.0021, 0.1), (0.05, 0.12), (3.0, 0.12)])
def test_replays_of_a_block(graph, block):
    settle, timed = method.replays(graph, block)
    assert settle >= 1
    assert timed >= 1
    if graph < block / 10:
        assert (settle + timed) * graph == pytest.approx(block, rel=0.05)
        assert settle / (settle + timed) == pytest.approx(method.SETTLE, abs=0.03)


def test_the_method_says_how_it_was():
    assert method.summary(31, 0, 0.12).endswith("median and quartiles of 31")
    text = method.summary(31, 5, 0.12)
    assert "120 ms" in text
    assert "first 40 ms" in text
    assert text.endswith("of 5")
