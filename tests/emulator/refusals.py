"""Which instructions ptxas refuses: the second opinion on what is legal."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from scalec.emulator.findings import Finding


def found(kind: str, call, *arguments) -> Finding:
    with pytest.raises(Finding) as caught:
        call(*arguments)
    assert caught.value.kind == kind
    return caught.value


def ptxas() -> Path:
    """The one of the test dependencies, or of this machine; skips the test where there is none."""
    wheels = Path(sysconfig.get_paths()["purelib"], "nvidia").glob("*/bin/ptxas")
    found = next(wheels, None) or shutil.which("ptxas")
    if found is None:
        pytest.skip("no ptxas")
    return Path(found)


def refused_lines(lines: Sequence[str], target: str, folder: Path) -> set[int]:
    """The indices of the instructions that ptxas refuses for a target; they may use %r0-%r129, %rd0-%rd3, %p0, %p1."""
    head = [".version 9.0", f".target {target}", ".address_size 64", ".visible .entry k() {"]
    head += [".reg .b32 %r<130>;", ".reg .b64 %rd<4>;", ".reg .pred %p<2>;"]
    source = folder / "lines.ptx"
    source.write_text("\n".join([*head, *lines, "ret;", "}", ""]))
    command = [ptxas(), f"-arch={target}", source, "-o", folder / "lines.cubin"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    refused = {int(n) - len(head) - 1 for n in re.findall(r"line (\d+); error", run.stdout + run.stderr)}
    assert bool(refused) == bool(run.returncode), run.stderr
    return refused
