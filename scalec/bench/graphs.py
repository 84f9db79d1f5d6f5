"""Times launches: one CUDA graph a contender, interleaved.

Large FP8 is power-limited, so times drift with what ran before (10 % one after another, H200, 2026-11-21). Hence every
round times every contender, in shuffled order: `burst` each after the same pause, `sustained` each until the clocks are
its own. Figures of one run are compared, no others.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from scalec.bench.method import BLOCK_SECONDS, GRAPH_SECONDS, PAUSE_SECONDS, PICK_ROUNDS, SPIN_CYCLES, replays
from scalec.bench.result import Timing

Launch = Callable[[], object]

SEED = 5
"""Of the order of contenders within rounds."""


@dataclass
class Graph:
    """A graph of `launches` launches, captured on `stream`, with what it launches: their tensors, which it reads, are
    given back to torch once nobody holds them."""

    graph: torch.cuda.CUDAGraph
    launches: int
    stream: torch.cuda.Stream
    held: Sequence[Launch] = ()

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
    return _lengthened(_one_walk(launches), launches)


def fastest(variants: Mapping[str, Sequence[Launch]]) -> tuple[str, Graph]:
    """The variant whose walk takes least, by the median of PICK_ROUNDS interleaved rounds, and its graph of many."""
    walks = {label: _one_walk(launches) for label, launches in variants.items()}
    samples: dict[str, list[float]] = {label: [] for label in walks}
    for _ in range(PICK_ROUNDS if len(walks) > 1 else 1):
        for label, graph in walks.items():
            samples[label].append(graph.sample())
    best = min(samples, key=lambda label: Timing(tuple(samples[label])).median)
    return best, _lengthened(walks[best], variants[best])


def _one_walk(launches: Sequence[Launch]) -> Graph:
    """A graph of each launch once, replayed once: the first replay takes longer than others."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # the first calls may load modules and allocate, which a capture must not
        for launch in launches:
            launch()
    torch.cuda.current_stream().wait_stream(stream)
    graph = _captured(launches, 1, stream)
    graph.sample()
    return graph


def _lengthened(walk: Graph, launches: Sequence[Launch]) -> Graph:
    """As many walks as GRAPH_SECONDS takes: timed as a graph, since some take longer to launch than to run."""
    walks = max(1, round(GRAPH_SECONDS / max(1e-6 * walk.sample() * walk.launches, 1e-6)))
    return walk if walks == 1 else _captured(launches, walks, walk.stream)


def _captured(launches: Sequence[Launch], walks: int, stream: torch.cuda.Stream) -> Graph:
    """Captured on the stream of the first calls: kernels keep workspaces for each stream, made outside captures."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(walks):
            for launch in launches:
                launch()
    return Graph(graph, walks * len(launches), stream, launches)


def burst(graphs: Mapping[str, Graph], rounds: int) -> dict[str, Timing]:
    """Times one replay of each graph in every round, after a pause.

    Args:
        graphs: by contender.
        rounds: samples of each contender.
    """
    for graph in graphs.values():
        graph.sample()
    order, samples = list(graphs), {name: [] for name in graphs}
    shuffle = random.Random(SEED).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            torch.cuda.synchronize()
            time.sleep(PAUSE_SECONDS)
            samples[name].append(graphs[name].sample())
    return {name: Timing(tuple(values)) for name, values in samples.items()}


def sustained(graphs: Mapping[str, Graph], rounds: int, block_seconds: float = BLOCK_SECONDS) -> dict[str, Timing]:
    """Times a block of replays of each graph in every round; the GPU has no pause from the first block to the last.

    A block is one contender's replays back to back. Its first part does not count (`method.replays`): the clocks then
    follow what it draws itself, no longer what the block before it drew. Nor does the first round: the GPU warms up.

    Args:
        graphs: by contender.
        rounds: blocks of each contender that count.
        block_seconds: length of a block.
    """
    counts = {name: replays(1e-6 * g.sample() * g.launches, block_seconds) for name, g in graphs.items()}
    order, blocks = list(graphs), []
    shuffle = random.Random(SEED).shuffle
    for counted in [False, *[True] * rounds]:
        shuffle(order)
        for name in order:
            graph, (settle, timed) = graphs[name], counts[name]
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            for _ in range(settle):
                graph.graph.replay()
            start.record()
            for _ in range(timed):
                graph.graph.replay()
            end.record()
            if counted:
                blocks.append((name, start, end, timed * graph.launches))
    torch.cuda.synchronize()  # only here: the host runs ahead, so that nothing waits for it between blocks
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for name, start, end, launches in blocks:
        samples[name].append(1e3 * start.elapsed_time(end) / launches)
    return {name: Timing(tuple(values)) for name, values in samples.items()}


def measure(contenders: Mapping[str, Sequence[Launch]], rounds: int) -> dict[str, Timing]:
    """`burst` of the graphs of these launches.

    Args:
        contenders: for each name its launches, one for each input set.
        rounds: samples of each contender.
    """
    return burst({name: capture(launches) for name, launches in contenders.items()}, rounds)
