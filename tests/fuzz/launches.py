"""Compiles a program, and makes what is called of it: a kernel, or a sequence where it takes several launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scalec import compiler
from scalec.abi import KernelSpec
from scalec.launches import Launches, launches
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence
from scalec.sizes import Size


@dataclass(frozen=True)
class Several:
    """What a Compilation is to a program of one launch."""

    text: str  # the program's
    every: Launches  # its launches
    parts: tuple[compiler.Compilation, ...]  # the kernel of each

    @property
    def spec(self) -> KernelSpec:
        """The program's, with the tiles of the launch that multiplies."""
        main = self.parts[self.every.main].spec
        assert main is not None
        return replace(called(self).spec, launch=main.launch)


Made = compiler.Compilation | Several


def compiled(text: str, target: str, dims: Mapping[str, Size], schedule: Mapping[str, str]) -> Made:
    """All launches of a program, whatever was measured."""
    every = launches(text, target, dims, schedule, tuned=False)
    if len(every.texts) == 1:
        return compiler.compile_source(text, target, dims, schedule, tuned=False)
    parts = [
        compiler.compile_source(part, target, every.sizes(i, dims), every.schedule(i, schedule), tuned=False)
        for i, part in enumerate(every.texts)
    ]
    return Several(text, every, tuple(parts))


def called(made: Made, device: Any = None, change: Callable[[str], str] = str) -> Kernel | Sequence:
    """What a program is called by, on a device; `change` puts a fault into the PTX."""

    def one(part: compiler.Compilation) -> Kernel:
        assert part.spec is not None
        return Kernel(part.spec, part.cubin or b"", ptx=change(part.ptx), device=device)

    if isinstance(made, compiler.Compilation):
        return one(made)
    return Sequence(
        made.text, [one(part) for part in made.parts], made.every.operands, made.every.results, made.every.turned
    )
