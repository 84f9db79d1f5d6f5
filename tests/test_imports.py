"""Who imports whom in scalec/: no circles, and the order of the rooms that scalec/passes/README.md draws."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "scalec"
Graph = dict[str, set[str]]

BASIC = {
    "abi",
    "env",
    "errors",
    "files",
    "formats",
    "ir",
    "meetings",
    "schema",
    "sizes",
    "suggestions",
    "targets",
    "zero_points",
}
# room -> the rooms it may ask, beside BASIC
ROOMS: dict[str, set[str]] = {
    "passes.problem": set(),
    "passes.base": {"passes.problem"},
    "passes.fuse": {"passes.base", "passes.problem"},
    "passes.plan": {"passes.base", "passes.problem", "passes.fuse"},
    "model": {"passes.problem", "passes.fuse", "passes.plan"},
    "measured": {"passes.problem"},
    "passes.choose": {"passes.base", "passes.problem", "passes.fuse", "passes.plan", "model", "measured"},
    "passes.emit": {"passes.base", "passes.problem", "passes.fuse", "passes.plan"},
    "passes.pipeline": {"passes.base", "passes.fuse", "passes.plan", "passes.choose", "passes.emit"},
}


def imports(root: Path, types: bool) -> Graph:
    """Module -> the modules that it imports, anywhere in its text; a package by its own name is its `__init__.py`.

    Args:
        root: a package's folder.
        types: whether what only a type checker imports counts.
    """
    paths = {".".join(p.relative_to(root.parent).with_suffix("").parts): p for p in sorted(root.rglob("*.py"))}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    return {name: {*_imported(path, name, modules, types)} - {name} for name, path in modules.items()}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imported(path: Path, name: str, modules: Mapping[str, Path], types: bool) -> Iterator[str]:
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in _nodes(_tree(path), types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                if inner in modules or source in modules:
                    yield inner if inner in modules else source


def _nodes(node: ast.AST, types: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if not types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _nodes(child, types)


def circle(graph: Graph) -> list[str]:
    """Modules each of which imports the next one, the last the first; none where there is no circle."""
    done: set[str] = set()

    def follow(name: str, way: list[str]) -> list[str]:
        if name in way:
            return way[way.index(name) :]
        if name in done:
            return []
        found = next((c for other in sorted(graph[name]) if (c := follow(other, [*way, name]))), [])
        done.add(name)
        return found

    return next((c for name in graph if (c := follow(name, []))), [])


def strays(graph: Graph) -> list[str]:
    """Imports of a room that ask what it may not ask."""
    return [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in sorted(others)
        if (room := _room(name)) in ROOMS and _room(other) not in {room, *BASIC, *ROOMS[room]}
    ]


def _room(name: str) -> str:
    parts = name.split(".")[1:]
    return ".".join(parts[:2] if parts[:1] == ["passes"] else parts[:1])


def test_no_module_imports_itself_by_way_of_others() -> None:
    compiler = {n: others for n, others in imports(ROOT, types=True).items() if not n.startswith("scalec.emulator")}
    assert circle({n: others & compiler.keys() for n, others in compiler.items()}) == []


def test_nor_does_the_emulator_but_for_types() -> None:
    """Its machine, CTAs and warps hold each other, so their types name each other."""
    assert circle(imports(ROOT, types=False)) == []


def test_rooms_ask_only_those_above_them() -> None:
    graph = imports(ROOT, types=True)
    assert {_room(name) for name in graph} >= ROOMS.keys() | BASIC
    assert strays(graph) == []


LAZY, TYPES = "def f():\n    import p.b", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import b"


@pytest.mark.parametrize(
    ("a", "b", "types", "found"),
    [
        ("from p import b", "from p.a import f", False, ["p.a", "p.b"]),
        ("from p.b import f", "import p.a", False, ["p.a", "p.b"]),
        ("from .b import f", "from . import a", False, ["p.a", "p.b"]),
        (LAZY, "import p.a", False, ["p.a", "p.b"]),
        (TYPES, "import p.a", True, ["p.a", "p.b"]),
        (TYPES, "import p.a", False, []),
        ("from p import b, f", "from p import f", False, []),
        ("from p import f", "from p.a import c", False, ["p", "p.a"]),
    ],
)
def test_a_circle_is_seen(a: str, b: str, types: bool, found: list[str], tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    first = "from p import a\n" if found[:1] == ["p"] else ""
    for name, text in (("__init__", first + "f = 1"), ("a", a), ("b", b)):
        (package / f"{name}.py").write_text(text)
    assert sorted(circle(imports(package, types))) == found


def test_a_stray_import_is_seen() -> None:
    graph = {"scalec.passes.emit.kernel": {"scalec.passes.choose.stages", "scalec.passes.plan.loop", "scalec.ir.mlir"}}
    assert strays(graph) == ["scalec.passes.emit.kernel imports scalec.passes.choose.stages"]
    assert strays({"scalec.model.cost": {"scalec.tuning.tuner"}}) == ["scalec.model.cost imports scalec.tuning.tuner"]


def test_what_lowers_an_op_is_imported() -> None:
    """It enters itself in a target's table when it is imported, by whatever else it may be imported no more."""
    graph, reached, due = imports(ROOT, types=False), set[str](), ["scalec.lowering"]
    while due:
        name = due.pop()
        if name in graph and name not in reached:
            reached.add(name)
            due += [*graph[name], name.rpartition(".")[0]]
    enters = {n for n in graph if n.startswith("scalec.lowering.") and ".lowers(" in ast.unparse(_tree(_path(n)))}
    assert len(enters) > 20
    assert enters <= reached, enters - reached


def _path(module: str) -> Path:
    path = ROOT.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_no_loop_in_brackets_hides_a_builtin():
    """Python 3.12 takes such a name for a local one elsewhere in the function, and does not find the builtin."""
    hidden = {
        f"{path.name}:{name.lineno} {name.id}"
        for path in ROOT.rglob("*.py")
        for loop in ast.walk(ast.parse(path.read_text()))
        if isinstance(loop, ast.comprehension)
        for name in ast.walk(loop.target)
        if isinstance(name, ast.Name) and hasattr(builtins, name.id) and name.id != "_"
    }
    assert not hidden
