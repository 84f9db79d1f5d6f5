"""Bundles: kernels in a directory, to run where there is no compiler.

    DIR/manifest.json    {"version": 1, "scalec": ..., "kernels": [{"name", "file", "sha256", "spec"}, ...]}
    DIR/C-3f2a91c0.cubin

Reading one needs the standard library; running it needs numpy and cuda-bindings.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from scalec import __version__
from scalec.abi import KernelSpec
from scalec.errors import ArgumentError, ScalecError
from scalec.runtime.device import Device
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel

VERSION = 1
MANIFEST = "manifest.json"


class HasCubin(Protocol):
    """A Kernel, a cache entry, a Compilation: anything with a spec and machine code."""

    @property
    def spec(self) -> Any: ...

    @property
    def cubin(self) -> Any: ...


def write(
    directory: str | os.PathLike[str],
    kernels: Iterable[HasCubin] | Mapping[str, HasCubin],
    *,
    gone: Callable[[KernelSpec], bool] = lambda spec: False,
) -> list[Path]:
    """Adds kernels to a bundle, made if there is none, and returns its files, the manifest last.

    A kernel replaces the one of the same name, target, schedule, fixed dims and ranges.

    Args:
        kernels: kernels, named by their entry function; or by name, where a mapping. Several specialisations of a
            program share a name.
        gone: which of the kernels there are taken out.

    Raises:
        ScalecError: no kernel, one without machine code, or a manifest that is not a bundle's.
    """
    folder = Path(directory)
    pairs: list[tuple[Any, Any]] = [*kernels.items()] if isinstance(kernels, Mapping) else [(None, k) for k in kernels]
    if not pairs:
        raise ScalecError("a bundle of no kernels", expected="at least one kernel")
    rows = _manifest(folder) if (folder / MANIFEST).exists() else []
    old = {row["file"] for row in rows}
    rows = [row for row in rows if not gone(_spec(folder, row))]
    programs: dict[str, str] = {row["name"]: row["spec"]["source"] for row in rows}
    folder.mkdir(parents=True, exist_ok=True)
    for given, kernel in pairs:
        if kernel.spec is None or not kernel.cubin:
            raise ScalecError("a kernel without machine code cannot be bundled", fix="compile it to cubin")
        name = given or _name(kernel.spec, programs)
        spec = json.loads(kernel.spec.to_json())
        digest = hashlib.sha256(kernel.cubin).hexdigest()
        tag = hashlib.sha256((digest + json.dumps(spec)).encode()).hexdigest()[:8]
        file = f"{''.join(c if c.isalnum() or c in '_-' else '_' for c in name)}-{tag}.cubin"
        _write(folder / file, kernel.cubin)
        row = {"name": name, "file": file, "sha256": digest, "spec": spec}
        rows = [r for r in rows if _which(r) != _which(row)] + [row]
    _write(
        folder / MANIFEST, json.dumps({"version": VERSION, "scalec": __version__, "kernels": rows}, indent=1).encode()
    )
    now = list(dict.fromkeys(row["file"] for row in rows))
    for file in old.difference(now):
        (folder / file).unlink(missing_ok=True)
    return [*(folder / file for file in now), folder / MANIFEST]


def _which(row: dict[str, Any]) -> tuple[Any, ...]:
    spec = row["spec"]
    sizes = sorted(spec["dims"].items(), key=str), sorted(spec.get("ranges", {}).items())
    return row["name"], spec["target"], spec["schedule"], sizes


def _manifest(folder: Path) -> list[dict[str, Any]]:
    """The rows of a bundle's manifest.

    Raises:
        ScalecError: none there, not a manifest, or one of another version.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        rows, version = manifest["kernels"], manifest["version"]
    except FileNotFoundError:
        raise ScalecError(
            f"no bundle in {folder}", expected=f"{folder / MANIFEST}", fix="scalec compile ... --bundle DIR"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ScalecError(f"{folder / MANIFEST} is not a bundle's manifest", got=repr(error)) from None
    if version != VERSION:
        raise ScalecError(f"{folder} is a bundle of version {version}", expected=f"version {VERSION}")
    return rows


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _name(spec: KernelSpec, programs: dict[str, str]) -> str:
    """The entry's name, with a number where another program of the bundle has it."""
    name, count = spec.entry, 1
    while programs.setdefault(name, spec.source) != spec.source:
        count += 1
        name = f"{spec.entry}_{count}"
    return name


def load(directory: str | os.PathLike[str], device: Device | None = None) -> Bundle:
    """Reads a bundle.

    Args:
        device: the machine to run on, instead of the GPU of each call's tensors.

    Raises:
        ScalecError: no bundle there, one of another version, or a file that is not what was written.
    """
    folder = Path(directory)
    programs: dict[str, list[Kernel]] = {}
    for row in _manifest(folder):
        programs.setdefault(row["name"], []).append(_kernel(folder, row, device))
    return Bundle({name: Program(name, kernels) for name, kernels in programs.items()})


def _kernel(folder: Path, row: dict[str, Any], device: Device | None) -> Kernel:
    path = folder / row["file"]
    try:
        cubin = path.read_bytes()
    except OSError as error:
        raise ScalecError(f"{path} cannot be read", got=str(error), fix="write the bundle again") from None
    digest = hashlib.sha256(cubin).hexdigest()
    if digest != row["sha256"]:
        raise ScalecError(
            f"{path} is damaged", got=f"sha256 {digest}", expected=f"sha256 {row['sha256']}", fix="write it again"
        )
    return Kernel(_spec(folder, row), cubin, device=device)


def _spec(folder: Path, row: dict[str, Any]) -> KernelSpec:
    try:
        return KernelSpec.from_json(json.dumps(row["spec"]))
    except ValueError as error:
        raise ScalecError(f"{folder / MANIFEST}: {error}", fix="write the bundle again with this scalec") from None


class Bundle(Mapping[str, Program]):
    """The programs of a bundle, by name; callable itself where there is only one."""

    def __init__(self, programs: Mapping[str, Program]) -> None:
        self._programs = dict(programs)

    def __getitem__(self, name: str) -> Program:
        try:
            return self._programs[name]
        except KeyError:
            raise KeyError(f"no kernel {name!r} in the bundle; it has {', '.join(self._programs)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)

    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs the bundle's only program; arguments are those of Kernel.__call__."""
        if len(self._programs) != 1:
            names = ", ".join(self._programs)
            raise ArgumentError(f"the bundle has {len(self._programs)} programs", expected=f"bundle[name]: {names}")
        return next(iter(self._programs.values()))(*operands, out=out, stream=stream, **named)

    def __repr__(self) -> str:
        return f"Bundle({', '.join(self._programs)})"
