"""Times launches: one CUDA graph a contender, interleaved.

Large FP8 is power-limited, so times drift with what ran before (10 % one after another, H200, 2026-11-21). Hence every
round times every contender, in shuffled order, each after the same pause; figures of one run are compared, no others.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from scalec.bench.method import GRAPH_SECONDS, PAUSE_SECONDS, SPIN_CYCLES
from scalec.bench.result import Timing

Launch = Callable[[], object]


@dataclass
class Graph:
    """A captured graph of `launches` launches."""

    graph: torch.cuda.CUDAGraph
    launches: int

    def sample(self) -> float:
        """One replay: microseconds a launch."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end) / self.launches


def capture(launches: Sequence[Launch]) -> Graph:
    """A graph that walks `launches`, one for each input set, as often as GRAPH_SECONDS takes."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # the first calls may load modules and allocate, which a capture must not
        for launch in launches:
            launch()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for launch in launches:
            launch()
        end.record()
        end.synchronize()
        once = 1e-3 * start.elapsed_time(end)
    torch.cuda.current_stream().wait_stream(stream)
    walks = max(1, round(GRAPH_SECONDS / max(once, 1e-6)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(walks):
            for launch in launches:
                launch()
    return Graph(graph, walks * len(launches))


def measure(contenders: Mapping[str, Sequence[Launch]], rounds: int, seed: int = 5) -> dict[str, Timing]:
    """Times each contender in every round.

    Args:
        contenders: for each name its launches, one for each input set.
        rounds: samples of each contender.
        seed: of the order within rounds.
    """
    graphs = {name: capture(launches) for name, launches in contenders.items()}
    for graph in graphs.values():
        graph.sample()
    order, samples = list(graphs), {name: [] for name in graphs}
    shuffle = random.Random(seed).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            torch.cuda.synchronize()
            time.sleep(PAUSE_SECONDS)
            samples[name].append(graphs[name].sample())
    return {name: Timing(tuple(values)) for name, values in samples.items()}
