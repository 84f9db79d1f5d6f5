"""A cubin's machine code as text, through nvdisasm or cuobjdump."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

from scalec.errors import ToolchainError
from scalec.lowering.ptxas import scratch

_TOOLS = {"nvdisasm": ["-c"], "cuobjdump": ["-sass"]}


def find(*names: str) -> tuple[Path, list[str]]:
    """A disassembler (of those named, if any are) and its options: from the CUDA wheels, else from PATH.

    Raises:
        ToolchainError: none is installed.
    """
    sites = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}
    wanted = names or tuple(_TOOLS)
    for tool, options in ((name, _TOOLS[name]) for name in wanted):
        wheels = [p for site in sorted(sites) for p in sorted(Path(site, "nvidia").glob(f"*/bin/{tool}"), reverse=True)]
        on_path = shutil.which(tool)
        for found in [*wheels, *([Path(on_path)] if on_path else [])]:
            return found, options
    raise ToolchainError("no disassembler", expected=" or ".join(wanted), fix="pip install 'scalec[sass]'")


def disassemble(cubin: bytes, *, encoding: bool = False) -> str:
    """SASS of a cubin; with `encoding`, in nvdisasm's form with the 128 bits of each instruction beside it.

    Raises:
        ToolchainError: no disassembler, or it refused the cubin.
    """
    tool, options = find("nvdisasm") if encoding else find()
    options = [*options, "-hex"] if encoding else options
    with scratch() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [tool, *options, path], capture_output=True, encoding="utf-8", errors="replace", check=False
            )
        except OSError as error:
            raise ToolchainError(f"{tool} cannot be run", got=error.strerror or repr(error)) from None
    if done.returncode:
        raise ToolchainError(f"{tool.name} refused the cubin: {done.stderr.strip()}")
    return done.stdout
