"""The memory in which parts of K meet: how much, for whom, how long; and its way into the launch."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace

import pytest

from scalec.abi import Argument, KernelSpec
from scalec.errors import UnsupportedError
from scalec.runtime import bundle
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, Tensor, gemm_spec, gemm_tensors, machine_code

PART = 128 * 128 * 4


@pytest.fixture
def device():
    return FakeDevice()


def split_spec(split: int = 4) -> KernelSpec:
    spec = gemm_spec()
    arguments = (*spec.arguments, Argument("parts"), Argument("counters"))
    return replace(spec, arguments=arguments, launch=replace(spec.launch, split=split, part_bytes=PART))


def test_bytes_and_grid():
    launch = split_spec().launch
    dims = {"m": 256, "n": 512}
    assert launch.units(dims) == 4 * 1 * 4
    assert launch.workspace(dims, 66) == (4 * 8 * PART, 8 * 4)
    assert launch.grid(dims, 66) == 16 * 2
    assert launch.grid(dims, 5) == 5 * 2
    assert gemm_spec().launch.workspace(dims, 66) == (0, 0)


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


def streamed_spec(shares: int = 3, k_units: int = 14) -> KernelSpec:
    spec = gemm_spec()
    kinds = ("parts", "counters", "whole", "share", "longer")
    arguments = (*spec.arguments, *map(Argument, kinds))
    launch = replace(spec.launch, shares=shares, k_units=k_units, part_bytes=PART)
    return replace(spec, arguments=arguments, launch=launch)


# clusters' worth of tiles, clusters that run at once: clusters launched, tiles not cut and cut, shares and longer ones
DEALT = {
    (187, 66): (66, 66, 121, 25, 44),  # 2.83 waves: 121 tiles of 14 units are 66 shares of 25, 44 of them one longer
    (198, 66): (66, 198, 0, 0, 0),  # three waves
    (67, 66): (66, 0, 67, 14, 14),  # one and a bit: all are cut
    (66, 66): (66, 66, 0, 0, 0),
    (40, 66): (66, 0, 40, 8, 32),  # less than one: 560 units in 66 shares
    (20, 66): (60, 0, 20, 4, 40),  # no more than three shares of a tile
    (1, 66): (3, 0, 1, 4, 2),
}


@pytest.mark.parametrize(("units", "clusters"), DEALT)
def test_how_tiles_are_dealt_out(units: int, clusters: int) -> None:
    launched, whole, cut, share, longer = DEALT[units, clusters]
    launch, dims = streamed_spec().launch, {"m": 256 * units, "n": 128}
    assert launch.units(dims) == units
    assert launch.grid(dims, clusters) == 2 * launched
    assert launch.dealt(dims, clusters) == (whole, cut, share, longer)
    assert whole % launched == 0
    assert share * launched + longer == cut * launch.k_units
    parts, counters = (cut + launched, cut) if cut else (1, 1)
    assert launch.workspace(dims, clusters) == (2 * parts * PART, 2 * counters * 4)


def test_shares_travel():
    spec = streamed_spec()
    assert KernelSpec.from_json(spec.to_json()) == spec


def test_a_launch_is_told_its_shares(device):
    """Of 33 SMs 16 clusters run at once; 18 tiles are 2 more than those, and all are cut."""
    device.sms = 33
    kernel = Kernel(streamed_spec(), b"", device=device)
    for m, told in ((256 * 18, (0, 15, 12)), (256 * 16, (16, 0, 0)), (256 * 35, (16, 16, 10))):
        for _ in range(3):  # moved parameters, then a launcher of their own
            kernel(*gemm_tensors(m=m, n=128).values())
            *_, parts, counters, whole, share, longer = device.launches[-1].parameters
            assert (whole, share, longer) == told
            assert device.launches[-1].grid == 32
            assert device.reserved[parts] >= 2 * PART
            assert device.download(counters, device.reserved[counters], 0) == bytes(device.reserved[counters])


def test_a_bundle_has_shares(device, tmp_path):
    bundle.write(tmp_path, [Kernel(streamed_spec(), machine_code(streamed_spec()))])
    bundle.load(tmp_path, device=device)(*gemm_tensors().values())
    wanted = streamed_spec().launch.dealt({"m": 256, "n": 512}, device.sms // 2)
    assert tuple(device.launches[-1].parameters[-3:]) == (wanted.whole, wanted.share, wanted.longer)
    assert len(device.reserved) == 2


def test_a_share_without_cut_tiles_is_refused(device):
    spec = replace(streamed_spec(), launch=gemm_spec().launch)
    arguments = tuple(a for a in spec.arguments if a.kind not in ("parts", "counters"))
    with pytest.raises(UnsupportedError, match="kind 'whole', and no tile is cut"):
        Kernel(replace(spec, arguments=arguments), b"", device=device)(*gemm_tensors().values())
