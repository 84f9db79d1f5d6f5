"""The memory in which parts of K meet: how much, for whom, how long; and its way into the launch."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace

import pytest

from scalec.abi import Argument, KernelSpec
from scalec.errors import UnsupportedError
from scalec.meetings import meetings
from scalec.runtime import bundle
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, Tensor, gemm_spec, gemm_tensors, machine_code

PART = 128 * 128 * 4


@pytest.fixture
def device():
    return FakeDevice()


def split_spec() -> KernelSpec:
    spec = gemm_spec()
    arguments = (*spec.arguments, Argument("parts"), Argument("counters"))
    return replace(spec, arguments=arguments, launch=replace(spec.launch, split=4, part_bytes=PART))


def test_bytes_and_grid():
    launch = split_spec().launch
    dims = {"m": 256, "n": 512}
    assert launch.units(dims) == 4 * 1 * 4
    assert launch.workspace(dims) == (4 * 8 * PART, 8 * 4)
    assert launch.grid(dims, 66) == 16 * 2
    assert launch.grid(dims, 5) == 5 * 2
    assert gemm_spec().launch.workspace(dims) == (0, 0)


def test_parts_that_meet_by_steps_have_counters_for_each():
    assert [meetings(split) for split in (2, 32, 33, 64)] == [[2], [32], [33, 9, 3], [64, 16, 4]]
    launch = replace(split_spec().launch, split=64)
    assert launch.workspace({"m": 256, "n": 512}) == (64 * 8 * PART, 8 * 4 * (16 + 4 + 1))


def test_it_travels():
    spec = split_spec()
    assert KernelSpec.from_json(spec.to_json()) == spec


def test_a_launch_has_zeros_of_its_own(device):
    kernel = Kernel(split_spec(), b"", device=device)
    kernel(*gemm_tensors().values())
    parts, counters = device.launches[-1].parameters[-2:]
    assert (device.reserved[parts], device.reserved[counters]) == (4 * 8 * PART, 32)
    assert device.download(counters, 32, 0) == bytes(32)


def test_no_split_no_workspace(device):
    Kernel(gemm_spec(), b"", device=device)(*gemm_tensors().values())
    assert not device.reserved


def test_it_is_kept_for_a_stream_and_grows(device):
    kernel = Kernel(split_spec(), b"", device=device)
    used = []
    for m, stream in ((256, 0), (256, 0), (128, 0), (256, 7), (512, 0), (256, 0)):
        kernel(*gemm_tensors(m=m).values(), stream=stream)
        used.append(tuple(device.launches[-1].parameters[-2:]))
    assert used[0] == used[1] == used[2]
    assert used[3] != used[0]
    assert used[4] != used[0]
    assert used[5] in (used[0], used[4])  # launches on one stream follow each other: any of its workspaces will do
    assert device.reserved[used[4][0]] == 2 * device.reserved[used[0][0]]
    assert not device.released  # a CUDA graph may hold the address of the first


def test_threads_have_their_own_on_the_stream_of_each_thread(device):
    """CU_STREAM_PER_THREAD is one handle for many streams; launchers kept for the same tensors keep them apart."""
    kernel, given = Kernel(split_spec(), b"", device=device), gemm_tensors()
    used: dict[str, set] = {"one": set(), "other": set()}
    out = Tensor((256, 512), "<V2", at=0x4000)

    def call(name: str) -> None:
        for _ in range(4):
            kernel(*given.values(), out=out, stream=2)
            used[name].add(tuple(device.launches[-1].parameters[-2:]))

    call("one")
    thread = threading.Thread(target=call, args=("other",))
    thread.start()
    thread.join()
    call("one")
    assert len(used["one"]) == len(used["other"]) == 1
    assert used["one"] != used["other"]


def test_two_kernels_share_nothing(device):
    kernels = [Kernel(split_spec(), b"", device=device) for _ in range(2)]
    for kernel in kernels:
        kernel(*gemm_tensors().values())
    assert device.launches[0].parameters[-2:] != device.launches[1].parameters[-2:]


def test_it_goes_with_the_kernel(device):
    kernel = Kernel(split_spec(), b"", device=device)
    kernel(*gemm_tensors().values())
    del kernel
    gc.collect()
    assert sorted(device.released) == sorted(device.reserved)


def test_a_bundle_has_it(device, tmp_path):
    bundle.write(tmp_path, [Kernel(split_spec(), machine_code(split_spec()))])
    bundle.load(tmp_path, device=device)(*gemm_tensors().values())
    assert len(device.reserved) == 2


def test_an_argument_without_a_split_is_refused(device):
    spec = replace(split_spec(), launch=gemm_spec().launch)
    with pytest.raises(UnsupportedError, match="kind 'parts', and no split of K"):
        Kernel(spec, b"", device=device)(*gemm_tensors().values())
