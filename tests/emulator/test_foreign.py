"""PTX that Triton and nvcc made, on the emulator: it must run clean, and its numbers must be right."""

import re

import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.machine.options import Options
from tests.emulator.foreign import check, run
from tests.emulator.programs import DATA, Program, cuda_index, programs, triton_index

PROGRAMS = {program.name: program for program in programs()}
# What the ISA does not allow and ptxas mends: with warning C7517 it inserts a wgmma.wait_group where Triton unpacks
# the float16 accumulators of a wgmma that is in flight.
BROKEN = {"matmul_f16_f16.sm_90a": "in-flight"}
# whose asynchronous parts meet in many orders: three seeds
RACY = ("specialized", "pipeline", "pair", "cluster", "multicast", "neighbours", "remote", "launch_control", "barrier")


def seeds(program: Program) -> range:
    return range(3 if any(word in program.name for word in RACY) else 1)


def touched(name: str) -> set[str]:
    """The source, the target, and the instructions with all that is written of them."""
    return {
        *name.split("."),
        *re.findall(r"^\s+(?:@!?%p\d+\s+)?([a-z]\w*(?:\.[\w:]+)+)", PROGRAMS[name].text, re.MULTILINE),
    }


@pytest.mark.once(touches=touched)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in BROKEN])
def test_runs_clean_and_gives_the_right_numbers(name):
    for seed in seeds(PROGRAMS[name]):
        check(PROGRAMS[name], seed, Options(seed=seed))


@pytest.mark.parametrize("name", BROKEN)
def test_what_compilers_do_wrong_is_found(name):
    with pytest.raises(Finding) as caught:
        check(PROGRAMS[name])
    assert caught.value.kind == BROKEN[name]


@pytest.mark.parametrize("name", BROKEN)
def test_the_numbers_are_right_all_the_same(name):
    check(PROGRAMS[name], options=Options(ignore=frozenset({BROKEN[name]})))


def test_every_stored_file_is_run():
    used = {program.path for program in PROGRAMS.values()}
    assert used == set((DATA / "triton").glob("*.ptx")) | set((DATA / "nvcc").glob("*.ptx"))
    assert len(PROGRAMS) == len(triton_index()) + len(cuda_index())


def test_a_wrong_result_is_noticed():
    """The comparison itself: one element off by little, one byte changed elsewhere."""
    import numpy as np

    program = PROGRAMS["matmul_bf16.sm_90a"]
    case = program.case(np.random.default_rng(0))
    after, _ = run(program, case)
    expected = case.expected["c"]
    assert not expected.misses(after["c"]).any()
    c = after["c"].copy()
    c[5, 7] *= 1.01
    assert np.argwhere(expected.misses(c)).tolist() == [[5, 7]]
