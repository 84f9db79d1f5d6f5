"""What all tests run under."""

from __future__ import annotations

import gc
import os

os.environ["SCALEC_TUNING"] = "off"
"""What was measured here, or ships, is not to decide what a test expects; tests of the database name one."""


def pytest_collection_finish() -> None:
    """Leaves all that is there before the first test out of every later search for garbage: the modules and the tests,
    which outlive them all. Those searches took a sixth of a run."""
    gc.collect()
    gc.freeze()
