"""`scalec emulate --jobs N`: seeds on several cores, or the clusters of one launch where these share nothing.

A process runs every N-th cluster on memory of its own and says which bytes its clusters read and wrote. If what one
wrote is nothing that another touched, the parts together are the launch. If they do share bytes, or if a part fails
(perhaps since it lacked what another wrote), one process runs it all again, and what that one says holds. So it does
where a process dies, as of too little memory for so many.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial

import numpy as np

from scalec.commands.emulate_launch import Done, Launch, run_seed
from scalec.commands.output import note
from scalec.emulator.stats import Stats
from scalec.errors import ScalecError

# what asks the whole grid for work, or prints: one process does that
_WHOLE = {"clusterlaunchcontrol", "call"}


@dataclass
class _Part:
    """What a part of a launch counted, and for each segment of global memory (read, wrote, bytes): the first two bool,
    the last one those that were written, in order."""

    stats: Stats
    touched: list[tuple[np.ndarray, np.ndarray, np.ndarray]]


def run(request: Launch, text: str, seeds: range) -> Done | None:
    """The last seed's launch; None: one process has to do it.

    Raises:
        ScalecError: a finding, of the first seed that has one.
        OSError: a file.
    """
    try:
        return _shared(request, text, seeds)
    except BrokenProcessPool:
        note("a process has died: one process does it all, from the start")
        return None


def _shared(request: Launch, text: str, seeds: range) -> Done | None:
    if len(seeds) > 1:
        with ProcessPoolExecutor(min(request.jobs, len(seeds)) - 1) as pool:
            others = pool.map(partial(_fault, request, text), seeds[:-1])
            last, failed = None, None
            try:
                last = run_seed(request, text, seeds[-1])
            except ScalecError as error:
                failed = error
            for said in others:
                if said is not None:
                    raise ScalecError(said)
        if failed is not None:
            raise failed
        return last
    with ProcessPoolExecutor(request.jobs - 1) as pool:
        others = pool.map(partial(_part, request, text, seeds[0]), range(1, request.jobs))
        done = _tried(request, text, seeds[0], 0)
        parts = [*others]
    if done is None or None in parts:
        note("a part of the launch does not stand alone: one process runs it all again")
        return None
    found = [part for part in parts if part is not None]
    segments = done.memory.segments()
    for number, segment in enumerate(segments):
        wrote, touched = np.zeros(segment.size, bool), np.zeros(segment.size, bool)
        for read, written, _ in ((*segment.touched(), None), *(part.touched[number] for part in found)):
            if (written & touched).any() or (read & wrote).any():
                note(f"CTAs share bytes of {segment.name}: one process runs the launch again")
                return None
            wrote, touched = wrote | written, touched | written | read
    for part in found:
        done.stats.add(part.stats)
        for segment, (_, written, data) in zip(segments, part.touched, strict=True):
            segment.data[written] = data
            segment.written |= written
    return done


def _fault(request: Launch, text: str, seed: int) -> str | None:
    try:
        run_seed(request, text, seed)
    except ScalecError as error:
        return str(error)
    return None


def _tried(request: Launch, text: str, seed: int, part: int) -> Done | None:
    """A part of a launch; None: it failed, or must not run by itself."""
    try:
        done = run_seed(request, text, seed, (part, request.jobs))
    except ScalecError:
        return None
    return None if any(instruction.opcode in _WHOLE for instruction in done.kernel.code) else done


def _part(request: Launch, text: str, seed: int, part: int) -> _Part | None:
    done = _tried(request, text, seed, part)
    if done is None:
        return None
    touched = [(segment, *segment.touched()) for segment in done.memory.segments()]
    return _Part(done.stats, [(read, wrote, segment.data[wrote]) for segment, read, wrote in touched])
