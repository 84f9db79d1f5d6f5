"""The errors scalec raises. Each says what was found, what was expected and, where there is one, the fix."""

from __future__ import annotations

from dataclasses import dataclass


class ScalecError(Exception):
    """Base of every error that scalec raises on purpose.

    Args:
        message: one sentence: what is wrong, with the numbers in full.
        got: what was found.
        expected: what would have been accepted.
        fix: what the user can do about it.
    """

    def __init__(self, message: str, *, got: str = "", expected: str = "", fix: str = "") -> None:
        self.message, self.got, self.expected, self.fix = message, got, expected, fix
        super().__init__(message)

    def __str__(self) -> str:
        notes = (("got", self.got), ("expected", self.expected), ("fix", self.fix))
        return "\n".join([self.message, *(f"  {label}: {text}" for label, text in notes if text)])


@dataclass(frozen=True)
class Place:
    """Where in a program's text: `width` columns of one line, from `column` (both counted from 1)."""

    name: str
    line: int
    column: int
    width: int
    text: str


class SourceError(ScalecError):
    """A program text that scalec cannot accept, with the place in it.

    Args:
        place: where; None where the fault is in no line of the text (an unknown name in `dims`).
    """

    def __init__(
        self, message: str, *, place: Place | None = None, got: str = "", expected: str = "", fix: str = ""
    ) -> None:
        super().__init__(message, got=got, expected=expected, fix=fix)
        self.place = place

    def __str__(self) -> str:
        at = self.place
        if at is None:
            return super().__str__()
        carets = " " * (at.column - 1) + "^" * max(at.width, 1)
        first, _, notes = super().__str__().partition("\n")
        head = f"{at.name}:{at.line}:{at.column}: {first}\n  {at.text}\n  {carets}"
        return f"{head}\n{notes}" if notes else head


class UnsupportedError(ScalecError):
    """A valid program that the chosen target (or this version of scalec) cannot run."""


class ScheduleError(ScalecError):
    """A schedule that cannot exist on the target: its message carries the numbers needed and available."""


class ToolchainError(ScalecError):
    """LLVM or ptxas refused a kernel, or produced one that breaks our rules (spills, serialised wgmma)."""


class SlowKernelError(ToolchainError):
    """ptxas made a kernel, but spilled registers or serialised the tensor core: the schedule does not fit.

    Args:
        spilled: registers of a thread that went to memory.
    """

    def __init__(self, message: str, *, got: str = "", expected: str = "", fix: str = "", spilled: int = 0) -> None:
        super().__init__(message, got=got, expected=expected, fix=fix)
        self.spilled = spilled


class ArgumentError(ScalecError):
    """A call argument that does not fit the kernel: named, refused before launch."""


class DeviceError(ScalecError):
    """No usable GPU, or the CUDA driver returned an error."""
