"""Faults put into kernels whose work is read from memory, one at a time: each is found, by the finding that fits.

As in test_mutations.py, `WRONG` is a run without a finding whose numbers are wrong, or which writes other points.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from scalec.errors import DeviceError
from scalec.runtime.kernel import Kernel
from tests.emulator.faults import WRONG, Fault, kind_of
from tests.emulator.groups_faults import BLOCKS, FAULTS, MASKED, NAMED, RAGGED, SCATTERED
from tests.emulator.test_groups import Device

SEEDS = range(3)

# whole tiles, tiles that lack a row, empty groups, more groups than lanes, tiles beyond both ends of the rows
SIZES = [70, 64, 0, 63, 1, 9, *[0] * 20, 33, 2, *[0] * 3, 7, 40, 64, 5, 3]
OFFSETS = np.concatenate([[-4], np.cumsum(SIZES), [400]])
ROWS = [40, 64, 0, 63, 1, 9, *[0] * 20, 33, 2, *[0] * 3, 7, 40, 64, 5, 70]
# rows in no order, some of which name nothing; all rows of a warpgroup but one
SHUFFLED = np.where(np.arange(300) % 29 == 5, -1, np.random.default_rng(1).permutation(320)[:300])
BUT_ONE = np.where(np.arange(300) == 228, -1, np.arange(300) % 90)

PROGRAMS = {
    RAGGED: ("sm_90a", {"m": 380, "n": 72, "k": 200, "g": len(OFFSETS) - 1}, ("off", OFFSETS)),
    BLOCKS: ("sm_100a", {"m": 780, "n": 72, "k": 200, "B_0": 3}, ("e", [1, 0, -1, 2, 1, -9, 2])),
    SCATTERED: ("sm_90a", {"m": 300, "n": 136, "k": 72, "C_0": 320}, ("idx", SHUFFLED)),
    NAMED: ("sm_90a", {"m": 300, "n": 72, "k": 72, "A_0": 90}, ("idx", BUT_ONE)),
    MASKED: ("sm_120a", {"m": 70, "n": 72, "k": 200, "g": len(ROWS)}, ("rows", ROWS)),
}


@cache
def device(program: str) -> Device:
    target, dims, (name, indices) = PROGRAMS[program]
    made = Device(target, program, dims, ("n", "k"), sms=2)
    made.values[name] = np.asarray(indices, np.int32)
    return made


@cache
def expected(program: str) -> tuple[np.ndarray, np.ndarray]:
    return device(program).expected()


def outcome(program: str, ptx: str, seed: int) -> str:
    """The kind of the finding, WRONG, or "" for a clean and right run."""
    made = device(program)
    made.device.options = replace(made.device.options, seed=seed, max_instructions=300_000)
    made.upload()
    kept = made.kernel
    made.kernel = Kernel(made.spec, b"", ptx=ptx, device=made.device)
    try:
        got, written = made.run()
    except DeviceError as error:
        return kind_of(error)
    finally:
        made.kernel = kept
    value, points = expected(program)
    return "" if np.array_equal(written, points) and np.array_equal(got[points], value[points]) else WRONG


def faulty(fault: Fault) -> str:
    return fault.put_into(device(fault.program).kernel.ptx)


@pytest.mark.once
@pytest.mark.parametrize("program", PROGRAMS, ids=["ragged", "blocks", "scattered", "named", "masked"])
def test_without_a_fault_there_is_no_finding(program: str) -> None:
    for seed in SEEDS:
        assert outcome(program, device(program).kernel.ptx, seed) == ""


@pytest.mark.once(touches=lambda fault: [fault.program])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.what)
def test_fault(fault: Fault) -> None:
    changed = faulty(fault)
    found = next(filter(None, (outcome(fault.program, changed, seed) for seed in SEEDS)), "")
    assert found, "not found"
    assert found in fault.kinds
