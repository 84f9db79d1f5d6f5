"""Times candidates on this machine's GPU, as scalec.bench does: CUDA graphs over rotating inputs, pauses between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from scalec.abi import KernelSpec
from scalec.bench import provenance
from scalec.bench.contenders import contenders
from scalec.bench.contraction import contraction, diff, reference
from scalec.bench.graphs import Graph, Launch, capture, fastest
from scalec.bench.inputs import Inputs, make_inputs
from scalec.bench.method import PAUSE_SECONDS, sets_in_rotation
from scalec.bench.shape import MAX_DIFF, allowed_diff, ours, usable
from scalec.errors import ScalecError
from scalec.runtime import driver
from scalec.runtime.cache import Compiled
from scalec.runtime.kernel import Kernel

DRAWS = 16
"""Index tensors of each routing, of which each launch of a graph has the next: where one group has everything, others
have it in the next launches, so that its matrix is not in L2 already."""


@dataclass
class GraphSamples:
    """One graph of a kernel with each routing; see scalec.tuning.tuner.Samples. `kept` is what the graphs reach: a
    kernel that goes takes its code and its workspace with it."""

    graphs: dict[tuple[str, str], Graph]
    wrong: dict[str, str]
    peers: Sequence[str]
    kept: list[Any]

    def sample(self, name: str, routing: str) -> float:
        """Microseconds of a launch, the mean of one replay."""
        torch.cuda.synchronize()
        time.sleep(PAUSE_SECONDS)
        return self.graphs[name, routing].sample()


@dataclass(frozen=True)
class GpuTimer:
    """Times kernels on torch's current GPU; `peers`: torch's own kernels too."""

    peers: bool = False

    def facts(self) -> dict[str, str]:
        """Date, GPU, driver, versions, and the target of the GPU."""
        gpu = driver.detect()
        target = gpu.target if gpu is not None and gpu.target else "unknown"
        return {**provenance.of_machine(), **provenance.of_compiler(), "target": target}

    @contextmanager
    def open(
        self, kernels: Mapping[str, Compiled], dims: Mapping[str, int], routings: Sequence[str]
    ) -> Iterator[GraphSamples]:
        """Checks each kernel against float32 on dequantised inputs, or where the program is more than a contraction
        against the first kernel; captures the graphs of those that are right."""
        sizes = dict(dims)
        spec = next(iter(kernels.values())).spec
        first = make_inputs(spec, sizes, seed=7)
        sets = [first, *(make_inputs(spec, sizes, 7 + i) for i in range(1, sets_in_rotation(first.input_bytes())))]
        routed = {routing: _routed(sets, spec, sizes, routing) for routing in routings}
        started = {r.name: first.outputs[r.name].clone() for r in spec.results}
        what = contraction(spec, sizes)
        product = None if what is None else reference(what, first.values)
        expected: dict[str, torch.Tensor] = {}
        if product is not None:
            added = what is not None and what.accumulates
            expected = dict.fromkeys(routings, product + next(iter(started.values())) if added else product)
        graphs, wrong, kept = dict[tuple[str, str], Graph](), dict[str, str](), list[Any]()
        for name, made in kernels.items():
            kernel = Kernel(made.spec, made.cubin, ptx=made.ptx)
            launches = {r: [ours(kernel, made.spec, inputs) for inputs in routed[r]] for r in routings}
            for routing in routings:
                try:
                    found = self._result(launches[routing][0], made.spec, first, started)
                except ScalecError as error:  # the driver's refusal of one kernel is not that of the others
                    wrong[name] = str(error).replace("\n", ";")
                    break
                error = diff(found, expected.setdefault(routing, found.float()))
                if not error <= MAX_DIFF:
                    where = f" with {routing} routing" if routing else ""
                    wrong[name] = f"wrong result{where}: diff {error:.2e}, at most {MAX_DIFF:.0e}"
                    break
            if name not in wrong:
                graphs |= {(name, routing): capture(launches[routing]) for routing in routings}
                kept.append(launches)
        peers = []
        if self.peers and product is None and (what := contraction(spec, sizes, quantised=True)) is not None:
            product = reference(what, first.values)
        for name, contender in contenders(spec, sizes).items() if self.peers else ():
            variants = usable(name, contender, first, product, allowed_diff(first))
            if variants:
                makes = contender.variants
                for routing in routings:
                    calls = {v: [makes[v](inputs) for inputs in routed[routing]] for v in variants}
                    _, graphs[name, routing] = fastest(calls)
                    kept.append(calls)
                peers.append(name)
        for graph in graphs.values():
            graph.sample()
        try:
            yield GraphSamples(graphs, wrong, tuple(peers), kept)
        finally:
            torch.cuda.synchronize()
            graphs.clear()
            kept.clear()
            torch.cuda.empty_cache()

    @staticmethod
    def _result(launch: Launch, spec: KernelSpec, inputs: Inputs, started: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The first result of a launch: NaN before it, or what is accumulated into; 1 where gaps keep what they have,
        as results are compared with gaps and all."""
        for r in spec.results:
            out = inputs.outputs[r.name]
            if r.inout:
                out.copy_(started[r.name])
            elif r.given:
                out.fill_(1)
            else:
                out.fill_(float("nan") if out.dtype.is_floating_point else 0x7F)
        return torch.as_tensor(launch()).clone()


def _routed(sets: Sequence[Inputs], spec: KernelSpec, dims: dict[str, int], routing: str) -> list[Inputs]:
    """The inputs of the launches of a graph: the sets by turns, with index tensors of a routing."""
    count = max(len(sets), DRAWS) if routing else len(sets)
    return [sets[i % len(sets)].routed(spec, dims, routing, 7 + i) for i in range(count)]
