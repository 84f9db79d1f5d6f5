"""What all tests run under."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest

from tests import tiers

os.environ["SCALEC_TUNING"] = "off"
"""What was measured here, or ships, is not to decide what a test expects; tests of the database name one."""

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Read when numpy is first imported. pytest-xdist has a process for each core; threads of the emulator's small products
only spin beside those: a tenth of the CPU time of tests/emulator/test_turns.py on two cores, 2026-11-22."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--beside-gpu",
        action="store_true",
        help="what tests emulate for the target of this machine's GPU they run there too, between guards, and compare",
    )


def pytest_configure(config: pytest.Config) -> None:
    from tests.instructions import Instructions  # imports numpy

    if config.getoption("beside_gpu"):
        from tests.fuzz import gpu

        gpu.BESIDE = True
    config.pluginmanager.register(Instructions())


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers.mark(items)
    items[:] = tiers.of_share(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    return not_skipped((yield), needs_gpu=item.get_closest_marker("gpu") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    return not_skipped((yield), needs_gpu=False)


def not_skipped(report: Any, needs_gpu: bool) -> Any:
    """In CI, which has all that tests may need but a GPU, what is skipped has failed."""
    if report.skipped and not hasattr(report, "wasxfail") and not needs_gpu and "CI" in os.environ:
        report.outcome, report.longrepr = "failed", f"skipped in CI: {report.longrepr}"
    return report


def pytest_collection_finish() -> None:
    """Leaves all that is there before the first test out of every later search for garbage: the modules and the tests,
    which outlive them all. Those searches took a sixth of a run."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Leaves neighbours in one process, as far as all processes stay busy: what one test compiles or computes, those
    behind it find in the caches of their process. Dealt out one by one, tests/emulator/test_quantised.py and
    test_mutations.py took 268 s of CPU time, so 251 (two cores, 2026-11-22)."""
    if config.getoption("dist") != "load":  # what -n asks for by itself
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
