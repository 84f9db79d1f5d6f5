"""emit-tile: a fused program with a full schedule becomes a `tile.kernel`.

    func.func @C(...) attributes {scale.schedule = #scale.schedule<{tile = [256, 128, 128], stages = 3, ...}>} {
      %t = scale.contract(...)  ...  return }
    -->
    tile.kernel @C {
      %A_tiles = tile.shared   %B_tiles = tile.shared   %ring = tile.ring   tile.sync "cluster"
      tile.role "consumer" { tile.tiles { clear; tile.steps { wait; mma; release; promote }; epilogue; store } }
      tile.role "producer" { tile.warp { tile.tiles { tile.steps { acquire; expect; copy A; copy B; advance } } } }
    }

It decides nothing: every number is read from the schedule or from the shared-memory plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from scalec.errors import UnsupportedError
from scalec.formats import WHOLE
from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.passes.emit import Emitter, Source
from scalec.passes.problem import EpilogueInput, Operand, Problem, Scale
from scalec.passes.resources import WARPGROUP, WINDOW, SharedPlan, scale_copy
from scalec.targets import Target

WAVE = 64  # rows of one tensor-core instruction (the target's m)
GROUP = 4  # K blocks whose scales travel together: 16 bytes of a row
SCALE_WARPS = 3  # the producer warpgroup's warps beside the one that issues bulk copies


@dataclass(frozen=True)
class Side:
    """A or B in the kernel: its operand, tile rows, swizzle, and whether the cluster shares its tile."""

    label: str
    operand: Operand
    rows: int
    swizzle: int
    multicast: bool


@dataclass
class Handles:
    """The kernel's values that the roles use."""

    m: ir.Value
    n: ir.Value
    k: ir.Value
    ring: ir.Value
    tiles: dict[str, ir.Value] = field(default_factory=dict)
    maps: dict[str, ir.Value] = field(default_factory=dict)
    scale_tiles: dict[str, ir.Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Positions:
    """Where a consumer is: in the ring of stages and, if there is one, in the ring of windows."""

    cursor: ir.Value
    window: ir.Value | None


class EmitTile:
    """Builds the kernel; takes no decision."""

    name = "emit-tile"

    def run(self, module: ir.Module, target: Target) -> None:
        """Replaces the program by its kernel.

        Raises:
            UnsupportedError: an epilogue or element type that no kernel is built for.
        """
        function = next(o for o in module.body.operations if o.operation.name == "func.func")
        problem = Problem.of(function, target)
        schedule = schedules.read(function)
        with ir.InsertionPoint(function):
            Kernel(problem, schedule, SharedPlan.of(problem, schedule), function).build()
        function.operation.erase()


class Kernel:
    """One kernel being built."""

    def __init__(self, problem: Problem, schedule: schedules.Schedule, plan: SharedPlan, function: ir.OpView) -> None:
        self.problem, self.schedule, self.plan, self.function = problem, schedule, plan, function
        self.e = Emitter()
        s = schedule
        cm, cn = s.cluster
        self.sides = (
            Side("A", problem.lhs, s.tile[0], s.swizzle_a, cn > 1),
            Side("B", problem.rhs, s.tile[1], s.swizzle_b, cm > 1),
        )
        self.waves = s.tile[0] // (WAVE * s.warpgroups)
        self.consumers = 4 * s.warpgroups
        self.result_bits = problem.result.element.bits
        if problem.result.element.name not in ("f32", "bf16", "f16"):
            raise UnsupportedError(
                f"result {problem.result.name} is {problem.result.element.name}", expected="f32, bf16 or f16"
            )

    # ------------------------------------------------------------------------------------------------------- outline

    def build(self) -> None:
        """Emits the kernel at the insertion point."""
        e, s = self.e, self.schedule
        name = ir.StringAttr(self.function.attributes["sym_name"]).value
        threads = WARPGROUP * (s.warpgroups + 1)
        made = e.op(
            "tile.kernel",
            regions=1,
            sym_name=name,
            threads=threads,
            cluster=s.cluster,
            shared_bytes=self.plan.total,
            arguments=ir.ArrayAttr.get([]),
        )
        self.body = made.regions[0].blocks.append()
        with ir.InsertionPoint(self.body):
            h = self.handles()
            e.op("tile.sync", scope="cluster")
            with e.region("tile.role", label="consumer", warps=(0, self.consumers), registers=s.registers[1]):
                self.consumer(h)
            low = self.consumers
            with e.region("tile.role", label="producer", warps=(low, low + 4), registers=s.registers[0]):
                self.producer(h)
            e.op("tile.sync", scope="cluster")
        made.attributes["arguments"] = e.arguments_attribute()

    def dim(self, which: str) -> ir.Value:
        """m, n or k: a constant where the size is known, else a parameter."""
        d = getattr(self.problem, which)
        if d.size is not None:
            return self.e.i32(d.size)
        return self.e.parameter(self.body, ir.IntegerType.get_signless(32), Source("dim", dim=d.name))

    def handles(self) -> Handles:
        """Parameters, shared memory and barriers."""
        e, s = self.e, self.schedule
        h = Handles(self.dim("m"), self.dim("n"), self.dim("k"), None)
        depth = s.tile[2]
        for side in self.sides:
            element = ir.Type.parse(side.operand.element.mlir)
            box = (depth, side.rows)
            source = Source("tensor_map", side.operand.name, box=box, swizzle=side.swizzle, align=16)
            h.maps[side.label] = e.parameter(self.body, e.descriptor(box, element, side.swizzle), source)
            h.tiles[side.label] = self.shared(side.label, (side.rows, depth), element, side.swizzle, s.stages)
            scale = self.row_scale(side)
            if scale is None:
                continue
            f32 = ir.F32Type.get()
            name, copy = f"{side.label}_scale", self.copy_of(side)
            shape = (side.rows, WINDOW) if copy == "window" else (1, side.rows)
            swizzle = 4 * WINDOW if copy == "window" else 0  # 8 adjacent rows then lie in different banks
            h.scale_tiles[side.label] = self.shared(name, shape, f32, swizzle, self.plan.buffer(name).stages)
            if copy != "thread":
                source = Source("tensor_map", scale.name, box=shape[::-1], swizzle=swizzle, align=16)
                h.maps[name] = e.parameter(self.body, e.descriptor(shape[::-1], f32, swizzle), source)
        if s.epilogue == "bulk":
            element = ir.Type.parse(self.problem.result.element.mlir)
            h.tiles["C"] = self.shared("C", s.tile[:2], element, s.swizzle_c, 1)
        warps = SCALE_WARPS if any(self.threaded(side) for side in self.sides) else 0
        ctas = s.cluster[0] * s.cluster[1]
        h.ring = e.op(
            "tile.ring",
            [e.type("stages")],
            offset=self.plan.buffer("barriers").offset,
            depth=s.stages,
            full=1 + warps,
            empty=ctas * self.consumers,
        ).result
        return h

    def shared(self, name: str, shape: tuple[int, int], element: ir.Type, swizzle: int, stages: int) -> ir.Value:
        return self.e.op(
            "tile.shared",
            [self.e.buffer(shape, element, swizzle, stages)],
            offset=self.plan.buffer(name).offset,
        ).result

    @contextmanager
    def over_tiles(self, h: Handles) -> Iterator[tuple[ir.Value, ir.Value]]:
        """The persistent loop over output tiles."""
        s, i32 = self.schedule, ir.IntegerType.get_signless(32)
        with self.e.region(
            "tile.tiles",
            [h.m, h.n],
            (i32, i32),
            tile=s.tile[:2],
            cluster=s.cluster,
            order=s.order,
            group=s.group,
        ) as block:
            yield tuple(block.arguments)

    @contextmanager
    def over_k(self, h: Handles, unroll: int = 1, step: int = 0) -> Iterator[ir.Value]:
        """The loop over K, in steps of one K block unless `step` says otherwise."""
        i32 = ir.IntegerType.get_signless(32)
        step = step or self.schedule.tile[2]
        with self.e.region("tile.steps", [h.k], (i32,), step=step, unroll=unroll) as block:
            yield block.arguments[0]

    # -------------------------------------------------------------------------------------------------------- scales

    def row_scale(self, side: Side) -> Scale | None:
        """The side's scale that has one value a row and varies along K, if any: it travels with the stages."""
        return next((x for x in side.operand.scales if x.rows == 1), None)

    def block_scale(self, side: Side) -> Scale | None:
        """The side's scale that is uniform over blocks of rows and varies along K, if any: it is fetched ahead."""
        return next((x for x in side.operand.scales if x.rows != 1), None)

    def copy_of(self, side: Side) -> str:
        """How the side's row scale reaches shared memory ("vector", "window" or "thread"), "" where it has none."""
        scale = self.row_scale(side)
        return "" if scale is None else scale_copy(self.problem, scale, self.schedule)

    def threaded(self, side: Side) -> bool:
        """Whether lanes copy the side's row scales."""
        return self.copy_of(side) == "thread"

    def window(self) -> ir.Value | None:
        """A position in the ring of windows, where scales come by windows."""
        for side in self.sides:
            if self.copy_of(side) == "window":
                slots = self.plan.buffer(f"{side.label}_scale").stages
                return self.e.op("tile.windows", [self.e.type("window")], blocks=WINDOW, slots=slots).result
        return None

    def strides(self, name: str, layout: str) -> tuple[ir.Value, ir.Value]:
        """(row, K) strides of a scale tensor: the contiguous one is 1, the other a parameter."""
        e, i64 = self.e, ir.IntegerType.get_signless(64)
        if layout == "row":
            return e.parameter(self.body, i64, Source("stride", name, axis=0)), e.i64(1)
        return e.i64(1), e.parameter(self.body, i64, Source("stride", name, axis=1))

    # ------------------------------------------------------------------------------------------------------ producer

    def producer(self, h: Handles) -> None:
        """One elected thread issues all bulk copies; a warp copies the scales that bulk copies cannot bring."""
        e = self.e
        with e.region("tile.warp", index=0, count=1, elected=1):
            cursor = e.op("tile.cursor", [e.type("position")], depth=self.schedule.stages).result
            window = self.window()
            with self.over_tiles(h) as (m0, n0):
                if window is not None:
                    e.op("tile.open_window", operands=[window])
                with self.over_k(h) as k0:
                    self.bulk_copies(h, cursor, window, {"A": m0, "B": n0}, k0)
        if any(self.threaded(side) for side in self.sides):
            with e.region("tile.warp", index=1, count=SCALE_WARPS, elected=0):
                self.row_copies(h)

    def bulk_copies(
        self, h: Handles, cursor: ir.Value, window: ir.Value | None, row0: dict[str, ir.Value], k0: ir.Value
    ) -> None:
        e, depth = self.e, self.schedule.tile[2]
        total = sum(side.rows * side.operand.element.bytes(depth) for side in self.sides)
        vectors = [side for side in self.sides if self.copy_of(side) == "vector"]
        windows = [side for side in self.sides if self.copy_of(side) == "window"]
        total += sum(4 * side.rows for side in vectors)
        e.op("tile.acquire", operands=[h.ring, cursor])
        if window is not None:
            first = e.compare("eq", e.arith("arith.andi", k0, e.i32(WINDOW * depth - 1)), e.i32(0))
            with e.region("tile.when", [first]):
                e.op(
                    "tile.announce",
                    operands=[h.ring, cursor],
                    bytes=sum(4 * WINDOW * side.rows for side in windows),
                )
                block = e.arith("arith.divui", k0, e.i32(depth))
                for side in windows:
                    maps, tiles = h.maps[f"{side.label}_scale"], h.scale_tiles[side.label]
                    operands = [maps, tiles, h.ring, cursor, window, block, row0[side.label]]
                    e.op("tile.copy_window", operands=operands, multicast=int(side.multicast))
            e.op("tile.next_block", operands=[window])
        e.op("tile.expect", operands=[h.ring, cursor], bytes=total)
        for side in self.sides:
            operands = [h.maps[side.label], h.tiles[side.label], h.ring, cursor, k0, row0[side.label]]
            e.op("tile.copy", operands=operands, multicast=int(side.multicast))
        for side in vectors:
            block = e.arith("arith.divui", k0, e.i32(self.row_scale(side).k))
            maps, tiles = h.maps[f"{side.label}_scale"], h.scale_tiles[side.label]
            operands = [maps, tiles, h.ring, cursor, row0[side.label], block]
            e.op("tile.copy", operands=operands, multicast=int(side.multicast))
        e.op("tile.advance", operands=[cursor])

    def row_copies(self, h: Handles) -> None:
        """Row scales by way of registers, GROUP blocks of K at a time: a sector of memory holds several of a row's.

        The next group is loaded before the wait for an empty stage, which hides its latency.
        """
        e, step = self.e, self.schedule.tile[2]
        sides = [side for side in self.sides if self.threaded(side)]
        cursor = e.op("tile.cursor", [e.type("position")], depth=self.schedule.stages).result
        rooms = {
            side.label: e.op(
                "tile.row_scales", [e.type("rows")], rows=side.rows, blocks=GROUP, warps=SCALE_WARPS
            ).result
            for side in sides
        }
        k = self.problem.k.size
        whole = k is not None and k % (GROUP * step) == 0
        with self.over_tiles(h) as (m0, n0):
            row0 = {"A": m0, "B": n0}
            for side in sides:
                self.load_rows(h, side, rooms[side.label], row0[side.label], e.i32(0))
            with self.over_k(h, step=GROUP * step) as k0:
                for j in range(GROUP):
                    if whole or j == 0:
                        self.store_rows(h, sides, rooms, cursor, j)
                    else:
                        at = e.arith("arith.addi", k0, e.i32(j * step))
                        with e.region("tile.when", [e.compare("lt", at, h.k)]):
                            self.store_rows(h, sides, rooms, cursor, j)
                following = e.arith("arith.addi", k0, e.i32(GROUP * step))
                for side in sides:
                    self.load_rows(h, side, rooms[side.label], row0[side.label], following)

    def load_rows(self, h: Handles, side: Side, room: ir.Value, row0: ir.Value, k0: ir.Value) -> None:
        scale = self.row_scale(side)
        step, k = self.schedule.tile[2], self.problem.k.size
        # four adjacent scales of a row, each of one K block, are 16 bytes: aligned where a row has a multiple of four
        vector = int(scale.layout == "row" and scale.k == step and k is not None and -(-k // step) % GROUP == 0)
        source = self.pointer(scale.name, scale.argument_index, align=16 if vector else 4)
        strides = self.strides(scale.name, scale.layout)
        operands = [room, source, *strides, row0, h.m if side.label == "A" else h.n, k0, h.k]
        self.e.op("tile.load_rows", operands=operands, step=step, block=scale.k, vector=vector)

    def store_rows(
        self, h: Handles, sides: list[Side], rooms: dict[str, ir.Value], cursor: ir.Value, index: int
    ) -> None:
        e = self.e
        e.op("tile.acquire", operands=[h.ring, cursor])
        for side in sides:
            e.op("tile.store_rows", operands=[rooms[side.label], h.scale_tiles[side.label], cursor], index=index)
        e.op("tile.commit", operands=[h.ring, cursor])
        e.op("tile.advance", operands=[cursor])

    def pointer(self, name: str, argument_index: int, align: int = 0) -> ir.Value:
        """A tensor argument as memory that threads read or write."""
        value = self.function.body.blocks[0].arguments[argument_index]
        return self.e.parameter(self.body, self.e.memory(value.type), Source("pointer", name, align=align))

    # ------------------------------------------------------------------------------------------------------ consumer

    def consumer(self, h: Handles) -> None:
        """Multiplies, promotes, and writes results."""
        e, s = self.e, self.schedule
        cursor = e.op("tile.cursor", [e.type("position")], depth=s.stages).result
        accumulator = e.op("tile.fragment", [e.accumulator(self.waves * WAVE, s.tile[1])]).result
        partial = None
        if s.promote:
            partial = e.op("tile.fragment", [e.accumulator(WAVE, s.tile[1])]).result
        window = self.window()
        with self.over_tiles(h) as (m0, n0):
            e.op("tile.clear", operands=[accumulator])
            if partial is None:
                self.accumulate(h, cursor, accumulator)
            else:
                self.promoted(h, Positions(cursor, window), accumulator, partial, {"A": m0, "B": n0})
            self.epilogue(h, accumulator, m0, n0)
        if s.epilogue == "bulk":
            e.op("tile.drain")

    def accumulate(self, h: Handles, cursor: ir.Value, accumulator: ir.Value) -> None:
        """Sums in the tensor core: one K block in flight while the next is issued; stages handed back one later."""
        e = self.e
        with self.over_k(h, self.schedule.unroll) as k0:
            first = e.compare("eq", k0, e.i32(0))
            e.op("tile.wait", operands=[h.ring, cursor])
            for wave in range(self.waves):
                self.mma(h, accumulator, cursor, wave, wave, accumulate=1)
            e.op("tile.mma_wait", operands=[accumulator], pending=self.waves)
            self.release(h, cursor, lag=1, unless=first)
            e.op("tile.advance", operands=[cursor])
        e.op("tile.mma_wait", operands=[accumulator], pending=0)
        self.release(h, cursor, lag=1)

    def mma(self, h: Handles, accumulator: ir.Value, cursor: ir.Value, a_wave: int, wave: int, accumulate: int) -> None:
        operands = [accumulator, h.tiles["A"], h.tiles["B"], cursor]
        self.e.op("tile.mma", operands=operands, a_wave=a_wave, wave=wave, waves=self.waves, accumulate=accumulate)

    def release(self, h: Handles, cursor: ir.Value, lag: int = 0, unless: ir.Value | None = None) -> None:
        extra = [] if unless is None else [unless]
        self.e.op("tile.release", operands=[h.ring, cursor, *extra], segments=(1, 1, len(extra)), lag=lag)

    def promoted(
        self, h: Handles, at: Positions, accumulator: ir.Value, partial: ir.Value, row0: dict[str, ir.Value]
    ) -> None:
        """Each K block's product is scaled and added into FP32 registers, wave by wave."""
        e, s, cursor = self.e, self.schedule, at.cursor
        if at.window is not None:
            e.op("tile.open_window", operands=[at.window])
        fetched = {side.label: self.scalars(side) for side in self.sides if self.block_scale(side)}
        for side in self.sides:
            self.fetch(h, side, fetched, row0, e.i32(0))
        late = self.row_scale(self.sides[1]) is not None  # column factors are read during promotion
        with self.over_k(h, s.unroll) as k0:
            e.op("tile.wait", operands=[h.ring, cursor])
            factors = [self.factors(h, at, fetched, wave) for wave in range(self.waves)]
            following = e.arith("arith.addi", k0, e.i32(s.tile[2]))
            for wave in range(self.waves):
                self.mma(h, partial, cursor, wave, 0, accumulate=0)
                if wave == 0:
                    for side in self.sides:
                        self.fetch(h, side, fetched, row0, following)
                e.op("tile.mma_wait", operands=[partial], pending=0)
                last = wave == self.waves - 1
                if last and not late:
                    self.hand_over(h, at)
                sides = [f for f in factors[wave] if f is not None]
                segments = (1, 1, *(int(f is not None) for f in factors[wave]))
                e.op("tile.promote", operands=[accumulator, partial, *sides], segments=segments, wave=wave)
                if last and late:
                    self.hand_over(h, at)

    def hand_over(self, h: Handles, at: Positions) -> None:
        cursor = at.cursor
        self.release(h, cursor)
        self.e.op("tile.advance", operands=[cursor])
        if at.window is not None:
            self.e.op("tile.next_block", operands=[at.window])
        if self.schedule.early_wait:
            self.e.op("tile.peek", operands=[h.ring, cursor])

    def scalars(self, side: Side) -> ir.Value:
        """Room for the side's block scales: one a wave of A, one for each block of columns of B."""
        return self.e.op("tile.scalars", [self.e.type("registers")], count=self.fetch_shape(side)[0]).result

    def fetch_shape(self, side: Side) -> tuple[int, int, int]:
        """(count, rows between them, rows between warpgroups) of the side's block scales in a tile."""
        rows = self.block_scale(side).rows
        if rows == WHOLE:
            return 1, 0, 0
        if side.label == "A":
            return self.waves, WAVE, self.waves * WAVE
        return max(1, side.rows // rows), rows, 0

    def fetch(
        self, h: Handles, side: Side, fetched: dict[str, ir.Value], row0: dict[str, ir.Value], k0: ir.Value
    ) -> None:
        scale = self.block_scale(side)
        if scale is None:
            return
        _, spacing, own = self.fetch_shape(side)
        rows = h.m if side.label == "A" else h.n
        source = self.pointer(scale.name, scale.argument_index)
        strides = self.strides(scale.name, scale.layout)
        operands = [fetched[side.label], source, *strides, row0[side.label], rows, k0, h.k]
        row_block = (1 << 30) if scale.rows == WHOLE else scale.rows
        self.e.op("tile.fetch", operands=operands, row_block=row_block, k_block=scale.k, own=own, spacing=spacing)

    def factors(
        self, h: Handles, at: Positions, fetched: dict[str, ir.Value], wave: int
    ) -> tuple[ir.Value | None, ir.Value | None]:
        """The two sides' scale factors for a wave."""
        e = self.e
        made: list[ir.Value | None] = []
        for side in self.sides:
            scale = self.block_scale(side)
            position = at.window if self.copy_of(side) == "window" else at.cursor
            if side.label in h.scale_tiles and side.label == "A":
                operands = [h.scale_tiles["A"], position]
                made.append(e.op("tile.row_factors", [e.type("factors")], operands, wave=wave, waves=self.waves).result)
            elif side.label in h.scale_tiles:
                made.append(e.op("tile.column_factors", [e.type("factors")], [h.scale_tiles["B"], position]).result)
            elif scale is not None:
                count, spacing, own = self.fetch_shape(side)
                first, number, span = (wave, 1, 0) if own else (0, count, spacing if count > 1 else 0)
                operands = [fetched[side.label]]
                result = [e.type("factors")]
                made.append(e.op("tile.uniform_factors", result, operands, first=first, count=number, span=span).result)
            else:
                made.append(None)
        return made[0], made[1]

    # ------------------------------------------------------------------------------------------------------ epilogue

    def epilogue(self, h: Handles, accumulator: ir.Value, m0: ir.Value, n0: ir.Value) -> None:
        """The elementwise body, then the store."""
        e, p, s = self.e, self.problem, self.schedule
        place = [m0, n0, h.m, h.n]
        if p.epilogue is not None and not self.is_conversion():
            inputs = [self.input(x) for x in p.inputs]
            segments = (1, 1, 1, 1, 1, len(inputs))
            f32 = ir.F32Type.get()
            operands = [accumulator, *place, *inputs]
            arguments = (f32,) * (1 + len(inputs))
            with e.region("tile.epilogue", operands, arguments, segments=segments) as block:
                self.body_of(block)
        result = p.result
        element = ir.Type.parse(result.element.mlir)
        if s.epilogue == "bulk":
            columns = s.swizzle_c * 8 // self.result_bits
            box = (columns, WAVE)
            source = Source("tensor_map", result.name, box=box, swizzle=s.swizzle_c, align=16)
            target = e.parameter(self.body, e.descriptor(box, element, s.swizzle_c), source)
            e.op("tile.store", operands=[accumulator, h.tiles["C"], target, m0, n0])
        else:
            pair = self.even_columns()
            size = self.result_bits // 8
            memory = e.memory(self.function.body.blocks[0].operations[-1].operands[0].type)
            source = Source("pointer", result.name, align=size * (1 + pair))
            target = e.parameter(self.body, memory, source)
            stride = e.parameter(self.body, ir.IntegerType.get_signless(64), Source("stride", result.name, axis=0))
            e.op("tile.store_direct", operands=[accumulator, target, stride, *place], pair=pair)

    def even_columns(self) -> int:
        """1 where two adjacent columns are always both inside or both outside."""
        return int(self.problem.n.size is not None and self.problem.n.size % 2 == 0)

    def is_conversion(self) -> bool:
        """Whether the map only converts the accumulator, which the store does anyway."""
        ops = list(self.problem.epilogue.body.blocks[0].operations)
        return len(ops) == 1 or (len(ops) == 2 and ops[0].operation.name == "arith.truncf")

    def input(self, x: EpilogueInput) -> ir.Value:
        e, i64 = self.e, ir.IntegerType.get_signless(64)
        if x.element.name not in ("f32", "bf16", "f16"):
            raise UnsupportedError(
                f"{x.name} is {x.element.name} in the elementwise expression", expected="f32, bf16 or f16"
            )
        strides, blocks = [e.i64(0), e.i64(0)], [1, 1]
        rank = len(x.index)
        if isinstance(x.value.type, ir.RankedTensorType):
            contiguous = rank - 1 if x.layout == "row" else rank - 2
            for axis, index in enumerate(x.index):
                if not index.dim:
                    continue
                which = 0 if index.dim == self.problem.m.name else 1
                stride = (
                    e.i64(1) if axis == contiguous else e.parameter(self.body, i64, Source("stride", x.name, axis=axis))
                )
                strides[which], blocks[which] = stride, index.divisor
            by_pairs = x.kind in ("col", "both") and blocks[1] == 1 and x.index[contiguous].dim == self.problem.n.name
            pair = int(by_pairs and self.even_columns())
            align = x.element.bits // 8 * (1 + pair)
            source = self.pointer(x.name, x.argument_index, align)
        else:
            source, pair = e.parameter(self.body, ir.F32Type.get(), Source("scalar", x.name)), 0
        return e.op(
            "tile.input",
            [e.type("operand")],
            [source, *strides],
            kind=x.kind,
            row_block=blocks[0],
            column_block=blocks[1],
            pair=pair,
        ).result

    def body_of(self, block: ir.Block) -> None:
        """Copies the map's body, in f32 throughout: inputs come widened, the store rounds."""
        p = self.problem
        source = p.epilogue.body.blocks[0]
        values = {source.arguments[i]: block.arguments[0] for i in p.accumulators}
        for position, x in enumerate(p.inputs):
            values[source.arguments[x.view]] = block.arguments[1 + position]
        last = source.operations[len(source.operations) - 1]
        for op in source.operations:
            name = op.operation.name
            if name == "scale.yield":
                self.e.op("tile.yield", operands=[values[op.operands[0]]])
            elif name == "arith.extf" or (name == "arith.truncf" and op.result == last.operands[0]):
                values[op.result] = values[op.operands[0]]
            elif name == "arith.truncf":
                raise UnsupportedError("a rounding inside the elementwise expression", expected="only at its end")
            else:
                attributes = {k: op.operation.attributes[k] for k in op.operation.attributes}
                operands = [values[v] for v in op.operands]
                values[op.result] = ir.Operation.create(name, [op.result.type], operands, attributes).result
