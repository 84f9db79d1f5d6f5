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


SCHEDULES = {
    "#scale.schedule<{tile = array<i64: 256, 128>}>": "schedule field tile cannot be '256x128'\n  expected: 3 positive",
    '#scale.schedule<{tile = "256x128x128"}>': 'tile is "256x128x128"\n  expected: array<i64: 256, 128, 128>',
    '#scale.schedule<{stages = "4"}>': 'schedule field stages is "4"\n  expected: 4 : i64',
    "#scale.schedule<{stages = 4.0 : f64}>": "stages cannot be '4.000000e+00 : f64'",
    "#scale.schedule<{stages = 99 : i64}>": "stages cannot be '99'\n  expected: an integer from 2 to 32",
    "#scale.schedule<{stages = true}>": "stages cannot be 'true'",
    "#scale.schedule<{order = 4 : i64}>": "order cannot be '4'\n  expected: one of m, n",
    "#scale.schedule<{tile = [1, 2, 3]}>": "tile cannot be '[1, 2, 3]'",
    "#scale.schedule<{depth = 4 : i64}>": "no schedule field 'depth'",
    '"fast"': 'scale.schedule is no schedule\n  got: "fast"\n  expected: #scale.schedule<{...}>',
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_malformed_schedules(invoke, module, schedule):
    text = module.replace("#scale.schedule<{}>", schedule)
    result = invoke("opt", "--passes=infer-roles,choose-tiling", "-", input=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert SCHEDULES[schedule] in result.stderr
    assert result.stderr.startswith("error: -:")  # where the function is


@pytest.mark.parametrize("text", ["module {}", "", "func.func @f() { return }"])
def test_no_program(invoke, text):
    result = invoke("opt", "--passes=emit-tile", "-", input=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the module has no program\n  expected: a func.func with scale.dims" in result.stderr


def test_every_program_of_a_module_becomes_a_kernel(invoke, module):
    from scalec.passes.pipeline import PIPELINE

    both = "\n".join(line for line in module.splitlines() if line.startswith("#")) + "\n"
    body = module[module.index("module {") + len("module {") : module.rindex("}")]
    text = both + "module {" + body + body.replace("@C", "@D") + "}"
    result = invoke("opt", "--passes=" + ",".join(p.name for p in PIPELINE), "-", input=text)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count('"tile.kernel"') == 2
    assert "func.func" not in result.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('scale.dims = ["m", "n", "k"]', 'scale.dims = "m"'),
        ('scale.dims = ["m", "n", "k"]', "scale.dims = [1, 2, 3]"),
        ('scale.name = "A"', "scale.name = 1"),
        ('scale.layout = "row"', "scale.layout = 1"),
    ],
)
def test_attributes_of_another_kind(invoke, module, old, new):
    assert old in module
    result = invoke("opt", "--passes=infer-roles,choose-tiling", "-", input=module.replace(old, new))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error:" in result.stderr
