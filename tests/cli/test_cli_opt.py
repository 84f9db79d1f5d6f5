"""`scalec opt`."""

from __future__ import annotations

import pytest

from tests.cli.cli_programs import FP8


@pytest.fixture
def module(invoke) -> str:
    return invoke("compile", FP8, "--dim", "n=7168,k=2048", "--emit", "scale").stdout


def test_passes_run_in_order(invoke, module, tmp_path):
    file = tmp_path / "module.mlir"
    file.write_text(module)
    result = invoke("opt", "--passes=infer-roles,fuse-epilogue,choose-tiling", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "roles" in result.stdout
    assert "tile = array<i64:" in result.stdout


def test_no_passes_prints_what_it_read(invoke, module):
    assert invoke("opt", "--passes=", "-", input=module).stdout.strip() == module.strip()


def test_output_file(invoke, module, tmp_path):
    result = invoke("opt", "--passes=infer-roles", "-", "-o", str(tmp_path / "out.mlir"), input=module)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "roles" in (tmp_path / "out.mlir").read_text()


def test_unknown_pass_is_misuse(invoke, module):
    result = invoke("opt", "--passes=nope", "-", input=module)
    assert result.exit_code == 2
    assert "infer-roles" in result.stderr


def test_passes_are_required(invoke, module):
    assert invoke("opt", "-", input=module).exit_code == 2


def test_wrong_module(invoke):
    result = invoke("opt", "--passes=infer-roles", "-", input="func.func @f( {")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error" in result.stderr
