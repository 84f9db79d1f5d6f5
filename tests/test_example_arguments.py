"""Sizes that no example in Python can run at are refused by its command line, before anything runs."""

from __future__ import annotations

import pytest

from tests.examples_table import FOLDER, loaded

pytest.importorskip("torch")

NAMES = sorted(path.stem for path in (FOLDER / "python").glob("*.py"))


@pytest.mark.once("name")
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5"])
@pytest.mark.parametrize("name", NAMES)
def test_sizes(name: str, value: str, on_the_emulator: None, capsys: pytest.CaptureFixture[str]) -> None:
    example = loaded(name)
    for size in example.SIZES:
        with pytest.raises(SystemExit) as ended:
            example.main(["--target", "sm_90a", f"--{size}={value}"])
        assert ended.value.code == 2
        assert f"argument --{size}: invalid size value: '{value}'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        example.main(["--target", "nope"])
    assert "invalid choice: 'nope'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("language_model", "--steps=1", "steps are 2 or more"),
        ("indexer", "--heads=7", "heads are a multiple of 8"),
        ("linear", "--inputs=100", "multiples of 128"),
    ],
)
def test_sizes_that_do_not_go(name: str, given: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        loaded(name).main(["--target", "sm_90a", given])
    assert told in capsys.readouterr().err
