"""Where a result comes from: date, machine, versions, commit."""

from __future__ import annotations

import datetime
import json
import subprocess
from functools import cache
from pathlib import Path

from scalec import files, schema
from scalec.errors import FormatError, ScalecError
from scalec.version import __version__

FILE = "provenance.json"
"""Beside a bundle's manifest: what compiled it."""


def of_compiler() -> dict[str, str]:
    """Version and commit of this scalec; the commit ends in "+" where the tree has local changes."""
    return {"version": __version__, "commit": _commit()}


def _commit() -> str:
    folder = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "-uno", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write(directory: str | Path) -> None:
    """Notes in a bundle what compiled it."""
    files.replace(Path(directory, FILE), json.dumps(of_compiler(), indent=1).encode() + b"\n")


def read(directory: str | Path) -> dict[str, str]:
    """What compiled a bundle, as `write` noted it; that of this scalec where it did not.

    Raises:
        ScalecError: what is there is no such note.
    """
    path = Path(directory, FILE)
    try:
        return schema.read(dict[str, str], schema.parse(files.read(path)))
    except FileNotFoundError:
        return of_compiler()
    except (OSError, FormatError) as error:
        raise ScalecError(f"{path} does not say what compiled the bundle", got=str(error), fix="remove it") from None


def of_machine() -> dict[str, str]:
    """Date (UTC), GPU, driver and torch."""
    import torch

    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver(),
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
    }


@cache
def driver() -> str:
    """The version of the NVIDIA driver; "unknown" where there is none."""
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
