"""Every example either becomes a kernel or is refused in words: never by the verifier, never by a Python exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalec.compiler import compile_source
from scalec.errors import UnsupportedError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.scale"))


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_compiles_or_is_refused_in_words(path: Path) -> None:
    refusal = None
    try:
        made = compile_source(path.read_text(), until="tile").texts["tile"]
    except UnsupportedError as error:
        refusal, made = error, ""
    if refusal is None:
        assert "tile.kernel" in made
    else:
        assert refusal.message
        assert refusal.expected or refusal.fix, str(refusal)
