"""`scalec compile`: a program to any of its stages, to files, or to a bundle."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scalec.bench import provenance
from scalec.commands.output import note, note_dropped, plain_table, print_table, write_result
from scalec.errors import ScalecError
from scalec.sizes import Size, ranges

if TYPE_CHECKING:
    from scalec.abi import Dropped, KernelSpec
    from scalec.compiler import Compilation
    from scalec.runtime.cache import Compiled

SUFFIXES: dict[str, str] = {
    "scale": ".scale.mlir",
    "tile": ".tile.mlir",
    "nvvm": ".nvvm.mlir",
    "llvm": ".ll",
    "ptx": ".ptx",
    "cubin": ".cubin",
    "sass": ".sass",
}
"""Stages that `--emit` knows, in the order of compilation, and the suffix of each one's file."""

_KEPT = frozenset({"ptx", "cubin", "sass"})
"""Stages that the disk cache has, or that are made of what it has."""


@dataclass(frozen=True)
class Request:
    """What to compile."""

    source: str
    target: str | None = None  # name of the target; scalec.api.default_target() if None
    # sizes of dimensions to fix; of those that stay dynamic the ranges, where they are known.
    dims: Mapping[str, Size] = field(default_factory=dict)
    schedule: Mapping[str, str] = field(default_factory=dict)  # decisions, as text

    def rungs(self, cache: bool = True) -> list[Request]:
        """A request for each kernel: one, or those that the range of a dimension falls into (scalec.ladder), of each
        launch (scalec.launches)."""
        from scalec import api

        target = self.target or api.default_target()
        launches = api.launches(self.source, target, self.dims, self.schedule, cache=cache, made={})
        if len(launches.texts) > 1:
            every = [
                replace(
                    self, source=text, dims=launches.sizes(i, self.dims), schedule=launches.schedule(i, self.schedule)
                )
                for i, text in enumerate(launches.texts)
            ]
            return [rung for request in every for rung in request.rungs(cache)]
        if not ranges(self.dims):
            return [self]
        found = api.rungs(self.source, target, self.dims, self.schedule, cache=cache)
        dim = next(iter(ranges(self.dims)))
        return [replace(self, target=target, dims={**self.dims, dim: part}) for part in found]

    def kernel(self, on_drop: Callable[[Dropped], None]) -> Compiled:
        """The kernel, which the disk cache may have; the argument is that of scalec.api.compiled."""
        from scalec import api

        target = self.target or api.default_target()
        return api.compiled(self.source, target, dict(self.dims), dict(self.schedule), on_drop=on_drop)

    def compile(
        self,
        until: str,
        on_pass: Callable[[str, Callable[[], str], float], None] | None = None,
        on_drop: Callable[[Dropped], None] | None = None,
    ) -> Compilation:
        """Compiles; the arguments are those of scalec.compiler.compile_source."""
        from scalec.api import default_target
        from scalec.compiler import compile_source

        return compile_source(
            self.source,
            self.target or default_target(),
            dict(self.dims),
            dict(self.schedule),
            until=until,
            on_pass=on_pass,
            on_drop=on_drop,
        )


def stage_of(path: str | None) -> str:
    """The stage that an output file's suffix asks for; PTX where it asks for none."""
    if path:
        for stage, suffix in SUFFIXES.items():
            if path.endswith(suffix):
                return stage
    return "ptx"


def compile_program(
    request: Request,
    emit: Sequence[str],
    output: str | None,
    *,
    bundle: str | None = None,
    print_after: Sequence[str] = (),
    print_after_all: bool = False,
    time_passes: bool = False,
    cache: bool = True,
) -> None:
    """Compiles and writes each stage in `emit`; takes what the disk cache has of them.

    One stage goes to the file `output` or to stdout; several, or one where `output` is a folder, go to files of that
    folder named after the kernel. With `bundle` the kernel is also written there; if `emit` is empty, only there. A
    range of a dimension makes several kernels, whose files are named after their part of it.

    Raises:
        ScalecError: any refusal.
        OSError: a file cannot be read or written.
    """
    stages = list(dict.fromkeys(emit))
    if len(stages) > 1 and output in (None, "-"):
        raise ScalecError(f"{len(stages)} stages need a folder", got=", ".join(stages), fix="give -o DIR")
    if stages == ["cubin"] and output is None and sys.stdout.isatty():
        raise ScalecError("a cubin is binary: not written to a terminal", fix="give -o FILE, or -o -")

    shown = set(print_after)

    def on_pass(name: str, text: Callable[[], str], seconds: float) -> None:
        if print_after_all or name in shown:
            note(f"// ----- after {name}\n{text().rstrip()}")

    wanted = {*stages, *(["cubin"] if bundle else [])}
    cache = cache and wanted <= _KEPT and not (print_after or print_after_all or time_passes)
    rungs = request.rungs(cache) if wanted != {"scale"} else [request]
    if len(rungs) > 1 and stages and not _is_folder(output):
        raise ScalecError(
            f"{len(rungs)} kernels need a folder",
            got=", ".join(f"{name}={within}" for r in rungs for name, within in ranges(r.dims).items())
            or "; ".join(r.source for r in rungs),
            fix="give -o DIR/, or --bundle DIR",
        )
    every = []
    for rung in rungs:
        if cache:
            made = rung.kernel(note_dropped)
            tuned, dropped, schedule = made.tuned, made.spec.dropped, made.spec.schedule
        else:
            made = rung.compile(_until(wanted), on_pass, note_dropped)
            tuned, dropped, schedule = made.tuned.told if made.tuned else "", made.dropped, made.schedule
            if time_passes:
                _print_times(made)
        every.append(made)
        if tuned:
            note(f"note: a measured schedule ({tuned}); SCALEC_TUNING=off has the compiler choose")
        if dropped:
            note(f"note: the kernel has schedule {schedule}")
        part = "".join(f"-{name}{r.low}-{r.high}" for name, r in ranges(rung.dims).items()) if len(rungs) > 1 else ""
        for stage in stages:
            data = _stage(made, stage)
            if len(stages) > 1 or _is_folder(output):
                path = Path(str(output), (made.spec.entry if made.spec else "program") + part + SUFFIXES[stage])
                write_result(data, str(path))
                note(f"{path}")
            else:
                write_result(data, output)
    if bundle and len({rung.source for rung in rungs}) > 1:
        _write_sequence(request, bundle)
    elif bundle:
        _write_bundle(every, bundle)


def _is_folder(path: str | None) -> bool:
    return path not in (None, "-") and (str(path).endswith("/") or Path(str(path)).is_dir())


def _until(stages: Collection[str]) -> str:
    """What compile_source must be asked for, so that all of `stages` are there."""
    if set(stages) == {"scale"}:
        return "scale"
    return "nvvm" if "nvvm" in stages else "cubin"


def _stage(made: Compilation | Compiled, stage: str) -> str | bytes:
    if stage in ("cubin", "sass"):
        if made.cubin is None:
            raise ScalecError("the compiler made no cubin")
        if stage == "cubin":
            return made.cubin
        from scalec.commands.sass import disassemble

        return disassemble(made.cubin)
    return made.texts[stage]


def _print_times(made: Compilation) -> None:
    table = plain_table("stage", "ms", "%", right=("ms", "%"))
    total = sum(seconds for _, seconds in made.times)
    for name, seconds in made.times:
        table.add_row(name, f"{seconds * 1e3:.1f}", f"{100 * seconds / total if total else 0:.0f}")
    table.add_row("total", f"{total * 1e3:.1f}", "100")
    print_table(table, stderr=True)


def _write_sequence(request: Request, directory: str) -> None:
    """Adds a program of several launches to a bundle."""
    from scalec import api
    from scalec.runtime import bundle
    from scalec.runtime.sequence import Sequence

    sequence = api.compile(request.source, request.target, request.dims, request.schedule)
    assert isinstance(sequence, Sequence)  # as the request's rungs are several launches'
    bundle.write(directory, [sequence])
    provenance.write(directory)
    present = sum(len(p.kernels) for p in bundle.load(directory).values())
    note(f"{directory}: {sequence.name}, {present} in all")


def _write_bundle(every: Sequence[Compilation | Compiled], directory: str) -> None:
    """Adds kernels to a bundle; those there of the same program, sizes and target are replaced."""
    from scalec.runtime import bundle

    specs = [made.spec for made in every if made.spec is not None and made.cubin is not None]
    if len(specs) < len(every):
        raise ScalecError("the compiler made no cubin")
    first = specs[0]
    whole = {name: (first.ranges[name][0], specs[-1].ranges[name][1]) for name in first.ranges}

    def again(spec: KernelSpec) -> bool:
        """Whether a kernel is for what one of these is for, or for a part of the range that they are for."""
        same = (spec.source, spec.dims, spec.target) == (first.source, first.dims, first.target)
        within = spec.ranges.keys() == whole.keys() and all(
            low <= spec.ranges[name][0] and spec.ranges[name][1] <= high for name, (low, high) in whole.items()
        )
        return same and within

    bundle.write(directory, every, gone=again)
    provenance.write(directory)
    present = sum(len(p.kernels) for p in bundle.load(directory).values())
    note(f"{directory}: {first.entry}, {present} in all")
