"""One launch of `scalec emulate`: what the command line asks for, and what a run of it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalec.commands.kernel_arguments import Arguments, Buffer
from scalec.errors import ScalecError
from scalec.suggestions import did_you_mean

if TYPE_CHECKING:
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.machine.memory import GlobalMemory
    from scalec.emulator.stats import Stats


@dataclass(frozen=True)
class Launch:
    """What the command line says."""

    source: str
    entry: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    shared: int
    buffers: Sequence[tuple[str, str]]  # (name, what it holds) of memory that is no argument by itself
    arguments: Sequence[str]  # one text for each parameter of the kernel: see kernel_arguments.ARGUMENTS
    seeds: str  # e.g. "0" or "0:8"
    ignore: Sequence[str]
    check: Sequence[str]
    tensor_core: str
    sms: int
    save: Sequence[tuple[str, str]]  # (buffer, or number of an argument, and the file to write it to)
    max_instructions: int  # of a warp
    max_memory: int  # bytes of all buffers
    jobs: int  # processes that share the work: seeds, or the clusters of one


@dataclass
class Done:
    """A launch that ended without a finding."""

    stats: Stats
    kernel: Kernel
    memory: GlobalMemory
    buffers: dict[str, Buffer]


def run_seed(request: Launch, text: str, seed: int, part: tuple[int, int] = (0, 1)) -> Done:
    """One launch, or of its clusters those whose numbers leave `part[0]` when divided by `part[1]`.

    Raises:
        ScalecError: the text, the launch or an argument is wrong; a finding.
        OSError: a file.
    """
    from scalec.emulator.findings import EmulatorError
    from scalec.emulator.launch import launch, load
    from scalec.emulator.machine.memory import GlobalMemory
    from scalec.emulator.machine.options import Options

    try:
        loaded = load(text, GlobalMemory())
        entry = request.entry or _only_entry(loaded.module)
        block = request.block or _block(loaded.module, entry)
        given = Arguments(loaded.memory, seed, request.max_memory)
        for name, what in request.buffers:
            given.declare(name, what)
        for argument in request.arguments:
            given.add(argument)
        options = Options(
            seed=seed,
            ignore=frozenset(request.ignore),
            check=frozenset(request.check),
            tensor_core=request.tensor_core,
            sms=request.sms,
            max_instructions=request.max_instructions,
            part=part,
        )
        counted = launch(
            loaded,
            entry,
            request.grid,
            block,
            given.values,
            cluster=request.cluster,
            shared_bytes=request.shared,
            options=options,
        )
    except EmulatorError as error:
        raise ScalecError(f"{request.source}: {error}") from error
    return Done(counted, next(iter(loaded.kernels.values())), loaded.memory, given.buffers)


def _only_entry(module: Any) -> str:
    entries = [f.name for f in module.functions.values() if f.entry]
    if len(entries) != 1:
        raise ScalecError(
            f"the text has {len(entries)} entries", got=", ".join(entries) or "none", fix="name one with --entry"
        )
    return entries[0]


def _block(module: Any, entry: str) -> tuple[int, int, int]:
    function = module.functions.get(entry)
    if function is None:
        names = [f.name for f in module.functions.values() if f.entry]
        near = did_you_mean(entry, names)
        raise ScalecError(f"the text has no entry {entry!r:.80}", expected=", ".join(names) or "none", fix=near)
    required = function.directives.get("reqntid")
    if not required:
        raise ScalecError(f"{entry} has no .reqntid", fix="give --block X[,Y[,Z]]")
    x, y, z = (*required, 1, 1)[:3]
    return x, y, z
