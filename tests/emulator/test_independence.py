"""The emulator stands by itself, and every row of its table says where in the ISA it is from."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import scalec.emulator.instructions.load_all  # noqa: F401
from scalec.emulator.instructions import table

ROOT = Path(__file__).parents[2] / "scalec" / "emulator"
FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_of_the_compiler_is_imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert not name.startswith("scalec") or name.startswith("scalec.emulator"), f"{path}:{node.lineno} {name}"
            assert name.split(".")[0] in {"scalec", "numpy", "ml_dtypes", "__future__"} or _standard(name), name


def _standard(name: str) -> bool:
    import sys

    return name.split(".")[0] in sys.stdlib_module_names


def test_every_instruction_names_its_section():
    lacking = {}
    for name, (function, _) in table._TABLE.items():
        function = getattr(function, "func", function)
        module = __import__(function.__module__, fromlist=["_"])
        text = (function.__doc__ or "") + (module.__doc__ or "")
        if not re.search(r"\d+\.\d+\.\d+", text):
            lacking[name] = f"{function.__module__}.{function.__qualname__}"
    assert not lacking
