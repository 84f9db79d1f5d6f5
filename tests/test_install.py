"""What pip makes of this checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip"]

pytestmark = pytest.mark.thorough  # pip fetches the build backend and calls it in an environment of its own: 5 s a test


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what an installation reads, in a folder of the package's name, as `git clone` leaves it."""
    made = tmp_path / "scalec"
    shutil.copytree(ROOT / "scalec", made / "scalec", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, made)
    return made


def test_a_script_beside_an_editable_checkout_finds_the_package(checkout: Path) -> None:
    home = checkout.parent / "venv"
    venv.create(home)
    python = home / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", "-q", "--no-deps", "-e", "scalec"],
                   cwd=checkout.parent, check=True)  # fmt: skip
    # what scalec depends on comes from the environment that runs this test
    (site,) = home.glob("lib/python*/site-packages")
    (site / "zz_dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (checkout.parent / "x.py").write_text("import scalec\nprint(scalec.compile.__module__, scalec.__file__)")
    done = subprocess.run([python, "x.py"], cwd=checkout.parent, env={}, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split()[1] == str(checkout / "scalec" / "__init__.py")


def test_a_wheel_has_each_file_of_the_package(checkout: Path, tmp_path: Path) -> None:
    subprocess.run([*PIP, "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(checkout)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {p.relative_to(checkout).as_posix() for p in checkout.glob("scalec/**/*") if p.is_file()}
