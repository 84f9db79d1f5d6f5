"""Files that others may have written: read only where they are files, written whole or not at all, locked.

The standard library alone; filelock is imported where a lock is taken.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

MOST = 1 << 28
"""Bytes of the largest file that is read; the largest cubin that was seen has 2^18."""

LOCK_SECONDS = 60.0
"""What is written under a lock takes milliseconds."""


@contextmanager
def opened(path: str | os.PathLike[str], most: int = MOST) -> Iterator[BinaryIO]:
    """Opens a file to read. Never waits: what is no regular file (a FIFO, a device, a folder) is refused.

    Raises:
        OSError: there is none, it cannot be read, it is no regular file, or it has more than `most` bytes.
    """
    # O_NONBLOCK: to open a FIFO that nobody writes would wait; of a regular file it changes nothing
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(_file(os.open(path, flags)), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        if facts.st_size > most:
            raise OSError(errno.EFBIG, f"{facts.st_size} bytes; at most {most} are read", os.fspath(path))
        yield file


def _file(descriptor: int) -> int:
    """The descriptor, which is closed where it is a folder's: fdopen refuses that without closing it."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return descriptor


def read(path: str | os.PathLike[str], most: int = MOST) -> bytes:
    """The bytes of a file; raises what `opened` does."""
    with opened(path, most) as file:
        return file.read(most)


def replace(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> None:
    """Writes a file beside its place and renames it into it: who reads sees what was there, or all of what is now.

    Args:
        mode: permissions, less those that the process's umask takes.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    temporary = f"{os.fspath(path)}.{os.urandom(8).hex()}{TEMPORARY}"
    # O_EXCL: never through a link that somebody left at that name
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


TEMPORARY = ".tmp"
"""Suffix of what `replace` has not renamed yet: it stays where a process was killed."""


@contextmanager
def locked(path: str | os.PathLike[str], timeout: float = LOCK_SECONDS) -> Iterator[None]:
    """Holds a lock among processes and threads: a file, made if there is none, that stays.

    Raises:
        TimeoutError: another holds it for `timeout` seconds.
        OSError: it cannot be made, or what is there is no regular file.
    """
    from filelock import FileLock, Timeout

    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):  # filelock before 3.20.1 empties what a link there leads to
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    lock = FileLock(os.fspath(path), timeout=timeout)
    try:
        lock.acquire()
    except Timeout:
        reason = f"another process has held this lock for {timeout:.0f} s"
        raise TimeoutError(errno.ETIMEDOUT, reason, os.fspath(path)) from None
    except NotImplementedError as error:  # a file system without locks
        raise OSError(errno.ENOTSUP, str(error) or "no locks here", os.fspath(path)) from None
    try:
        yield
    finally:
        lock.release()
