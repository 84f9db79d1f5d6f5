"""Ranges of sizes: one kernel for each, chosen by a call's tensors; sizes outside are refused before a launch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalec.errors import ArgumentError, ScalecError
from scalec.runtime import bundle
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel
from scalec.sizes import Range, parse_size
from tests.runtime.fake import FakeDevice, code_of, gemm_spec, gemm_tensors, machine_code


def kernel(device: FakeDevice | None, low: int, high: int, **fields: object) -> Kernel:
    spec = replace(gemm_spec(n=512, k=1024), ranges={"m": (low, high)}, **fields)  # type: ignore[arg-type]
    return Kernel(spec, machine_code(spec, f"{low}:{high}".encode()), device=device)


def ladder(device: FakeDevice | None) -> Program:
    return Program("C", [kernel(device, 65, 8192), kernel(device, 1, 16), kernel(device, 17, 64)])


def shaped(**sizes: int) -> dict[str, object]:
    """Operands that say their shape, as torch's do."""
    made = gemm_tensors(**sizes)
    for t in made.values():
        t.shape = t.__cuda_array_interface__["shape"]  # type: ignore[attr-defined]
    return dict(made)


@pytest.mark.parametrize(("by_name", "tensors_of"), [(False, shaped), (False, gemm_tensors), (True, shaped)])
def test_the_range_of_a_size_decides(by_name: bool, tensors_of, monkeypatch) -> None:
    device = FakeDevice()
    program = ladder(device)
    if tensors_of is shaped and not by_name:  # the usual call looks one extent up
        monkeypatch.setattr(Program, "_fitting", None)
    found = {}
    for m in (1, 16, 17, 64, 65, 8192):
        tensors = tensors_of(m=m, n=512, k=1024)
        program(**tensors) if by_name else program(*tensors.values())
        found[m] = code_of(device.launches[-1].function[1])
    assert found == {1: b"1:16", 16: b"1:16", 17: b"17:64", 64: b"17:64", 65: b"65:8192", 8192: b"65:8192"}


def test_no_rows_launch_nothing() -> None:
    device = FakeDevice()
    result = ladder(device)(*gemm_tensors(m=0, n=512, k=1024).values())
    assert result.shape == (0, 512)
    assert not device.launches


def test_a_size_outside_is_refused() -> None:
    device = FakeDevice()
    with pytest.raises(ArgumentError) as caught:
        ladder(device)(*gemm_tensors(m=8193, n=512, k=1024).values())
    assert str(caught.value) == (
        "no kernel of C is compiled for these shapes\n"
        "  got: A [8193, 1024], B [512, 1024], A_scale [8193, 8], B_scale [4, 8]\n"
        "  expected: one of: n = 512, k = 1024, m = 1:16 (sm_90a); n = 512, k = 1024, m = 17:64 (sm_90a); "
        "n = 512, k = 1024, m = 65:8192 (sm_90a)\n"
        "  fix: compile with a range that has these sizes, or leave sizes open; in a bundle under the same name"
    )
    with pytest.raises(ArgumentError) as caught:
        kernel(device, 17, 64)(*gemm_tensors(m=65, n=512, k=1024).values())
    assert str(caught.value).splitlines()[0] == "A has m = 65, the kernel was compiled for m = 17:64"
    assert "  expected: A[m,k] with m from 17 to 64\n" in str(caught.value)
    assert not device.launches


def test_other_refusals_are_the_kernels() -> None:
    device = FakeDevice()
    tensors = gemm_tensors(m=20, n=512, k=1024)
    short = {**tensors, "A_scale": gemm_tensors(m=19, n=512, k=1024)["A_scale"]}
    with pytest.raises(ArgumentError, match="A_scale"):
        ladder(device)(*short.values())
    with pytest.raises(ArgumentError, match="no kernel of C"):
        ladder(device)(**gemm_tensors(m=20, n=640, k=1024))
    with pytest.raises(ArgumentError, match="B has n = 640"):
        ladder(device)(*shaped(m=20, n=640, k=1024).values())
    assert not device.launches


def test_ranges_travel_in_a_bundle(tmp_path) -> None:
    bundle.write(tmp_path, ladder(None).kernels)
    device = FakeDevice()
    program = bundle.load(tmp_path, device)["C"]
    assert [k.spec.ranges for k in program.kernels] == [{"m": (1, 16)}, {"m": (17, 64)}, {"m": (65, 8192)}]
    program(*gemm_tensors(m=30, n=512, k=1024).values())
    assert code_of(device.launches[0].function[1]) == b"17:64"
    bundle.write(tmp_path, [kernel(None, 17, 64)])  # replaces its like, and no other
    assert len(bundle.load(tmp_path)["C"].kernels) == 3


def test_all_are_loaded_before_a_capture() -> None:
    device = FakeDevice()
    ladder(device).load(device)
    assert len(device.loads) == 3


def test_invariant_kernels_that_add_differently_are_refused() -> None:
    fields = "swap=0, tile=64x16x128, cta_group=1, split={}, promote=128, invariant=1"
    one, other = (kernel(None, *r, schedule=fields.format(s)) for r, s in (((1, 16), 4), ((17, 64), 1)))
    with pytest.raises(ScalecError) as caught:
        Program("C", [one, other])
    assert "add in different orders\n  got: split = 4; and split = 1" in str(caught.value)
    Program("C", [one, kernel(None, 17, 64, schedule=fields.format(4).replace("64x16x", "128x128x"))])
    with pytest.raises(ScalecError, match="tile K = 128; and tile K = 64"):
        Program("C", [one, kernel(None, 17, 64, schedule=fields.format(4).replace("16x128", "16x64"))])


def test_invariant_kernels_of_the_transposed_result_are_compared_whatever_m_is() -> None:
    def transposed(m: int, n: int, split: int) -> Kernel:
        fields = f"swap=1, tile=64x16x128, cta_group=1, split={split}, promote=128, invariant=1"
        spec = replace(gemm_spec(n=n, k=1024), schedule=fields, flops=("n", "m", "k"))
        return Kernel(replace(spec, dims={**spec.dims, "m": m}), b"")

    Program("C", [transposed(16, 256, 1), transposed(16, 512, 2)])
    with pytest.raises(ScalecError, match="split = 1; and split = 2"):
        Program("C", [transposed(16, 256, 1), transposed(32, 256, 2)])


def test_a_kernel_shows_its_range() -> None:
    assert [repr(k).rpartition("; ")[2] for k in ladder(None).kernels] == [
        "m=1:16, n=512, k=1024)", "m=17:64, n=512, k=1024)", "m=65:8192, n=512, k=1024)"
    ]  # fmt: skip


def test_sizes_as_they_are_written() -> None:
    assert [parse_size("4096"), parse_size("0"), parse_size("1:64")] == [4096, 0, Range(1, 64)]
    assert str(Range(1, 64)) == "1:64"
    for text in ("", "0:4", "0:0", "a", "1:", ":4", "9:8", "1:2:3", "-1:4", "4294967296"):
        with pytest.raises(
            ValueError,
            match=r"is no number in digits|has no sizes|is more than|begins at 0, which belongs to every range",
        ):
            parse_size(text)
