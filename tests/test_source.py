"""Rules of the source that no other test would notice."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "scalec"
# the emulator shares nothing with the compiler, so that a shared misunderstanding cannot pass
COMPILER = [p for p in sorted(ROOT.rglob("*.py")) if "emulator" not in p.parts]


@pytest.mark.parametrize("name", ["WAVES", "WARPGROUP", "MAX_BOX", "TILE_ALIGN", "PROMOTION_BLOCK"])
def test_a_hardware_constant_stands_once(name: str) -> None:
    homes = [p for p in COMPILER if re.search(rf"^{name}\w* = ", p.read_text(), re.MULTILINE)]
    assert len(homes) == 1, homes


def test_registers_at_entry_are_computed_once() -> None:
    assert [p.name for p in COMPILER if "// 8 * 8" in p.read_text()] == ["targets.py"]


@pytest.mark.parametrize("path", sorted((ROOT / "frontend").glob("*.py")), ids=lambda p: p.name)
def test_no_assert_faces_a_user_of_the_front_end(path: Path) -> None:
    found = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
    assert found == []
