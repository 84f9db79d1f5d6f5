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

for _library in ("OPENBLAS", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
"""Read when numpy and torch are first imported. pytest-xdist has a process for each core; threads of small products
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


@pytest.fixture
def on_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside a GPU."""
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")


@pytest.fixture
def ptx_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Compiles to PTX alone: ptxas took a sixth of a usual run's time. It sees kernels of cases that are thorough or
    marked `assembled`, or run beside a GPU."""
    from scalec.runtime import cache
    from tests.fuzz import gpu
    from tests.fuzz.running import without_ptxas

    if gpu.BESIDE or any(request.node.get_closest_marker(x) for x in ("assembled", "thorough")):
        yield
        return
    monkeypatch.setenv("SCALEC_CACHE_DIR", f"{cache.directory()}/ptx")  # others look for whole kernels
    with without_ptxas():
        yield


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
    which outlive them all. Those searches took a sixth of a run. What tests make
    is searched less often than by default, which took a fiftieth still."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Leaves neighbours in one process, as far as all processes stay busy: what one test compiles or computes, those
    behind it find in the caches of their process. Dealt out one by one, tests/emulator/test_quantised.py and
    test_mutations.py took 268 s of CPU time, so 251 (two cores, 2026-11-22)."""
    if config.getoption("dist") != "load":  # what -n asks for by itself
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
