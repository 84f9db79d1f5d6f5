"""The disk cache of compiled kernels.

An entry is one file, named by its key: sha256 over the program's text, target, dims, schedule, the toolchain's versions
and scalec's own source files. It is written beside its place and renamed into it, so that a reader sees all or nothing;
it carries its key and a checksum, so that one that is damaged, or lies under another's name, is compiled again and
replaced; a file lock lets one of several processes compile. A directory that cannot be written costs the cache, never
the kernel; one that others can write is not used at all: who writes an entry decides what runs (docs/security.md).

    scalec-cache 2 <sha256 of the rest>\n
    {"key": ..., "spec": ..., "cubin": bytes, "ptx": bytes, ...}\n
    <cubin><ptx>

Entries that were not used for longest go when all of them take more than SCALEC_CACHE_LIMIT. A hit reads one file: it
imports neither MLIR nor llvmlite nor filelock, and lists directories rather than asking importlib.metadata (40 ms).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar

from scalec import env, files, schema
from scalec.abi import Count, KernelSpec
from scalec.errors import FormatError
from scalec.runtime import cubin as cubins
from scalec.schema import within
from scalec.sizes import Size

T = TypeVar("T")

_MAGIC = b"scalec-cache 2 "
_SUFFIX = ".kernel"
_NOTE = ".note"
_DISTRIBUTIONS = ("llvmlite", "mlir", "mlir_python_bindings", "nvidia_cuda_nvcc", "torch_mlir")
_LOCK_SECONDS = 300.0  # a compilation takes about one; after this a waiter compiles for itself
_HOUR = 3600.0  # a file that is being written is renamed within a second; that an entry was used is noted so often


class Compiled(NamedTuple):
    """What a compilation leaves behind: all that a Kernel needs; `tuned` says where a measured schedule came from, in
    words, "" where there was none."""

    spec: KernelSpec
    cubin: bytes
    ptx: str
    tuned: str = ""

    @property
    def texts(self) -> dict[str, str]:
        """The stages that are kept, as a Compilation has them."""
        return {"ptx": self.ptx}


@dataclass(frozen=True)
class _Head:
    """The first line of an entry: bytes of the machine code and of the PTX behind it, the spec as JSON has it."""

    key: str
    written: Annotated[float, within(0, 1 << 37)]  # seconds: years of four digits
    cubin: Count
    ptx: Count
    tuned: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class _Note:
    """What a note holds."""

    key: str
    value: Any


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

    `tuning` says what the tuning database has to say of it (scalec.measured.database.digest).
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
    """The entry of a key, or None if there is none, it is damaged, or who wrote it is not to be trusted."""
    try:
        return decode(_read(_path(key)), key)
    except (OSError, FormatError):
        return None


def encode(key: str, compiled: Compiled) -> bytes:
    ptx, spec = compiled.ptx.encode(), json.loads(compiled.spec.to_json())
    head = _Head(key, time.time(), len(compiled.cubin), len(ptx), compiled.tuned, spec)
    return _sealed(json.dumps(asdict(head)).encode() + b"\n" + compiled.cubin + ptx)


def decode(data: bytes, key: str) -> Compiled:
    """Reads what `encode` made.

    Raises:
        FormatError: not an entry, a damaged one, that of another key, or a kernel that is not what its spec says.
    """
    head, body = _opened(data)
    if head.key != key or len(body) != head.cubin + head.ptx:
        raise FormatError("a cache entry in the wrong place")
    spec, cubin = KernelSpec.of(head.spec), body[: head.cubin]
    cubins.check(spec, cubin)
    try:
        return Compiled(spec, cubin, body[head.cubin :].decode(), head.tuned)
    except UnicodeDecodeError:
        raise FormatError("a cache entry whose PTX is no text") from None


def _sealed(payload: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def _payload(data: bytes) -> bytes:
    start = len(_MAGIC) + 64 + 1
    if data != _sealed(data[start:]):
        raise FormatError("damaged cache entry")
    return data[start:]


def _opened(data: bytes) -> tuple[_Head, bytes]:
    head, _, body = _payload(data).partition(b"\n")
    return schema.read(_Head, schema.parse(head)), body


def _read(path: str) -> bytes:
    """The bytes of a file of the cache, which is then one that was used lately.

    Raises:
        OSError: none there, no regular file, or one that another user may have written.
    """
    _check_directory()
    with files.opened(path) as file:
        facts = os.fstat(file.fileno())
        fault = _distrust(facts)
        if fault:
            raise PermissionError(fault)
        if time.time() - facts.st_mtime > _HOUR:
            with suppress(OSError):  # of a cache that can only be read
                os.utime(path)
        return file.read()


def _distrust(facts: os.stat_result) -> str:
    """Why what lies there may be another user's; "" where it is not."""
    if not hasattr(os, "geteuid"):
        return ""
    if facts.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {facts.st_uid}"
    return f"others can write it (mode {stat.S_IMODE(facts.st_mode):o})" if facts.st_mode & 0o022 else ""


def _check_directory() -> None:
    """Refuses the cache's directory where another user may have put entries there.

    Raises:
        PermissionError: so it is; said once.
        OSError: there is no directory.
    """
    where = directory()
    facts = os.stat(where)
    if not stat.S_ISDIR(facts.st_mode):
        _warn(
            f"scalec has no cache: {where} is no directory; kernels are compiled anew; set {env.CACHE_DIR.name} to a "
            f"directory, or {env.CACHE.name}=0 if that is meant"
        )
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), where)
    fault = _distrust(facts)
    if fault:
        _warn(
            f"scalec does not use its cache in {where}: {fault}, and who writes an entry decides what runs; kernels "
            f"are compiled anew; chmod go-w {where}, or set {env.CACHE_DIR.name} to a directory of your own"
        )
        raise PermissionError(fault)


def put(key: str, compiled: Compiled) -> bool:
    """Writes an entry; says whether it could."""
    done = _store(_path(key), encode(key, compiled))
    if done:
        _trim(env.CACHE_LIMIT.get())
    return done


def _store(path: str, data: bytes) -> bool:
    try:
        _make_directory()
        files.replace(path, data, 0o644)  # whatever the umask: one that others can write would not be read
    except OSError as error:
        _warn_unwritable(error)
        return False
    return True


def _make_directory() -> None:
    os.makedirs(directory(), mode=0o700, exist_ok=True)
    _check_directory()


_warned: set[str] = set()


def _warn(text: str) -> None:
    where = directory()
    if where not in _warned:
        _warned.add(where)
        warnings.warn(text, RuntimeWarning, stacklevel=5)


def _warn_unwritable(error: OSError) -> None:
    _warn(
        f"scalec cannot write its cache in {directory()} ({error.strerror or error}): kernels are compiled anew; "
        f"set {env.CACHE_DIR.name} to a directory that can be written"
    )


def noted(key: str, kind: type[T]) -> T | None:
    """What is noted under a key, of type `kind` (scalec.schema); None where there is nothing."""
    try:
        note = schema.read(_Note, schema.parse(_payload(_read(os.path.join(directory(), key + _NOTE)))))
        return schema.read(kind, note.value) if note.key == key else None
    except (OSError, FormatError):
        return None


def remember(key: str, kind: type[T], make: Callable[[], T]) -> T:
    """As `noted`; where there is nothing, what `make` gives, which is then noted."""
    if (found := noted(key, kind)) is not None:
        return found
    made = make()
    _store(
        os.path.join(directory(), key + _NOTE),
        _sealed(json.dumps({"key": key, "value": made}, default=asdict).encode()),
    )
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
    with ExitStack() as stack:
        try:
            stack.enter_context(files.locked(_lock(key[:2]), _LOCK_SECONDS))
        except TimeoutError:
            yield False
            return
        except OSError as error:
            _warn_unwritable(error)
            yield False
            return
        yield True


def _lock(name: str) -> str:
    """The path of a lock, in a folder that is there."""
    _make_directory()
    folder = os.path.join(directory(), "locks")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, name + ".lock")


def _trim(limit: int) -> None:
    """Removes what writers that died left, and where the entries take more than `limit` bytes, those that were not used
    for longest, down to nine tenths: so not every writer does."""
    with suppress(OSError), files.locked(_lock("trim"), 0):  # another does it already
        now, total, found = time.time(), 0, []
        for file, facts in _files():
            if file.endswith(files.TEMPORARY):
                if now - facts.st_mtime > _HOUR:
                    _remove(file)
            else:
                total += facts.st_size
                found.append((facts.st_mtime, facts.st_size, file))
        if total <= limit:
            return
        for _, size, file in sorted(found):
            if total <= limit * 9 // 10:
                break
            total -= size * _remove(file)


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------ contents


def _files() -> list[tuple[str, os.stat_result]]:
    """Path and facts of what the cache wrote, by name; locks are not among them."""
    found = []
    with suppress(OSError), os.scandir(directory()) as listed:
        for file in listed:
            if file.name.endswith((_SUFFIX, _NOTE, files.TEMPORARY)):
                with suppress(FileNotFoundError):  # another process removed it
                    found.append((file.path, file.stat(follow_symlinks=False)))
    return sorted(found, key=lambda f: f[0])


def entries() -> list[Entry]:
    """Every entry that is whole, newest first."""
    found = []
    for path, facts in _files():
        if not path.endswith(_SUFFIX):
            continue
        try:
            head, _ = _opened(files.read(path))
            spec = KernelSpec.of(head.spec)
        except (OSError, FormatError):
            continue
        dims = {name: size for name, size in spec.dims.items() if size is not None}
        found.append(Entry(head.key, spec.source, spec.target, dims, facts.st_size, head.written))
    return sorted(found, key=lambda e: -e.written)


def usage() -> tuple[int, int]:
    """How many kernels there are, and the bytes that all takes, damaged ones and notes too."""
    every = _files()
    return sum(path.endswith(_SUFFIX) for path, _ in every), sum(facts.st_size for _, facts in every)


def clear() -> int:
    """Removes every entry; says how many kernels went. Locks stay: another process may hold one."""
    return sum(_remove(path) and path.endswith(_SUFFIX) for path, _ in _files())
