"""`scalec cache`: the disk cache of compiled kernels."""

from __future__ import annotations

import datetime

from scalec.commands.output import note, plain_table, print_table


def print_entries() -> None:
    """One line a kernel on stdout, newest first; the sum on stderr."""
    from scalec.runtime import cache

    entries = cache.entries()
    table = plain_table("key", "written", "KB", "target", "sizes", "program", right=("KB",))
    for e in entries:
        written = datetime.datetime.fromtimestamp(e.written).strftime("%Y-%m-%d %H:%M")
        sizes = ",".join(f"{name}={size}" for name, size in e.dims.items())
        table.add_row(e.key[:12], written, f"{e.size / 1024:.0f}", e.target, sizes, " ".join(e.source.split()))
    if entries:
        print_table(table)
    note(_summary())


def print_summary() -> None:
    """How many kernels there are, what they take, what they may take, and where, on stdout."""
    print(_summary())


def _summary() -> str:
    from scalec import env
    from scalec.runtime import cache

    kernels, size = cache.usage()
    plural = "" if kernels == 1 else "s"
    bound = f"of at most {env.CACHE_LIMIT.get() / 2**20:.0f} MB ({env.CACHE_LIMIT.name})"
    return f"{kernels} kernel{plural}, {size / 2**20:.1f} MB {bound} in {cache.directory()}"


def print_path() -> None:
    """The cache's folder on stdout."""
    from scalec.runtime import cache

    print(cache.directory())


def clear() -> None:
    """Removes every kernel; says on stderr how many."""
    from scalec.runtime import cache

    gone = cache.clear()
    note(f"removed {gone} kernel{'' if gone == 1 else 's'} from {cache.directory()}")
