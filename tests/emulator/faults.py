"""What a fault is: a change of a kernel's PTX, and the findings that fit it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scalec.emulator.findings import Finding, PtxSyntaxError
from scalec.errors import DeviceError

WRONG = "wrong"
EARLY = ("in-flight", "race", "uninitialised")


@dataclass(frozen=True)
class Fault:
    """One fault."""

    what: str  # for people
    program: str  # whose PTX it is put into
    old: str  # a regular expression; its match number `at` becomes `new`
    new: str
    kinds: tuple[str, ...]  # the findings that fit
    at: int = 0

    def put_into(self, ptx: str) -> str:
        """The PTX with the fault."""
        found = list(re.finditer(self.old, ptx))
        assert found, f"no match of {self.old!r}"
        match = found[self.at]
        changed = ptx[: match.start()] + match.expand(self.new) + ptx[match.end() :]
        assert changed != ptx
        return changed


def kind_of(error: DeviceError) -> str:
    """The kind of the finding that stopped a launch."""
    cause = error.__cause__
    assert isinstance(cause, Finding), cause
    assert not isinstance(cause, PtxSyntaxError), cause
    return cause.kind
