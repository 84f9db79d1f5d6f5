"""Bundles: kernels in a directory, to run where there is no compiler.

    DIR/manifest.json    {"version": 1, "scalec": ..., "kernels": [{"name", "file", "sha256", "spec"}, ...]}
    DIR/C-3f2a91c0.cubin

Reading one needs the standard library; running it needs numpy and cuda-bindings.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from scalec import __version__
from scalec.abi import KernelSpec
from scalec.errors import ArgumentError, ScalecError
from scalec.runtime import checks, torch_calls
from scalec.runtime.device import Device
from scalec.runtime.kernel import Kernel
from scalec.runtime.stored import stored_shape
from scalec.runtime.tensors import adopt
from scalec.targets import TARGETS

VERSION = 1
MANIFEST = "manifest.json"
_CHOSEN = 1024  # shapes that one program remembers the kernel of


class HasCubin(Protocol):
    """A Kernel, a cache entry, a Compilation: anything with a spec and machine code."""

    @property
    def spec(self) -> Any: ...

    @property
    def cubin(self) -> Any: ...


def write(directory: str | os.PathLike[str], kernels: Iterable[HasCubin] | Mapping[str, HasCubin]) -> list[Path]:
    """Adds kernels to a bundle, made if there is none, and returns its files, the manifest last.

    A kernel replaces the one of the same name, target, schedule and fixed dims.

    Args:
        kernels: kernels, named by their entry function; or by name, where a mapping. Several specialisations of a
            program share a name.

    Raises:
        ScalecError: no kernel, one without machine code, or a manifest that is not a bundle's.
    """
    folder = Path(directory)
    pairs: list[tuple[Any, Any]] = [*kernels.items()] if isinstance(kernels, Mapping) else [(None, k) for k in kernels]
    if not pairs:
        raise ScalecError("a bundle of no kernels", expected="at least one kernel")
    rows = _manifest(folder) if (folder / MANIFEST).exists() else []
    old = {row["file"] for row in rows}
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
    return row["name"], spec["target"], spec["schedule"], sorted(spec["dims"].items(), key=str)


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
    try:
        spec = KernelSpec.from_json(json.dumps(row["spec"]))
    except ValueError as error:
        raise ScalecError(f"{folder / MANIFEST}: {error}", fix="write the bundle again with this scalec") from None
    return Kernel(spec, cubin, device=device)


class Program:
    """The kernels of one program: specialisations by dims and target, called as one.

    Attributes:
        name: its name in the bundle.
        kernels: the specialisations, those that fix most dims first.
    """

    def __init__(self, name: str, kernels: Iterable[Kernel]) -> None:
        self.name = name
        self.kernels = sorted(kernels, key=lambda k: -sum(size is not None for size in k.spec.dims.values()))
        self._tensors = [i for i, t in enumerate(self.kernels[0].spec.operands) if not t.scalar]
        self._targets = len({k.spec.target for k in self.kernels})
        self._chosen: dict[tuple[Any, ...], Kernel] = {}  # by GPUs and shapes

    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs the most specialised kernel that these tensors fit; arguments are those of Kernel.__call__.

        Raises:
            ArgumentError: none fits, or an argument fits no kernel.
            DeviceError: no usable GPU, or no kernel for it.
        """
        kernel = self.kernels[0] if len(self.kernels) == 1 else self._choice(operands, out, named)
        return kernel(*operands, out=out, stream=stream, **named)

    def __repr__(self) -> str:
        return f"Program({self.name}: {', '.join(map(repr, self.kernels))})"

    def _choice(self, operands: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Kernel:
        """The kernel for these arguments, as found for other tensors of torch's with their shapes on their GPU."""
        if named or len(operands) < len(self.kernels[0].spec.operands) or torch_calls.tracing():
            return self._fitting(operands, out, named)
        tensors = [operands[i] for i in self._tensors]
        try:
            key = (*[t.get_device() for t in tensors], *[t.shape for t in tensors])
            found = self._chosen.get(key)
        except (AttributeError, TypeError):  # not torch's tensors, or their sizes symbols
            return self._fitting(operands, out, named)
        if self._targets > 1 and key[0] < 0:  # the current GPU decides
            return self._fitting(operands, out, named)
        if found is None:
            found = self._fitting(operands, out, named)
            if len(self._chosen) >= _CHOSEN:
                self._chosen.clear()
            self._chosen[key] = found
        return found

    def _fitting(self, operands: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Kernel:
        spec = self.kernels[0].spec
        values, _ = checks.bind(spec, operands, out, named)
        tensors = [(t, value) for t, value in zip(spec.operands, values, strict=True) if not t.scalar]
        shapes = {t.name: _shape(t.name, value) for t, value in tensors}
        fits = [k for k in self.kernels if _fits(k.spec, shapes)]
        if not fits:
            sizes = "; ".join(_dims(k.spec) for k in self.kernels)
            seen = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            raise ArgumentError(
                f"no kernel of {self.name} is compiled for these shapes", got=seen, expected=f"one of: {sizes}"
            )
        targets = {k.spec.target for k in fits}
        if len(targets) == 1:
            return fits[0]
        capability = _capability(fits[0], values)
        runs = (k for k in fits if (row := TARGETS.get(k.spec.target)) is None or row.capability == capability)
        return next(runs, fits[0])


def _dims(spec: KernelSpec) -> str:
    fixed = ", ".join(f"{name} = {size}" for name, size in spec.dims.items() if size is not None)
    return f"{fixed or 'any size'} ({spec.target})"


def _shape(name: str, value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    if shape is None:
        shape = adopt(name, value, -1, lambda _: ("cuda", -1)).shape
    return tuple(int(e) for e in shape)


def _fits(spec: KernelSpec, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether every size fixed at compile time is the one of these shapes."""
    for t in spec.operands:
        shape = shapes.get(t.name, ())
        if t.scalar or t.layout == "blocked" or len(shape) != len(t.shape):
            continue
        known = {name: size for name, size in spec.dims.items() if size is not None}
        wanted = stored_shape(t, {e.dim: 0 for e in t.shape} | known)
        fixed = [not e.dim or e.dim in known for e in t.shape]
        if any(f and want != have for f, want, have in zip(fixed, wanted, shape, strict=True)):
            return False
    return True


def _capability(kernel: Kernel, values: Sequence[Any]) -> tuple[int, int]:
    if kernel.fixed is not None:
        return kernel.fixed.capability
    from scalec.runtime import driver

    ordinals = (v.get_device() for v in values if hasattr(v, "get_device"))
    ordinal = next((i for i in ordinals if i >= 0), None)
    return driver.facts(driver.current_ordinal() if ordinal is None else ordinal).capability


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
