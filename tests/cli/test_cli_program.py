"""How programs, sizes and schedules are read."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalec.commands import program
from scalec.errors import ScalecError


def test_dims():
    assert program.parse_dims("m=4096, n=7168,k=2048") == {"m": 4096, "n": 7168, "k": 2048}
    assert program.parse_dims("m=0") == {"m": 0}


@pytest.mark.parametrize("text", ["", "m", "m=", "=4", "m=-1", "m=1.5", "m=x", "m=4,,n=5", "m=4,m=5", "m=²"])
def test_wrong_dims(text):
    with pytest.raises(ValueError):
        program.parse_dims(text)


def test_dims_of_several_options():
    assert program.merge_dims([{"m": 1}, {"n": 2}, {"m": 1}]) == {"m": 1, "n": 2}
    with pytest.raises(ValueError, match="m is given twice: 1 and 3"):
        program.merge_dims([{"m": 1}, {"m": 3}])


def test_schedule():
    assert program.parse_schedule("tile=128x128x128,stages=5") == {"tile": "128x128x128", "stages": "5"}
    with pytest.raises(ValueError, match="NAME=VALUE"):
        program.parse_schedule("tile")


def test_source(tmp_path, monkeypatch):
    file = tmp_path / "gemm.scale"
    file.write_text("C[m,n] = A[m,k]@B[n,k]\n")
    assert program.read_source(str(file)) == "C[m,n] = A[m,k]@B[n,k]\n"
    assert program.read_source("C[m,n] = A[m,k]@B[n,k]") == "C[m,n] = A[m,k]@B[n,k]"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from stdin")))
    assert program.read_source("-") == "from stdin"


@given(st.text().filter(lambda text: text != "-"))
def test_any_text_is_a_program_or_a_file_or_refused(text):
    if "=" in text:
        assert program.read_source(text) == text
    else:
        with contextlib.suppress(ScalecError):
            assert program.read_source(text) == text


@pytest.mark.parametrize("name", ["nofile.scale", "./dir/x.txt", "gemm", "nofolder/gemm.scale", "."])
def test_no_such_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScalecError) as caught:
        program.read_source(name)
    assert str(caught.value) == (
        f"no file {name}\n  expected: a file, -, or a program such as 'C[m,n] = A[m,k]@B[n,k]'"
    )


@given(st.text())
def test_dims_are_positive_or_refused(text):
    with contextlib.suppress(ValueError):
        assert all(size > 0 for size in program.parse_dims(text).values())
