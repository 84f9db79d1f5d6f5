"""scalec selftest: what it runs, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scalec.checking.guarded import GUARD, PATTERN
from scalec.checking.item import Result, run_item
from scalec.checking.programs import PROGRAMS, SCHEDULES, TIMED, items
from scalec.checking.report import rows, summary
from scalec.commands.selftest import processes
from scalec.formats import FORMATS
from scalec.ir.schedule import FIELDS
from scalec.runtime import emulated
from scalec.targets import TARGETS

BF16 = next(items("sm_90a", emulated=True, only="bf16"))
RESULT = 2 * BF16.launches[0]["m"] * BF16.launches[0]["n"]
"""Bytes of its result."""


pytestmark = pytest.mark.usefixtures("on_the_emulator")


def test_every_format_is_in_the_list_and_every_target_has_schedules() -> None:
    for name in FORMATS:
        assert any(f":{name}" in source for source in PROGRAMS.values()), name
    assert set(SCHEDULES) == set(TARGETS)
    for listed in SCHEDULES.values():
        assert set(listed) <= set(PROGRAMS)
        for schedule in (s for some in listed.values() for s in some):
            assert {field.partition("=")[0].strip() for field in schedule.split(",")} <= set(FIELDS)
    assert set(TIMED) <= set(PROGRAMS)


def test_times_are_of_a_gpu_alone() -> None:
    assert not any(i.timed for i in items("sm_90a", emulated=True))
    timed = [i for i in items("sm_90a", emulated=False) if i.timed]
    assert {i.name for i in timed} == set(TIMED)


@pytest.mark.parametrize(
    ("target", "name"), [("sm_90a", "1x128, +="), ("sm_100a", "mxfp8"), ("sm_120a", "nvfp4 result")]
)
def test_a_program_passes_at_every_size(target: str, name: str) -> None:
    item = next(i for i in items(target, emulated=True) if i.name == name)
    assert [sizes["m"] for sizes in item.launches] == [70, 1, 0]
    result = run_item(item)
    assert result.kind == "pass", result.message
    assert 0 < result.error < 0.2
    assert "tile=" in result.chosen


def test_what_a_target_has_not_is_unsupported_and_a_schedule_that_is_refused_fails() -> None:
    six_bits = next(i for i in items("sm_90a", emulated=True) if i.name == "e3m2 x e2m3")
    assert run_item(six_bits).kind == "unsupported"
    assert run_item(replace(BF16, schedule="stages=99")).kind == "refused"


FAULTS: dict[str, tuple[bool, Callable[[int, bytes], bytes]]] = {
    "wrong": (False, lambda read, data: bytes(len(data))),
    "unequal": (True, lambda read, data: data[:GUARD] + bytes([read]) + data[GUARD + 1 :]),
    "overwritten": (True, lambda read, data: data[:-1] + b"\0"),
}
"""Whether buffers with guards or results are read otherwise, and what is read the n-th time."""


@pytest.mark.parametrize("kind", FAULTS)
def test_a_device_that_gives_other_bytes_is_found(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    reads, (guarded, change) = 0, FAULTS[kind]

    def download(self: emulated.EmulatedDevice, address: int, size: int, stream: int) -> bytes:
        nonlocal reads
        data = original(self, address, size, stream)
        if data.startswith(bytes([PATTERN]) * GUARD) != guarded or (kind == "unequal" and size != RESULT + 2 * GUARD):
            return data
        reads += 1
        return change(reads, data)

    original = emulated.EmulatedDevice.download
    monkeypatch.setattr(emulated.EmulatedDevice, "download", download)
    result = run_item(replace(BF16, launches=BF16.launches[:1]))
    assert reads
    assert result.kind == kind, result.message
    assert result.failed


def test_a_row_a_program_and_one_for_each_failure() -> None:
    item = replace(BF16, schedule="stages=2")
    timed = replace(BF16, launches=({"m": 4, "n": 5, "k": 6},), timed=True)
    found = [
        (BF16, Result("pass", error=2e-3)),
        (item, Result("wrong", "C is wrong", error=0.5)),
        (replace(BF16, name="other"), Result("unsupported")),
        (timed, Result("timed", measured=12.34, predicted=5.0)),
    ]
    assert rows(found) == [
        ("bf16", "1 of 2 schedules", "pass", "2.0e-03", "", "", ""),
        ("other", "", "not on this target", "", "", "", ""),
        ("bf16", "stages=2", "wrong", "5.0e-01", "", "", "C is wrong"),
        ("bf16", "m=4,n=5,k=6", "timed", "", "12.3", "5.0", ""),
    ]
    assert summary(found, 2) == "1 pass, 1 wrong, 1 unsupported, 1 timed, 2 not run"


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_every_kernel_of_a_target(target: str) -> None:
    failed = [(i.name, i.schedule, r.message) for i in items(target, emulated=True) if (r := run_item(i)).failed]
    assert not failed


def test_a_gpu_has_room_for_so_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert (processes(emulated=True), processes(emulated=False)) == (64, 16)
