"""Warps that go on together (machine/crew.py) do what each does alone: the same numbers, counts and findings."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.machine import crew, machine
from scalec.emulator.machine.crew import Crew
from scalec.emulator.stats import Stats
from tests.emulator.harness import Out, run_ptx

_TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.shared .align 16 .b8 tile[4096];
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<40>;
.reg .b64 %rd<12>;
ld.param.u64 %rd0, [in];
ld.param.u64 %rd1, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd2, %r0, 16;
add.s64 %rd3, %rd0, %rd2;
ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd3];
mov.b32 %r5, tile;
shl.b32 %r6, %r0, 4;
add.s32 %r7, %r5, %r6;
st.shared.v4.b32 [%r7], {{%r1, %r2, %r3, %r4}};
{barrier}
xor.b32 %r8, %r6, 512;
add.s32 %r8, %r5, %r8;
mov.b32 %r30, 7;
setp.gt.u32 %p1, %r1, %r2;
@%p1 add.s32 %r30, %r30, %r3;
@!%p1 ld.volatile.shared.b32 %r30, [%r8];
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r8];
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%r14, %r15, %r16, %r17}}, {{%r10, %r11, %r12, %r13}},
    {{%r1, %r2}}, {{%r3, %r4, %r3, %r4}};
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%r18, %r19, %r20, %r21}}, {{%r10, %r11, %r12, %r13}},
    {{%r3, %r4}}, {{%r14, %r15, %r16, %r17}};
fma.rn.f32 %r22, %r18, %r19, %r20;
cvt.rn.bf16x2.f32 %r23, %r22, %r21;
cvt.rzi.s32.f32 %r24, %r22;
mov.b64 %rd4, {{%r23, %r24}};
shr.u64 %rd5, %rd4, 8;
mov.b64 {{%r25, %r26}}, %rd5;
selp.b32 %r27, %r25, %r26, %p1;
prmt.b32 %r27, %r27, %r22, 37445;
prmt.b32 %r31, %r26, %r1, %r2;
shfl.sync.bfly.b32 %r32|%p2, %r31, 5, 31, -1;
@%p2 shfl.sync.up.b32 %r33, %r32, 3, 0, -1;
bar.warp.sync -1;
shfl.sync.up.b32 %r34|%p3, %r32, 2, 0, -1;
div.u32 %r35, %r34, %r1;
rem.s32 %r36, %r34, %r2;
bfe.s32 %r37, %r34, 5, 9;
bfi.b32 %r37, %r36, %r37, 3, %r0;
popc.b32 %r38, %r37;
clz.b32 %r39, %r36;
selp.b32 %r26, %r35, %r37, %p3;
add.s32 %r22, %r38, %r39;
max.u16x2 %r33, %r33, %r32;
xor.b32 %r27, %r27, %r33;
add.s64 %rd6, %rd1, %rd2;
st.global.v4.b32 [%rd6], {{%r30, %r22, %r26, %r27}};
ret;
}}
"""


def _run(monkeypatch: pytest.MonkeyPatch, alone: float, barrier: str = "bar.sync 0;") -> tuple[np.ndarray, Stats]:
    monkeypatch.setattr(machine, "_ALONE", (alone,))
    values = np.random.default_rng(0).uniform(-2, 2, 2048).astype(np.float32).view(np.uint32).reshape(-1, 16)
    out = Out(4096)
    stats = run_ptx(_TEXT.format(barrier=barrier), [values, out], block=(256, 1, 1), seed=1)
    return out.view(np.uint32), stats


def test_together_as_alone(monkeypatch: pytest.MonkeyPatch):
    alone, counted_alone = _run(monkeypatch, 1.0)
    sizes = []
    execute = Crew.execute
    monkeypatch.setattr(Crew, "execute", lambda crew, run: sizes.append(len(crew.warps)) or execute(crew, run))
    together, counted = _run(monkeypatch, 0.0)
    assert max(sizes) == 8
    np.testing.assert_array_equal(together, alone)
    assert counted.executed == counted_alone.executed
    assert (counted.bytes, counted.counts) == (counted_alone.bytes, counted_alone.counts)


def test_together_finds_a_race(monkeypatch: pytest.MonkeyPatch):
    for alone in (1.0, 0.0):
        with pytest.raises(Finding) as found:
            _run(monkeypatch, alone, barrier="")
        assert found.value.kind in ("race", "uninitialised")
        assert (
            "ld.volatile.shared" in found.value.where
            or "ldmatrix" in found.value.where
            or "st.shared" in found.value.where
        )


_UNROLLED = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
.shared .align 16 .b8 tile[16384];
.reg .pred %p<8>;
.reg .b32 %r<40>;
.reg .b64 %rd<12>;
ld.param.u64 %rd0, [in];
ld.param.u64 %rd1, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd2, %r0, 16;
add.s64 %rd3, %rd0, %rd2;
add.s64 %rd4, %rd1, %rd2;
mov.b32 %r5, tile;
shl.b32 %r6, %r0, 4;
add.s32 %r7, %r5, %r6;
ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd3];
st.shared.v4.b32 [%r7], {%r10, %r11, %r12, %r13};
bar.sync 0;
mov.b32 %r1, 0;
again:
and.b32 %r2, %r0, %r1;
setp.ne.u32 %p1, %r2, 0;
setp.ne.u32 %p2, %r1, 2;
prmt.b32 %r10, %r10, %r11, 4660;
prmt.b32 %r12, %r12, %r13, 30292;
prmt.b32 %r11, %r11, %r1, 4660;
prmt.b32 %r14, %r10, %r11, %r12;
prmt.b32 %r13, %r13, %r1, %r2;
xor.b32 %r11, %r11, %r14;
shfl.sync.idx.b32 %r15, %r10, 3, 7199, -1;
shfl.sync.idx.b32 %r16, %r12, 5, 7199, -1;
bar.warp.sync -1;
shfl.sync.idx.b32 %r17|%p5, %r11, 3, 7199, -1;
xor.b32 %r12, %r12, %r15;
add.s32 %r13, %r16, %r17;
setp.lt.u32 %p3, %r10, %r11;
setp.lt.u32 %p4, %r12, %r13;
add.s32 %r20, %r10, 1;
add.s32 %r21, %r11, 2;
add.s32 %r22, %r12, %r1;
add.s32 %r10, %r20, 5;
add.s32 %r11, %r21, 6;
@%p1 xor.b32 %r20, %r20, %r11;
@%p2 xor.b32 %r21, %r21, %r12;
@!%p3 xor.b32 %r22, %r22, %r13;
mov.b32 %r23, %r21;
mov.b32 %r24, 7;
@%p4 mov.b32 %r24, 9;
xor.b32 %r8, %r6, 128;
add.s32 %r8, %r5, %r8;
xor.b32 %r9, %r6, 256;
add.s32 %r9, %r5, %r9;
ld.shared.b32 %r25, [%r8];
ld.volatile.shared.b32 %r26, [%r8+4];
ld.volatile.shared.b32 %r27, [%r9+8];
@%p1 ld.shared.b32 %r25, [%r9];
@%p3 ld.shared.b32 %r26, [%r9+4];
shl.b32 %r28, %r25, 3;
shl.b32 %r29, %r26, 5;
selp.b32 %r30, %r28, 11, %p3;
selp.b32 %r31, %r29, 13, %p4;
add.s32 %r12, %r20, %r30;
add.s32 %r13, %r23, %r31;
add.s32 %r12, %r12, %r24;
add.s32 %r13, %r13, %r27;
add.s32 %r12, %r12, %r22;
add.s32 %r33, %r12, %r27;
mov.b32 %r27, 5;
xor.b32 %r13, %r13, %r33;
add.s32 %r13, %r13, %r27;
add.s32 %r1, %r1, 1;
setp.lt.u32 %p0, %r1, 8;
@%p0 bra again;
st.global.v4.b32 [%rd4], {%r10, %r11, %r12, %r13};
ret;
}
"""


@pytest.mark.parametrize("alone", [0.0, 1.0])
def test_a_batch_does_what_its_instructions_do(monkeypatch: pytest.MonkeyPatch, alone: float):
    """Unrolled code with other constants, guards and addresses in each instruction, in a loop: batches after two
    rounds, by several warps and by one, give the numbers and counts of instructions one by one."""
    values = np.random.default_rng(0).integers(0, 1 << 32, (256, 4), np.uint32)
    found = []
    for warm in (1 << 30, 2):
        monkeypatch.setattr(crew, "_WARM", warm)
        monkeypatch.setattr(machine, "_ALONE", (alone,))
        out = Out(4096)
        stats = run_ptx(_UNROLLED, [values, out], block=(256, 1, 1), seed=1)
        found.append((out.view(np.uint32).tolist(), stats.executed, stats.bytes, stats.counts))
    assert found[0] == found[1]
    assert any(len(run.steps()) < run.length for run in _runs(monkeypatch, values))


def _runs(monkeypatch: pytest.MonkeyPatch, values: np.ndarray) -> list[crew.Run]:
    """The runs that a launch executes."""
    seen: list[crew.Run] = []
    execute = Crew.execute
    monkeypatch.setattr(Crew, "execute", lambda self, run: seen.append(run) or execute(self, run))
    run_ptx(_UNROLLED, [values, Out(4096)], block=(256, 1, 1), seed=1)
    return seen


_LOADS_AGAIN = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.shared .align 16 .b8 tile[64];
.local .align 8 .b8 own[8];
.reg .pred %p<5>;
.reg .b32 %r<9>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd2, %r0, 4;
add.s64 %rd0, %rd1, %rd2;
mov.b32 %r1, tile;
setp.ne.u32 %p0, %r0, 0;
@!%p0 st.shared.v2.b32 [%r1], {{0, 0}};
bar.sync 0;
{body}
ret;
}}
"""

_CHANGED = """setp.ge.u32 %p1, %r0, 64;
setp.ge.u32 %p2, %r0, 32;
setp.eq.u32 %p3, %r0, 32;
mov.b32 %r4, 0;
@%p1 bra reads;
@%p2 bra changes;
@!%p0 st.shared.b32 [%r1+4], 5;
fence.acq_rel.cta;
@!%p0 st.volatile.shared.b32 [%r1], 1;
ret;
changes: @%p3 atom.relaxed.cta.shared.add.u32 %r3, [%r1], 8;
bar.sync 1, 64;
ret;
reads: bar.sync 1, 64;
ld.volatile.shared.b32 %r2, [%r1];
setp.eq.u32 %p4, %r2, 9;
fence.acq_rel.cta;
@%p4 ld.shared.b32 %r4, [%r1+4];
st.global.b32 [%rd0], %r4;"""
"""What an atomic operation of another warp leaves in its place is passed on still."""

_PASSES_ON = """setp.ge.u32 %p1, %r0, 32;
mov.b32 %r4, 0;
@%p1 bra reads;
@!%p0 st.shared.b32 [%r1+4], 5;
fence.acq_rel.cta;
@!%p0 st.volatile.shared.b32 [%r1], 1;
ret;
reads: ld.volatile.shared.b32 %r2, [%r1];
setp.ne.u32 %p2, %r2, 0;
fence.acq_rel.cta;
@%p2 ld.shared.b32 %r4, [%r1+4];
st.global.b32 [%rd0], %r4;"""


def _volatile_in_runs(
    monkeypatch: pytest.MonkeyPatch, body: str, seed: int = 0, threads: int = 64
) -> tuple[bool, np.ndarray]:
    """Whether a run has a volatile load, and what the kernel wrote."""
    seen: list[crew.Run] = []
    execute = Crew.execute
    with monkeypatch.context() as patch:
        patch.setattr(Crew, "execute", lambda self, run: seen.append(run) or execute(self, run))
        out = Out(4 * threads)
        run_ptx(_LOADS_AGAIN.format(body=body), [out], block=(threads, 1, 1), seed=seed)
    return any(run.kernel.code[pc].has("volatile") for run in seen for pc in range(run.start, run.end)), out


_OWN = """add.u32 %r4, %r2, 0; st.local.b32 [own], %r4; ld.local.b32 %r3, [own];
setp.eq.u32 %p1, %r3, 0; @%p1 bra again;"""


@pytest.mark.parametrize(
    ("waits", "own"),
    [
        ("setp.eq.u32 %p1, %r2, 0; @%p1 bra again;", False),
        ("add.u32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 1; @%p1 bra again;", False),
        (_OWN, True),
    ],
)
def test_a_load_that_a_branch_depends_on_lets_others_run(monkeypatch: pytest.MonkeyPatch, waits: str, own: bool):
    body = f"@!%p0 st.volatile.shared.b32 [%r1], 9; again: ld.volatile.shared.b32 %r2, [%r1]; {waits}"
    body += " st.global.b32 [%rd0], %r2;"
    assert not _volatile_in_runs(monkeypatch, body)[0]
    body = body.replace(waits, "add.u32 %r3, %r2, 1;" if own else "")
    assert _volatile_in_runs(monkeypatch, body)[0]


def test_volatile_loads_in_runs_are_strong(monkeypatch: pytest.MonkeyPatch):
    """They do not race with volatile stores, and what such a store passes on is observed."""
    races = "ld.volatile.shared.b32 %r2, [%r1]; add.u32 %r2, %r2, 1; st.volatile.shared.b32 [%r1], %r2;"
    for seed in range(4):
        assert _volatile_in_runs(monkeypatch, races, seed)[0]
    for body, threads in ((_PASSES_ON, 64), (_CHANGED, 96)):
        passed = [_volatile_in_runs(monkeypatch, body, seed, threads)[1] for seed in range(8)]
        assert {int(each.view(np.uint32)[threads - 32]) for each in passed} == {0, 5}
