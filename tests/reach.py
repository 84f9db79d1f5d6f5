"""What each case of a run reaches and costs: `python -m pytest -p tests.reach`, for tests/repeats.py.

scalec is compiled with a mark at the start of each block, which costs a tenth of the time; tracing takes as long again
as the run. Loaded by `-p`, before anything imports scalec.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import pickle
import re
import resource
import sys
from collections.abc import Generator, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FOLDER = "TEST_REACH"
"""Environment variable: where each process leaves a file of its cases."""

LOWERING = "scalec.lowering."
"""A block of these modules counts once for each target, whose instructions it is about."""

EXAMPLES = Path(__file__).parents[1] / "examples"

_REACHED = bytearray(200_000)
_names: list[str] = []
_others = set[Hashable]()
_PROCESS = "a process of Python"


class Lowered(NamedTuple):
    """A block of the lowering, for one target."""

    target: str
    block: str


@dataclass(frozen=True)
class Case:
    """A case of a test."""

    name: str  # pytest's, e.g. tests/emulator/test_quantised.py::test_bits[sm_90a-mxfp8]
    seconds: float  # CPU time of this process and of those that it started
    passed: bool  # one that does not may be one of those that marks disturb: torch cannot trace them
    # blocks, the table's rows by which instructions were decoded; of each target blocks of the lowering, ops and fields
    # of schedules; its file; the case itself if it ran Python in a process of its own.
    reached: frozenset[Hashable]


def cases(folder: Path) -> Iterator[Case]:
    """Those that a run has left."""
    for path in sorted(folder.iterdir()):
        yield from pickle.loads(path.read_bytes())


class _Marks(ast.NodeTransformer):
    """Puts a mark into each block, branch of an expression and lambda of a module."""

    def __init__(self, module: str) -> None:
        self.module = module

    def _mark(self, place: ast.AST) -> ast.Call:
        """`__reached__(number, 1)`, in the line of `place`, whose line names it."""
        _names.append(f"{self.module}:{place.lineno}:{place.col_offset}")  # type: ignore[attr-defined]
        call = ast.parse(f"__reached__({len(_names) - 1}, 1)", mode="eval").body
        for node in ast.walk(call):
            ast.copy_location(node, place)
        assert isinstance(call, ast.Call)
        return call

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """With a mark at its start, behind the docstring, and behind each statement that may leave it."""
        found, due = [], True
        for statement in body:
            text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if due and not text:
                found.append(ast.copy_location(ast.Expr(self._mark(statement)), statement))
            due = (due and text) or isinstance(statement, ast.If | ast.For | ast.While | ast.Try | ast.With | ast.Match)
            found.append(statement)
        return found

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if not isinstance(node, ast.Module | ast.ClassDef | ast.Lambda | ast.IfExp | ast.Expression):
            for part in ("body", "orelse", "finalbody"):
                if getattr(node, part, None):
                    setattr(node, part, self._block(getattr(node, part)))
        for part in {ast.Lambda: ("body",), ast.IfExp: ("body", "orelse")}.get(type(node), ()):
            value = getattr(node, part)
            pair = ast.copy_location(ast.Tuple([self._mark(value), value], ast.Load()), value)
            last = ast.copy_location(ast.Constant(1), value)
            setattr(node, part, ast.copy_location(ast.Subscript(pair, last, ast.Load()), value))
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        tree = _Marks(fullname).visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "scalec":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def _seconds() -> float:
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(t.ru_utime + t.ru_stime for t in times)


def schedule_fields(schedule: object) -> list[str]:
    """Fields with their values, of which numbers do not count: `tile=64x64x64, epilogue=turned` -> tile=#, ..."""
    return [re.sub(r"\d+(x\d+)*", "#", field) for field in str(schedule).replace(" ", "").split(",")]


class Reach:
    """Watches the cases of this process."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.failed = set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_collection_finish(self) -> None:
        from scalec import compiler
        from scalec.lowering.table import Table
        from scalec.runtime.kernel import Kernel

        for name in ("scalec.cli", "torch._dynamo", "torch._inductor"):
            importlib.import_module(name)  # else the first case of each process pays for it
        programs = {path.read_text().strip(): path.name for path in EXAMPLES.glob("*.scale")}

        def on_op(self: Any, state: Any, op: Any) -> None:
            _others.add((self.target, op.operation.name))
            one(self, state, op)

        def on_kernel(made: Any, module: Any, row: Any, *rest: Any) -> Any:
            kernel = to_tile(made, module, row, *rest)
            _others.add(row.name)
            _others.update((row.name, field) for field in schedule_fields(made.spec.schedule))
            return kernel

        def on_call(self: Any, *rest: Any) -> Any:
            _others.add(programs.get(self.spec.source.strip(), ""))
            return first(self, *rest)

        one, Table.one = Table.one, on_op
        to_tile, compiler._to_tile = compiler._to_tile, on_kernel
        first, Kernel._first = Kernel._first, on_call

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        from scalec.emulator.instructions import table
        from scalec.targets import TARGETS

        met: set[str] = table._TABLE.met  # type: ignore[attr-defined]  # tests/instructions.py
        before = set(met)
        met.clear()
        _others.clear()
        _REACHED[:] = bytes(len(_REACHED))
        start = _seconds()
        done = yield
        seconds = _seconds() - start
        blocks = {_names[i] for i in range(len(_names)) if _REACHED[i]}
        targets = [name for name in TARGETS if name in _others]
        lowered = {Lowered(t, b) for t in targets[:1] for b in blocks if len(targets) == 1 and b.startswith(LOWERING)}
        reached = {*blocks, *lowered, *_others - {""}, *met, item.nodeid.partition("::")[0]}
        if _PROCESS in reached:
            reached = reached - {_PROCESS} | {item.nodeid}
        self.cases.append(Case(item.nodeid, seconds, item.nodeid not in self.failed, frozenset(reached)))
        met |= before
        return done

    def pytest_sessionfinish(self) -> None:
        if self.cases:
            path = Path(os.environ[FOLDER]) / f"{os.getpid()}.pickle"
            path.write_bytes(pickle.dumps(self.cases))


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.fork", "os.posix_spawn") or (event == "subprocess.Popen" and "python" in str(arguments[:2])):
        _others.add(_PROCESS)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reach())


if FOLDER in os.environ:  # else imported for `cases`
    builtins.__reached__ = _REACHED.__setitem__  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    sys.addaudithook(_on_event)
