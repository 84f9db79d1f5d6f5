"""Bundles: kernels in a directory, to run where there is no compiler.

    DIR/manifest.json    {"version": 2, "scalec": ..., "kernels": [{"name", "file", "sha256", "seal", "spec"}, ...],
                          "sequences": [{"name", "source", "launches", "operands", "results", "seal"}, ...]}
    DIR/C-3f2a91c0.cubin
    DIR/.lock            held while a process writes

`sha256` is the machine code's, `seal` the row's own: damage is found, not made on purpose (docs/security.md). Whoever
made a manifest, no file is opened, written or removed but plain files of the directory. Reading a bundle needs the
standard library; running it numpy and cuda-bindings.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from scalec import files, schema
from scalec.abi import KernelSpec
from scalec.errors import ArgumentError, FormatError, ScalecError, shown
from scalec.runtime import cubin as cubins
from scalec.runtime.device import Device
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence, kernels_of
from scalec.schema import matching, some
from scalec.suggestions import did_you_mean
from scalec.version import __version__

VERSION = 2
MANIFEST = "manifest.json"
LOCK = ".lock"
AGAIN = "write the bundle again"

Digest = Annotated[str, matching("[0-9a-f]{64}", "64 hexadecimal digits")]


@dataclass(frozen=True)
class Row:
    """A kernel of a manifest; its spec as JSON has it."""

    name: Annotated[str, matching(".+", "a name")]
    file: Annotated[str, matching("[A-Za-z0-9_-]+[.]cubin", "the plain name of a .cubin within the bundle")]
    sha256: Digest
    seal: Digest
    spec: dict[str, Any]

    @staticmethod
    def of(name: str, spec: KernelSpec, cubin: bytes) -> Row:
        described = json.loads(spec.to_json())
        digest = hashlib.sha256(cubin).hexdigest()
        seal = _seal(name, digest, described)
        plain = "".join(c if (c.isascii() and c.isalnum()) or c in "_-" else "_" for c in name)
        return Row(name, f"{plain[:100]}-{seal[:16]}.cubin", digest, seal, described)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What two kernels have in common of which a bundle has one."""
        spec = self.spec
        sizes = sorted(spec["dims"].items(), key=str), sorted(spec.get("ranges", {}).items())
        return self.name, spec["target"], spec.get("schedule", ""), sizes


@dataclass(frozen=True)
class Chain:
    """A program of several launches (scalec.runtime.sequence): the names of the kernels of each, in order; `turned` is
    Sequence's."""

    name: Annotated[str, matching(".+", "a name")]
    source: str
    launches: Annotated[tuple[str, ...], some]
    operands: tuple[str, ...]
    results: Annotated[tuple[str, ...], some]
    seal: Digest
    turned: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(name: str, sequence: Sequence, launches: Iterable[str]) -> Chain:
        operands, results = [tuple(t.name for t in ts) for ts in (sequence.spec.operands, sequence.spec.results)]
        chain = Chain(name, sequence.source, tuple(launches), operands, results, "", sequence.turned)
        return replace(chain, seal=chain.sealed())

    def sealed(self) -> str:
        """The seal that it should have."""
        turned = {"turned": self.turned} if self.turned else {}
        said = {"launches": self.launches, "of": self.operands, "to": self.results}
        return _seal(self.name, self.source, said | turned)


@dataclass(frozen=True)
class Manifest:
    """What a manifest says."""

    version: int
    scalec: str
    kernels: tuple[Row, ...]
    sequences: tuple[Chain, ...] = ()


def _seal(*row: Any) -> str:
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()


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

    A kernel replaces the one of the same name, target, schedule, fixed dims and ranges. One process writes at a time.

    Args:
        kernels: kernels, named by their entry function; or by name, where a mapping. Several specialisations of a
            program share a name.
        gone: which of the kernels there are taken out.

    Raises:
        ScalecError: no kernel, one without machine code, a manifest that is not a bundle's, or another process writes
            the bundle and does not end.
        OSError: a file cannot be written.
    """
    folder = Path(directory)
    pairs: list[tuple[Any, Any]] = [*kernels.items()] if isinstance(kernels, Mapping) else [(None, k) for k in kernels]
    if not pairs:
        got, fix = shown(kernels), "pass what scalec.compile returns: [kernel], or {name: kernel}"
        raise ScalecError("a bundle of no kernels", got=got, expected="at least one kernel", fix=fix)
    for kernel in (k for _, x in pairs for k in (x.kernels if isinstance(x, Sequence) else [x])):
        if kernel.spec is None or not kernel.cubin:
            expected, fix = "kernels that scalec.compile returns", "compile it to cubin"
            raise ScalecError("a kernel without machine code cannot be bundled", expected=expected, fix=fix)
        cubins.check(kernel.spec, kernel.cubin)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with files.locked(folder / LOCK):
            return _merge(folder, pairs, gone)
    except TimeoutError as error:
        raise ScalecError(
            f"another process writes the bundle {folder}",
            got=str(error.strerror),
            expected="one writer at a time",
            fix="try again when it has ended",
        ) from None


def _merge(folder: Path, pairs: list[tuple[Any, Any]], gone: Callable[[KernelSpec], bool]) -> list[Path]:
    there, chains = _rows(folder, _text(folder)) if os.path.lexists(folder / MANIFEST) else ([], [])
    rows = [row for row, spec in there if not gone(spec)]
    programs: dict[str, str] = {row.name: row.spec["source"] for row in rows} | {c.name: c.source for c in chains}
    for given, sequence in [(n, k) for n, k in pairs if isinstance(k, Sequence)]:
        pairs.remove((given, sequence))
        chain, launches = _chain(given or _name(sequence.spec, programs), sequence)
        chains = [c for c in chains if c.name != chain.name] + [chain]
        pairs += launches
    for given, kernel in pairs:
        row = Row.of(given or _name(kernel.spec, programs), kernel.spec, kernel.cubin)
        files.replace(folder / row.file, kernel.cubin)
        rows = [r for r in rows if r.identity != row.identity] + [row]
    names = {row.name for row in rows}
    chains = [c for c in chains if names.issuperset(c.launches)]
    manifest = Manifest(VERSION, __version__, tuple(rows), tuple(chains))
    files.replace(folder / MANIFEST, json.dumps(asdict(manifest), indent=1).encode())
    now = list(dict.fromkeys(row.file for row in rows))
    for file in {row.file for row, _ in there}.difference(now):
        with suppress(OSError):
            (folder / file).unlink()
    return [*(folder / file for file in now), folder / MANIFEST]


def _chain(name: str, sequence: Sequence) -> tuple[Chain, list[tuple[str, Kernel]]]:
    """How a bundle has a program of several launches: its row, and the kernels by name."""
    names = [f"{name}, launch {i}" for i in range(1, len(sequence.launches) + 1)]
    kernels = [(n, k) for n, x in zip(names, sequence.launches, strict=True) for k in kernels_of(x)]
    return Chain.of(name, sequence, names), kernels


def _text(folder: Path) -> bytes:
    """The bytes of a bundle's manifest.

    Raises:
        ScalecError: there is none, or it cannot be read.
    """
    try:
        return files.read(_within(folder, MANIFEST))
    except FileNotFoundError:
        raise ScalecError(
            f"no bundle in {folder}", expected=f"{folder / MANIFEST}", fix="scalec compile ... --bundle DIR"
        ) from None
    except (OSError, ValueError) as error:  # a path with a null character
        got = getattr(error, "strerror", "") or str(error)
        fix = "pass a folder that scalec compile --bundle wrote, and may be read"
        raise ScalecError(f"{str(folder)!r} cannot be read", got=got, expected="a bundle's folder", fix=fix) from None


def _rows(folder: Path, text: bytes) -> tuple[list[tuple[Row, KernelSpec]], list[Chain]]:
    """The rows of a bundle's manifest, each as it was written, and their specs; its programs of several launches.

    Raises:
        ScalecError: not a manifest, one of another version, or a damaged one.
    """
    try:
        document = schema.parse(text)
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is int and version != VERSION:
            raise ScalecError(f"{folder} is a bundle of version {version}", expected=f"version {VERSION}", fix=AGAIN)
        manifest = schema.read(Manifest, document)
        rows = manifest.kernels
        for i, row in enumerate(rows):
            if row.seal != _seal(row.name, row.sha256, row.spec):
                raise FormatError("a kernel's row that is damaged", path=f"kernels[{i}]")
        for i, chain in enumerate(manifest.sequences):
            if chain.seal != chain.sealed():
                raise FormatError("a sequence's row that is damaged", path=f"sequences[{i}]")
            if missing := set(chain.launches).difference(row.name for row in rows):
                raise FormatError(f"no kernel {missing.pop()!r}", path=f"sequences[{i}]")
        return [(row, KernelSpec.of(row.spec)) for row in rows], list(manifest.sequences)
    except FormatError as fault:
        raise _no_manifest(folder, str(fault)) from None


def _no_manifest(folder: Path, got: str) -> ScalecError:
    return ScalecError(
        f"{folder / MANIFEST} is not a bundle's manifest", got=got, expected="as `--bundle` writes it", fix=AGAIN
    )


def _within(folder: Path, name: str) -> str:
    """The path of a file of a bundle; one that links lead out of it is refused."""
    path, root = os.path.realpath(folder / name), os.path.realpath(folder)
    if not path.startswith(os.path.join(root, "")):
        expected, fix = "a file within its folder", "copy the file to its place"
        raise ScalecError(f"{folder / name} leads out of the bundle", got=path, expected=expected, fix=fix)
    return path


def _name(spec: KernelSpec, programs: dict[str, str]) -> str:
    """The entry's name, with a number where another program of the bundle has it."""
    name, count = spec.entry, 1
    while programs.setdefault(name, spec.source) != spec.source:
        count += 1
        name = f"{spec.entry}_{count}"
    return name


def load(directory: str | os.PathLike[str], device: Device | None = None) -> Bundle:
    """Reads a bundle: code that its first call runs, so from nobody but whom you trust (docs/security.md).

    Args:
        device: the machine to run on, instead of the GPU of each call's tensors.

    Raises:
        ArgumentError: `directory` is no path.
        ScalecError: no bundle there, one of another version, or a file that is not what was written.
    """
    if not isinstance(directory, (str, os.PathLike)):
        what, fix = f"the bundle is of type {type(directory).__qualname__}", "pass its folder: a text or pathlib.Path"
        raise ArgumentError(what, got=shown(directory), expected="a folder's path", fix=fix)
    folder = Path(directory)
    text = _text(folder)
    while True:
        try:
            return _bundle(folder, *_rows(folder, text), device)
        except ScalecError:
            before, text = text, _text(folder)
            if text == before:  # else another process wrote the bundle meanwhile, and removed what this one read of
                raise


def _bundle(folder: Path, rows: Iterable[tuple[Row, KernelSpec]], chains: list[Chain], device: Device | None) -> Bundle:
    programs: dict[str, list[Kernel]] = {}
    for row, spec in rows:
        programs.setdefault(row.name, []).append(_kernel(folder, row, spec, device))
    every = {name: Program(name, kernels) for name, kernels in programs.items()}
    parts = {name for chain in chains for name in chain.launches}
    made: dict[str, Program | Sequence] = {name: x for name, x in every.items() if name not in parts}
    for chain in chains:
        launches = [every[name] for name in chain.launches]
        try:
            made[chain.name] = Sequence(chain.source, launches, chain.operands, chain.results, chain.turned)
        except KeyError as error:
            got = f"{chain.name} has {error}, which no launch of it has"
            raise _no_manifest(folder, got) from None
    return Bundle(made)


def _kernel(folder: Path, row: Row, spec: KernelSpec, device: Device | None) -> Kernel:
    path = folder / row.file
    try:
        cubin = files.read(_within(folder, row.file))
    except OSError as error:
        got = error.strerror or repr(error)
        raise ScalecError(f"{path} cannot be read", got=got, expected="a cubin", fix=AGAIN) from None
    digest = hashlib.sha256(cubin).hexdigest()
    if digest != row.sha256:
        raise ScalecError(f"{path} is damaged", got=f"sha256 {digest}", expected=f"sha256 {row.sha256}", fix=AGAIN)
    try:
        cubins.check(spec, cubin)
    except FormatError as fault:
        expected = f"the kernel of {spec.entry!r} for {spec.target}"
        raise ScalecError(
            f"{path} is not what the manifest says of it", got=str(fault), expected=expected, fix=AGAIN
        ) from None
    return Kernel(spec, cubin, device=device)


class NoKernelError(ArgumentError, KeyError):
    """A name that a bundle does not have."""


class Bundle(Mapping[str, Program | Sequence]):
    """The programs of a bundle, by name; callable itself where there is only one."""

    def __init__(self, programs: Mapping[str, Program | Sequence]) -> None:
        self._programs = dict(programs)

    def __getitem__(self, name: str) -> Program | Sequence:
        if isinstance(name, str) and name in self._programs:
            return self._programs[name]
        fix = (
            did_you_mean(name, self._programs) if isinstance(name, str) else ""
        ) or "write its program into the bundle"
        raise NoKernelError(f"no kernel {shown(name)} in the bundle", expected=", ".join(self._programs), fix=fix)

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)

    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs the bundle's only program; arguments are those of Kernel.__call__."""
        if len(self._programs) != 1:
            names = ", ".join(self._programs)
            raise ArgumentError(
                f"the bundle has {len(self._programs)} programs",
                got="a call without a name",
                expected=f"bundle[name]: {names}",
                fix=f"bundle[{next(iter(self._programs), 'name')!r}](...)",
            )
        return next(iter(self._programs.values()))(*operands, out=out, stream=stream, **named)

    def __repr__(self) -> str:
        return f"Bundle({', '.join(self._programs)})"
