"""Runs the lit suite, so that one `pytest` runs everything."""

import subprocess
import sys
from pathlib import Path


def test_lit() -> None:
    command = [sys.executable, "-c", "from lit.main import main; main()", "-v", str(Path(__file__).parent / "lit")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
