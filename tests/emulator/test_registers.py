"""setmaxnreg: PTX ISA 9.7.19.5."""

from __future__ import annotations

import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import module, run_ptx

# one warpgroup gives registers, the others take; 384 threads start with 168 (65536 / 384 = 170, rounded down to 8)
HAND_OVER = """
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 7; setp.eq.u32 %p0, %r1, 0; @%p0 bra producer;
    setmaxnreg.inc.sync.aligned.u32 {inc};
    bra done;
producer:
    setmaxnreg.dec.sync.aligned.u32 {dec};
done:
"""


def run(body: str, threads: int = 384, directives: str = "", seed: int = 0, target: str = "sm_90a"):
    text = module(body, params=".param .u64 p0", target=target)
    text = text.replace(".visible .entry k(.param .u64 p0)", f".visible .entry k(.param .u64 p0) {directives}")
    return run_ptx(text, [0], block=(threads, 1, 1), seed=seed)


def finding(body: str, **options) -> Finding:
    with pytest.raises(Finding) as found:
        run(body, **options)
    return found.value


def test_one_warpgroup_gives_and_two_take():
    # 40 + 2 * 232 = 3 * 168: all that there is
    for seed in range(5):
        run(HAND_OVER.format(inc=232, dec=40), seed=seed)


def test_taking_waits_for_giving():
    found = finding(HAND_OVER.format(inc=232, dec=48))
    assert found.kind == "registers"
    assert "the register pool of CTA 0" in found.message


def test_more_than_there_can_be():
    # 128 * 176 for one warpgroup and 256 * 24 for the others are 28672; 384 * 56 = 21504
    found = finding("setmaxnreg.inc.sync.aligned.u32 176;", threads=384, directives=".maxnreg 56")
    assert found.kind == "registers"
    assert "launched with 21504, 56 a thread" in found.message


@pytest.mark.parametrize("count", [16, 20, 100, 264])
def test_counts(count):
    found = finding(f"setmaxnreg.dec.sync.aligned.u32 {count};", threads=128)
    assert found.kind == "registers"
    assert "a multiple of 8 from 24 to 256" in found.expected


def test_the_direction_must_fit():
    assert finding("setmaxnreg.dec.sync.aligned.u32 176;").kind == "registers"  # owns 168
    assert finding("setmaxnreg.inc.sync.aligned.u32 168; setmaxnreg.inc.sync.aligned.u32 160;").kind == "registers"
    run("setmaxnreg.dec.sync.aligned.u32 168;")
    assert finding("setmaxnreg.dec.sync.aligned.u32 96; setmaxnreg.dec.sync.aligned.u32 104;").kind == "registers"
    run("setmaxnreg.dec.sync.aligned.u32 96; bar.sync 0; setmaxnreg.inc.sync.aligned.u32 168;")


@pytest.mark.parametrize(
    ("threads", "directives", "entry"),
    [
        (384, "", 168),
        (128, "", 256),  # a thread names 255 at most, allocated as 256
        (256, ".minnctapersm 2", 128),
        (256, ".maxnreg 104", 104),
        (640, "", 96),  # 65536 / 640 = 102.4
        (288, "", 168),  # nine warps take the place of twelve
        (160, ".minnctapersm 2", 168),  # ten
        (256, ".maxntid 384", 168),  # what ptxas knows of the launch
    ],
)
def test_registers_at_launch(threads, directives, entry):
    run(f"setmaxnreg.dec.sync.aligned.u32 {entry};", threads=threads, directives=directives)
    if entry < 256:
        found = finding(f"setmaxnreg.dec.sync.aligned.u32 {entry + 8};", threads=threads, directives=directives)
        assert f"owns {entry} registers" in found.message


def test_whole_warpgroups_execute_it():
    found = finding(
        "mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; setp.eq.u32 %p0, %r0, 1; @!%p0 setmaxnreg.dec.sync.aligned.u32 40;",
        threads=128,
    )
    assert found.kind == "divergence"
    assert "warp 1 exits after 0 setmaxnreg" in found.message
    body = """mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; setp.eq.u32 %p0, %r0, 1;
        @%p0 setmaxnreg.dec.sync.aligned.u32 40; @!%p0 setmaxnreg.dec.sync.aligned.u32 48;"""
    assert finding(body, threads=128).kind == "divergence"
    body = "mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 1; @!%p0 setmaxnreg.dec.sync.aligned.u32 40;"
    assert finding(body, threads=128).kind == "divergence"


def test_targets_that_lack_it():
    assert finding("setmaxnreg.dec.sync.aligned.u32 40;", target="sm_90").kind == "illegal"
    run("setmaxnreg.dec.sync.aligned.u32 40;", target="sm_100a")


@pytest.mark.parametrize(
    ("threads", "directives", "inc", "entry"),
    [
        (256, ".maxntid 256 .minnctapersm 1", 248, 248),
        (256, ".maxntid 256 .minnctapersm 1", 232, 232),
        (256, ".maxntid 256 .minnctapersm 2", 232, 128),
        (384, ".reqntid 384 .minnctapersm 1", 240, 168),
        (384, ".reqntid 384 .minnctapersm 1", 160, 160),
        (128, ".reqntid 128 .maxnreg 240", 160, 160),
        (128, ".reqntid 128 .maxnreg 104", 160, 104),
    ],
)
def test_no_thread_starts_with_more_than_it_ever_asks_for(threads, directives, inc, entry):
    """What ptxas -v of CUDA 13.0 says that each of these kernels uses."""
    asks = f"bra end; setmaxnreg.inc.sync.aligned.u32 {inc}; end:"
    run(f"setmaxnreg.dec.sync.aligned.u32 {entry}; {asks}", threads=threads, directives=directives)
    found = finding(f"setmaxnreg.dec.sync.aligned.u32 {entry + 8}; {asks}", threads=threads, directives=directives)
    assert f"owns {entry} registers" in found.message
    if entry == inc:  # who has them from the launch may ask for them
        run(f"setmaxnreg.inc.sync.aligned.u32 {inc};", threads=threads, directives=directives)
