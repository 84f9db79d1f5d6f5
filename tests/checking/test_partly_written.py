"""Results that are partly written: what the checks take for written bytes, and what they find where others changed."""

from __future__ import annotations

import numpy as np
import pytest

from scalec import reference
from scalec.abi import Extent, TensorSpec
from scalec.checking import launch
from scalec.checking.guarded import GUARD, Guarded, stored_points
from scalec.formats import ELEMENT_TYPES
from scalec.frontend import build
from scalec.ir.context import context
from scalec.runtime.stored import stored_shape
from tests.runtime.fake import FakeDevice

SIZES = {"m": 200, "n": 42}
LAYOUTS = [
    ("bf16", "row", Extent("n"), 42),
    ("e2m1", "row", Extent("n"), 42),
    ("e3m2", "row", Extent("n"), 42),
    ("f32", "col", Extent("n", 32), 2),
    ("ue8m0", "blocked", Extent("n", 8), 6),
    ("i32", "packed", Extent("n", 32), 6),
]


def spec_of(dtype: str, layout: str, inner: Extent) -> TensorSpec:
    return TensorSpec("D", dtype, (Extent("m"), inner), layout, partial=True)


@pytest.mark.parametrize(("dtype", "layout", "inner", "columns"), LAYOUTS)
def test_rows_that_nobody_writes(dtype, layout, inner, columns) -> None:
    spec, device = spec_of(dtype, layout, inner), FakeDevice()
    points = np.zeros((200, columns), bool)
    points[40:130] = True
    stored = stored_points(spec, points)
    stored = np.asarray(stored.all(axis=-1)) if layout == "packed" else stored  # of bytes of words
    assert stored.shape == stored_shape(spec, SIZES)
    item = max(1, ELEMENT_TYPES[dtype].bits // 8)
    pad = 8 if layout == "blocked" else stored.shape[1]
    assert int(stored.sum()) == 90 * pad
    made = Guarded.result(device, spec, SIZES, 0xFF, None)
    raw = np.frombuffer(device.memory[made._buffer.pointer], np.uint8)  # the buffer begins where it is aligned
    start = made._buffer.pointer - raw.ctypes.data + GUARD
    at = np.full(stored.shape, start)
    for axis, step in enumerate(made.strides):
        at += np.indices(stored.shape)[axis] * step * item
    assert made.changed(SIZES, points) == 0
    raw[at[stored]] = 7
    assert made.changed(SIZES, points) == 0
    assert made.contents(SIZES, points).count(7) >= 90 * pad
    raw[at[~stored][:2]] = 7
    assert made.changed(SIZES, points) == 2
    with_launch = launch.placed(device, spec, np.zeros(stored.shape, f"u{item}"), unset=True)
    assert launch.touched(spec, with_launch, points) == 0
    device.upload(with_launch.pointer, b"\0", 0)
    assert launch.touched(spec, with_launch, points) == (0 if stored[0, 0] else 1)


def test_rows_that_nobody_adds_to() -> None:
    source = "C[m,n]:f32 += A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
    with context():
        module = build(source)
        values = reference.make(module, {"m": 200, "n": 42, "k": 8, "g": 2}, 1)
        values["off"][:] = [40, 90, 130]
        expected = reference.run(module, values, exact=True)
    assert expected.written["C"].all()
    assert np.flatnonzero(expected.reached["C"].all(axis=1)).tolist() == [*range(40, 130)]
    assert not expected.reached["C"][:40].any()
    spec, device = TensorSpec("C", "f32", (Extent("m"), Extent("n")), inout=True, partial=True), FakeDevice()
    for row, changed in ((39, 1), (40, 0), (129, 0), (130, 1)):
        data = values["C"].copy()
        made = launch.placed(device, spec, data)
        assert launch.touched(spec, made, expected.reached["C"], values) == 0
        data[row, 3] += 1
        made = launch.placed(device, spec, data)
        assert launch.touched(spec, made, expected.reached["C"], values) == changed


def test_bytes_that_a_written_element_shares() -> None:
    points = np.asarray([[True, False, False, False, False, True]])
    four, six = (spec_of(t, "row", Extent("n")) for t in ("e2m1", "e3m2"))
    assert stored_points(four, points).tolist() == [[True, False, True]]
    assert stored_points(six, points).tolist() == [[True, False, False, True, True]]
    words = stored_points(spec_of("ue8m0", "packed", Extent("n", 8)), points)
    assert words.astype(int).tolist() == [[[1, 0, 0, 0], [0, 1, 1, 1]]]  # what pads the last one too
    tiles = stored_points(spec_of("ue8m0", "blocked", Extent("n", 8)), points)
    assert tiles.tolist() == reference.to_blocked(words.reshape(1, 8).astype(np.uint8)).astype(bool).tolist()
    assert not stored_points(spec_of("ue8m0", "blocked", Extent("n", 8)), ~points & points).any()
    none = np.zeros((0, 8), bool)
    assert stored_points(spec_of("ue8m0", "packed", Extent("n", 8)), none).shape == (0, 2, 4)
