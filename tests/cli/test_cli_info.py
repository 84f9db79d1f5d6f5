"""`scalec targets`, `env` and `cache`."""

from __future__ import annotations

import re

import pytest

from scalec import env
from scalec.targets import TARGETS
from tests.cli.cli_programs import FP8


def test_targets(invoke):
    result = invoke("targets")
    assert (result.exit_code, result.stderr) == (0, "")
    for target in TARGETS.values():
        assert target.name in result.stdout
        assert f"{target.shared_bytes // 1024}" in result.stdout


def test_env_lists_every_variable(invoke, monkeypatch):
    monkeypatch.setenv("SCALEC_CACHE_DIR", "/tmp/[bold]here")
    result = invoke("env")
    assert (result.exit_code, result.stderr) == (0, "")
    for setting in env.describe():
        assert setting.name in result.stdout
        assert setting.doc in result.stdout
    assert "SCALEC_CACHE_DIR = /tmp/[bold]here\n" in result.stdout
    assert "llvmlite" in result.stdout
    assert "ptxas" in result.stdout


@pytest.fixture
def missing(tmp_path):
    """A path where nothing is."""
    return str(tmp_path / "missing")


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("{missing}", "cannot run ptxas: {missing}: No such file or directory"),
        ("/", "cannot run ptxas: /: Permission denied"),
        ("/bin/true", "/bin/true is no ptxas"),
    ],
)
def test_env_reports_a_wrong_ptxas_in_its_row(invoke, monkeypatch, missing, path, row):
    monkeypatch.setenv("SCALEC_PTXAS", path.format(missing=missing))
    result = invoke("env")
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("ptxas")]
    assert line.split(maxsplit=1)[1] == row.format(missing=missing)
    assert "GPU" in result.stdout


def test_a_wrong_ptxas_is_refused_when_it_is_used(invoke, monkeypatch, missing):
    monkeypatch.setenv("SCALEC_PTXAS", missing)
    result = invoke("compile", FP8, "--dim", "n=64,k=128", "--emit", "ptx")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: cannot run ptxas: {missing}: No such file or directory\n"
        "  fix: unset SCALEC_PTXAS, or name a ptxas there\n"
    )


def test_cache_path(invoke, cache_dir):
    assert invoke("cache", "path").stdout == f"{cache_dir}\n"


def test_empty_cache(invoke):
    result = invoke("cache", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 kernels" in result.stderr


def test_cache_of_one_kernel(invoke, monkeypatch):
    import scalec

    monkeypatch.setenv("SCALEC_CACHE", "1")
    scalec.compile(FP8, target="sm_90a", dims={"n": 512, "k": 256})
    listed = invoke("cache", "list")
    assert FP8 in listed.stdout
    assert "n=512,k=256" in listed.stdout
    assert "1 kernel," in listed.stderr
    assert re.fullmatch(r"1 kernel, 0\.\d MB of at most 1024 MB \(SCALEC_CACHE_LIMIT\) in .*\n", invoke("cache").stdout)
    assert "removed 1 kernel from" in invoke("cache", "clear").stderr
    assert invoke("cache", "list").stdout == ""


@pytest.mark.parametrize("arguments", [["cache", "nope"], ["targets", "nope"]])
def test_misuse(invoke, arguments):
    assert invoke(*arguments).exit_code == 2
