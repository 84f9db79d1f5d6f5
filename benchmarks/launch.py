"""Host time of a call, until its launch is on its way, beside torch's own calls.

    python benchmarks/launch.py -o result.json

Every contender makes bursts of calls on an idle GPU, which is waited for between them and not timed; bursts of all
contenders are interleaved in shuffled rounds. Needs torch. Runs from a checkout, whether or not scalec is installed.
"""

from __future__ import annotations

import copy
import gc
import itertools
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.runtime.handles import Handles
from scalec.runtime.slots import tensor_map
from scalec.runtime.torch_calls import asked
from scalec.runtime.trampoline import Asked, Slot

PROGRAMS = {
    "fp8": "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)",
    "bf16": "C[m,n] = A[m,k] @ B[n,k]",
}
DIMS = {"m": 16, "n": 7168, "k": 2048}
SETS = 600  # of tensors, each elsewhere: more than a plan keeps launchers for, so none has been seen lately
CALLS = 64  # of a burst: far from the 1024 launches at which a stream's queue is full
WARM = 4  # calls before those that are timed

Call = Callable[[], Any]


def tensors(torch: Any, spec: Any, dims: Mapping[str, int], device: str, sets: int) -> list[tuple[list[Any], Any]]:
    """(operands, result) as often as asked, each in memory of its own but for B and its scales, the weights."""
    from scalec.bench.inputs import make_inputs

    first = make_inputs(spec, dict(dims), 1, device)
    (result,) = first.outputs.values()
    weights = {name for name in first.values if name.startswith("B")}
    return [
        ([v if name in weights else v.clone() for name, v in first.values.items()], torch.empty_like(result))
        for _ in range(sets)
    ]


def of_kernel(torch: Any, kernel: Any, dims: Mapping[str, int], device: str, sets: int = SETS) -> dict[str, Call]:
    """Calls of one kernel. Fresh ones have the activations, and the result where it is given, elsewhere each time."""
    every = tensors(torch, kernel.spec, dims, device, sets)
    (operands, out), turns, others = every[0], itertools.cycle(every), itertools.cycle(every)
    op = kernel.op

    def fresh_out() -> None:
        given, result = next(turns)
        kernel(*given, out=result)

    def fresh() -> None:
        kernel(*next(others)[0])

    bound = kernel.bind(*operands, out=out)
    made = {
        "bound": bound,
        "repeated, out=": lambda: kernel(*operands, out=out),
        "repeated": lambda: kernel(*operands),
        "fresh tensors, out=": fresh_out,
        "fresh tensors": fresh,
        "as torch's op": lambda: op.default(*operands),
    }
    slow = copy.copy(kernel)  # loaded anew, and without what is known of calls
    for one in (kernel, slow):
        one(*operands, out=out)
        one(*operands)
        for ready in (x for alike in one._ready.values() for x in alike):
            ready.hasten(operands, (out,)) if one is kernel else ready.forgo()

    def slow_fresh_out() -> None:
        given, result = next(slow_turns)
        slow(*given, out=result)

    slow_turns = itertools.cycle(every)
    made["repeated, out=, no trampoline"] = lambda: slow(*operands, out=out)
    made["fresh tensors, out=, no trampoline"] = slow_fresh_out
    return made | parts(torch, kernel, bound, device)


def parts(torch: Any, kernel: Any, bound: Any, device: str) -> dict[str, Call]:
    """What a call with out= is made of, each by itself, and the driver's launch by several ways.

    The trampoline asks for all but the arguments itself, for sizes along with addresses. "sizes apart" are its guards.
    "addresses, by ..." is a trampoline that finds addresses and sizes by that way (the first of those there are is the
    one taken) and launches nothing, with the check of the context and some 0.1 µs.
    "the driver alone" is a launch through cuda-bindings; "natively" is a trampoline that has nothing to fill in: the
    driver's cuLaunchKernelEx, the check of the context and some 0.1 µs.
    """
    ready, operands, outs = bound._ready, bound._tensors, bound._outs
    tensors = (*operands, *outs)
    plan, stream = ready.plan, torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    (launch,) = list(plan.launchers.values())[-1:]
    name = next(iter(plan.maps), None)
    made = {
        "the driver alone": lambda: launch(stream),
        "part: guards": lambda: ready.alike(*tensors),
        "part: addresses": lambda: tuple(map(ready.address, tensors)),
        "part: autograd": lambda: ready.wrote(outs),
        "part: stream": lambda: ready.stream(ready.ordinal),
        "part: arguments": lambda: _nothing(*operands, out=outs),
    }
    if name is not None:
        room = plan.device.encode(plan_map(plan, name))
        move, where = plan.device.mover(room), name[1]
        made["part: a tensor map's address, cuda-bindings"] = lambda: move(where)
    if ready.trampoline is not None:
        trampoline, spec = ready.trampoline, plan.signature.spec.launch
        ask = asked(torch, operands, outs, True, ready.allocate, ready.stream, ready.ordinal)
        made["part: guards, sizes apart"] = lambda: ask.check(*operands) and ask.check_results(*outs)
        made["part: trampoline"] = lambda: trampoline(operands, outs, (), None)
        for way, found in by_ways(ask, len(operands)).items():
            looks = plan.device.trampoline(plan.function, plan.grid, spec.threads, spec.shared_bytes, *found)
            made[f"part: addresses, {way}"] = lambda looks=looks: looks(operands, outs, (), stream)
        for words, dependent in (("natively", plan.small), ("natively, not dependent", False)):
            slots = [Slot(data) for data in plan.template]
            shape = (plan.function, plan.grid, spec.threads, spec.shared_bytes)
            bare = plan.device.trampoline(*shape, slots, (), (), 0, Asked(), dependent)
            made[f"the driver alone, {words}"] = lambda bare=bare: bare((), (), (), stream)
    return made


def by_ways(ask: Asked, operands: int) -> dict[str, tuple[Any, ...]]:
    """What a trampoline is made of, from its slots on, that finds tensors by each way there is, and gives up then: its
    alignment no tensor has."""
    count, ways = len(ask.types), {}
    bare = ask._replace(check=None, check_results=None, refused=None, wrote=None, allocate=None, work_stream=0)
    if ask.handles.dim:
        ways["by handles"] = bare
    bare = bare._replace(handles=Handles())
    if ask.exchange:
        ways["by DLPack"] = bare
    ways["by data_ptr"] = bare._replace(exchange=0)
    return {way: ((), [1] * count, [1 << 62] * count, operands, asks) for way, asks in ways.items()}


def plan_map(plan: Any, name: tuple[int, int]) -> Any:
    """The tensor map of one parameter of a plan, at one address, to be encoded anew."""
    argument = plan.signature.spec.arguments[name[0]]
    form = next(f for f in (*plan.operands, *plan.results) if f.spec.name == argument.tensor)
    return tensor_map(argument, form, name[1])


class _Nothing:
    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> None:
        pass


_nothing = _Nothing()


def of_torch(torch: Any, dims: Mapping[str, int], device: str) -> dict[str, Call]:
    """torch's products of the same sizes, and an allocation."""
    m, n, k = (dims[d] for d in "mnk")
    a, b = (torch.randn(rows, k, device=device).bfloat16() for rows in (m, n))
    out, turned = torch.empty(m, n, device=device, dtype=torch.bfloat16), b.t()
    a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=device)
    scaled = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
    return {
        "torch.mm, out=": lambda: torch.mm(a, turned, out=out),
        "torch.mm": lambda: torch.mm(a, turned),
        "torch._scaled_mm (tensorwise)": lambda: torch._scaled_mm(a8, b8, **scaled),
        "torch.empty": lambda: torch.empty((m, n), device=device, dtype=torch.bfloat16),
        "an empty function": lambda: None,
    }


def measure(
    contenders: Mapping[str, Call], rounds: int, calls: int, wait: Call, clock: Callable[[], int] = time.perf_counter_ns
) -> dict[str, dict[str, float]]:
    """Microseconds of a call of each contender, over `rounds` bursts: median, first decile, least."""
    order, taken = list(contenders), {name: [] for name in contenders}
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            call = contenders[name]
            for _ in range(WARM):
                call()
            wait()
            gc.disable()
            start = clock()
            for _ in range(calls):
                call()
            taken[name].append((clock() - start) / calls / 1e3)
            gc.enable()
            wait()
    return {
        name: {
            "us": round(statistics.median(found), 2),
            "decile": round(sorted(found)[len(found) // 10], 2),
            "least": round(min(found), 2),
        }
        for name, found in taken.items()
    }


def of_host() -> dict[str, str]:
    """What the figures depend on beside the GPU: processor, Python, cuda-bindings."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {"cpu": model, "python": platform.python_version(), "cuda-bindings": metadata.version("cuda-bindings")}


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--rounds", default=101, show_default=True, help="Bursts of each contender.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(rounds: int, output: str | None) -> None:
    import torch

    import scalec
    from scalec.bench import provenance

    fixed = {d: size for d, size in DIMS.items() if d != "m"}
    contenders, schedules = of_torch(torch, DIMS, "cuda"), {}
    with torch.inference_mode():
        for name, program in PROGRAMS.items():
            kernel = scalec.compile(program, target="sm_90a", dims=fixed)
            schedules[name] = kernel.spec.schedule
            contenders |= {f"{name}: {what}": c for what, c in of_kernel(torch, kernel, DIMS, "cuda").items()}
        rows = measure(contenders, rounds, CALLS, torch.cuda.synchronize)
    for name, row in rows.items():
        click.echo(f"{name:40s} {row['us']:8.2f} us   decile {row['decile']:8.2f}   least {row['least']:8.2f}")
    trampolines = any(name.endswith("part: trampoline") for name in rows)
    click.echo(f"launches by trampolines: {'yes' if trampolines else 'no (see scalec/runtime/trampoline.py)'}")
    if output:
        data = {**provenance.of_machine(), **of_host(), **provenance.of_compiler(), "programs": PROGRAMS}
        method = f"bursts of {CALLS} calls on an idle GPU, interleaved in {rounds} shuffled rounds; host time of a call"
        data |= {"schedules": schedules, "dims": DIMS, "method": method, "trampolines": trampolines, "rows": rows}
        Path(output).write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
