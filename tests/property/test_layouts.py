"""Shared-memory layouts: swizzles against the bits of the address that CUDA says they XOR, and the plan of buffers.

The lowering's own functions run here on plain integers, one thread at a time, in place of values of the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalec import frontend
from scalec.ir import context as contexts
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common import epilogue
from scalec.lowering.common.staging import store
from scalec.lowering.common.state import COMMON, Buffer, Geometry, State, Window, row_swizzle
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.problem.read import read as read_problem
from scalec.passes.problem.types import Problem
from scalec.targets import get_target
from tests.schedules import plain

SWIZZLED_BITS = {128: 3, 64: 2, 32: 1}


def swizzle(address: Any, mode: int) -> Any:
    """CUDA's shared-memory swizzles: as many address bits from 4 up are XORed with those from 7 up."""
    return address ^ (((address >> 7) & ((1 << SWIZZLED_BITS[mode]) - 1)) << 4)


@pytest.fixture(scope="module", autouse=True)
def _context() -> Iterator[None]:
    with contexts.context():
        yield


class Numbers:
    """A builder on integers that records the operations it is asked for."""

    def __init__(self) -> None:
        self.i32 = ir.IntegerType.get_signless(32)
        self.ops: list[tuple[str, list[Any]]] = []

    add, mul = staticmethod(lambda a, b: a + b), staticmethod(lambda a, b: a * b)
    sub, div = staticmethod(lambda a, b: a - b), staticmethod(lambda a, b: a // b)
    compare = staticmethod(lambda predicate, a, b: {"eq": a == b, "lt": a < b}[predicate])
    shl, shr = staticmethod(lambda a, b: a << b), staticmethod(lambda a, b: a >> b)
    and_, xor = staticmethod(lambda a, b: a & b), staticmethod(lambda a, b: a ^ b)
    address = staticmethod(lambda space, value: value)
    value = staticmethod(lambda value: value)

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        yield

    def asm(self, *_: object, **__: object) -> list[int]:
        return [0]

    def pure(self, *_: object) -> int:
        return 0

    def op(self, name: str, results: list[Any], operands: list[Any], **attributes: object) -> None:
        self.ops.append((name, operands))


class Value(SimpleNamespace):
    """A handle: its type, and what the lowering knows it as; an op, of no attributes."""

    operation = SimpleNamespace(attributes={})


class Thread(State):
    """One thread of a consumer role that starts at warp 4: its state, on integers, with nothing to insert into."""

    @staticmethod
    def of(geometry: Geometry, warp: int, lane: int) -> Thread:
        tid, table, target = 32 * (4 + warp) + lane, COMMON, get_target("sm_90a")
        return Thread(target, table, geometry, Numbers(), {}, 0, (1, 1), tid, lane, 4 + warp, 0, 0, first_warp=4)

    def once(self, key: Any, emit: Callable[[], Any]) -> Any:
        if key not in self._once:
            self._once[key] = emit()
        return self._once[key]

    def get(self, value: Value) -> Any:
        return value.lowered

    def unit_barrier(self) -> None:
        pass


def zeros(*names: str) -> dict[str, Value]:
    return {name: Value(lowered=0) for name in names}


def stored(
    geometry: Geometry, columns: int, width: int, waves: int, warp: int, lane: int
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """(addresses of the thread's stmatrix, (source, x, y) of its bulk stores) of `tile.store`, bf16."""
    bf16 = ir.Type.parse("bf16")
    pitch, wave = 2 * width, geometry.wave
    i64 = lambda v: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), v)  # noqa: E731
    shape = ir.DenseI64ArrayAttr.get([wave * waves * geometry.units[0], columns * geometry.units[1]])
    staging = Value(type=tile.SharedType.get(shape, bf16, i64(pitch), i64(1)), lowered=None)
    staging.lowered = Buffer(0, staging.type, 0, tile.stage_bytes(staging.type))
    box = ir.DenseI64ArrayAttr.get([width, wave])
    target = Value(type=tile.DescriptorType.get(box, bf16, i64(pitch)), lowered="map")
    register = Value(get=lambda: 0)
    fragment = SimpleNamespace(waves=[[register] * (columns // 2)] * waves, columns=columns)
    op = Value(accumulator=Value(lowered=fragment), staging=staging, target=target, adds=i64(0), **zeros("m0", "n0"))
    op.operation = SimpleNamespace(attributes={})
    thread = Thread.of(geometry, warp, lane)
    store(thread, op)
    made = thread.b.ops
    copies = [(o[1], o[2], o[3]) for name, o in made if name == "nvvm.cp.async.bulk.tensor.global.shared.cta"]
    return [o[0] for name, o in made if name == "nvvm.stmatrix"], copies


# warpgroups that share a tile's rows, as wgmma has them, and warps that share rows and columns, as mma.sync has them
geometries = st.one_of(
    st.integers(1, 3).map(lambda m: Geometry(4, (m, 1), 64)),
    st.sampled_from([(8, 1), (4, 2), (2, 4), (1, 8), (2, 2), (1, 1)]).map(lambda units: Geometry(1, units, 16)),
)
shapes = st.sampled_from([(64, 64), (128, 64), (256, 64), (32, 32), (96, 32), (16, 16), (48, 16), (80, 16)])


@settings(deadline=None, max_examples=30)
@given(geometry=geometries, shape=shapes, waves=st.integers(1, 2), data=st.data())
def test_results_are_staged_as_the_bulk_store_reads_them(
    geometry: Geometry, shape: tuple[int, int], waves: int, data: st.DataObject
) -> None:
    (columns, width), wave, warps = shape, geometry.wave, geometry.warps
    unit = data.draw(st.integers(0, geometry.units[0] * geometry.units[1] - 1))
    m, n = unit % geometry.units[0] * waves * wave, unit // geometry.units[0] * columns
    size = waves * wave * columns * 2
    pitch, base = 2 * width, unit * size
    # where the bulk store of the box at (x, y) looks for the 16 bytes from column c of row r
    _, copies = stored(geometry, columns, width, waves, warps * unit, 0)
    boxes = {(x - n, y - m): source for source, x, y in copies}
    assert sorted(boxes) == [(x, y) for x in range(0, columns, width) for y in range(0, waves * wave, wave)]
    found = []
    for quarter in range(warps):
        for lane in range(32):
            addresses, _ = stored(geometry, columns, width, waves, warps * unit + quarter, lane)
            found += addresses
            # stmatrix .x4: lane l holds the address of row l % 8 of matrix l / 8; matrices: rows 0-7, 8-15 of
            # columns 0-7, then of columns 8-15 (PTX ISA 9.7.15, stmatrix; the registers' order is the lowering's)
            row, second = 16 * quarter + lane % 16, 8 * (lane // 16)
            wanted = []
            for y in range(0, waves * wave, wave):
                for c in range(second, columns, 16):
                    box = boxes[c // width * width, y]
                    assert box % (8 * pitch) == 0  # the swizzle's period
                    wanted.append(swizzle(box + row * pitch + c % width * 2, pitch))
            assert addresses == wanted
    # a bijection: each 16 bytes of the unit's part of the staging tile are written once
    assert sorted(found) == list(range(base, base + size, 16))


@settings(deadline=None, max_examples=20)
@given(geometry=geometries, waves=st.integers(1, 2), columns=st.sampled_from([8, 16, 40]))
def test_each_element_of_a_tile_lies_in_one_thread(geometry: Geometry, waves: int, columns: int) -> None:
    rows = geometry.units[0] * waves * geometry.wave
    held = np.zeros((rows, geometry.units[1] * columns), int)
    op = Value(**zeros("m0", "n0"), m=Value(lowered=held.shape[0]), n=Value(lowered=held.shape[1]))
    for warp in range(geometry.warps * geometry.units[0] * geometry.units[1]):
        for lane in range(32):
            thread = Thread.of(geometry, warp, lane)
            for wave in range(waves):
                for _, place in epilogue.places(thread, op, wave, waves, columns):
                    assert all((*place.row_inside, *place.column_inside))
                    held[np.ix_([place.row, place.row + 8], [place.column, place.column + 1])] += 1
    assert (held == 1).all()


@given(row=st.integers(0, 255), block=st.integers(0, 7))
def test_windows_are_read_as_the_bulk_copy_wrote_them(row: int, block: int) -> None:
    offset = 4 * block ^ row_swizzle(Numbers(), row)
    assert 32 * row + offset == swizzle(32 * row + 4 * block, 32)


@given(
    at=st.integers(0, 1 << 20),
    row=st.integers(0, 255),
    slots=st.sampled_from([1, 2, 4]),
    ahead=st.sampled_from([(unroll, i) for unroll in (1, 2, 4) for i in range(unroll)]),
)
def test_a_window_is_found_by_its_count(at: int, row: int, slots: int, ahead: tuple[int, int]) -> None:
    unroll, within = ahead  # an iteration of the main loop starts at a multiple of its blocks
    at = at // unroll * unroll
    i64 = lambda v: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), v)  # noqa: E731
    type = tile.SharedType.get(ir.DenseI64ArrayAttr.get([256, 8]), ir.F32Type.get(), i64(32), i64(slots))
    window = Window(8, slots, SimpleNamespace(get=lambda: at), within)
    b = Numbers()
    got = Buffer(4096, type, 4096, tile.stage_bytes(type)).in_window(b, window, 4096 + 32 * row, row_swizzle(b, row))
    slot, block = (at + within) // 8 % slots, (at + within) % 8
    assert got == 4096 + slot * 256 * 32 + swizzle(32 * row + 4 * block, 32)


@pytest.mark.parametrize("mode", SWIZZLED_BITS)
def test_a_swizzle_permutes_the_chunks_of_a_tile(mode: int) -> None:
    addresses = np.arange(0, 64 * mode, 4)
    assert sorted(swizzle(addresses, mode)) == list(addresses)
    assert (swizzle(addresses, mode) // 128 == addresses // 128).all()


def test_eight_rows_of_a_window_lie_in_different_banks() -> None:
    for block in range(8):
        assert len({swizzle(32 * row + 4 * block, 32) // 4 % 32 for row in range(8)}) == 8


PROGRAMS = {
    "window": "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)",
    "vector": "C[m,n] = A[m,k]@B[n,k] scale(1x128:f32@col,128x128)",
    "both": "C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)",
    "none": "C[m,n] = A[m,k]:e4m3@B[n,k]:e4m3",
}


@pytest.fixture(scope="module")
def problems(_context: None) -> dict[tuple[str, int], Problem]:
    made = {}
    for name, source in PROGRAMS.items():
        for k in (512, 2048, 2560):
            module = frontend.build(source, {"m": 4096, "n": 7168, "k": k})
            run_pipeline(module, get_target("sm_90a"), passes=find(["infer-roles", "fuse-epilogue"]))
            made[name, k] = read_problem(module.body.operations[0], get_target("sm_90a"))
    return made


@settings(deadline=None)
@given(
    name=st.sampled_from(list(PROGRAMS)),
    k=st.sampled_from([512, 2048, 2560]),
    m=st.integers(1, 8).map(lambda x: 64 * x),
    n=st.integers(1, 32).map(lambda x: 8 * x),
    stages=st.integers(1, 12),
    how=st.sampled_from(["bulk", "direct"]),
    path=st.sampled_from(["bulk", "thread"]),
)
def test_buffers_do_not_overlap(
    problems: dict[tuple[str, int], Problem], name: str, k: int, m: int, n: int, stages: int, how: str, path: str
) -> None:
    schedule = plain(tile=(m, n, 128), stages=stages, epilogue=how, scale_path=path)
    plan = SharedPlan.of(problems[name, k], schedule)
    end = 0
    for buffer in plan.buffers:
        assert buffer.offset >= end
        assert buffer.offset % buffer.align == 0
        assert buffer.stage_bytes > 0
        assert buffer.stages >= 1
        end = buffer.offset + buffer.bytes
        if buffer.name in ("A", "B", "C"):  # each stage starts a period of the 128-byte swizzle
            assert buffer.align == 1024
            assert buffer.stage_bytes % 1024 == 0 or buffer.stages == 1
    assert plan.total == end
    sizes = {b.name: (b.stage_bytes, b.stages) for b in plan.buffers}
    assert sizes["A"] == (m * 128, stages)
    assert sizes["B"] == (n * 128, stages)
    assert sizes.get("C") == ((m * n * 2, 1) if how == "bulk" else None)
    scales = {"window": ("A_scale",), "vector": ("A_scale",), "both": ("A_scale", "B_scale"), "none": ()}[name]
    assert {x for x in sizes if x.endswith("_scale")} == set(scales)
    for label, rows in (("A_scale", m), ("B_scale", n)):
        if label in sizes:
            size, slots = sizes[label]
            bulk = path == "bulk" and name != "vector"
            assert size >= rows * 4 * (8 if bulk else 1)
            assert slots == stages or (bulk and slots >= 2)
    assert sizes["barriers"] == (16, stages)
