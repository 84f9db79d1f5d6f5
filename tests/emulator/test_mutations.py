"""Faults put into the PTX of shipped kernels, one at a time: each must be found, by the finding that fits.

`WRONG` stands for a run without a finding whose numbers are wrong: that is how a fault of the numbers alone shows. The
list, and what escapes, is in docs/emulator.md.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import upload
from scalec.errors import DeviceError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator import (
    sm90_goes_faults,
    sm90_loaded_faults,
    sm90_turns_faults,
    sm100_copier_faults,
    sm100_faults,
    sm100_pair_faults,
    sm100_warpgroups_faults,
    sm120_faults,
)
from tests.emulator.faults import EARLY, WRONG, Fault, kind_of

SEEDS = range(3)
FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) with tile=128x128x128, cluster=1x2, stages=4, scale_path=bulk"
THREAD = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128) with tile=128x64x128, cluster=1x1, stages=3, scale_path=thread"
BF16 = "C[m,n] = gelu(A[m,k] @ B[n,k] + bias[n]) with tile=128x64x64, cluster=2x1, stages=4, warpgroups=2"
SM90 = (sm90_turns_faults, sm90_goes_faults, sm90_loaded_faults)
SIZES_90 = {FP8: (140, 136, 1024), THREAD: (200, 136, 512), BF16: (300, 136, 320)}
SIZES_90 |= {program: sizes for made in SM90 for program, sizes in made.SIZES.items()}


FAULTS_90 = [
    Fault("the fence of mbarrier.init dropped", FP8, r"\tfence\.mbarrier_init[^\n]*\n", "",
          ("relaxed-barrier",)),
    Fault("the cluster barrier at the start dropped", FP8,
          r"\tbarrier\.cluster\.arrive\.relaxed\.aligned;\n\tbarrier\.cluster\.wait\.aligned;\n", "",
          ("barrier", "bounds", "deadlock", *EARLY)),
    Fault("a wait for an empty stage at the end dropped", FP8, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;",
          ("bounds", "in-flight", "race"), at=-1),
    Fault("a count of a full barrier too high", FP8, r"(mbarrier\.init\.shared\.b64 \t\[%rd\d+\]), %r\d+", r"\1, 2",
          ("deadlock",)),
    Fault("a count of an empty barrier too low", FP8, r"mov\.b32 \t(%r\d+), 16;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 15;", ("barrier", *EARLY)),
    Fault("a count of an empty barrier too high", FP8, r"mov\.b32 \t(%r\d+), 16;(?=\n\tmbarrier\.init)",
          r"mov.b32 \t\1, 17;", ("deadlock",)),
    Fault("the producer does not wait for an empty stage", FP8, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;",
          ("barrier", *EARLY)),
    Fault("the consumer does not wait for a full stage", FP8, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;",
          EARLY, at=1),
    Fault("the consumer's second wait is left out", FP8, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;", EARLY, at=2),
    Fault("the producer's parity flipped", FP8, r"xor\.b32 \t(%r\d+), (%r\d+), 1;", r"mov.b32 \t\1, \2;",
          ("deadlock", *EARLY)),
    Fault("the consumer's parity never flips", FP8, r"xor\.b32 \t(%r\d+), (%r\d+), (%r\d+);(?=\n\tselp)",
          r"mov.b32 \t\1, \2;", ("deadlock", "barrier", *EARLY), at=2),
    Fault("expect_tx 16 bytes too high", FP8, r"mov\.b32 \t(%r\d+), 32768;", r"mov.b32 \t\1, 32784;", ("deadlock",)),
    Fault("expect_tx 16 bytes too low", FP8, r"mov\.b32 \t(%r\d+), 32768;", r"mov.b32 \t\1, 32752;",
          ("deadlock", "barrier", *EARLY)),
    Fault("the expect_tx of the scales left out", FP8, r"mbarrier\.expect_tx\.relaxed[^\n]*\n", "",
          ("deadlock", "barrier", *EARLY)),
    Fault("a consumer does not free a stage", FP8, r"@%p\d+ mbarrier\.arrive\.shared::cluster[^\n]*\n", "",
          ("deadlock",)),
    Fault("every lane frees a stage", FP8, r"@%p\d+ (mbarrier\.arrive\.shared::cluster)", r"\1", ("barrier", *EARLY)),
    Fault("stages freed in the own CTA only", FP8, r"mapa\.shared::cluster\.u64 \t(%rd\d+), (%rd\d+), %r\d+;",
          r"mov.b64 \t\1, \2;", ("barrier", "deadlock", "bounds", *EARLY)),
    Fault("a stage freed before its products are done", FP8,
          r"(\t// begin inline asm\n\twgmma\.wait_group\.sync\.aligned 0;\n\t// end inline asm\n)((?:.*\n){1,9}?"
          r"\t@%p\d+ mbarrier\.arrive\.shared::cluster[^\n]*\n\t// end inline asm\n)", r"\2\1", EARLY),
    Fault("wgmma.fence dropped", FP8, r"\twgmma\.fence\.sync\.aligned;\n", "", ("wgmma",)),
    Fault("the second wgmma.fence dropped", FP8, r"\twgmma\.fence\.sync\.aligned;\n", "", ("wgmma",), at=1),
    Fault("wgmma.wait_group dropped", FP8, r"\twgmma\.wait_group\.sync\.aligned 0;\n", "", ("in-flight", "wgmma")),
    Fault("wgmma.wait_group leaves one group", FP8, r"wgmma\.wait_group\.sync\.aligned 0",
          "wgmma.wait_group.sync.aligned 1",
          ("in-flight", "wgmma")),
    Fault("wgmma.commit_group dropped", FP8, r"\twgmma\.commit_group\.sync\.aligned;\n", "", ("in-flight", "wgmma")),
    Fault("a stage's stride halved", FP8, r"shl\.b32 \t(%r\d+), (%r\d+), 14;", r"shl.b32 \t\1, \2, 13;",
          (*EARLY, "bounds", WRONG)),
    Fault("one stage more than there are", FP8, r"setp\.eq\.b32 \t(%p\d+), (%r\d+), 4;", r"setp.eq.b32 \t\1, \2, 5;",
          ("barrier", "deadlock", "bounds", *EARLY)),
    Fault("the swizzle of a descriptor", FP8, r"or\.b64 \t(%rd\d+), (%rd\d+), 46116862933\d+;",
          r"or.b64 \t\1, \2, 9223372311732682752;", (WRONG, "uninitialised", *EARLY)),
    Fault("the stride of a descriptor", FP8, r"or\.b64 \t(%rd\d+), (%rd\d+), 4611686293305294848;",
          r"or.b64 \t\1, \2, 4611686155866341376;", (WRONG, "uninitialised", *EARLY)),
    Fault("a reserved bit of a descriptor", FP8, r"or\.b64 \t(%rd\d+), (%rd\d+), 4611686293305294848;",
          r"or.b64 \t\1, \2, 4611756662049472512;", ("descriptor",)),
    Fault("a descriptor's K step", FP8, r"or\.b64 \t(%rd\d+), (%rd\d+), 4611686293305294850;",
          r"or.b64 \t\1, \2, 4611686293305294852;", (WRONG,)),
    Fault("scale-d on at the first product", FP8, r"setp\.ne\.b32 p, 0, 0;", "setp.ne.b32 p, 1, 0;", (WRONG,)),
    Fault("the scale of another row", FP8, r"ld\.volatile\.shared\.f32 (%r\d+), \[(%r\d+)\]",
          r"ld.volatile.shared.f32 \1, [\2+32]", (WRONG,)),
    Fault("the scale of another K block", FP8, r"ld\.volatile\.shared\.f32 (%r\d+), \[(%r\d+)\]",
          r"ld.volatile.shared.f32 \1, [\2+4]", (WRONG,)),
    Fault("a block's scale of another K block", FP8, r"add\.s64 \t(%rd\d+), (%rd\d+), 4;", r"add.s64 \t\1, \2, 8;",
          (WRONG, "bounds", "uninitialised")),
    Fault("the producer's K loop one short", FP8, r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 1023;",
          r"setp.gt.u32 \t\1, \2, 895;", ("deadlock",)),
    Fault("the producer's K loop one long", FP8, r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 1023;",
          r"setp.gt.u32 \t\1, \2, 1151;", ("deadlock", "barrier", *EARLY, WRONG)),
    Fault("a box at another column of K", FP8, r"\[(%rd\d+), \{(%r\d+), (%r\d+)\}\]", r"[\1, {0, \3}]", (WRONG,)),
    Fault("multicast to one CTA", FP8, r"mov\.b16 \t(%rs\d+), 3;", r"mov.b16 \t\1, 1;", ("deadlock",)),
    Fault("multicast to a CTA that is not there", FP8, r"mov\.b16 \t(%rs\d+), 3;", r"mov.b16 \t\1, 7;", ("bounds",)),
    Fault("a copy to a misaligned place", FP8, r"add\.s32 \t(%r\d+), (%r\d+), 65536;(?=\n\tcvt\.u64)",
          r"add.s32 \t\1, \2, 65600;", ("alignment",)),
    Fault("the fence before the store dropped", FP8, r"\tfence\.proxy\.async[^\n]*\n", "", ("proxy",)),
    Fault("the barrier before the store dropped", FP8, r"\tbar\.sync \t%r\d+, 128;\n", "",
          ("race", "proxy", "uninitialised"), at=1),
    Fault("the barrier counts too many threads", FP8, r"bar\.sync \t(%r\d+), 128;", r"bar.sync \1, 160;",
          ("deadlock",)),
    Fault("the barrier counts too few threads", FP8, r"bar\.sync \t(%r\d+), 128;", r"bar.sync \1, 96;",
          ("barrier", "deadlock", "race", "proxy")),
    Fault("the wait for the last store's reads dropped", FP8, r"\tcp\.async\.bulk\.wait_group\.read \t0;\n", "",
          ("race", "in-flight")),
    Fault("the wait at the end dropped", FP8, r"\tcp\.async\.bulk\.wait_group\.read \t0;\n", "", ("exit-read",), at=1),
    Fault("the store's group not committed", FP8, r"\tcp\.async\.bulk\.commit_group;\n", "", ("race", "in-flight")),
    Fault("an epilogue address", FP8, r"add\.s32 \t(%r\d+), (%r\d+), 8192;\n(.*\n){0,2}?\tstmatrix",
          r"add.s32 \t\1, \2, 4096;\n\tcvt.u64.u32 \t%rd35, \1;\n\tstmatrix", (WRONG, "alignment", *EARLY)),
    Fault("registers beyond the pool", FP8, r"setmaxnreg\.inc\.sync\.aligned\.u32 \t232",
          "setmaxnreg.inc.sync.aligned.u32 \t248",
          ("registers",)),
    Fault("registers not given back", FP8, r"\tsetmaxnreg\.dec[^\n]*\n", "", ("registers", "deadlock")),
    Fault("thread path: the consumer does not wait", THREAD, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;", EARLY, at=1),
    Fault("thread path: wgmma.wait_group dropped", THREAD, r"\twgmma\.wait_group\.sync\.aligned 0;\n", "",
          ("in-flight", "wgmma")),
    Fault("thread path: the fence of mbarrier.init dropped", THREAD, r"\tfence\.mbarrier_init[^\n]*\n", "",
          ("init-fence",)),
    Fault("bf16: griddepcontrol.wait dropped", BF16, r"\tgriddepcontrol\.wait;\n", "", ("dependent",)),
    Fault("bf16: griddepcontrol.wait of one thread", BF16, r"\tgriddepcontrol\.wait;\n",
          "{.reg .pred %pq; .reg .b32 %rq; mov.u32 %rq, %tid.x; setp.eq.u32 %pq, %rq, 5; @%pq griddepcontrol.wait;}\n",
          ("dependent",)),
    Fault("bf16: a count of a full barrier", BF16, r"(mbarrier\.init\.shared\.b64 \t\[%rd\d+\]), %r\d+", r"\1, 2",
          ("deadlock",)),
    Fault("bf16: the fence before the store dropped", BF16, r"\tfence\.proxy\.async[^\n]*\n", "", ("proxy",)),
    Fault("bf16: the producer does not wait", BF16, r"@P1 bra DONE;\nbra WAIT;", "bra DONE;", ("barrier", *EARLY)),
    Fault("bf16: wgmma.commit_group dropped", BF16, r"\twgmma\.commit_group\.sync\.aligned;\n", "",
          ("in-flight", "wgmma", "race")),
]  # fmt: skip

SM100 = (sm100_faults, sm100_pair_faults, sm100_copier_faults, sm100_warpgroups_faults)
FAULTS = [*FAULTS_90, *(f for made in (*SM90, *SM100, sm120_faults) for f in made.FAULTS)]
SIZES_100 = {program: sizes for made in SM100 for program, sizes in made.SIZES.items()}
SIZES = {**SIZES_90, **SIZES_100, **sm120_faults.SIZES}
# CTAs at once where fewer will do: with few tiles each of them still has a second one
SMS = {FP8: 2, sm120_faults.MX: 2}
TARGETS = {
    **dict.fromkeys(SIZES_90, "sm_90a"),
    **dict.fromkeys(SIZES_100, "sm_100a"),
    **dict.fromkeys(sm120_faults.SIZES, "sm_120a"),
}

# what runs clean, with right numbers: see docs/emulator.md
ESCAPES: set[str] = sm100_faults.ESCAPES


@cache
def compiled(program: str) -> tuple[Kernel, Any, Any]:
    m, n, k = SIZES[program]
    dims = {"m": m, "n": n, "k": k}
    kernel = scalec.compile(program, target=TARGETS[program], dims={"n": n, "k": k})
    with context.context():
        module = build(program, dims)
        values = reference.make(module, dims, seed=5)
        (expected,) = reference.run(module, values, dims=dims, exact=True).values()
    return kernel, values, expected


def outcome(program: str, ptx: str, seed: int) -> str:
    """The kind of the finding, WRONG, or "" for a clean and right run."""
    kernel, values, expected = compiled(program)
    m, n, k = SIZES[program]
    device = emulated.EmulatedDevice(TARGETS[program])
    device.sms = SMS.get(program, emulated.SMS)
    device.options = replace(device.options, seed=seed, sms=device.sms, max_instructions=300_000)
    changed = Kernel(kernel.spec, b"", ptx=ptx, device=device)
    arguments, (out,) = upload(device, changed.spec, values, {"m": m, "n": n, "k": k})
    segment = device.memory.find(out.pointer)
    assert segment is not None
    if not changed.spec.results[0].inout:
        segment.data[:] = 0xFF
    try:
        changed(*arguments, out=out)
    except DeviceError as error:
        return kind_of(error)
    got = out.numpy().astype(np.float64)
    return "" if reference.diff(got, expected) < 3e-6 else WRONG


def faulty(fault: Fault) -> str:
    return fault.put_into(compiled(fault.program)[0].ptx)


NAMES = [
    "FP8",
    "thread",
    "bf16",
    "turns",
    "short turns",
    "goes",
    "loaded",
    "loaded panel",
    "loaded inputs",
    "loaded in place",
    "tensor",
    "rounds",
    "direct",
    "unpacked",
    "blocked",
    "ones",
    "dynamic",
    "transposed",
    "pair",
    "pair promoted",
    "pair unscaled",
    "pairs",
    "copier",
    "two warpgroups",
    "two, promoted",
    "mxfp8",
    "nvfp4",
    "padded",
    "promoted",
]


@pytest.mark.once(touches=lambda program, **_: [TARGETS[program]])
@pytest.mark.parametrize("program", SIZES, ids=NAMES)
def test_without_a_fault_there_is_no_finding(program):
    for seed in SEEDS:
        assert outcome(program, compiled(program)[0].ptx, seed) == ""


@pytest.mark.once(touches=lambda fault: [TARGETS[fault.program], *fault.kinds])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.what)
def test_fault(fault):
    changed = faulty(fault)
    if fault.what in ESCAPES:
        assert all(outcome(fault.program, changed, seed) == "" for seed in SEEDS), (
            "it is found now: take it off the list"
        )
        return
    found = next(filter(None, (outcome(fault.program, changed, seed) for seed in SEEDS)), "")
    assert found, "not found"
    assert found in fault.kinds


def test_how_many_escape():
    assert len(FAULTS) >= 30
    assert len(ESCAPES) <= 0.05 * len(FAULTS)


def test_the_docs_list_every_fault():
    text = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text()
    for fault in FAULTS:
        assert f"| {fault.what.removeprefix('bf16: ').removeprefix('thread path: ')} |" in text, fault.what
    for what in ESCAPES:
        assert re.search(rf"\| {re.escape(what)} \|[^|]*\| not found \|", text), what
    assert f"{len(FAULTS) - len(ESCAPES)} of {len(FAULTS)} are found" in text
