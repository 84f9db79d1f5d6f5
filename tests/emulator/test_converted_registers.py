"""Operands that consumers convert in the registers out of which wgmma takes them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, Guarded
from scalec.checking.launch import made_up
from scalec.errors import DeviceError, ScheduleError
from scalec.runtime import emulated
from tests.emulator.quantised import changed
from tests.emulator.running import run_on
from tests.emulator.test_converted import EVERY, HOPPER, MORE, PROGRAMS, every_element_is_the_same
from tests.emulator.test_several_results import run

ALL = {
    **PROGRAMS,
    **HOPPER,
    "bf16 x u4 - 8": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - 8) scale(none, 1x64:bf16)",
    "e4m3 x u4 - 8": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:u4 - 8) scale(1x128, 1x128)",
    "f16 x u4 - 3": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - 3) scale(none, 1x64:bf16)",
    "bf16 x i4 - 127": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i4 - 127) scale(none, 1x128:bf16)",
    "bf16 x u4 - Z[n,k/128]": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]) scale(none, 1x128:f16)",
    "f16 x u4 - Z[k/32,n]": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - Z[k/32,n]) scale(none, 1x32:f16)",
    "bf16 x i4 - Z[n]:i8": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i4 - Z[n]:i8) scale(none, 1x64)",
    "bf16 x u4 - Z[k/16,n/3]:i4": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/16,n/3]:i4)",
    "u4 - Z[m,k/48]:i8 x f16": "C[m,n]:f32 = (A[m,k]:u4 - Z[m,k/48]:i8) @ B[n,k]:f16 scale(1x64:bf16, none)",
    "e4m3 x i4 - 5": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:i4 - 5) scale(1x128, 1x128)",
    "e4m3 x u4 - Z[k/128,n]": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:u4 - Z[k/128,n]) scale(1x128, 1x128:f16)",
    "e4m3 x i4 - Z[n/2,k/16]": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:i4 - Z[n/2,k/16]) scale(1x128, 1x64:bf16)",
    "e5m2 x i4": "C[m,n]:f32 = A[m,k]:e5m2 @ B[n,k]:i4 scale(1x128, 1x128:f16)",
    "e5m2 x u4 - Z[k/128,n]": "C[m,n]:f32 = A[m,k]:e5m2 @ (B[n,k]:u4 - Z[k/128,n]) scale(1x128, 1x64:f16)",
    "bf16 x u4 - Z, folded": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/32]) scale(none, 1x32:ue4m3)",
}

SCHEDULES = [
    ("bf16 x nvfp4", "swap=1, tile=64x72x64"),
    ("nvfp4 x f16", "invariant, swap=0, tile=64x16x64"),
    ("nvfp4 x f16", "swap=0, tile=64x8x32, swizzle_a=64, swizzle_b=64, unroll=1"),
    ("bf16 x i4", "swap=1, tile=64x64x64, consumers=pingpong"),
    ("bf16 x i4 1x64 of bf16", "swap=1, tile=192x80x64, scale_path=thread"),
    ("e4m3 x e2m1", "swap=1, tile=64x16x128, promote=32, early_wait=0"),
    ("bf16 x u4 - 8", "swap=1, tile=128x72x64"),
    ("e4m3 x u4 - 8", "swap=1, tile=64x128x128"),
    ("bf16 x i4 - 127", "swap=1, tile=64x72x64"),
    ("bf16 x u4 - Z[n,k/128]", "swap=1, tile=64x72x64, consumers=pingpong"),
    ("f16 x u4 - Z[k/32,n]", "swap=1, tile=128x72x64"),
    ("bf16 x u4 - Z[k/16,n/3]:i4", "swap=1, tile=64x136x64"),
    ("u4 - Z[m,k/48]:i8 x f16", "invariant, swap=0, tile=64x16x64"),
    ("bf16 x u4 - Z, folded", "invariant, swap=1, tile=192x16x64"),
    ("e4m3 x i4 - 5", "swap=1, tile=64x24x128"),
    ("e4m3 x u4 - Z[k/128,n]", "swap=1, tile=128x16x128, split=2, parts=cluster"),
    ("e4m3 x i4 - Z[n/2,k/16]", "swap=1, tile=128x72x128, promote=64"),
    ("e4m3 x i4 - Z[n/2,k/16]", "swap=1, tile=192x8x128, promote=64, stages=2"),
    ("e5m2 x u4 - Z[k/128,n]", "swap=1, tile=64x72x128"),
]

INTERLEAVED = [
    ("bf16 x nvfp4", "swap=1, tile=64x16x64"),
    ("bf16 x mxfp4", "swap=1, tile=128x24x64, cluster=2x1, split=2, parts=cluster"),
    ("nvfp4 x f16", "swap=0, tile=128x40x64, stages=2"),
    ("bf16 x tiled ue4m3", "swap=1, tile=256x8x64, warpgroups=2, unroll=1"),
    ("bf16 x i4 1x64 of bf16", "swap=1, tile=192x16x64, scale_path=thread"),
    ("bf16 x e4m3 128x128", "swap=1, tile=64x64x64, mma_n=32, cluster=1x2"),
    ("e4m3 x e2m1", "swap=1, tile=64x16x128, early_wait=0"),
    ("e4m3 1x128 x i4", "swap=1, tile=64x32x128"),
    ("bf16 x u4 - 8", "swap=1, tile=64x24x64"),
    ("e4m3 x u4 - 8", "swap=1, tile=128x16x128"),
    ("e5m2 x i4", "swap=1, tile=64x16x128"),
    ("f16 x u4 - 3", "swap=1, tile=64x16x64"),
    ("bf16 x u4 - Z[n,k/128]", "swap=1, tile=128x16x64, cluster=2x1, split=2, parts=cluster"),
    ("f16 x u4 - Z[k/32,n]", "swap=1, tile=64x24x64, unroll=1"),
    ("bf16 x i4 - Z[n]:i8", "swap=1, tile=256x8x64, warpgroups=2, stages=2"),
    ("bf16 x u4 - Z[k/16,n/3]:i4", "swap=1, tile=192x16x64, early_wait=0"),
    ("u4 - Z[m,k/48]:i8 x f16", "swap=0, tile=64x32x64, split=2"),
    ("bf16 x u4 - Z, folded", "swap=1, tile=128x16x64"),
    ("e5m2 x f16", "swap=0, tile=64x56x64, split=3"),
    ("bf16 x tf32", "swap=0, tile=64x16x32"),
]


def both_ways(name: str, schedule: str) -> list[np.ndarray]:
    """Of conversion in shared memory and in registers: tails of all dimensions, and K no multiple of its tile."""
    dims, made = {"m": 40, "n": 80, "k": 160}, []
    for convert in ("shared", "registers"):
        given = schedule if convert == "registers" else schedule.replace(", consumers=pingpong", "")
        _, results = run(f"{ALL[name]} with convert={convert}, {given}", "sm_90a", dims, "nk")
        made.append(results["C"])
    return made


@pytest.mark.once(touches=lambda schedule, **_: re.findall("mma_n|consumers", schedule))
@pytest.mark.parametrize(("name", "schedule"), SCHEDULES)
def test_the_same_bits_as_from_shared_memory(name: str, schedule: str) -> None:
    """Sums are in one order, whichever way A comes."""
    shared, registers = both_ways(name, schedule)
    assert shared.tobytes() == registers.tobytes()


@pytest.mark.once(touches=lambda name, **_: re.findall("e5m2 x i4|i4|u4|e2m1|nvfp4|tf32", name))
@pytest.mark.parametrize(("name", "schedule"), INTERLEAVED)
def test_where_rows_are_interleaved(name: str, schedule: str) -> None:
    """The same products in another order, of which the f32 sums are."""
    shared, registers = both_ways(name, schedule)
    np.testing.assert_allclose(registers, shared, rtol=0, atol=2e-6 * float(np.abs(shared).max()))


@pytest.mark.once
@pytest.mark.parametrize("result", ["e4m3", "mxfp8", "mxfp4"])
def test_narrow_results_of_interleaved_rows(result: str) -> None:
    """Copies permute B's rows, which a warp then interleaves one by one: the same bits as without."""
    program = f"C[m,n]:{result} = (A[m,k]:u4 - 8) @ B[n,k]:bf16 scale(1x64:bf16, none)"
    made = []
    for permuted in (0, 32 if result == "mxfp4" else 16):
        schedule = f"swap=0, tile=64x32x64, convert=registers, permute_n={permuted}"
        _, results = run(f"{program} with {schedule}", "sm_90a", {"m": 72, "n": 96, "k": 160}, "nk")
        made.append({name: x.tobytes() for name, x in results.items()})
    assert made[0] == made[1]


@pytest.mark.once
@pytest.mark.parametrize(
    ("stored", "made"),
    [("e2m1", "bf16"), *(x for x in EVERY if x not in (("e2m1", "bf16"), ("e2m1", "tf32"), ("i4", "tf32")))],
)
def test_every_element_is_the_same_behind_it(stored: str, made: str) -> None:
    every_element_is_the_same(stored, made, "swap=1, convert=registers")


DEEP = [
    ("bf16 x nvfp4", "tile=64x16x256, stages=2"),
    ("bf16 x ue4m3@blocked", "tile=128x16x128, split=2"),
    ("bf16 x i4", "tile=64x24x128"),
    ("bf16 x e4m3 128x128", "tile=64x16x128, cluster=2x1"),
    ("bf16 x u4 - Z[n,k/128]", "tile=128x16x128, split=2, parts=cluster"),
    ("f16 x u4 - Z[k/32,n]", "tile=64x72x128, unroll=1"),
    ("bf16 x i4 - Z[n]:i8", "tile=64x8x128, promote=64, stages=2"),
]


@pytest.mark.once
@pytest.mark.parametrize(("name", "schedule"), DEEP)
def test_tiles_of_several_panels_along_k(name: str, schedule: str) -> None:
    program = f"{ALL[name]} with swap=1, convert=registers, {schedule}"
    run_on(program, {"m": 24, "n": 72, "k": 320}, ("n", "k"), 3, 1e-5)


WITH_MORE = [x for x in MORE if "e4m3 @" not in x[0] and "i4 @" not in x[0] and "nvfp4 @" not in x[0]]


@pytest.mark.once
@pytest.mark.parametrize(("program", "sizes"), WITH_MORE)
def test_more(program: str, sizes: dict[str, int]) -> None:
    """Batches, sums of several indices, groups, gathered activations, epilogues."""
    dims = {"m": 80, "n": 160, "k": 128, **sizes}
    run_on(f"{program} with swap=1, convert=registers", dims, ("n", "k"), 3, 1e-3)


BOTH = [
    ("C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)", "swap=1, tile=64x16x64", 160),
    ("C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)", "swap=1, tile=128x24x128, promote=64, unroll=1", 320),
    ("C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4", "swap=1, tile=128x40x128, cluster=2x1, split=2, parts=cluster", 320),
    ("C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4", "swap=0, tile=256x16x128, converters=2", 160),
    ("C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:i4 scale(1x32)", "swap=1, tile=64x56x64", 160),
    ("C[m,n]:f32 = (A[m,k]:bf16 * w[k]) @ B[n,k]:nvfp4", "swap=1, tile=64x16x64", 160),
]


@pytest.mark.once
@pytest.mark.parametrize(("program", "schedule", "k"), BOTH)
def test_beside_an_operand_that_warps_convert(program: str, schedule: str, k: int) -> None:
    """The same bits as if warps converted both, whose tiles have one panel along K: what is promoted is as long."""
    made, dims = {}, {"m": 40, "n": 80, "k": k}
    for convert in ("shared", "registers"):
        given = schedule if convert == "registers" else schedule.replace("x128", "x64")
        _, results = run(f"{program} with convert={convert}, {given}", "sm_90a", dims, "nk")
        made[convert] = results["C"].tobytes()
    assert made["shared"] == made["registers"]


def test_half_a_byte_of_both() -> None:
    with pytest.raises(ScheduleError) as error:
        scalec.compile(f"{ALL['mxfp4 x mxfp4']} with swap=1, convert=registers", target="sm_90a", dims={"k": 161})
    assert "rows of k = 161 end in half a byte, which warps make 0 in shared memory" in str(error.value.got)


@pytest.mark.parametrize(
    ("program", "schedule", "reason"),
    [
        (ALL["mxfp4 x mxfp4"], "swap=1, tile=64x16x128, swizzle_b=32", "warps make 2 panels of A at most, and 128"),
        (ALL["bf16 x nvfp4"], "swap=0", "B is converted, and wgmma takes its left operand alone from registers: A"),
        ("C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:bf16", "swap=1", "A is converted, and wgmma takes its left operand alone"),
        (ALL["bf16 x nvfp4"].replace("B[n,k]:nvfp4", "B[n,k]:bf16"), "swap=1", "no operand is converted"),
        ("C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:e4m3", "swap=1", "B is contiguous along n"),
        (
            "C[m,n]:f32 = A[m,k]:tf32 @ (B[n,k]:u4 - 7)",
            "swap=1",
            "B is less 7, and becomes tf32 in shared memory alone",
        ),
        ("C[m,n]:f32 = A[m,k]:tf32 @ (B[n,k]:u4 - Z[n])", "swap=1", "B is less Z, and becomes tf32 in shared memory"),
        (
            "C[g,m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/64]) scale(none,1x64) for k in off[g]:off[g+1]",
            "swap=1",
            "groups of k begin anywhere in a block of k that has one zero point of Z",
        ),
        ("C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:i4", "swap=1", "1 elements of i4 .B. are 4 bits, not whole bytes"),
        ("C[m,n]:f32 = A[idx[m],k]:nvfp4 @ B[n,k]:bf16", "swap=0", "rows of A are named by idx"),
        (
            "G[m,n] = X[m,k]:i4 @ V[n,k]:bf16; H[m,n] = G * (X[m,k]:i4 @ W[n,k]:bf16)",
            "tile=64x64x128",
            "strips of V and W",
        ),
        (
            ALL["bf16 x i4 1x32"],
            "swap=1, promote=16, tile=64x16x64",
            "16 bytes of a row of B, and 16 of k are promoted",
        ),
    ],
)
def test_refused(program: str, schedule: str, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        scalec.compile(f"{program} with {schedule}, convert=registers", target="sm_90a")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("C[g,m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e4m3 for k in off[g]:off[g+1] by 32", "a range of k may begin within"),
        ("C[m,n]:f32 = A[idx[m],k]:bf16 @ B[n,k]:e4m3", "copies bring rows of A one by one"),
    ],
)
def test_tiles_that_have_one_panel_alone(program: str, reason: str) -> None:
    with pytest.raises(ScheduleError) as error:
        scalec.compile(f"{program} with swap=1, convert=registers, tile=64x16x128", target="sm_90a")
    assert reason in str(error.value.got)


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_other_targets_have_none(target: str) -> None:
    with pytest.raises(ScheduleError, match="has no instruction that takes one operand from registers"):
        scalec.compile(f"{ALL['bf16 x nvfp4']} with convert=registers", target=target)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 3;", "in-flight"),
        (r"\twgmma\.fence\.sync\.aligned;\n", "", "wgmma"),
    ],
)
def test_registers_that_are_multiplied_are_not_touched(old: str, new: str, what: str) -> None:
    """Converted anew before the product of them was waited for; and multiplied before they are known to be there."""
    program = f"{ALL['bf16 x nvfp4']} with swap=1, convert=registers, tile=64x16x64, unroll=1"
    with pytest.raises(DeviceError, match=rf"\b{what}: "):
        run_on(program, {"m": 16, "n": 64, "k": 512}, ("n", "k"), 3, 1e-5, change=changed(old, new))


BY_VECTORS = [
    ("bf16 x mxfp4", "sm_90a", "tile=64x16x128, swap=1, convert=registers", 1024),
    ("bf16 x nvfp4", "sm_90a", "tile=64x16x128, swap=1, convert=registers, split=2", 1024),
    ("bf16 x nvfp4", "sm_90a", "tile=64x16x256, swap=1, convert=registers, stages=2", 512),
    ("bf16 x nvfp4", "sm_100a", "", 1024),
    ("bf16 x nvfp4", "sm_120a", "", 1024),
    ("C[m,n]:f32 = A[idx[m],k]:mxfp8 @ B[n,k]:mxfp8", "sm_90a", "", 512),
]


@pytest.mark.once("target")
@pytest.mark.parametrize(("name", "target", "schedule", "k"), BY_VECTORS)
def test_scale_bytes_of_several_k_blocks_in_one_load(name: str, target: str, schedule: str, k: int) -> None:
    """Rows of scales that lie at multiples of 16 bytes, and those of a view that do not: right, of the same bits."""
    program, dims = ALL.get(name, name), {"m": 24, "n": 72, "k": k}
    dims |= {"A_0": 30} if "idx" in program else {}
    program += f" with {schedule}" if schedule else ""
    kernel = run_on(program, dims, ("n", "k"), 3, 1e-3, target=target).kernel
    assert "ld.global.nc.v4.b32" in kernel.ptx
    device, (values, expected) = emulated.EmulatedDevice(target), made_up(program, dims, 3)
    kernel.load(device)
    kernel.fixed = device
    made = []
    for pad in (0, 1):
        given = [Guarded(device, t, reference.storage(values[t.name]), pad=pad) for t in kernel.spec.operands]
        strides = [x.strides[0] % 16 for x in given if x.spec.name.endswith("_scale")]
        assert strides
        assert all(strides) == bool(pad)
        out = Guarded.result(device, kernel.spec.results[0], dims, FILLS[0], None)
        kernel(*given, out=out)
        made.append(out.numpy().copy())
    assert made[0].tobytes() == made[1].tobytes()
    found, wanted = (x[expected.written["C"]].astype(np.float64) for x in (made[0], expected["C"]))
    assert reference.diff(found, wanted) < 1e-3
