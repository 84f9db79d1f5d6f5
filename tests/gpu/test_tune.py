"""The tuner on a GPU: a small shape, from candidates to the kernel that the compiler then makes; ranges at run time."""

from __future__ import annotations

import pytest

import scalec
from scalec.commands import tune as command
from scalec.measured import database
from scalec.sizes import Range
from scalec.tuning.build import build
from tests.gpu.test_dense import FP8, diff, quantised

pytestmark = pytest.mark.gpu

N, K = 512, 1024


def test_a_small_shape(torch, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SCALEC_TUNING", str(tmp_path / "tuning.json"))
    from scalec.tuning.gpu_timer import GpuTimer
    from scalec.tuning.tuner import Job

    timer = GpuTimer(peers=True)
    job = Job(FP8, timer.facts()["target"], {"n": N, "k": K}, Range(1, 32), candidates=3, rounds=5)
    files = command.Files(output=str(tmp_path / "out.json"), plot=str(tmp_path / "out.svg"))

    def one_by_one(recipes):
        return ((r, build(r)) for r in recipes)

    def silent(what: str, done: int, total: int) -> None:
        pass

    found = command.run(job, files, timer, one_by_one, silent)
    command.report(job, found, files, timer.facts())
    assert [one.m for one in found] == [Range(1, 8), Range(9, 16), Range(17, 32)]
    assert all(0.5 < one.us <= 1.003 * one.default_us < 1000 for one in found)
    assert all(one.us > one.roofline_us for one in found)
    assert all(len(one.peers) >= 1 for one in found), found[0].peers
    assert [e.facts["gpu"] for e in database.read(files.database_path())] == [torch.cuda.get_device_name()] * len(found)
    assert command.run(job, files, timer, one_by_one, silent) == found  # out of the journal
    for one in found:
        arguments, _, exact = quantised(torch, one.at, N, K)
        kernel = scalec.compile(FP8, dims={"m": one.at, "n": N, "k": K})
        assert kernel.spec.schedule == ", ".join(f"{f}={v}" for f, v in one.schedule.items())
        assert diff(kernel(*arguments), exact[0] @ exact[1].t()) < 3e-6


def test_a_wrong_kernel_is_not_timed(torch) -> None:
    from scalec.runtime.cache import Compiled
    from scalec.tuning.gpu_timer import GpuTimer

    right = scalec.compile(FP8, dims={"n": N, "k": K})
    other = scalec.compile(FP8.replace("A[m,k]@", "2*A[m,k]@"), dims={"n": N, "k": K})
    kernels = {name: Compiled(k.spec, k.cubin, k.ptx) for name, k in (("right", right), ("wrong", other))}
    with GpuTimer().open(kernels, {"m": 16, "n": N, "k": K}, ("",)) as samples:
        assert list(samples.wrong) == ["wrong"]
        assert samples.sample("right", "") > 0.5


def test_a_range_runs_the_kernel_of_each_size(torch) -> None:
    program = scalec.compile(FP8, dims={"n": 2112, "k": 7168, "m": "1:4096"})
    assert len(program.kernels) > 3
    program.load()
    for m in (1, 8, 9, 16, 17, 64, 65, 300, 4096):
        arguments, _, exact = quantised(torch, m, 2112, 7168)
        got = program(*arguments)
        assert diff(got, exact[0] @ exact[1].t()) < 3e-6
        out, graph = torch.zeros_like(got), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            program(*arguments, out=out)
        graph.replay()
        assert torch.equal(out, got)
    with pytest.raises(scalec.ArgumentError, match="no kernel of C is compiled for these shapes"):
        program(*quantised(torch, 4097, 2112, 7168)[0])
