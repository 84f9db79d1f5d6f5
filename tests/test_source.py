"""Rules of the source that no other test would notice."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from scalec.targets import MMA, TARGETS, TCGEN05, WGMMA

ROOT = Path(__file__).parents[1] / "scalec"
# the emulator shares nothing with the compiler, so that a shared misunderstanding cannot pass
COMPILER = [p for p in sorted(ROOT.rglob("*.py")) if "emulator" not in p.parts]


@pytest.mark.parametrize("name", ["WAVES", "WARPGROUP", "MAX_BOX", "TILE_ALIGN", "PROMOTION_BLOCK"])
def test_a_hardware_constant_stands_once(name: str) -> None:
    homes = [p for p in COMPILER if re.search(rf"^{name}\w* = ", p.read_text(), re.MULTILINE)]
    assert len(homes) == 1, homes


def test_registers_at_entry_are_computed_once() -> None:
    assert [p.name for p in COMPILER if "// 8 * 8" in p.read_text()] == ["targets.py"]


DROPPED = re.compile(r"_function\((frontend\.)?build\(|\b(build|parse)\([^()]*\)\.body\b")


def test_nobody_takes_an_op_of_a_module_that_nobody_holds() -> None:
    """An op does not keep its module: what is read of it then may be anything, and has ended the process."""
    files = [*ROOT.rglob("*.py"), *(ROOT.parent / "tests").rglob("*.py")]
    assert [p.name for p in files if DROPPED.search(p.read_text())] == []


@pytest.mark.parametrize("path", sorted((ROOT / "frontend").glob("*.py")), ids=lambda p: p.name)
def test_no_assert_faces_a_user_of_the_front_end(path: Path) -> None:
    found = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
    assert found == []


KINDS = (WGMMA, MMA, TCGEN05)
NAMED = re.compile(
    r"kind\.name|(family|problem)\.kind\b(?!\.)|target\.name|sm_|WGMMA|\bMMA\b|TCGEN05|['\"](wgmma|mma)['\"]"
)
"""A file without it has nothing that `branches_by_name` finds."""


def _names_a_kind(node: ast.expr) -> bool:
    """Whether an expression is a kind of kernel, its name, a target's, or one of the texts that these are."""
    if isinstance(node, ast.Attribute):
        of = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        return (node.attr, of) in {("kind", "family"), ("kind", "problem"), ("name", "kind"), ("name", "target")}
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return any(map(_names_a_kind, node.elts))
    if isinstance(node, ast.Name):
        return node.id in {k.name.upper() for k in KINDS}
    return isinstance(node, ast.Constant) and node.value in {*TARGETS, *(k.name for k in KINDS)}


def branches_by_name(text: str) -> list[int]:
    """The lines where a kind of kernel or a target is told by its name, and not by what its row says of it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        starts = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "startswith"
        if any(map(_names_a_kind, compared)) or (starts and "sm_" in ast.unparse(node)):
            found.append(node.lineno)
    return found


def test_kinds_of_kernels_and_targets_are_facts_and_not_branches() -> None:
    """A new family is a row: what it is like is a field of its Kind, what passes know of it a row of their tables."""
    texts = {str(p.relative_to(ROOT)): p.read_text() for p in COMPILER}
    found = {name: branches_by_name(text) for name, text in texts.items() if NAMED.search(text)}
    assert len(found) > 20
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        'problem.kind.name == "wgmma"',
        "family.kind is not TCGEN05",
        "self.family.kind in (WGMMA, MMA)",
        'target.name != "sm_90a"',
        'self.target.name in ("sm_100a",)',
        'name in ("sm_90a", "sm_100a")',
        'target.name.startswith("sm_10")',
    ],
)
def test_a_branch_by_name_is_found(text: str) -> None:
    assert NAMED.search(text)
    assert branches_by_name(text)
