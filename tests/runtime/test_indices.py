"""Index tensors at the call: their types and sizes, what they may hold, and results that are partly written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scalec.abi import Argument, KernelSpec, Launch, TensorSpec
from scalec.errors import ArgumentError, FormatError
from scalec.frontend import build
from scalec.ir.context import context
from scalec.lowering import reads, signature
from scalec.reads import Coord, Domain, Entry, Lookup, Reads
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice

GROUPS = "C[m,n] = A[m,k] @ B[e[m/128],n,k]"
RAGGED = "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
MASKED = "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]"
ALONG_K = "C[g,m,n]:f32 = A[m,k] @ B[n,k] for k in off[g]:off[g+1]"
SCATTER = "C[idx[m],n] = A[m,k] @ B[n,k]"
BOTH = "C[to[m],n] = A[from[m],k] @ B[g,n,k] for m in off[g]:off[g+1]"
PARTS = "C[b,idx[b,m],n] = A[b,m,k] @ B[n,k]"
SKIPS = "C[idx[m],n] = A[m,k] @ B[e[m/4],n,k]"


def spec_of(source: str, **dims: int) -> KernelSpec:
    """A kernel that takes the program's tensors by pointers and is told every stride."""
    with context():
        module = build(source, dims)
        function = module.body.operations[0]
        operands, results, _ = signature.tensors(function)
        names = signature.sizes(function)
        read = reads.reads(function)

    def aligned(t: TensorSpec) -> TensorSpec:
        return replace(t, align=4 if t.dtype == "i32" else 16)

    tensors = [aligned(t) for t in (*operands, *results)]
    strides = [Argument("stride", t.name, axis=axis) for t in tensors for axis in range(len(t.shape))]
    return KernelSpec(
        source=source,
        target="sm_90a",
        entry="C",
        dims=names,
        operands=tuple(tensors[: len(operands)]),
        results=tuple(tensors[len(operands) :]),
        arguments=(*(Argument("pointer", t.name) for t in tensors), *strides),
        launch=Launch(32, 0, 1, (("m", 64, 1), ("n", 64, 1))),
        reads=read,
    )


def kernel_of(source: str, *, checks: bool = True, **dims: int) -> tuple[Kernel, FakeDevice]:
    device = FakeDevice(checks=checks)
    return Kernel(spec_of(source, **dims), b"", device=device), device


def call(kernel: Kernel, device: FakeDevice, sizes: dict[str, int], **held: Any) -> Any:
    """A call with tensors of these sizes; index tensors as given."""
    made = {}
    for t in (*kernel.spec.operands, *kernel.spec.results):
        if t.name in held:
            made[t.name] = DeviceArray.from_host(device, np.asarray(held[t.name], np.int32), "i32")
        else:
            made[t.name] = DeviceArray(device, tuple(e.value(sizes) for e in t.shape), t.dtype)
    outs = tuple(made[r.name] for r in kernel.spec.results)
    return kernel(*(made[t.name] for t in kernel.spec.operands), out=outs)


def refusal(source: str, sizes: dict[str, int], **held: Any) -> str:
    kernel, device = kernel_of(source)
    with pytest.raises(ArgumentError) as caught:
        call(kernel, device, sizes, **held)
    assert not device.launches
    return str(caught.value)


def passes(source: str, sizes: dict[str, int], **held: Any) -> None:
    kernel, device = kernel_of(source)
    for _ in range(3):
        call(kernel, device, sizes, **held)
    assert len(device.launches) == 3


# -------------------------------------------------------------------------------------------------- what may be held

NK = {"n": 8, "k": 8}


def test_an_index_beyond_its_tensor() -> None:
    sizes = {"m": 512, "B_0": 3, **NK}
    passes(GROUPS, sizes, e=[0, 2, -1, -7])
    assert refusal(GROUPS, sizes, e=[0, 1, 3, 2]) == (
        "e[2] = 3 is no index of B, which has 3 (B_0)\n  expected: 0 to 2, or -1, which is skipped\n"
        "  fix: correct e, or pass B with more rows"
    )
    passes(GROUPS, {**sizes, "B_0": 0}, e=[-1] * 4)
    assert "e[3] = 0 is no index of B, which has 0 (B_0)" in refusal(GROUPS, {**sizes, "B_0": 0}, e=[-1, -1, -1, 0])


def test_promised_offsets() -> None:
    sizes, source = {"m": 100, "g": 2, **NK}, f"{RAGGED} by 32"
    passes(source, sizes, off=[0, 64, 100])
    assert refusal(source, sizes, off=[0, 60, 100]) == (
        "off[1] = 60 is no multiple of 32\n  expected: what the program promises of the range of m: by 32\n"
        "  fix: leave `by 32` out, where that does not hold"
    )


def test_offsets() -> None:
    sizes = {"m": 100, "g": 4, **NK}
    for off in ([0, 10, 10, 64, 100], [0, 0, 0, 0, 0], [7, 10, 10, 64, 99], [100] * 5):
        passes(RAGGED, sizes, off=off)
    assert refusal(RAGGED, sizes, off=[0, 10, 9, 64, 100]) == (
        "off[2] = 9 falls below off[1] = 10\n"
        "  expected: offsets of groups that follow one another: none less than the one before\n"
        "  fix: an empty group has the offset of the next one"
    )
    assert refusal(RAGGED, sizes, off=[0, 10, 20, 64, 101]) == (
        "off[4] = 101 is beyond m = 100\n  expected: 0 to 100, the size of m\n"
        "  fix: clamp off to 100, or pass tensors with more m"
    )
    assert "off[0] = -1 is no offset" in refusal(RAGGED, sizes, off=[-1, 10, 20, 64, 100])
    assert "off[3] = 17 is beyond k = 16" in refusal(ALONG_K, {"m": 8, "n": 8, "k": 16, "g": 3}, off=[0, 8, 8, 17])


def test_rows_of_a_group() -> None:
    sizes = {"m": 64, "g": 3, **NK}
    passes(MASKED, sizes, rows=[0, 64, 5])
    assert "rows[1] = 65 is beyond m = 64" in refusal(MASKED, sizes, rows=[0, 65, 5])


def test_a_row_named_twice() -> None:
    sizes = {"m": 6, "C_0": 9, **NK}
    passes(SCATTER, sizes, idx=[8, 0, -1, 3, -1, 2])
    assert refusal(SCATTER, sizes, idx=[8, 0, -1, 3, 1, 0]) == (
        "idx[1] and idx[5] are both 0: C would be written there twice\n"
        "  expected: each index once, or -1, which is skipped\n"
        "  fix: add them up: C[idx[...]] = sum[...](...) of a gather, or give all but one -1"
    )
    assert "idx[0] = 9 is no index of C, which has 9" in refusal(SCATTER, sizes, idx=[9, 0, -1, 3, 1, 2])
    assert "C would be written there twice" in refusal(SCATTER.replace("=", "+="), sizes, idx=[8, 0, -1, 3, 1, 0])


def test_rows_that_another_index_tells_apart() -> None:
    sizes = {"b": 2, "m": 3, "C_1": 4, **NK}
    passes(PARTS, sizes, idx=[[0, 1, 2], [2, 1, 0]])
    assert "idx[1, 0] and idx[1, 2] are both 2" in refusal(PARTS, sizes, idx=[[0, 1, 2], [2, -1, 2]])


def test_what_no_point_reaches_may_be_anything() -> None:
    sizes = {"m": 8, "g": 2, "A_0": 3, "C_0": 9, **NK}
    junk = 1 << 30
    held = {"off": [1, 3, 6], "to": [junk, 0, 1, 2, 3, 4, junk, junk], "from": [junk, 0, 2, 2, 0, 0, junk, junk]}
    passes(BOTH, sizes, **held)
    assert "to[6] = 1073741824 is no index of C" in refusal(BOTH, sizes, **{**held, "off": [1, 3, 7]})
    assert "from[0] = 1073741824 is no index of A" in refusal(
        BOTH, sizes, **{**held, "off": [0, 3, 6], "to": [7, *held["to"][1:]]}
    )
    # nor where another index skips
    sizes = {"m": 8, "B_0": 2, "C_0": 9, **NK}
    passes(SKIPS, sizes, e=[0, -1], idx=[0, 1, 2, 3, junk, 0, 0, 0])
    assert "are both 0" in refusal(SKIPS, sizes, e=[0, 1], idx=[0, 1, 2, 3, 4, 0, 5, 6])
    # nor in a group without rows; a sum along an empty range of K is one, and is written
    source, sizes = "C[g,m,n] = A[g,m,k] @ B[e[g],n,k] for m < rows[g]", {"m": 4, "g": 3, "B_0": 2, **NK}
    passes(source, sizes, rows=[4, 0, -1], e=[1, junk, junk])
    assert "e[1] = 1073741824 is no index of B" in refusal(source, sizes, rows=[4, 1, 0], e=[1, junk, junk])
    source = "C[to[g],m,n] = A[m,k] @ B[g,n,k] for m in low[g]:high[g]"
    sizes = {"m": 4, "g": 3, "C_0": 2, **NK}
    passes(source, sizes, low=[0, 3, 2], high=[4, 3, 1], to=[1, 1, junk])
    assert "are both 1" in refusal(source, sizes, low=[0, 3, 2], high=[4, 4, 1], to=[1, 1, junk])
    source, sizes = "C[to[g],m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1]", {"m": 4, "g": 2, "C_0": 2, **NK}
    assert "are both 1" in refusal(source, sizes, off=[0, 8, 8], to=[1, 1])


def test_sizes_of_0() -> None:
    passes(RAGGED, {"m": 5, "g": 0, **NK}, off=[0])
    passes(RAGGED, {"m": 5, "g": 2, "n": 8, "k": 0}, off=[0, 3, 5])
    assert "off[0] = 6 is beyond m = 5" in refusal(RAGGED, {"m": 5, "g": 0, **NK}, off=[6])


def test_offsets_of_no_group_are_those_of_an_empty_one() -> None:
    kernel, device = kernel_of(RAGGED)
    call(kernel, device, {"m": 5, "g": 0, **NK}, off=[0])
    names = [a.tensor for a in kernel.spec.arguments if a.kind == "pointer"]
    address = device.launches[0].parameters[names.index("off")]
    assert device.download(address, 8, 0) == bytes(8)
    assert address in device.reserved


# ---------------------------------------------------------------------------------------------------- when it is read


def test_without_the_variable_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, device = kernel_of(GROUPS, checks=False)
    wrong = {"e": [0, 9]}
    monkeypatch.setattr(FakeDevice, "read", None)
    call(kernel, device, {"m": 256, "B_0": 3, **NK}, **wrong)
    assert len(device.launches) == 1
    monkeypatch.undo()
    monkeypatch.setenv("SCALEC_CHECK", "1")
    kernel, device = kernel_of(GROUPS, checks=False)
    with pytest.raises(ArgumentError, match=r"e\[1\] = 9"):
        call(kernel, device, {"m": 256, "B_0": 3, **NK}, **wrong)
    device.capturing = True  # into a graph: nothing can be read
    call(kernel, device, {"m": 256, "B_0": 3, **NK}, **wrong)
    assert len(device.launches) == 1


def test_what_changes_in_place_is_read_again() -> None:
    torch = pytest.importorskip("torch")
    kernel = Kernel(spec_of(GROUPS), b"", device=FakeDevice(place=("cpu", 0), checks=True, native=True))
    e = torch.zeros(2, dtype=torch.int32)
    given = torch.zeros(256, 8).bfloat16(), torch.zeros(3, 8, 8).bfloat16(), e
    out = torch.zeros(256, 8).bfloat16()
    bound = kernel.bind(*given, out=out)
    for _ in range(20):  # as often as a trampoline would be made
        kernel(*given, out=out)
        bound()
    e[1] = 3
    for repeated in (bound, lambda: kernel(*given, out=out)):
        with pytest.raises(ArgumentError, match=r"e\[1\] = 3 is no index of B"):
            repeated()
    e[1] = -1
    bound()


# ------------------------------------------------------------------------------------------------ types, sizes, results


def test_int64_is_refused_with_the_fix() -> None:
    torch = pytest.importorskip("torch")
    kernel = Kernel(spec_of(RAGGED), b"", device=FakeDevice(place=("cpu", 0), checks=True))
    a, b, out = torch.zeros(8, 8).bfloat16(), torch.zeros(2, 8, 8).bfloat16(), torch.zeros(8, 8).bfloat16()
    for off, fix in (
        (torch.tensor([0, 3, 8]), "off.to(torch.int32)"),
        (np.asarray([0, 3, 8]), "off.astype(numpy.int32)"),
    ):
        with pytest.raises(ArgumentError) as caught:
            kernel(a, b, off, out=out)
        assert str(caught.value).startswith("off is int64, expected i32")
        assert caught.value.fix == fix
        kernel(a, b, off.astype(np.int32) if isinstance(off, np.ndarray) else off.int(), out=out)


def test_the_number_of_groups() -> None:
    kernel, device = kernel_of(ALONG_K)
    call(kernel, device, {"m": 8, "n": 8, "k": 16, "g": 3}, off=[0, 8, 8, 16])
    kernel, device = kernel_of(ALONG_K)
    sizes = {"m": 8, "n": 8, "k": 16}
    assert kernel._sizes == [(0, 0), (0, 1), (1, 0), (2, 0)]  # off is where g is seen
    made = {n: DeviceArray(device, (8, 16), "bf16") for n in "AB"}
    for groups in (3, 5):
        off = DeviceArray.from_host(device, np.full(groups + 1, 7, np.int32), "i32")
        assert kernel(*made.values(), off).shape == (groups, 8, 8)
    with pytest.raises(ArgumentError) as caught:
        kernel(*made.values(), DeviceArray(device, (0,), "i32"))
    assert str(caught.value) == (
        "off has extent 0 along index 0 (g + 1)\n  got: off of shape [0]\n  expected: off[g + 1], at least 1\n"
        "  fix: pass off with one more: it has both ends of each group"
    )
    with pytest.raises(ArgumentError) as caught:
        call(*kernel_of(RAGGED), {**sizes, "g": 2}, off=[0] * 5)
    assert str(caught.value) == (
        "off has extent 5 along index 0 (g + 1), expected 3 (g = 2)\n"
        "  got: off of shape [5]\n  expected: off[g + 1], here [3]; B has g = 2\n"
        "  fix: pass off of that shape: cut, pad or transpose it, or the tensor that gave the sizes"
    )
    with pytest.raises(ArgumentError, match=r"e has extent 3 along index 0 \(ceil\(m/128\)\), expected 2 \(m = 200\)"):
        call(*kernel_of(GROUPS), {"m": 200, "B_0": 2, **NK}, e=[0] * 3)
    with pytest.raises(ArgumentError, match=r"expected 5 \(g = 4\)"):
        call(*kernel_of(ALONG_K, g=4), {**sizes, "g": 4}, off=[0] * 4)


@pytest.mark.parametrize("source", [GROUPS, RAGGED, MASKED, SCATTER, BOTH])
def test_a_partly_written_result_must_be_given(source: str) -> None:
    spec = spec_of(source)
    assert [r.given for r in spec.results] == [True]
    kernel = Kernel(spec, b"", device=FakeDevice())
    with pytest.raises(ArgumentError) as caught:
        kernel(*[None] * len(spec.operands))
    assert str(caught.value) == (
        "C keeps what it holds where nothing is written (outside a range, or at an index that is skipped) and must be "
        "given\n  expected: memory with what it holds before the call\n  fix: C=tensor, or out=tensor"
    )


# -------------------------------------------------------------------------------------------------------- as plain data


@pytest.mark.parametrize("source", [GROUPS, RAGGED, MASKED, ALONG_K, SCATTER, BOTH, PARTS])
def test_the_spec_travels(source: str) -> None:
    spec = spec_of(source)
    assert spec.reads
    assert KernelSpec.from_json(spec.to_json()) == spec


E, OFF = Entry("e", (Coord("m", 128),)), Entry("off", (Coord("m"),))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Reads((Lookup(E, "Z"),)), "as index 0 of 'Z', which has no such one"),
        (Reads((Lookup(E, "B", 3),)), "as index 3 of 'B'"),
        (Reads((Lookup(E, "B", 0, (1,)),)), r"axes \(1,\) of e, which has 1"),
        (Reads((Lookup(Entry("A", (Coord("m"), Coord("k"))), "B"),)), r"an index A\[m,k\], expected one of an i32"),
        (Reads((Lookup(Entry("e", ()), "B"),)), r"an index e\[\]"),
        (Reads((Lookup(Entry("e", (Coord("z"),)), "B"),)), "no dimension 'z'"),
        (Reads((), (Domain("z", 0, 4),)), "no dimension 'z'"),
        (Reads((), (Domain("m", OFF, 4),)), r"an index off\[m\]"),
    ],
)
def test_a_spec_that_speaks_of_what_is_not_there(wrong: Reads, message: str) -> None:
    spec = replace(spec_of(GROUPS), reads=(wrong,))
    with pytest.raises(FormatError, match=message):
        KernelSpec.from_json(spec.to_json())
