"""Schedules that were measured: which is fastest for a program at a size of N and K and a range of M.

    {"version": 1, "entries": [{"target": "sm_90a", "program": "...", "n": 7168, "k": 2048, "m": [1, 16],
      "given": {}, "schedule": {"tile": "128x16x128", ...}, "facts": {"us": 7.1, "gpu": "NVIDIA H200", ...}}, ...]}

Those that ship with the package lie in data/; a user's own, which `scalec tune` writes, win over them. The compiler
asks before it chooses a tile (passes/choose/recall_tuned.py). Reading needs the standard library alone: a hit in the
disk cache asks for `digest` and imports no compiler.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from scalec import env, files, schema
from scalec.abi import Positive
from scalec.errors import FormatError, ScalecError
from scalec.schema import ordered
from scalec.sizes import Range

VERSION = 1
SHIPPED = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Entry:
    """A schedule that was the fastest of those measured.

    Attributes:
        target: a row of scalec.targets.
        program: what the program is, names apart (scalec.measured.key).
        n, k: sizes.
        m: the range of M that it is for.
        given: fields that the program or its user had decided.
        schedule: fields of the winner, as text; the passes decide the others.
        facts: of the measurement: "us" and "default_us" (medians: of the winner, and of what the compiler chose by
            itself), "at" (the M that was measured), "gpu", "driver", "date", "commit".
    """

    target: str
    program: str
    n: Positive
    k: Positive
    m: Annotated[Range, ordered]
    given: dict[str, str]
    schedule: dict[str, str]
    facts: dict[str, str | float] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What two entries for the same thing have in common: the newer replaces the older."""
        return self.target, self.program, self.n, self.k, self.m, tuple(sorted(self.given.items()))

    @property
    def text(self) -> str:
        """The winner's fields as a `with` clause writes them."""
        return ", ".join(f"{name}={value}" for name, value in self.schedule.items())

    @property
    def told(self) -> str:
        """Where it comes from, in words."""
        facts = self.facts
        where = ", ".join(str(facts[name]) for name in ("of", "gpu", "date") if facts.get(name))
        return f"{facts.get('us', '?')} us at {facts.get('at', '?')} rows" + (f", {where}" if where else "")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "m": list(self.m)}


@dataclass(frozen=True)
class _Document:
    """What a file says."""

    version: int
    entries: tuple[Entry, ...]


def read(path: str | os.PathLike[str]) -> list[Entry]:
    """The entries of a file; none where there is no file.

    Raises:
        ScalecError: it cannot be read, is no database, or one of another version.
    """
    try:
        document = schema.parse(files.read(path))
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is int and version != VERSION:
            raise ScalecError(
                f"{path} is a tuning database of version {version}",
                expected=f"version {VERSION}",
                fix="tune anew into another file, or set SCALEC_TUNING=off",
            )
        return list(schema.read(_Document, document).entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ScalecError(
            f"{path} cannot be read as a tuning database",
            got=error.strerror or repr(error),
            fix="name another file in SCALEC_TUNING, or set SCALEC_TUNING=off",
        ) from None
    except FormatError as fault:
        raise ScalecError(
            f"{path} is no tuning database",
            got=str(fault),
            fix="set SCALEC_TUNING=off, or to a file that `scalec tune` wrote",
        ) from None


def merge(old: Iterable[Entry], new: Iterable[Entry]) -> list[Entry]:
    """The entries of both; a new one replaces the old one for the same thing."""
    made = {e.identity: e for e in (*old, *new)}
    return sorted(made.values(), key=lambda e: e.identity)


def write(path: str | os.PathLike[str], change: Iterable[Entry], *, gone: Iterable[Entry] = ()) -> None:
    """Adds entries to a file, made if there is none, and takes those of `gone` out; one process at a time.

    Raises:
        OSError: it cannot be written.
        ScalecError: what is there is no database.
    """
    file = Path(path).resolve()  # where that is a link, what it leads to is written
    file.parent.mkdir(parents=True, exist_ok=True)
    with files.locked(f"{file}.lock"):
        dropped = {e.identity for e in gone}
        kept = [e for e in merge(read(file), change) if e.identity not in dropped]
        text = json.dumps({"version": VERSION, "entries": [e.to_json() for e in kept]}, indent=1) + "\n"
        files.replace(file, text.encode())


# ------------------------------------------------------------------------------------------------------------- look-ups


def user_file() -> Path:
    """The user's file: what SCALEC_TUNING names, else one in the user's data directory of the platform."""
    named = env.TUNING.get()
    return Path(os.path.expanduser(named)) if named not in ("", "off") else _platform_file()


@cache
def _platform_file() -> Path:
    from platformdirs import user_data_dir

    return Path(user_data_dir("scalec", appauthor=False)) / "tuning.json"


def sources() -> list[Path]:
    """The files that are asked, in this order: the user's, then those shipped. None where SCALEC_TUNING=off.

    A file in the user's data directory that this process may not read (the home of another user, in a container) costs
    its schedules, never the kernel; one that SCALEC_TUNING names must be readable.
    """
    named = env.TUNING.get()
    if named == "off":
        return []
    own = [user_file()] if named or os.access(user_file(), os.R_OK) else []
    return [*own, *sorted(SHIPPED.glob("*.json"))]


def entries() -> list[list[Entry]]:
    """The entries of each of `sources`."""
    return [list(_read(path, *_state(path))) for path in sources()]


def _state(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
        return facts.st_mtime_ns, facts.st_size
    except OSError:
        return 0, 0


@cache
def _read(path: Path, when: int, size: int) -> tuple[Entry, ...]:
    return tuple(read(path))


def find(
    files: Sequence[Sequence[Entry]], target: str, program: str, sizes: tuple[int, int, int], given: Mapping[str, str]
) -> Entry | None:
    """The entry for a program at sizes (M, N, K) with these fields decided: of the first file that has one, the one of
    the narrowest range."""
    m, n, k = sizes
    for file in files:
        found = [
            e
            for e in file
            if (e.target, e.program, e.n, e.k) == (target, program, n, k) and e.m.has(m) and e.given == dict(given)
        ]
        if found:
            return min(found, key=lambda e: e.m.high - e.m.low)
    return None


def relevant(target: str, sizes: Iterable[int]) -> list[list[Entry]]:
    """The entries that a program on `target` might get, some of whose dimensions have these fixed sizes."""
    known = set(sizes)
    return [[e for e in file if e.target == target and {e.n, e.k} <= known] for file in entries()]


def digest(target: str, sizes: Iterable[int]) -> str:
    """What the database may say of such a program, for the keys of the disk cache; "" where it says nothing."""
    found = relevant(target, sizes)
    if not any(found):
        return ""
    text = json.dumps([[e.to_json() for e in file] for file in found], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
