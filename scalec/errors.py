"""The errors scalec raises. Each says what was found, what was expected and, where there is one, the fix."""

from __future__ import annotations

from dataclasses import dataclass

NAME = "<program>"
"""What messages call a program's text that comes from no file."""

SHOWN = 200
"""Characters of a longer line that a message shows, around its place."""


def shown(value: object) -> str:
    """A caller's value as a message has it; its type where it cannot be written, as an integer of 4,301 digits."""
    try:
        return f"{value!r:.80}"
    except Exception:  # whatever an object of a library's raises
        return f"a value of type {type(value).__qualname__} that cannot be written"


@dataclass(frozen=True)
class Place:
    """Where in a program's text: `width` columns of one line, from `column` (both counted from 1).

    `text` is the line, "" while it is not at hand.
    """

    name: str
    line: int
    column: int
    width: int
    text: str


class ScalecError(Exception):
    """Base of every error that scalec raises on purpose.

    Args:
        message: one sentence: what is wrong, with the numbers in full.
        got: what was found.
        expected: what would have been accepted.
        fix: what the user can do about it.
        place: where in the program's text; None where the fault is in no line of it, or it is not known.
    """

    def __init__(
        self, message: str, *, got: str = "", expected: str = "", fix: str = "", place: Place | None = None
    ) -> None:
        self.message, self.got, self.expected, self.fix, self.place = message, got, expected, fix, place
        super().__init__(message)

    def __str__(self) -> str:
        notes = (("got", self.got), ("expected", self.expected), ("fix", self.fix))
        head, at = self.message, self.place
        if at is not None:
            head = f"{at.name}:{at.line}:{at.column}: {head}"
            if at.text:
                first = max(0, at.column - 1 - SHOWN // 2) if len(at.text) > SHOWN else 0
                text, width = at.text[first : first + SHOWN], max(1, min(at.width, SHOWN))
                head += f"\n  {text}\n  {' ' * (at.column - 1 - first)}{'^' * width}"
        return "\n".join([head, *(f"  {label}: {text}" for label, text in notes if text)])


class SourceError(ScalecError):
    """A program text that scalec cannot accept, with the place in it; None for an unknown name in `dims`."""


class UnsupportedError(ScalecError):
    """A valid program that the chosen target (or this version of scalec) cannot run, with the place where known."""


class ApartError(UnsupportedError):
    """A program that no one kernel computes, and two launches do: where a result is cut off (scalec.frontend.launches).

    Args:
        result: the name of the result that a launch of its own quantises, or reduces what groups have.
    """

    def __init__(
        self, message: str, *, result: str, got: str = "", expected: str = "", fix: str = "", place: Place | None = None
    ) -> None:
        super().__init__(message, got=got, expected=expected, fix=fix, place=place)
        self.result = result


class SumApartError(UnsupportedError):
    """A product that no kernel adds to another, where it stands; a launch of its own may have it
    (scalec.frontend.cut_sums)."""


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


class FormatError(ScalecError, ValueError):
    """A file, or a document, that is not what scalec writes.

    Args:
        what: what is wrong, or the value that is.
        wanted: what it should have been.
        path: where in the document.
    """

    def __init__(self, what: str, *, wanted: str = "", path: str = "") -> None:
        self.what, self.wanted, self.path = what, wanted, path
        place = f"{path.removeprefix('.')}: " if path else ""
        super().__init__(place + what + (f", expected {wanted}" if wanted else ""))

    def under(self, step: str) -> FormatError:
        """The same fault, its path from one level further up."""
        return FormatError(self.what, wanted=self.wanted, path=step + self.path)
