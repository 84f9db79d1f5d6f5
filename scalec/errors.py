"""The errors scalec raises. Each says what was found, what was expected and, where there is one, the fix."""

from __future__ import annotations


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


class SourceError(ScalecError):
    """A program text that scalec cannot accept; the front end fills in the place."""


class UnsupportedError(ScalecError):
    """A valid program that the chosen target (or this version of scalec) cannot run."""


class ScheduleError(ScalecError):
    """A schedule that cannot exist on the target: its message carries the numbers needed and available."""


class ToolchainError(ScalecError):
    """LLVM or ptxas refused a kernel, or produced one that breaks our rules (spills, serialised wgmma)."""


class ArgumentError(ScalecError):
    """A call argument that does not fit the kernel: named, refused before launch."""


class DeviceError(ScalecError):
    """No usable GPU, or the CUDA driver returned an error."""
