"""What a fault is: a change of a kernel's PTX, and the findings that fit it."""

from __future__ import annotations

from dataclasses import dataclass

WRONG = "wrong"
EARLY = ("in-flight", "race", "uninitialised")


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        what: for people.
        program: whose PTX it is put into.
        old: a regular expression; its match number `at` becomes `new`.
        kinds: the findings that fit.
    """

    what: str
    program: str
    old: str
    new: str
    kinds: tuple[str, ...]
    at: int = 0
