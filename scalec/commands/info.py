"""`scalec targets` and `scalec env`: what scalec knows and where it stands."""

from __future__ import annotations

import platform
from importlib import metadata

from scalec.commands.output import console, plain_table, print_table
from scalec.errors import ScalecError
from scalec.targets import DEFAULT_TARGET, TARGETS

_PACKAGES = ("torch-mlir", "llvmlite", "nvidia-cuda-nvcc", "cuda-bindings", "torch", "numpy", "ml_dtypes")


def print_targets() -> None:
    """One line a target, on stdout."""
    table = plain_table(
        "target", "GPUs", "shared KB", "cluster", "tensor core operands", right=("shared KB", "cluster")
    )
    for t in TARGETS.values():
        operands = sorted({name for family in t.mma for name in family.operands})
        name = f"{t.name} (default)" if t.name == DEFAULT_TARGET else t.name
        table.add_row(
            name, ", ".join(t.devices), f"{t.shared_bytes / 1024:.0f}", str(t.max_cluster), ", ".join(operands)
        )
    print_table(table)


def print_env() -> None:
    """Environment variables with their values, then versions, on stdout."""
    from rich.markup import escape

    from scalec import env

    out = console()
    for setting in env.describe():
        value = escape(setting.value) if setting.value else "[dim](unset)[/dim]"
        out.print(f"[bold]{setting.name}[/bold] = {value}", markup=True)
        out.print(f"    {setting.doc}\n    default: {setting.default}\n    expected: {setting.expected}")
    out.print()
    table = plain_table("", "")
    table.show_header = False
    for name, value in versions():
        table.add_row(name, value)
    print_table(table)


def versions() -> list[tuple[str, str]]:
    """(what, version or why there is none) of Python, the packages that scalec uses, ptxas and the GPU."""
    rows = [("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return [*rows, ("ptxas", _ptxas()), ("GPU", _gpu())]


def _ptxas() -> str:
    from scalec.lowering import ptxas

    try:
        return f"{ptxas.version()} ({ptxas.find()})"
    except ScalecError as error:
        return error.message


def _gpu() -> str:
    from scalec.runtime import driver

    try:
        gpus = driver.gpus()
    except ScalecError as error:
        return f"none: {error.message}"
    return "; ".join(f"{g.name}, {g.sms} SMs, {g.target or 'no target'}" for g in gpus) or "none"
