"""`scalec opt`: passes on a module given as text."""

from __future__ import annotations

from collections.abc import Sequence

from scalec.commands.output import write_result
from scalec.commands.program import read_text
from scalec.targets import DEFAULT_TARGET


def optimise(file: str, passes: Sequence[str], target: str | None, output: str | None) -> None:
    """Runs `passes` on the module in `file` ("-": standard input) and writes it.

    Raises:
        ScalecError: an invalid module, no such pass or target, or a pass's refusal.
        OSError: the file cannot be read.
    """
    from scalec.passes import pipeline

    text = read_text(file)
    write_result(pipeline.opt(text, list(passes), target or DEFAULT_TARGET, "<stdin>" if file == "-" else file), output)
