"""Shared-memory layouts: swizzles against the bits of the address that CUDA says they XOR, and the plan of buffers.

The lowering's own functions run here on plain integers, one thread at a time, in place of values of the IR.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from scalec.ir.schedule import Schedule
from scalec.lowering.common import epilogue
from scalec.lowering.common.state import Buffer, Geometry, Window, row_swizzle
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.problem import Problem
from scalec.passes.resources import SharedPlan
from scalec.targets import get_target

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
    shl, shr = staticmethod(lambda a, b: a << b), staticmethod(lambda a, b: a >> b)
    and_, xor = staticmethod(lambda a, b: a & b), staticmethod(lambda a, b: a ^ b)
    address = staticmethod(lambda space, value: value)

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        yield

    def asm(self, *_: object, **__: object) -> list[int]:
        return [0]

    def op(self, name: str, results: list[Any], operands: list[Any], **attributes: object) -> None:
        self.ops.append((name, operands))


class Value(SimpleNamespace):
    """A handle: its type, and what the lowering knows it as."""


def stored(
    columns: int, width: int, waves: int, warpgroup: int, quarter: int, lane: int
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """(addresses of the thread's stmatrix, (source, x, y) of its bulk stores) of `tile.store`, bf16."""
    bf16 = ir.Type.parse("bf16")
    rows, pitch = 64 * waves, 2 * width
    i64 = lambda v: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), v)  # noqa: E731
    shape = ir.DenseI64ArrayAttr.get([rows * (warpgroup + 1), columns])
    staging = Value(type=tile.SharedType.get(shape, bf16, i64(pitch), i64(1)), lowered=None)
    staging.lowered = Buffer(0, staging.type)
    target = Value(type=tile.DescriptorType.get(ir.DenseI64ArrayAttr.get([width, 64]), bf16, i64(pitch)), lowered="map")
    register = Value(get=lambda: 0)
    fragment = SimpleNamespace(waves=[[register] * (columns // 2)] * waves, columns=columns)
    b = Numbers()
    state = SimpleNamespace(
        b=b,
        get=lambda v: v.lowered,
        geometry=Geometry(4, (warpgroup + 1, 1), 64),
        unit=lambda axis: (warpgroup, 0)[axis],
        unit_index=warpgroup,
        warp_in_unit=quarter,
        lane=lane,
        lead=True,
        unit_barrier=lambda: None,
    )
    op = Value(accumulator=Value(lowered=fragment), staging=staging, target=target)
    op.m0, op.n0 = Value(lowered=0), Value(lowered=0)
    epilogue.store(state, op)
    copies = [(o[1], o[2], o[3]) for name, o in b.ops if name == "nvvm.cp.async.bulk.tensor.global.shared.cta"]
    return [o[0] for name, o in b.ops if name == "nvvm.stmatrix"], copies


shapes = st.sampled_from([(64, 64), (128, 64), (256, 64), (32, 32), (96, 32), (16, 16), (48, 16), (80, 16)])


@settings(deadline=None, max_examples=20)
@given(shape=shapes, waves=st.integers(1, 2), warpgroup=st.integers(0, 2))
def test_results_are_staged_as_the_bulk_store_reads_them(shape: tuple[int, int], waves: int, warpgroup: int) -> None:
    (columns, width), lanes = shape, range(32)
    pitch, base = 2 * width, warpgroup * waves * 64 * columns * 2
    # where the bulk store of the box at (x, y) looks for the 16 bytes from column c of row r
    _, copies = stored(columns, width, waves, warpgroup, 0, 0)
    boxes = {(x, y - warpgroup * waves * 64): source for source, x, y in copies}
    assert sorted(boxes) == [(x, y) for x in range(0, columns, width) for y in range(0, waves * 64, 64)]
    found = []
    for quarter in range(4):
        for lane in lanes:
            addresses, _ = stored(columns, width, waves, warpgroup, quarter, lane)
            found += addresses
            # stmatrix .x4: lane l holds the address of row l % 8 of matrix l / 8; matrices: rows 0-7, 8-15 of
            # columns 0-7, then of columns 8-15 (PTX ISA 9.7.15, stmatrix; the registers' order is the lowering's)
            row, second = 16 * quarter + lane % 16, 8 * (lane // 16)
            wanted = []
            for wave in range(waves):
                for c in range(second, columns, 16):
                    box = boxes[c // width * width, wave * 64]
                    assert box % 128 == 0
                    wanted.append(swizzle(box + row * pitch + c % width * 2, pitch))
            assert addresses == wanted
    # a bijection: each 16 bytes of the warpgroup's part of the staging tile are written once
    assert sorted(found) == list(range(base, base + waves * 64 * columns * 2, 16))


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
    got = Buffer(4096, type).in_window(b, window, 4096 + 32 * row, row_swizzle(b, row))
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
            made[name, k] = Problem.of(module.body.operations[0], get_target("sm_90a"))
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
    schedule = Schedule(tile=(m, n, 128), stages=stages, epilogue=how, scale_path=path)
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
