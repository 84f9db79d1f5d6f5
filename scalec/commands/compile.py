"""`scalec compile`: a program to any of its stages, to files, or to a bundle."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scalec.bench import provenance
from scalec.commands.output import note, note_dropped, plain_table, print_table, write_result
from scalec.errors import ScalecError

if TYPE_CHECKING:
    from scalec.abi import Dropped
    from scalec.compiler import Compilation

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


@dataclass(frozen=True)
class Request:
    """What to compile.

    Attributes:
        source: the program.
        target: name of the target; scalec.api.default_target() if None.
        dims: sizes of dimensions to fix.
        schedule: decisions, as text.
    """

    source: str
    target: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    schedule: Mapping[str, str] = field(default_factory=dict)

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
) -> None:
    """Compiles and writes each stage in `emit`.

    One stage goes to the file `output` or to stdout; several, or one where `output` is a folder, go to files of that
    folder named after the kernel. With `bundle` the kernel is also written there; if `emit` is empty, only there.

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

    made = request.compile(_until([*stages, "cubin"] if bundle else stages), on_pass, note_dropped)
    if made.dropped:
        note(f"note: the kernel has schedule {made.schedule}")
    if time_passes:
        _print_times(made)
    for stage in stages:
        data = _stage(made, stage)
        if len(stages) > 1 or _is_folder(output):
            path = Path(str(output), _stem(made) + SUFFIXES[stage])
            write_result(data, str(path))
            note(f"{path}")
        else:
            write_result(data, output)
    if bundle:
        _write_bundle(made, bundle)


def _is_folder(path: str | None) -> bool:
    return path not in (None, "-") and (str(path).endswith("/") or Path(str(path)).is_dir())


def _stem(made: Compilation) -> str:
    return made.spec.entry if made.spec else "program"


def _until(stages: Sequence[str]) -> str:
    """What compile_source must be asked for, so that all of `stages` are there."""
    if set(stages) == {"scale"}:
        return "scale"
    return "nvvm" if "nvvm" in stages else "cubin"


def _stage(made: Compilation, stage: str) -> str | bytes:
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


def _write_bundle(made: Compilation, directory: str) -> None:
    """Adds the kernel to a bundle; one of the same program, sizes and target is replaced."""
    from scalec.runtime import bundle

    if made.spec is None or made.cubin is None:
        raise ScalecError("the compiler made no cubin")
    present = bundle.load(directory).values() if Path(directory, bundle.MANIFEST).exists() else ()
    identity = (made.spec.source, made.spec.dims, made.spec.target)
    kept = [k for p in present for k in p.kernels if (k.spec.source, k.spec.dims, k.spec.target) != identity]
    bundle.write(directory, [*kept, made])
    provenance.write(directory)
    note(f"{directory}: {made.spec.entry}, {len(kept) + 1} in all")
