"""PTX to cubin: finds ptxas, runs it, judges what it says.

A spill, a local-memory stack frame, or one of the C75xx remarks by which ptxas says that it serialised wgmma or
ignored setmaxnreg, makes a kernel slow in silence (20 to 60 %): each is an error here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scalec import env
from scalec.errors import SlowKernelError, ToolchainError

_REMARK = re.compile(r"\(?C75\d\d\)?")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class Assembled:
    """What ptxas made: the cubin, and the registers of a thread at entry."""

    cubin: bytes
    registers: int


def find() -> Path:
    """ptxas: SCALEC_PTXAS, else the one of the nvidia-cuda-nvcc wheel, else the one on PATH.

    Raises:
        ToolchainError: none found.
    """
    override = env.PTXAS.get()
    return Path(override) if override else _installed()


@cache
def _installed() -> Path:
    for site in {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}:
        for found in sorted(Path(site, "nvidia").glob("*/bin/ptxas"), reverse=True):
            return found
    on_path = shutil.which("ptxas")
    if on_path is None:
        raise ToolchainError("ptxas not found", fix="pip install nvidia-cuda-nvcc, or set SCALEC_PTXAS")
    return Path(on_path)


def version() -> str:
    """ptxas's version, e.g. "13.0.88".

    Raises:
        ToolchainError: none found, or what is found is no ptxas.
    """
    path = find()
    try:
        text = subprocess.run([path, "--version"], capture_output=True, check=False).stdout.decode(errors="replace")
    except OSError as error:
        raise _cannot_run(path, error) from None
    found = re.search(r"V(\d[\d.]*)", text)
    if found is None:
        raise ToolchainError(f"{path} is no ptxas", got=text.strip()[:80] or "no output of --version", fix=_fix())
    return found.group(1)


def _cannot_run(path: Path, error: OSError) -> ToolchainError:
    return ToolchainError(f"cannot run ptxas: {path}: {error.strerror or error}", fix=_fix())


def _fix() -> str:
    return f"unset {env.PTXAS.name}, or name a ptxas there" if env.PTXAS.get() else "pip install nvidia-cuda-nvcc"


@contextmanager
def scratch() -> Iterator[str]:
    """A folder that is gone behind the body.

    Raises:
        ToolchainError: the folder of temporary files takes no more.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="scalec-", ignore_cleanup_errors=True) as folder:
            yield folder
    except OSError as error:
        raise ToolchainError(
            f"cannot write temporary files: {error.strerror or error}",
            got=error.filename or "",
            fix="make room there, or set TMPDIR to another folder",
        ) from None


# ptxas 12.9 lets a warp tell that it has an accumulator before its last loads have come: it waits for them where they
# are used alone (11 of 50 kernels; 13.0 and 13.5 wait: tests/lowering/under_way.py).
_WAIT, _KEEPS_WAITS = "tcgen05.wait::ld", 13


@cache
def _major(_program: Path) -> int:
    return int(version().partition(".")[0])


# In place of a spill, where a kernel says how many registers a thread has (setmaxnreg): ptxas 13.0 and 13.5 on sm_100a,
# 128x64 beside a result quantised by 1x32 and a reduction of each group's rows.
_NO_REGISTERS = "(C7600)"


def assemble(ptx: str, arch: str, what: str) -> Assembled:
    """Assembles `ptx` for `arch`.

    Args:
        what: the schedule, for messages.

    Raises:
        SlowKernelError: ptxas spilled, or serialised the tensor core's work.
        ToolchainError: ptxas failed, or is too old for what is assembled.
    """
    program = find()
    if _WAIT in ptx and _major(program) < _KEEPS_WAITS:
        raise ToolchainError(
            f"ptxas {version()} may drop waits for loads from tensor memory",
            got=str(program),
            expected=f"ptxas {_KEEPS_WAITS}.0 or later for {arch}",
            fix=_fix(),
        )
    with scratch() as folder:
        source, output = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        try:
            run = subprocess.run(
                [program, f"-arch={arch}", "-v", "-O3", source, "-o", output],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise _cannot_run(program, error) from None
        log = (run.stdout + run.stderr).replace(folder + "/", "")
        if run.returncode < 0:
            raise ToolchainError(
                f"{program} was killed by signal {-run.returncode} while it assembled the kernel of schedule {what}",
                got=log.strip()[:200] or "no output",
                fix="compile again with more memory, or fewer compilations at a time",
            )
        if run.returncode and _NO_REGISTERS in log:
            raise SlowKernelError(
                f"ptxas found no registers for the kernel of schedule {what}",
                got=next(line.strip() for line in log.splitlines() if _NO_REGISTERS in line),
                expected="registers for all that a thread holds",
                fix="a smaller tile, or more registers for the producers or the consumers (registers=...)",
            )
        if run.returncode:
            said = log.strip() or f"exit status {run.returncode} of {program}, and no output"
            raise ToolchainError(f"ptxas refused the kernel of schedule {what}:\n{said}")
        cubin = output.read_bytes() if output.exists() else b""
    if not cubin:
        raise ToolchainError(f"{program} made no cubin", got=log.strip()[:200] or "no output", fix=_fix())
    judge(log, what)
    registers = _REGISTERS.search(log)
    return Assembled(cubin, int(registers.group(1)) if registers else 0)


def judge(log: str, what: str) -> None:
    """Refuses a kernel whose ptxas log tells of spills or of serialised or ignored instructions.

    Raises:
        SlowKernelError: with the offending lines and the schedule.
    """
    bad = [line.strip() for line in log.splitlines() if _REMARK.search(line)]
    spills = [m for m in _SPILL.finditer(log) if any(int(g) for g in m.groups())]
    bad += [m.group(0) for m in spills]
    if bad:
        raise SlowKernelError(
            f"ptxas made a slow kernel of schedule {what}",
            got="; ".join(bad),
            expected="no spill, no stack frame, no C75xx remark",
            fix="a smaller tile, or more registers for the producers or the consumers (registers=...)",
            spilled=max((int(m.group(2)) // 4 for m in spills), default=0),
        )
