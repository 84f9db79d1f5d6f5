"""`scalec emulate`: arguments, seeds, counters, findings; `scalec run` on the emulator."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from tests.cli.cli_programs import FP8

DOUBLE = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry twice(.param .u64 a, .param .u64 b, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %rd<9>;
    mov.u32 %r1, %tid.x;
    ld.param.u32 %r2, [n];
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra END;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.rn.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
END:
    ret;
}
"""


@pytest.fixture
def ptx(tmp_path):
    path = tmp_path / "twice.ptx"
    path.write_text(DOUBLE)
    return str(path)


def test_a_clean_run(invoke, ptx, tmp_path):
    result = invoke(
        "emulate", ptx, "--block", "64", "--arg", "iota:f32[40]", "--arg", "out:f32[40]", "--arg", "40",
        "--seed", "0:3", "--save", f"1={tmp_path / 'b.npy'}",
    )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no findings in 3 runs" in result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), 2 * np.arange(40))


def test_arrays_from_files(invoke, ptx, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(8, dtype=np.float32))
    result = invoke(
        "emulate", ptx, "--block", "32", "--arg", f"in:{tmp_path / 'a.npy'}", "--arg", "out:f32[2,4]", "--arg", "8",
        "--save", f"1={tmp_path / 'b.npy'}",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert np.load(tmp_path / "b.npy").tolist() == [[0, 2, 4, 6], [8, 10, 12, 14]]


def test_a_finding(invoke, ptx):
    result = invoke("emulate", ptx, "--block", "64", "--arg", "iota:f32[40]", "--arg", "out:f32[39]", "--arg", "40")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "bounds: lane 7: 4 bytes at address" in result.stderr
    assert "line 19: st.global.f32" in result.stderr
    assert "CTA 0 warp 1, lanes 0-7" in result.stderr
    ignored = invoke("emulate", ptx, "--block", "64", "--arg", "out:f32[40]", "--arg", "out:f32[40]", "--arg", "40")
    assert "uninitialised" in ignored.stderr
    allowed = invoke(
        "emulate", ptx, "--block", "64", "--arg", "out:f32[40]", "--arg", "out:f32[40]", "--arg", "40",
        "--ignore", "uninitialised",
    )  # fmt: skip
    assert allowed.exit_code == 0, allowed.stderr


def test_stats(invoke, ptx):
    arguments = ("--block", "64", "--arg", "iota:f32[40]", "--arg", "out:f32[40]", "--arg", "40")
    table = invoke("emulate", ptx, *arguments, "--stats")
    assert "warp instructions" in table.stdout
    found = json.loads(invoke("emulate", ptx, *arguments, "--stats-json", "-").stdout)
    assert found["bytes"]["global -> registers"] == found["bytes"]["registers -> global"] == 160
    assert found["by class"]["memory"] == 2 * 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--arg", "1"), "give --block"),
        (("--block", "0"), "not X, X,Y or X,Y,Z"),
        (("--block", "32", "--arg", "1"), "has 3 parameters, got 1 arguments; they are 0: .u64, 1: .u64, 2: .u32"),
        (("--block", "32", "--arg", "5.5", "--arg", "1", "--arg", "1"), "parameter a is .u64, an integer or"),
        (("--block", "32", "--arg", "1", "--arg", "1", "--arg", "0.5"), "parameter n is .u32"),
        (("--block", "32", "--arg", "at:A"), "names no buffer"),
        (("--block", "32", "--buffer", "A=out:f32[4]", "--arg", "at:A+x"), "expected: at:BUFFER or at:BUFFER+BYTES"),
        (("--block", "32", "--buffer", "A=1", "--arg", "1"), "buffer A='1'"),
        (("--block", "32", "--buffer", "0=out:f32[4]", "--arg", "out:f32[4]"), "a number names an argument"),
        (("--block", "32", "--buffer", "A=out:f32[4]", "--buffer", "A=out:f32[4]"), "there is a buffer A already"),
        (("--block", "32", "--buffer", "A=out:f32[4]", "--arg", "map:A/boxes=4"), "'boxes' of argument"),
        (("--block", "32", "--buffer", "A=out:f32[4]", "--arg", "map:A/box=4/fill=one"), "expected: zero, nan"),
        (("--block", "32", "--buffer", "A=out:f32[4]", "--arg", "map:A/box=4/interleave=16"), "/shape=... in slices"),
        (("--block", "32", "--buffer", "A=out:f32[4]", "--arg", "map:A/box=4/lower=--1"), "PIXELSxPIXELS"),
        (("--block", "32", "--arg", "out:f32[4,4]", "--max-memory", "63"), "64 bytes"),
        (("--block", "32", "--max-memory", "many"), "no number of bytes"),
        (("--block", "32", "--arg", "zero:f32[3]", "--arg", "1", "--arg", "1"), "argument 'zero:f32[3]'"),
        (("--block", "32", "--arg", "zeros:f31[3]", "--arg", "1", "--arg", "1"), "type 'f31'"),
        (("--block", "32", "--seed", "x"), "seeds 'x'"),
        (("--entry", "nothing", "--block", "32"), "no entry 'nothing'"),
        (("--block", "2048", "--arg", "1", "--arg", "1", "--arg", "1"), "2048 threads"),
    ],
)
def test_misuse(invoke, ptx, arguments, says):
    result = invoke("emulate", ptx, *arguments)
    assert result.exit_code in (1, 2)
    assert says in result.stderr


def test_not_ptx(invoke, tmp_path):
    path = tmp_path / "x.ptx"
    path.write_text("int main() {}")
    result = invoke("emulate", str(path))
    assert result.exit_code == 1
    assert "line 1" in result.stderr
    assert invoke("emulate", str(tmp_path / "none.ptx")).exit_code == 1


def test_run_without_a_gpu(invoke, on_the_emulator):
    result = invoke("run", FP8, "--dim", "m=40,n=64,k=256")
    assert result.exit_code == 0, result.stderr
    head, row = result.stdout.splitlines()
    assert head.split() == ["result", "diff", "at", "most", "max", "error", "at", "most"]
    assert float(row.split()[1]) < 3e-6
    assert "the emulator (sm_90a)" in result.stderr


def test_buffers_that_are_no_arguments(invoke, ptx, tmp_path):
    result = invoke(
        "emulate", ptx, "--block", "32", "--buffer", "A=iota:f32[16]", "--buffer", "B=out:f32[9]", "--arg", "at:A+32",
        "--arg", "at:B+4", "--arg", "8", "--save", f"B={tmp_path / 'b.npy'}", "--ignore", "uninitialised",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), [0, *range(16, 32, 2)])


SHARING = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 which)
{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r2, [which];
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.b32 %r3, [%rd4]; add.u32 %r3, %r3, 100; st.global.b32 [%rd5], %r3;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 atom.global.add.u32 %r4, [%rd1+28], 1;
    ret;
}
"""


@pytest.mark.parametrize(
    ("grid", "which", "says"), [(1, 0, ""), (7, 0, ""), (7, 1, "CTAs share bytes of argument 0"), (9, 0, "alone")]
)
def test_jobs(invoke, tmp_path, grid, which, says):
    path = tmp_path / "k.ptx"
    path.write_text(SHARING)
    values = ("--arg", "iota:u32[8]", "--arg", "out:u32[8]", "--arg", str(which))
    arguments = ("--grid", str(grid), "--block", "1", *values)
    runs = []
    for jobs in ("1", "3"):
        saved = ("--save", f"1={tmp_path / 'b.npy'}", "--stats-json", "-", "--jobs", jobs)
        result = invoke("emulate", str(path), *arguments, *saved)
        assert result.exit_code == (grid > 8)
        if grid > 8:
            assert "bounds" in result.stderr
        else:
            runs.append((np.load(tmp_path / "b.npy").tolist(), json.loads(result.stdout)))
    assert says in result.stderr
    if runs:
        assert runs[0] == runs[1]
        assert runs[0][0][:grid] == [100 + i for i in range(grid)]


def test_jobs_for_seeds(invoke, ptx):
    arguments = ("--block", "64", "--arg", "iota:f32[40]", "--jobs", "2")
    clean = invoke("emulate", ptx, *arguments, "--arg", "out:f32[40]", "--arg", "40", "--seed", "0:3")
    assert "no findings in 3 runs" in clean.stderr
    found = invoke("emulate", ptx, *arguments, "--arg", "out:f32[39]", "--arg", "40", "--seed", "2:5")
    assert (found.exit_code, found.stderr.count("bounds: lane 7")) == (1, 1)
    assert "seed 2" in found.stderr


def test_a_kernel_that_is_too_long(invoke, ptx):
    arguments = ("--block", "32", "--arg", "iota:f32[40]", "--arg", "out:f32[40]", "--arg", "40")
    assert invoke("emulate", ptx, *arguments, "--max-instructions", "13").exit_code == 0
    result = invoke("emulate", ptx, *arguments, "--max-instructions", "12")
    assert "has executed 13 instructions" in result.stderr
    assert "--max-instructions" in result.stderr


BOX = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry boxed(.param .u64 a, .param .u64 b, .param .align 64 .b8 map[128])
{
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 1024 .b8 box[1024];
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, box;
    mov.u32 %r3, bar;
    ld.param.u64 %rd1, [b];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra END;
    mbarrier.init.shared.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r3], 1024;
    mov.b64 %rd4, map;
    cvta.param.u64 %rd2, %rd4;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2, {%r1, %r1}], [%r3];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;
    @!%p1 bra WAIT;
    ld.shared.b32 %r4, [%r2+160];
    st.global.b32 [%rd1], %r4;
END:
    ret;
}
"""


def boxed(invoke, tmp_path, *arguments, count=1024):
    """The word that BOX finds at byte 160 of the box, for which `count` bytes are copied."""
    path = tmp_path / "boxed.ptx"
    path.write_text(BOX.replace("[%r3], 1024", f"[%r3], {count}"))
    result = invoke("emulate", str(path), "--block", "32", *arguments, "--save", f"1={tmp_path / 'b.npy'}")
    assert result.exit_code == 0, result.stderr
    return np.load(tmp_path / "b.npy").item()


@pytest.mark.parametrize(
    ("data", "settings", "word"),
    [
        ("iota:f32[9,32]", "offset=128", np.float32(32 + 40).view("u4")),
        ("iota:f32[16,64]", "shape=8x32", np.float32(64 + 8).view("u4")),
        ("iota:f32[2000]", "shape=8x32/strides=512", np.float32(128 + 8).view("u4")),
        ("iota:f32[16,32]", "steps=2x1/box=16x32", np.float32(64 + 8).view("u4")),
        ("iota:f32[1,32]", "fill=nan", 0x7FF77FF7),
        ("iota:f32[1,32]", "", 0),
        ("iota:f32[8,32]", "swizzle=128/atom=32+8/box=8x32", np.float32(32 + 2).view("u4")),
        # 128 elements of four bits in a row: 64 bytes, in memory and in the box; padded ones take 16 bytes by sixteen
        ("iota:u8[16,64]", "element=b4x16/box=16x128", 0xA3A2A1A0),
        ("iota:u8[8,64]", "element=b4x16_p64/box=8x128", 0x53525150),
        ("iota:u8[8,96]", "element=b6x16_p32/box=8x128", 0x7B7A7978),
    ],
)
def test_tensor_maps(invoke, tmp_path, data, settings, word):
    settings = settings if "box=" in settings else f"{settings}/box=8x32".removeprefix("/")
    count = {"p64": 512, "p32": 768}.get(settings.split("/")[0][-3:], 1024)
    found = boxed(invoke, tmp_path, "--arg", data, "--arg", "out:u32[1]", "--arg", f"map:0/{settings}", count=count)
    assert found == word


def test_an_im2col_map(invoke, tmp_path, monkeypatch):
    """Columns of 32 pixels of 6 x 6, 8 channels each, moved one down: byte 160 is in the sixth pixel."""
    old = "2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2, {%r1, %r1}], [%r3];"
    new = "4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r2], [%rd2, {0, -1, -1, 0}], [%r3], {0, 1};"
    assert BOX.count(old) == 1
    monkeypatch.setitem(globals(), "BOX", BOX.replace(old, new))
    settings = "map:0/box=32x8/lower=-1x-1/upper=-2x-2"
    found = boxed(invoke, tmp_path, "--arg", "iota:f32[2,6,6,8]", "--arg", "out:f32[1]", "--arg", settings)
    assert found == 0  # the second row's first, at w = -1
    settings = "map:0/box=32x8/lower=-1x-1/upper=-3x-3"
    found = boxed(invoke, tmp_path, "--arg", "iota:f32[2,6,6,8]", "--arg", "out:f32[1]", "--arg", settings)
    assert found == 8 * 6  # the second row's second, at w = 0, h = 1


@pytest.mark.parametrize(("atom", "element"), [("", 32 + 12), ("/atom=16", 32 + 12), ("/atom=32", 32)])
def test_what_a_maps_swizzle_keeps_together(invoke, tmp_path, atom, element):
    # byte 160 is the third chunk of the second line: chunk 2 ^ 1, or the second atom, 1 ^ 1
    path = tmp_path / "boxed.ptx"
    path.write_text(BOX)
    result = invoke(
        "emulate", str(path), "--block", "32", "--arg", "iota:f32[8,32]", "--arg", "out:f32[1]",
        "--arg", f"map:0/box=8x32/swizzle=128{atom}", "--save", f"1={tmp_path / 'b.npy'}",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert np.load(tmp_path / "b.npy") == element


@pytest.mark.parametrize(("settings", "refused"), [("", False), ("/atom=32", True), ("/element=b4x16/box=8x256", True)])
@pytest.mark.parametrize("destination", ["shared::cluster", "shared::cta"])
def test_what_sm_120a_does_not_copy_to_a_cluster(invoke, tmp_path, destination, settings, refused):
    path = tmp_path / "boxed.ptx"
    path.write_text(BOX.replace("sm_90a", "sm_120a").replace("2d.shared::cluster", f"2d.{destination}"))
    values = ("--arg", "iota:f32[8,32]", "--arg", "out:f32[1]", "--arg", f"map:0/box=8x32/swizzle=128{settings}")
    result = invoke("emulate", str(path), "--block", "32", *values)
    fails = refused and destination == "shared::cluster"
    assert result.exit_code == fails, result.stderr
    assert ("name the destination .shared::cta" in result.stderr) == fails


def _dies(*of: object) -> None:
    os._exit(9)


@pytest.mark.parametrize(("doing", "seeds"), [("_part", "0"), ("_fault", "0:2")])
def test_a_process_that_dies_costs_time_alone(invoke, ptx, monkeypatch, doing, seeds):
    monkeypatch.setattr(f"scalec.commands.emulate_jobs.{doing}", _dies)
    arguments = ("--block", "64", "--arg", "iota:f32[40]", "--arg", "out:f32[40]")
    result = invoke("emulate", ptx, *arguments, "--arg", "40", "--jobs", "2", "--seed", seeds)
    assert result.exit_code == 0, result.stderr
    assert "a process has died" in result.stderr
