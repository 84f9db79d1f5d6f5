"""`scalec.compile` and `scalec.load`."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, overload

from scalec import env
from scalec.abi import Dropped
from scalec.errors import ArgumentError, ToolchainError, shown
from scalec.launches import Launches, may_be_several
from scalec.measured import database
from scalec.runtime import cache as disk
from scalec.runtime.bundle import Bundle
from scalec.runtime.bundle import load as load
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence
from scalec.sizes import MOST, Range, Size, fixed, parse_size, ranges
from scalec.targets import DEFAULT_TARGET, get_target

__all__ = ["Bundle", "Kernel", "Program", "compile", "default_target", "load"]


@overload
def compile(
    source: str,
    target: str | None = None,
    dims: Mapping[str, int] | None = None,
    schedule: Mapping[str, Any] | None = None,
    cache: bool = True,
    tuning: bool = True,
) -> Kernel: ...


@overload
def compile(
    source: str,
    target: str | None = None,
    dims: Mapping[str, Any] | None = None,
    schedule: Mapping[str, Any] | None = None,
    cache: bool = True,
    tuning: bool = True,
) -> Kernel | Program | Sequence: ...


def compile(
    source: str,
    target: str | None = None,
    dims: Mapping[str, Any] | None = None,
    schedule: Mapping[str, Any] | None = None,
    cache: bool = True,
    tuning: bool = True,
) -> Kernel | Program | Sequence:
    """Compiles a program to a callable kernel, or takes it from the disk cache.

    Where a dimension has a range, the result is a Program: kernels for parts of the range, called as one. There are as
    many as there are schedules; a call's tensors decide which runs. A program that takes several launches (results
    quantised by whole rows that no tile has) is a Sequence of these, called as one.

    Args:
        source: the program, e.g. "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)".
        target: a row of scalec.targets, e.g. "sm_90a"; see `default_target` if None.
        dims: sizes to fix, 0 too, e.g. {"n": 7168, "k": 2048}; the others may differ from call to call. One may have a
            range, e.g. {"m": "1:8192"}, {"m": (1, 8192)} or {"m": [1, 8192]}.
        schedule: decisions over those of the compiler and of `with`, e.g. {"tile": "128x128x128", "stages": 5}.
        cache: whether the disk cache is read and written (SCALEC_CACHE=0 turns it off for all).
        tuning: whether measured schedules are used (scalec.measured.database; SCALEC_TUNING=off turns it off for all).

    Raises:
        SourceError: the program is wrong, with line and caret.
        ArgumentError: an argument of this function is of another kind.
        UnsupportedError: the target cannot run it.
        ScheduleError: the schedule cannot exist, with the numbers.
        ToolchainError: LLVM or ptxas refused it.
    """
    for sentence in env.unknown():
        warnings.warn(sentence, stacklevel=2)
    _check_kind("source", source, str, "a program's text, as 'C[m,n] = A[m,k]@B[n,k]'")
    if target is not None:
        _check_kind("target", target, str, "a target's name, as 'sm_90a'")
    for flag, value in (("cache", cache), ("tuning", tuning)):
        _check_kind(flag, value, bool, "True or False")
    name = get_target(target).name if target is not None else default_target()
    sizes = {dim: _given(dim, size) for dim, size in _items("dims", dims, "{'k': 2048}")}
    decisions = {field: _text(field, value) for field, value in _items("schedule", schedule, "{'stages': 5}")}

    def launch(source: str, sizes: Mapping[str, Size], decisions: Mapping[str, str]) -> Kernel | Program:
        def one(dims: Mapping[str, Size]) -> Kernel:
            made = known.pop(_key(source, name, dims, decisions, tuning), None)
            made = made or compiled(source, name, dims, decisions, cache=cache, tuning=tuning)
            return Kernel(made.spec, made.cubin, ptx=made.ptx)

        if not ranges(sizes):
            return one(sizes)
        dim, _ = next(iter(ranges(sizes).items()))
        found = rungs(source, name, sizes, decisions, cache=cache, tuning=tuning)
        kernels = [one({**sizes, dim: part}) for part in found]
        return Program(kernels[0].name, kernels)

    known = dict[str, disk.Compiled]()
    every = launches(source, name, sizes, decisions, cache=cache, tuning=tuning, made=known)
    if len(every.texts) == 1:
        return launch(every.texts[0], sizes, decisions)
    made = [launch(text, every.sizes(i, sizes), every.schedule(i, decisions)) for i, text in enumerate(every.texts)]
    return Sequence(source, made, every.operands, every.results, every.turned)


def compiled(
    source: str,
    target: str,
    dims: Mapping[str, Size],
    schedule: Mapping[str, str],
    *,
    cache: bool = True,
    tuning: bool = True,
    on_drop: Callable[[Dropped], None] = lambda dropped: None,
) -> disk.Compiled:
    """One kernel, from the disk cache or compiled; arguments are those of scalec.compiler.compile_source.

    Args:
        cache: whether the disk cache is read and written (SCALEC_CACHE=0 turns it off for all).
        on_drop: called with each schedule that is dropped, or was when the kernel was compiled.

    Raises:
        ScalecError: what `compile` does.
    """
    anew = False

    def compile_it() -> disk.Compiled:
        from scalec import compiler

        nonlocal anew
        anew = True
        made = compiler.compile_source(source, target, dims, schedule, tuned=tuning, on_drop=on_drop)
        if made.spec is None or made.cubin is None:
            raise ToolchainError("the compiler made no machine code", got=f"stages {', '.join(made.texts)}")
        return disk.Compiled(made.spec, made.cubin, made.ptx, made.tuned.told if made.tuned else "")

    if not (cache and env.CACHE.get()):
        return compile_it()
    made = disk.get_or_compile(_key(source, target, dims, schedule, tuning), compile_it)
    for dropped in () if anew else made.spec.dropped:
        on_drop(dropped)
    return made


def rungs(
    source: str,
    target: str,
    dims: Mapping[str, Size],
    schedule: Mapping[str, str],
    *,
    cache: bool = True,
    tuning: bool = True,
) -> tuple[Range, ...]:
    """The parts that the range in `dims` falls into, noted in the disk cache; see scalec.ladder.rungs."""

    def find() -> tuple[Range, ...]:
        from scalec import ladder

        return tuple(ladder.rungs(source, target, dims, schedule, tuned=tuning))

    if not (cache and env.CACHE.get()):
        return find()
    found = disk.remember(_key(source, target, dims, schedule, tuning, "rungs"), tuple[Range, ...], find)
    (whole,) = ranges(dims).values()
    joined = [whole.low, *(r.high + 1 for r in found)] == [*(r.low for r in found), whole.high + 1]
    return found if joined else find()


def launches(
    source: str,
    target: str,
    dims: Mapping[str, Size],
    schedule: Mapping[str, str],
    *,
    cache: bool = True,
    tuning: bool = True,
    made: dict[str, disk.Compiled],
    doubtful: bool = False,
) -> Launches:
    """The launches that a program takes, noted in the disk cache; see scalec.launches.launches.

    Args:
        made: takes the kernels that are compiled to see whether there are some.
        doubtful: whether those alone are compiled whose schedule leaves so few registers that ptxas may spill.
    """
    if not may_be_several(source):
        return Launches((source,))

    def find() -> Launches:
        from scalec.launches import launches

        def compiles(text: str, sizes: Mapping[str, Size], decisions: Mapping[str, str]) -> None:
            ranged = next(iter(ranges(sizes)), "")
            parts = rungs(text, target, sizes, decisions, cache=cache, tuning=tuning) if ranged else ()
            for own in [{**sizes, ranged: part} for part in parts] or [sizes]:
                kernel = compiled(text, target, own, decisions, cache=cache, tuning=tuning)
                made[_key(text, target, own, decisions, tuning)] = kernel

        return launches(source, target, dims, schedule, tuned=tuning, compiles=compiles, doubtful=doubtful)

    if not (cache and env.CACHE.get()):
        return find()
    key = _key(source, target, dims, schedule, tuning, "launches")
    if doubtful:
        own = _key(source, target, dims, schedule, tuning, "doubtful launches")
        return disk.noted(key, Launches) or disk.remember(own, Launches, find)
    return disk.remember(key, Launches, find)


def _key(
    source: str, target: str, dims: Mapping[str, Size], schedule: Mapping[str, str], tuning: bool, kind: str = ""
) -> str:
    known = database.digest(target, fixed(dims).values()) if tuning else "off"
    return disk.key_of(source, target, dims, schedule, known, kind)


def default_target() -> str:
    """SCALEC_TARGET, else the target of the current GPU, else scalec.targets.DEFAULT_TARGET."""
    named = env.TARGET.get()
    if named:
        return get_target(named).name
    if not _may_have_gpu():
        return DEFAULT_TARGET
    from scalec.runtime import driver

    gpu = driver.detect()
    return gpu.target if gpu is not None and gpu.target else DEFAULT_TARGET


@cache
def _may_have_gpu() -> bool:
    """Whether there is a device node of NVIDIA (dxg: that of WSL): where not, the import of cuda-bindings is spared."""
    return os.name != "posix" or os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def _check_kind(name: str, value: Any, kind: type, expected: str) -> None:
    if not isinstance(value, kind):
        fix = "pass its text: path.read_text()" if isinstance(value, os.PathLike) else f"pass {expected}"
        found = type(value).__qualname__
        raise ArgumentError(f"{name} is of type {found}", got=shown(value), expected=expected, fix=fix)


def _items(name: str, mapping: Any, example: str) -> list[tuple[str, Any]]:
    if mapping is None:
        return []
    _check_kind(name, mapping, Mapping, f"a mapping, as {example}")
    for key in mapping:
        _check_kind(f"a name in {name}", key, str, f"strings, as {example}")
    return list(mapping.items())


def _given(dim: str, size: Any) -> Size:
    """A size, or a range of them: "1:64", or a pair."""
    try:
        text = ":".join(map(str, size)) if isinstance(size, (tuple, list)) else size
        if not isinstance(text, str) or ":" not in text:
            return _size(dim, size)
        return parse_size(text)
    except ValueError as error:
        raise ArgumentError(
            f"dims: {dim} = {shown(size)} is no size",
            got=str(error),
            expected=f"an integer from 0 to {MOST}, or a range of them from 1",
            fix=f"e.g. {dim} = '1:4096'",
        ) from None


def _size(dim: str, size: Any) -> int:
    try:
        value = operator.index(size)
    except TypeError:
        value = -1
    if isinstance(size, bool) or not 0 <= value < 2**31:
        fix = f"leave {dim} out of dims: it may then differ from call to call"
        if isinstance(size, (float, str)) and str(size).removesuffix(".0").isdecimal():
            fix = f"{dim} = {str(size).removesuffix('.0')}"
        raise ArgumentError(
            f"dims: {dim} = {shown(size)} is no size",
            got=f"type {type(size).__qualname__}" if value < 0 and not isinstance(size, int) else shown(size),
            expected=f"an integer from 0 to {2**31 - 1}",
            fix=fix,
        )
    return value


def _text(field: str, value: Any) -> str:
    try:
        return "x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    except Exception as error:  # whatever an object of a library's raises
        raise ArgumentError(
            f"schedule: {field} cannot be written",
            got=shown(value),
            expected="a number, a text, or a tuple of numbers",
            fix=f"write it out: {field}=...",
        ) from error
