"""The disk cache of compiled kernels.

An entry is one file, named by its key: sha256 over the program's text, target, dims, schedule, the toolchain's versions
and scalec's own source files. It is written beside its place and renamed into it, so that a reader sees all or nothing;
it carries a checksum, so that a damaged one is compiled again and replaced; a file lock lets one of several processes
compile. A directory that cannot be written costs the cache, never the kernel.

    scalec-cache 1 <sha256 of the rest>\\n
    {"spec": ..., "cubin": bytes, "ptx": bytes, ...}\\n
    <cubin><ptx>

A hit reads one file: it imports neither MLIR nor llvmlite nor filelock, and lists directories rather than asking
importlib.metadata (40 ms).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

from scalec import env
from scalec.abi import KernelSpec
from scalec.sizes import Size

_MAGIC = b"scalec-cache 1 "
_SUFFIX = ".kernel"
_NOTE = ".note"
_DISTRIBUTIONS = ("llvmlite", "mlir", "mlir_python_bindings", "nvidia_cuda_nvcc", "torch_mlir")
_LOCK_SECONDS = 300.0  # a compilation takes about one; after this a waiter compiles for itself


class Compiled(NamedTuple):
    """What a compilation leaves behind: all that a Kernel needs."""

    spec: KernelSpec
    cubin: bytes
    ptx: str


class Entry(NamedTuple):
    """One entry, for `scalec cache`: its key, program, target, fixed dims, bytes on disk, time of writing."""

    key: str
    source: str
    target: str
    dims: dict[str, int]
    size: int
    written: float


# ----------------------------------------------------------------------------------------------------------------- key


def normalised(source: str) -> str:
    """The program without comments, blank lines and the spaces that mean nothing."""
    lines = (" ".join(line.partition("#")[0].split()) for line in source.splitlines())
    return "\n".join(line for line in lines if line)


def key_of(
    source: str, target: str, dims: Mapping[str, Size], schedule: Mapping[str, str], tuning: str = "", kind: str = ""
) -> str:
    """The key of a compilation, or of what else `kind` names: 64 hexadecimal digits.

    `tuning` says what the tuning database has to say of it (scalec.tuning.database.digest).
    """
    what = [normalised(source), target, sorted(dims.items()), sorted(schedule.items()), fingerprint(), tuning, kind]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


@cache
def _own_files() -> str:
    """scalec's own source files: names, sizes and times of change."""
    found: list[tuple[str, int, int]] = []
    folders = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                elif entry.name.endswith((".py", ".lark")):
                    facts = entry.stat()
                    found.append((entry.path, facts.st_size, facts.st_mtime_ns))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


@cache
def _distributions() -> list[str]:
    """Name and version of each package of the toolchain, by its .dist-info folder."""
    found = set()
    for folder in sys.path:
        if not folder.endswith(("site-packages", "dist-packages")):
            continue
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        infos = (name.removesuffix(".dist-info") for name in names if name.endswith(".dist-info"))
        found.update(name for name in infos if name.partition("-")[0].lower() in _DISTRIBUTIONS)
    return sorted(found)


def _ptxas() -> tuple[str, int, int] | None:
    """The ptxas of SCALEC_PTXAS, or of PATH where no wheel brings one: a file that no version number names."""
    path: str | None = env.PTXAS.get()
    if not path and not any(name.startswith("nvidia_cuda_nvcc") for name in _distributions()):
        path = shutil.which("ptxas")
    if not path:
        return None
    try:
        facts = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, facts.st_size, facts.st_mtime_ns


def fingerprint() -> list[Any]:
    """What made the kernel, besides the program: the toolchain's versions and scalec's own files."""
    return [_own_files(), _distributions(), _ptxas(), list(sys.version_info[:2])]


# --------------------------------------------------------------------------------------------------------------- files


def directory() -> str:
    """The cache's directory: SCALEC_CACHE_DIR, else the platform's."""
    chosen = env.CACHE_DIR.get()
    return os.path.expanduser(chosen) if chosen else _platform_directory()


@cache
def _platform_directory() -> str:
    from platformdirs import user_cache_dir

    return user_cache_dir("scalec", appauthor=False)


def _path(key: str) -> str:
    return os.path.join(directory(), key + _SUFFIX)


def get(key: str) -> Compiled | None:
    """The entry of a key, or None if there is none or it is damaged."""
    try:
        with open(_path(key), "rb") as file:
            return decode(file.read())
    except (OSError, ValueError):
        return None


def encode(compiled: Compiled, **facts: Any) -> bytes:
    """An entry's bytes."""
    ptx = compiled.ptx.encode()
    head = {**facts, "spec": compiled.spec.to_json(), "cubin": len(compiled.cubin), "ptx": len(ptx)}
    payload = json.dumps(head).encode() + b"\n" + compiled.cubin + ptx
    return _MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def decode(data: bytes) -> Compiled:
    """Reads what `encode` made.

    Raises:
        ValueError: not an entry, or a damaged one.
    """
    head, body = _checked(data)
    cubin, ptx = int(head["cubin"]), int(head["ptx"])
    return Compiled(KernelSpec.from_json(head["spec"]), body[:cubin], body[cubin : cubin + ptx].decode())


def _checked(data: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(_MAGIC) + 64 + 1
    payload = data[start:]
    digest = hashlib.sha256(payload).hexdigest().encode()
    if data[:start] != _MAGIC + digest + b"\n":
        raise ValueError("damaged cache entry")
    head, _, body = payload.partition(b"\n")
    return json.loads(head), body


def put(key: str, compiled: Compiled) -> bool:
    """Writes an entry; says whether it could."""
    return _store(_path(key), encode(compiled, written=time.time()))


def _store(path: str, data: bytes) -> bool:
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        _warn(error)
        with suppress(OSError):
            os.unlink(temporary)
        return False
    return True


_warned: set[str] = set()


def _warn(error: OSError) -> None:
    where = directory()
    if where not in _warned:
        _warned.add(where)
        warnings.warn(
            f"scalec cannot write its cache in {where} ({error.strerror or error}): kernels are compiled anew; "
            f"set {env.CACHE_DIR.name} to a directory that can be written",
            RuntimeWarning,
            stacklevel=4,
        )


def remember(key: str, make: Callable[[], Any]) -> Any:
    """What is noted under a key, as JSON has it; where there is nothing, what `make` gives, which is then noted."""
    path = os.path.join(directory(), key + _NOTE)
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError):
        made = make()
    _store(path, json.dumps(made).encode())
    return made


def get_or_compile(key: str, compile_it: Callable[[], Compiled]) -> Compiled:
    """The entry of a key; where there is none, of several processes that ask one compiles and the others wait."""
    found = get(key)
    if found is not None:
        return found
    with _locked(key) as locked:
        found = get(key) if locked else None
        if found is None:
            found = compile_it()
            put(key, found)
    return found


@contextmanager
def _locked(key: str) -> Iterator[bool]:
    """Holds the lock of a key (256 locks serve all keys); yields whether it could be had."""
    from filelock import FileLock, Timeout

    folder = os.path.join(directory(), "locks")
    lock = None
    try:
        os.makedirs(folder, exist_ok=True)
        lock = FileLock(os.path.join(folder, key[:2] + ".lock"), timeout=_LOCK_SECONDS)
        lock.acquire()
    except Timeout:
        lock = None
    except (OSError, NotImplementedError) as error:
        lock = None
        _warn(error if isinstance(error, OSError) else OSError(str(error)))
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()


# ------------------------------------------------------------------------------------------------------------ contents


def _files() -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory()) as found:
            return sorted((e for e in found if e.name.endswith((_SUFFIX, _NOTE, ".tmp"))), key=lambda e: e.name)
    except OSError:
        return []


def entries() -> list[Entry]:
    """Every entry that is whole, newest first."""
    found = []
    for file in _files():
        try:
            with open(file.path, "rb") as opened:
                data = opened.read()
            head, _ = _checked(data)
            spec = KernelSpec.from_json(head["spec"])
        except (OSError, ValueError):
            continue
        dims = {name: size for name, size in spec.dims.items() if size is not None}
        key = file.name.removesuffix(_SUFFIX)
        found.append(Entry(key, spec.source, spec.target, dims, len(data), float(head.get("written", 0))))
    return sorted(found, key=lambda e: -e.written)


def size() -> int:
    """Bytes that the entries take, damaged ones too."""
    return sum(file.stat().st_size for file in _files())


def clear() -> int:
    """Removes every entry; says how many files went. Locks stay: another process may hold one."""
    gone = 0
    for file in _files():
        try:
            os.unlink(file.path)
            gone += 1
        except OSError:
            continue
    return gone
