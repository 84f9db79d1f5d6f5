"""Every environment variable that scalec reads: one typed field each, listed by `scalec env`.

A variable is read when it is asked for, never at import, so a test or a notebook may set it late.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from scalec.errors import ScalecError
from scalec.suggestions import did_you_mean


class Variable(NamedTuple):
    """One environment variable.

    Attributes:
        name: its name.
        default: its value where it is unset or empty, for people.
        expected: what it may be set to, for people.
        doc: what it does.
        parse: text to value; raises ValueError, with a suggestion if there is one, on what it cannot read. It is given
            "" where the variable is unset.
    """

    name: str
    default: str
    expected: str
    doc: str
    parse: Callable[[str], Any]

    @property
    def text(self) -> str:
        """What the environment says, "" where it says nothing."""
        return os.environ.get(self.name, "").strip()

    def get(self) -> Any:
        """The value.

        Raises:
            ScalecError: it is set to what `parse` cannot read.
        """
        text = self.text
        try:
            return self.parse(text)
        except ValueError as error:
            raise ScalecError(
                f"the environment variable {self.name} cannot be {text!r}",
                got=f"{self.name}={text}",
                expected=self.expected,
                fix=str(error) or f"unset {self.name} for the default ({self.default})",
            ) from None


class Setting(NamedTuple):
    """A variable as it stands now, for `scalec env`."""

    name: str
    value: str
    default: str
    expected: str
    doc: str


def _one_of(text: str, *values: str) -> str:
    if text not in ("", *values):
        raise ValueError(did_you_mean(text, values))
    return text


def _off(text: str) -> bool:
    return _one_of(text, "0", "1") == "1"


def _device(text: str) -> str:
    return _one_of(text, "cuda", "emulator")


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _bytes(text: str) -> int:
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
    if not text:
        return _UNITS["G"]
    if not (number.isascii() and number.isdigit() and len(number) < 16 and unit.upper() in _UNITS):
        raise ValueError
    return int(number) * _UNITS[unit.upper()]


CACHE_DIR = Variable(
    "SCALEC_CACHE_DIR",
    default="the user's cache directory of the platform, /scalec",
    expected="a directory that nobody else can write; it is created when the first kernel is stored",
    doc="where compiled kernels are kept between processes",
    parse=str,
)
CACHE = Variable(
    "SCALEC_CACHE",
    default="1",
    expected="0 or 1",
    doc="0 compiles every kernel anew and stores none",
    parse=lambda text: _one_of(text, "0", "1") != "0",
)
CACHE_LIMIT = Variable(
    "SCALEC_CACHE_LIMIT",
    default="1G",
    expected="bytes, or K, M, G or T of them, e.g. 500M",
    doc="what the kernels that are kept may take; those that were not used for longest go",
    parse=_bytes,
)
TARGET = Variable(
    "SCALEC_TARGET",
    default="the target of the current GPU, or scalec.targets.DEFAULT_TARGET without one",
    expected="a target that `scalec targets` lists, e.g. sm_90a",
    doc="the target to compile for where none is named",
    parse=str,
)
DEVICE = Variable(
    "SCALEC_DEVICE",
    default="the GPU, or the emulator where there is none",
    expected="cuda or emulator",
    doc="what kernels run on",
    parse=_device,
)
PTXAS = Variable(
    "SCALEC_PTXAS",
    default="ptxas of the nvidia-cuda-nvcc wheel, or else the one on PATH",
    expected="the path of a ptxas executable",
    doc="the assembler to use",
    parse=str,
)

TUNING = Variable(
    "SCALEC_TUNING",
    default="tuning.json in the user's data directory of the platform, /scalec",
    expected="off, or the file of a tuning database",
    doc="measured schedules, asked before those that ship with scalec; off asks neither",
    parse=str,
)
CHECK = Variable(
    "SCALEC_CHECK",
    default="0 (the emulator always checks)",
    expected="0 or 1",
    doc="1 reads index tensors before each launch, which waits for the GPU, and refuses what no kernel may be given:"
    " to find mistakes with; asked when a kernel is first called with tensors of their shapes",
    parse=_off,
)

FIELDS: tuple[Variable, ...] = (CACHE_DIR, CACHE, CACHE_LIMIT, TARGET, DEVICE, PTXAS, TUNING, CHECK)


def describe() -> list[Setting]:
    """Every variable with its present text ("" where unset), in the order of FIELDS."""
    return [Setting(v.name, v.text, v.default, v.expected, v.doc) for v in FIELDS]


def unknown() -> list[str]:
    """A sentence for each variable of the environment that is named as scalec's are and is none of them."""
    known = [v.name for v in FIELDS]
    return [
        f"there is no environment variable {name}: " + (did_you_mean(name, known) or "see `scalec env`")
        for name in sorted(os.environ)
        if name.startswith("SCALEC_") and name not in known
    ]
