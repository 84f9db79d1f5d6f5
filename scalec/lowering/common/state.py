"""What lowering functions share: the builder, where a thread is, and what tile values became."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.joined import around, join
from scalec.lowering.table import Table
from scalec.targets import WARPGROUP, Target

COMMON = Table("every target")
"""The functions of ops that are lowered alike on every target; a target's own table extends it."""


@dataclass(frozen=True)
class Geometry:
    """How the consumers share a tile.

    A unit is a warpgroup or a warp. Along M, unit i has the rows from i * waves * wave on, wave by wave. Within a wave
    each warp of the unit has 16 rows, as an m16n8 accumulator lies in its registers (PTX ISA 9.7.14.5.8).
    """

    warps: int  # of a unit, 4 or 1
    units: tuple[int, int]  # along M and along N
    wave: int  # rows of a unit that one instruction adds to
    # columns of the result within which those of an accumulator are in the order in which copies bring B's rows
    # (`!tile.descriptor`); 0: they are in order.
    permuted: int = 0

    turns: int = 1  # warpgroups that take tiles by turns; each is then the lone unit of its tile

    @staticmethod
    def of(kernel: ir.OpView) -> Geometry:
        """Read off the accumulator and the tile of a `tile.kernel`."""
        # results have the columns of one contraction's sums
        fragment = first_of(kernel, "tile.pane") or first_of(kernel, "tile.fragment")
        tiles = first_of(kernel, "tile.tiles", "tile.work")
        if fragment is None:  # no sums
            return Geometry(1, (1, 1), 16)
        (rows, columns), (tile_m, tile_n) = tile.shape_of(fragment.result.type), tile.ints_of(tiles.tile)
        wave = tile.wave_rows(fragment.result.type)
        if first_of(kernel, "tile.take") is not None:  # a fragment is some columns of a unit's
            low, high = tile.ints_of(first_of(kernel, "tile.role").warps)
            columns = tile_n // ((high - low) // (tile_m // rows))
        units = (tile_m // rows, tile_n // columns)
        return Geometry(wave // 16, units, wave, _permuted(kernel), tile.int_of(tiles.turns))

    @property
    def adjacent(self) -> int:
        """Adjacent columns of the result that a thread has: lane q of four that share a row has those from q times as
        many on, of each four times as many."""
        return self.permuted // 4 or 2

    def column(self, group: int) -> int:
        """Column of the result, behind a thread's first one, of the first of its two in a group of 8 columns."""
        groups = self.adjacent // 2
        return group // groups * 4 * self.adjacent + group % groups * 2


def _permuted(kernel: Any) -> int:
    """Rows of B within which copies change the order."""
    product = first_of(kernel, "tile.mma", "tile.mma_converted")
    users = [] if product is None else [use.owner for use in product.b.uses]
    return next((tile.permuted_of(tile.shape_of(u.source.type)) for u in users if u.operation.name == "tile.copy"), 0)


def first_of(op: Any, *names: str) -> Any:
    """The first op of one of these names within `op`."""
    for region in op.operation.regions:
        for inner in (o for block in region.blocks for o in block.operations):
            found = inner if inner.operation.name in names else first_of(inner, *names)
            if found is not None:
                return found
    return None


@dataclass
class Cursor:
    """A position in a ring: `stage` and `phase` (i32), and whether a peek has seen the stage full (i32).

    Within an iteration that begins at stage 0 the stage is `known`, and `stage` is 0, as it will be behind it. Where
    stages go to several warpgroups, bit i of `rounds` (i32) is the parity of this warpgroup's next round of stage i,
    and `phase` is not kept.
    """

    depth: int
    stage: Variable
    phase: Variable
    ready: Variable | None
    known: int | None = field(default=None, kw_only=True)
    rounds: Variable | None = field(default=None, kw_only=True)

    def parity(self, b: Builder) -> ir.Value:
        """Of the round of the stage that is waited for."""
        if self.rounds is None:
            return self.phase.get()
        return b.and_(b.op("arith.shrui", [b.i32], [self.rounds.get(), self.stage.get()]), 1)

    def before(self, b: Builder) -> ir.Value:
        """The stage before this one."""
        stage = self.stage.get()
        return b.select(b.compare("eq", stage, 0), b.constant(self.depth - 1), b.sub(stage, 1))

    def at(self) -> ir.Value | int:
        return self.stage.get() if self.known is None else self.known


@dataclass
class Window:
    """A position in a ring of `slots` windows of `blocks` K blocks, both powers of two.

    The position is `at` (i32, counts blocks) + `ahead`. Within an iteration of an unrolled loop `at` stays, a multiple
    of the iteration's blocks, and `ahead` is known: all blocks of the iteration share one address computation.
    """

    blocks: int
    slots: int
    at: Variable
    ahead: int = 0

    def flush(self) -> None:
        """Moves what `ahead` counts into `at`."""
        if self.ahead:
            self.at.set(self.at.get_plus(self.ahead))
            self.ahead = 0


@dataclass(frozen=True)
class Ring:
    """Shared addresses of the first full and the first empty barrier; 8 bytes each, `depth` of each.

    `of_leader`: those of the leader of this CTA's pair, in the cluster's shared memory.
    """

    full: ir.Value | int
    empty: ir.Value | int
    of_leader: bool = False


@dataclass(frozen=True)
class Buffer:
    """A ring of shared tiles: shared address of the first, its type, its offset in the CTA's shared memory, and bytes
    from one stage to the next."""

    base: ir.Value
    type: ir.Type
    offset: int
    stage: int

    def address(self, b: Builder, cursor: Cursor) -> ir.Value:
        return self.at(b, cursor, self.base)

    def at(self, b: Builder, cursor: Cursor, first: ir.Value, unit: int = 1) -> ir.Value:
        """`first`, an address in the first stage in units of `unit` bytes, moved to the cursor's stage."""
        return b.add(first, self.behind(b, cursor, unit))

    def behind(self, b: Builder, cursor: Cursor, unit: int = 1) -> ir.Value | int:
        """How far the cursor's stage is behind the first, in units of `unit` bytes."""
        return b.mul(cursor.at(), self.stage // unit)

    def in_window(self, b: Builder, window: Window, first: ir.Value, swizzle: ir.Value | int = 0) -> ir.Value:
        """`first`, the address of a row in the first slot, moved to the window's slot and K block.

        K blocks are the innermost index, of f32; `swizzle` is what the row XORs into its byte offset.
        """
        at = window.at.get()
        slot = b.mul(b.and_(b.shr(at, window.blocks.bit_length() - 1), window.slots - 1), self.stage)
        block = b.and_(b.shl(at, 2), 4 * (window.blocks - 1))
        return b.add(b.add(b.add(first, slot), b.xor(block, swizzle)), 4 * window.ahead)


def row_swizzle(b: Builder, row: ir.Value) -> ir.Value:
    """What row `row` of a 32-byte-swizzled tile with rows of 32 bytes XORs into offsets within the row.

    The swizzle XORs address bit 7 into bit 4 (CUDA guide, tensor maps, CU_TENSOR_MAP_SWIZZLE_32B).
    """
    return b.shl(b.and_(b.shr(row, 2), 1), 4)


def swizzle(b: Builder, row: ir.Value, pitch: int) -> ir.Value | int:
    """What a row XORs into the index of its 16-byte chunks: rows of `pitch` bytes, swizzled over as many."""
    return {128: lambda: b.and_(row, 7), 64: lambda: b.and_(b.shr(row, 1), 3), 32: lambda: b.and_(b.shr(row, 2), 1)}[
        pitch
    ]()


def thread_of(s: State) -> ir.Value:
    """This thread's index in its warpgroup."""
    b = s.b
    return b.and_(b.add(b.shl(b.sub(s.warp, s.first_warp), 5), s.lane), WARPGROUP - 1)


@dataclass(frozen=True)
class Fragment:
    """An accumulator in registers: for each wave, the N/2 f32 that a thread holds (PTX ISA 9.7.15.5.1, figure D). With
    `live` that many columns mean something, and the next unit's follow them; 0: all do. `one`: a thread has one of at
    most four columns, that of its number among the lanes of the row, in the first register of each row. `lanes`: a lane
    has a row of the warp's 32, in one wave, and all its columns. The next unit's columns are `apart` behind this one's,
    as many as there are where it is 0."""

    waves: list[list[Variable]]
    columns: int
    live: int = 0
    one: bool = False
    lanes: bool = False
    apart: int = 0

    def read(self) -> list[Variable]:
        """Sums for which all has been read that products out of registers and their factors need: one of each wave, and
        of each 16 columns, which come together."""
        columns = range(len(self.waves[0]) - 1, -1, -8)
        count = max(len(self.waves), len(columns))
        return [self.waves[-1 - i % len(self.waves)][columns[i % len(columns)]] for i in range(count)]

    @property
    def group(self) -> int:
        """Columns of a group, of which a thread has two: see `places`."""
        return 2 if self.lanes else 8

    def of_group(self, registers: list[Variable], number: int) -> list[Variable]:
        """Those of a wave's registers that a group of columns has: two of each row that a thread has."""
        each = 2 if self.lanes else 4
        return registers[each * number : each * (number + 1)]


@dataclass
class State:
    """Lowering state of one kernel."""

    target: Target
    table: Table
    geometry: Geometry
    b: Builder
    values: dict[Any, Any]
    threads: int
    cluster: tuple[int, int]
    tid: ir.Value
    lane: ir.Value
    warp: ir.Value
    rank: ir.Value | int
    shared: ir.Value
    remote_empty: dict[Any, ir.Value] = field(default_factory=dict)
    first_warp: int = 0
    unrolled: int = 1
    fresh: ir.Value | None = None
    dealt: bool = False  # whether this is within a tile that a queue deals out
    before_k: ir.Value | None = None  # of such a tile: what stands before its loop over K, of rounds
    windowed: bool = False  # whether scales come by windows
    varied: Callable[[], ir.Value] | None = None  # a zero of which ptxas only knows that lanes may differ in it
    cleared: int = 0  # products whose sums begin with a zero of their own
    cta_group: int = 1
    parts: int = 1
    part: ir.Value | int = 0
    registers: int = 0  # that a thread is launched with
    run: ir.Value | None = None  # of tiles in runs: a number that no other run of the role has
    of_run: set[Any] = field(default_factory=set)  # what the items of a run have in common
    shares_runs: bool = False  # whether all that is set once a run of a block is behind one comparison
    goes_on: Callable[[], ir.Value] | None = None  # whether another tile follows in the `tile.tiles` around
    takes: Callable[[], None] | None = None  # takes the next item of the `tile.work` around
    begins: Callable[[], None] | None = None  # begins the next tile of the `tile.run_tiles` around, where one follows
    _once: dict[Any, Any] = field(default_factory=dict)
    _anchor: Any = None

    @property
    def ctas(self) -> int:
        """CTAs of a cluster that share copies; `rank` is among these."""
        return self.cluster[0] * self.cluster[1]

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster: those of each of the `parts` of K, one part's behind the other's."""
        return self.ctas * self.parts

    def once(self, key: Any, emit: Callable[[], Any], behind: ir.Value | None = None) -> Any:
        """What `emit` makes, made once, at the start of the role or right behind a value: LLVM runs without
        loop-invariant code motion here."""
        key = key if behind is None else (key, behind)
        if key not in self._once:
            with ir.InsertionPoint(self._anchor) if behind is None else ir.InsertionPoint.after(behind.owner):
                self._once[key] = emit()
        return self._once[key]

    def once_a_run(self, key: Any, emit: Callable[[], list[Variable]]) -> list[Variable]:
        """What `emit` sets, set at the first tile of each run that comes here; without runs at each tile."""
        b, run = self.b, self.run
        if run is None:
            return emit()
        if self.shares_runs:
            return self._at_first_tile(run, emit)
        last = self.once(("run", key), lambda: b.variable(b.i32, -1))
        with b.when(b.compare("ne", last.get(), run)):
            made = emit()
            last.set(run)
        return made

    def _at_first_tile(self, run: ir.Value, emit: Callable[[], list[Variable]]) -> list[Variable]:
        """Likewise, behind one comparison where that may be: what is computed once a run stands where the run's first
        tile is walked, whether that tile is computed or not."""
        b, block = self.b, ir.InsertionPoint.current.block
        begun = next((x for x in around(block) if (run, x) in self._once), None)
        first = None if begun is None else self._once[run, begun].operation
        last = self.once(("run", block), lambda: b.variable(b.i32, -1))
        condition = b.compare("ne", last.get(), run) if first is None else first.operands[0]
        with b.when(condition) as branch:
            made = emit()
        if first is not None and join(first, branch):
            return made
        if begun is None or begun != block:  # nothing was there, or not in a block that comes as often as this one
            with ir.InsertionPoint(branch):
                if first is not None:
                    branch.operation.operands[0] = b.compare("ne", last.get(), run)
                last.set(run)
        self._once.setdefault((run, block), branch)
        return made

    def in_round(self, value: ir.Value) -> ir.Value:
        """`value`, but within an iteration of known stages as a value of the iteration: else ptxas would add constants
        to it before the loop, keep the sums in registers, and copy them from there (ptxas 13.0)."""
        if self.fresh is None:
            return value
        key = ("in round", value, self.fresh)
        if key not in self._once:
            self._once[key] = self.b.add(value, self.fresh)
        return self._once[key]

    def enter_role(self, first_warp: int) -> None:
        """Starts a role at the insertion point."""
        self.first_warp, self._once = first_warp, {}
        self._anchor = self.b.anchor().owner

    def settle(self, first_warp: int) -> None:
        """Starts a role anew behind setmaxnreg: what it makes once, and the lane, are then no values of the registers
        that a thread had before, out of whose number ptxas 13.0 spills those that it keeps in a higher one (three of
        FP8 1x128 by 128x128 with 128 sums, of 168 registers at entry)."""
        self.lane = self.b.asm("mov.u32 $0, %laneid;", [self.b.i32], memory=False)[0]
        self.enter_role(first_warp)

    @property
    def thread(self) -> ir.Value:
        """Number of this thread within its role."""
        return self.once("thread", lambda: self.b.sub(self.tid, self.b.constant(32 * self.first_warp)))

    def unit(self, axis: int) -> ir.Value | int:
        """Index of this unit (warpgroup or warp) within its role along M (0) or N (1)."""
        b, along = self.b, self.geometry.units

        def emit() -> ir.Value:
            per_unit = self.geometry.warps
            index = b.shr(self.warp, per_unit.bit_length() - 1) if per_unit > 1 else self.warp
            return b.sub(index, self.first_warp // per_unit) if self.first_warp else index

        if self.geometry.turns > 1:
            return 0
        # a lone unit's index is LLVM's to fold: folded here, address sums change places in the PTX, then in the SASS
        if along[axis] == 1 and (axis or along[1] > 1):
            return 0
        index = self.once("unit", emit)
        if min(along) == 1:
            return index
        across = self.once("unit along N", lambda: b.div(index, along[0]))
        return across if axis else self.once("unit along M", lambda: b.sub(index, b.mul(across, along[0])))

    @property
    def unit_index(self) -> ir.Value | int:
        self.unit(0)
        self.unit(1)
        return self._once.get("unit", 0)

    @property
    def turn(self) -> ir.Value | int:
        """Index of this warpgroup among those of its role that take tiles by turns."""
        b, warps = self.b, self.geometry.warps
        first = self.first_warp // warps
        return self.once("turn", lambda: b.sub(b.shr(self.warp, warps.bit_length() - 1), first))

    @property
    def warp_in_unit(self) -> ir.Value | int:
        warps = self.geometry.warps
        return self.once("quarter", lambda: self.b.and_(self.warp, warps - 1)) if warps > 1 else 0

    @property
    def row_in_wave(self) -> ir.Value:
        """First of the two rows (the other is 8 below) that this thread holds of a wave."""
        b = self.b
        if self.geometry.warps == 1:
            return self.once("row", lambda: b.shr(self.lane, 2))
        return self.once("row", lambda: b.add(b.shl(self.warp_in_unit, 4), b.shr(self.lane, 2)))

    @property
    def first_column(self) -> ir.Value:
        """First of the columns of the result that this thread has of a unit's."""
        return self.b.shl(self.b.and_(self.lane, 3), self.geometry.adjacent.bit_length() - 1)

    @property
    def lead(self) -> ir.Value:
        """Whether this is the first thread of its unit."""
        return self.b.compare("eq", self.b.and_(self.tid, 32 * self.geometry.warps - 1), 0)

    def get(self, value: ir.Value) -> Any:
        """What a tile value became; a Python int for a constant."""
        return self.values[value]

    def unit_barrier(self) -> None:
        """The threads of this unit meet (named barriers 1.., PTX ISA 9.7.13.1; 0 is the CTA's)."""
        b, warps = self.b, self.geometry.warps
        if warps == 1:
            b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        else:
            index = self.unit(0) if self.geometry.turns == 1 else self.turn
            operands = [b.add(index, 1), b.constant(32 * warps)]
            b.op("nvvm.barrier", [], operands, operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1]))
