"""The schedule: every decision that steers code generation, one field each.

A `Request` is as much of it as is decided so far: `with ...` in the language, the tuner and a test begin one, passes
fill it field by field. On the IR it is the function's attribute `scale.schedule = #scale.schedule<{...}>`; a field that
is absent has not been decided. A `Schedule` has every field: what a kernel is emitted from, or what a pass tries.

A new field stands in `Request`, with its values, and in `Schedule`, with its meaning; drafts have it too
(passes/plan/draft.py), a pass in passes/choose decides it, and passes/plan/check_schedule.py refuses what cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from scalec.errors import ScheduleError
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import ScheduleAttr
from scalec.sizes import natural
from scalec.suggestions import did_you_mean

Value = int | str | tuple[int, ...]

MAX_SPLIT = 64
"""Parts of K that a tile may be split into."""

MOST_PANELS = 16
"""Panels of a staged wave that may have room."""

MOST_INPUTS = 16
"""Boxes of elementwise inputs that have room."""

MAX_CONVERTERS = 2
"""Warpgroups that convert operands."""

STAGED = ("bulk", "rows")
"""Ways that results take to memory which stage rows of them in shared memory."""

LANES = 4
"""Of a warp, that share a row of an accumulator (PTX ISA 9.7.15.5.1)."""

PERMUTED = {8: 16, 4: 32}
"""By the bits of a result's elements: columns within which those of an accumulator may be permuted. A thread then has
as many adjacent ones as a register holds; of 16 bits these are the two that are adjacent anyway."""


@dataclass(frozen=True)
class Kind:
    """How a field's value is written in text and checked: `parse` raises ValueError(what is expected, a suggestion if
    there is one) on what it cannot read. `flag`: the name alone, without a value, says 1."""

    example: str
    parse: Callable[[str], Value]
    flag: bool = False


def _ints(count: int) -> Callable[[str], tuple[int, ...]]:
    def parse(text: str) -> tuple[int, ...]:
        parts = tuple(map(natural, text.split("x")))
        if len(parts) != count or any(p < 1 for p in parts):
            raise ValueError(f"{count} positive integers joined by x")
        return parts

    return parse


def _int(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = natural(text)
        if not low <= value <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return value

    return parse


def _choice(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError("one of " + ", ".join(names), did_you_mean(text, names))
        return text

    return parse


def _swizzle(text: str) -> int:
    value = natural(text)
    if value not in (0, 32, 64, 128):
        raise ValueError("0, 32, 64 or 128 (bytes)")
    return value


def _permuted(text: str) -> int:
    value = natural(text)
    if value not in (0, *PERMUTED.values()):
        raise ValueError(f"0, {' or '.join(map(str, PERMUTED.values()))} (columns)")
    return value


def _decided(example: str, parse: Callable[[str], Value], flag: bool = False) -> Any:
    return field(default=None, metadata={"kind": Kind(example, parse, flag)})


def _text(value: Value) -> str:
    """A value as a `with` clause writes it."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class _Fields:
    """What a request and a schedule have in common: their fields as a `with` clause, or the IR, has them."""

    def with_fields(self, **changes: Value | None) -> Self:
        """A copy with some fields of other values; of a request, undecided again with None."""
        if unknown := changes.keys() - vars(self).keys():
            raise TypeError(f"no field {min(unknown)}")
        made = object.__new__(type(self))  # not dataclasses.replace, a twentieth of a compilation's time
        vars(made).update(vars(self), **changes)
        return made

    def decided(self) -> dict[str, Value]:
        """The decided fields, in declaration order."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def texts(self) -> dict[str, str]:
        """The decided fields as a `with` clause writes them."""
        return {k: _text(v) for k, v in self.decided().items()}

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.texts().items())

    def to_attribute(self) -> ir.Attribute:
        """All this as `#scale.schedule`, in the current context."""
        return ScheduleAttr.get(ir.DictAttr.get({name: _attribute(v) for name, v in self.decided().items()}))


@dataclass(frozen=True)
class Schedule(_Fields):
    """All decisions that a kernel is made of.

    Attributes:
        swap: 1 computes the transposed result: the operands, and with them M and N in all other fields, change places.
            Few rows then are the columns of a tile, which may be narrower than its rows can be few.
        tile: (M, N, K) extents of one CTA's tile, in elements.
        cluster: (M, N) CTAs of one cluster. CTAs along N share the A tile, CTAs along M the B tile, by multicast.
        cta_group: CTAs whose tensor cores execute one product together: 1, or 2 that are adjacent along M, each with
            the rows of its own tile and half of the rows of B that both multiply with.
        split: parts of K of one tile, dealt out in whole K blocks; above 1 where K is known. The sums of the parts are
            added in their order.
        parts: where the sums of parts of K meet: in "memory", where each part is the work of a cluster of its own and
            the last to come adds them; in memory where each CTA adds some "columns"; or in the shared memory of the
            first of as many CTAs of one "cluster". Without parts, "memory".
        stages: depth of the shared-memory ring, in K blocks.
        swizzle_a, swizzle_b, swizzle_c: bytes of the shared-memory swizzle of each tile, 0 for none. A tile whose rows
            are longer, along M or N, lies in panels that wide. Of the result 0 where nothing is staged, or where rows
            are an odd number of 16 bytes.
        warpgroups: consumer warpgroups.
        consumers: "cooperative": the consumer warpgroups share each tile; "pingpong": they take whole tiles by turns,
            so that one stores its results while another multiplies.
        warps: consumer warps (along M, along N) that share a tile. Where one instruction is a warpgroup's, each
            warpgroup takes tile M / warpgroups rows: 4 * warpgroups along M, 1 along N; with "pingpong" 4 along M.
            Where sums are in tensor memory, warpgroups share the columns: 4 along M, warpgroups along N.
        convert: where an operand becomes what is multiplied: in "shared" memory, where converters write another tile;
            or in the "registers" of consumers, out of which the tensor core takes A, or there as two "addends" of each
            element, both of which are multiplied. Where none is converted, "shared".
        converters: warpgroups that convert operands between copies and products: stages by turns. 0: none does.
        registers: (producer, consumer) registers of a thread after setmaxnreg; those who convert have a producer's.
        scale_path: how scales with one value a row that vary along K reach shared memory: "bulk" (tensor copies: of a
            K block's column of a "col" layout, or of windows of eight K blocks of a "row" layout, which needs K known
            and 16-byte rows; where tensor memory takes words of scales, tiles of a "blocked" layout) or "thread"
            (loads and stores of producer warps; any layout).
        scale_copier: who copies the scales that the tensor core applies from shared to tensor memory: 1, a warp of its
            own, K blocks ahead of the products; 0, the thread that issues these, before each block's.
        permute_n: columns of the result within which those of the accumulator are permuted, so that a thread has four
            adjacent ones, or eight, which it stores at once: 16 (results of 8 bits) or 32 (of 4), where copies bring
            B's rows in that order; 0: not at all.
        promote: K elements accumulated in the tensor core before they are added into FP32 registers; 0: never.
        mma_n: columns of one tensor-core instruction, a divisor of the tile's, where a wave's columns are multiplied
            and promoted in several goes: the partial sums of one take fewer registers than those of all. 0: as wide as
            the tile.
        early_wait: 1 tests the next stage's barrier before the promotion, 0 after.
        unroll: K blocks in one iteration of the main loop; above 1 where K is known, or sums in tensor memory, where
            it is the loop that issues products, and `stages` blocks, or a multiple, are rounds of the ring.
        epilogue: how results reach memory: "bulk" (through shared memory and a tensor copy), "rows" (through shared
            memory, out of which threads store rows, each where it goes), "turned" (of a transposed result: through
            shared memory, where columns become rows, and stored by threads) or "direct" (registers to global memory).
        staged: waves of each warpgroup, or warp, that go through shared memory at once; 0: all of them.
        panels: of a staged wave, each as wide as `swizzle_c`, that have room in shared memory: each leaves by a copy of
            its own, and takes the place of the one that many before it. 0: all have room.
        adds: where what copies store is added to what is there, with `+=` into f32: in "memory", by copies that reduce;
            or "loaded" by copies into the results' places in shared memory, while the tile is multiplied, and added in
            registers. "loaded" also where an input as large as a lone result, which is not added to, comes into its
            place so. Otherwise "memory".
        inputs: boxes that have room in shared memory of what results are computed of at each row and column: copies
            bring that, as large as a result, while a tile is multiplied. 0: threads load it behind the last product.
        scheduler: who deals out the tiles, or their parts: "static" launches as many clusters as run at once, and each
            takes every so many-th; "dynamic" launches one for each, and those that run take over the others' while
            these have not begun (cluster launch control); "queue" launches as "static" does, where tensors say what
            there is to do: a warp of each CTA finds it and tells the others.
        dependent: the most multiplications of a launch, in units of 2^30, that begins while the kernel before it in its
            stream still runs: what it does before it touches memory then hides behind that one's end (programmatic
            dependent launch). 0: none does.
        order: which operand consecutive tiles share: "n" walks M within a band of N tiles, "m" the reverse.
        band: tiles of that band, whose operand L2 keeps.
        run: tiles along M, of the same columns, that a cluster takes one after the other at most: what is read for each
            column then stays in registers.
        stationary: 1 keeps B's tile in shared memory, or registers, for the tiles of a run, of which each has one K
            block, and multiplies `mma_n` columns, or a wave's rows (0), while others are reduced, the next tile's
            first ones while this one's last are. A queue then deals out each cluster's share of all tiles.
        invariant: 1 adds the products of a row in an order that does not depend on how many rows there are: a row's
            results are bit-equal whatever M is. 0, or None where nobody asked for it: whatever is fastest.
    """

    swap: int
    tile: tuple[int, int, int]
    cluster: tuple[int, int]
    cta_group: int
    split: int
    parts: str
    stages: int
    swizzle_a: int
    swizzle_b: int
    swizzle_c: int
    warpgroups: int
    consumers: str
    warps: tuple[int, int]
    convert: str
    converters: int
    registers: tuple[int, int]
    scale_path: str
    scale_copier: int
    permute_n: int
    promote: int
    mma_n: int
    early_wait: int
    unroll: int
    epilogue: str
    staged: int
    panels: int
    adds: str
    inputs: int
    scheduler: str
    dependent: int
    order: str
    band: int
    run: int
    stationary: int
    invariant: int | None


@dataclass(frozen=True)
class Request(_Fields):
    """The fields of a `Schedule` that the program, its user, the tuner or a pass has decided; None: nobody has."""

    swap: int | None = _decided("0", _int(0, 1))
    tile: tuple[int, int, int] | None = _decided("256x128x128", _ints(3))
    cluster: tuple[int, int] | None = _decided("1x2", _ints(2))
    cta_group: int | None = _decided("1", _int(1, 2))
    split: int | None = _decided("1", _int(1, MAX_SPLIT))
    parts: str | None = _decided("cluster", _choice("memory", "columns", "cluster"))
    stages: int | None = _decided("4", _int(2, 32))
    swizzle_a: int | None = _decided("128", _swizzle)
    swizzle_b: int | None = _decided("128", _swizzle)
    swizzle_c: int | None = _decided("128", _swizzle)
    warpgroups: int | None = _decided("2", _int(1, 3))
    consumers: str | None = _decided("pingpong", _choice("cooperative", "pingpong"))
    warps: tuple[int, int] | None = _decided("2x4", _ints(2))
    convert: str | None = _decided("registers", _choice("shared", "registers", "addends", "before"))
    converters: int | None = _decided("2", _int(0, MAX_CONVERTERS))
    registers: tuple[int, int] | None = _decided("40x232", _ints(2))
    scale_path: str | None = _decided("bulk", _choice("bulk", "thread"))
    scale_copier: int | None = _decided("1", _int(0, 1))
    permute_n: int | None = _decided("16", _permuted)
    promote: int | None = _decided("128", _int(0, 1 << 20))
    mma_n: int | None = _decided("88", _int(0, 256))
    early_wait: int | None = _decided("1", _int(0, 1))
    unroll: int | None = _decided("1", _int(1, 16))
    epilogue: str | None = _decided("bulk", _choice("bulk", "rows", "turned", "direct"))
    staged: int | None = _decided("0", _int(0, 16))
    panels: int | None = _decided("0", _int(0, MOST_PANELS))
    adds: str | None = _decided("loaded", _choice("memory", "loaded"))
    inputs: int | None = _decided("4", _int(0, MOST_INPUTS))
    scheduler: str | None = _decided("static", _choice("static", "dynamic", "queue"))
    dependent: int | None = _decided("8", _int(0, 1 << 20))
    order: str | None = _decided("n", _choice("m", "n"))
    band: int | None = _decided("8", _int(1, 1 << 16))
    run: int | None = _decided("16", _int(1, 1 << 10))
    stationary: int | None = _decided("1", _int(0, 1))
    invariant: int | None = _decided("1", _int(0, 1), flag=True)

    def undecided(self, *names: str) -> ScheduleError:
        """The refusal to go on without these fields, in declaration order."""
        return ScheduleError(
            f"schedule field {', '.join(names)} is not decided",
            got=str(self) or "nothing decided",
            fix="run the passes in the order of PIPELINE",
        )

    def require(self, names: Iterable[str]) -> Self:
        """The request, of which these fields are decided.

        Raises:
            ScheduleError: one is not.
        """
        if missing := [name for name in names if getattr(self, name) is None]:
            raise self.undecided(*missing)
        return self

    def complete(self) -> Schedule:
        """The schedule, where all of it is decided.

        Raises:
            ScheduleError: a field is not.
        """
        return Schedule(**vars(self.require(DECISIONS)))


FIELDS: dict[str, Kind] = {f.name: f.metadata["kind"] for f in fields(Request)}

DECISIONS = tuple(name for name in FIELDS if name != "invariant")
"""Fields that are all decided in the end. `invariant` is a request: nobody but the program or its user decides it."""


def parse_field(name: str, text: str) -> Value:
    """Reads one `name=text` of a `with` clause.

    Raises:
        ScheduleError: no such field, or a value it cannot have.
    """
    kind = FIELDS.get(name)
    if kind is None:
        raise ScheduleError(
            f"no schedule field {name!r:.80}", expected=", ".join(FIELDS), fix=did_you_mean(name, FIELDS)
        )
    try:
        return kind.parse(text.strip())
    except ValueError as error:
        expected, *near = error.args
        raise ScheduleError(
            f"schedule field {name} cannot be {text!r:.80}",
            expected=expected,
            fix="".join(near) or f"e.g. {name}={kind.example}",
        ) from None


def from_mapping(values: Mapping[str, str]) -> Request:
    """A request from text values, e.g. {"tile": "128x128x128", "stages": "5"}."""
    return Request(**{k: parse_field(k, v) for k, v in values.items()})  # pyright: ignore[reportArgumentType]


def from_attribute(attribute: ir.Attribute) -> Request:
    """What a `#scale.schedule` attribute holds.

    Raises:
        ScheduleError: no such attribute, an unknown field, or a value it cannot have.
    """
    try:
        entries = list(ir.DictAttr(ScheduleAttr(attribute).fields))
    except ValueError:
        raise ScheduleError(
            "scale.schedule is no schedule", got=str(attribute), expected="#scale.schedule<{...}>"
        ) from None
    values: dict[str, Any] = {}
    for entry in entries:
        value = _python(entry.attr)
        known = parse_field(entry.name, str(entry.attr) if value is None else _text(value))
        if value != known:
            raise ScheduleError(
                f"schedule field {entry.name} is {entry.attr}", expected=str(_attribute(known)), fix="write it so"
            )
        values[entry.name] = value
    return Request(**values)


def _python(attribute: ir.Attribute) -> Value | None:
    if isinstance(attribute, ir.StringAttr | ir.IntegerAttr):
        return attribute.value
    return tuple(attribute) if isinstance(attribute, ir.DenseI64ArrayAttr) else None


def _attribute(value: Value) -> ir.Attribute:
    if isinstance(value, tuple):
        return ir.DenseI64ArrayAttr.get(list(value))
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def read(function: ir.Operation) -> Request:
    """What is decided of a program (its `func.func`); nothing where none is set.

    Raises:
        ScheduleError: the attribute is no schedule.
    """
    attributes = function.operation.attributes
    if "scale.schedule" not in attributes:
        return Request()
    try:
        return from_attribute(attributes["scale.schedule"])
    except ScheduleError as error:
        error.place = place_of(function)
        raise


def asked(function: ir.Operation, over: Mapping[str, str] | None = None) -> Request:
    """What a program asks for, and `over` that, as text, what its user does.

    Raises:
        ScheduleError: the attribute is no schedule, or `over` has an unknown field, or a value it cannot have; launches
            before are asked for (scalec.launches), of a program that has none.
    """
    given = read(function).with_fields(**from_mapping(over or {}).decided())
    if given.convert == "before":
        raise ScheduleError(
            "convert=before is not possible",
            got="no operand that a launch before quantises, converts or turns",
            expected="quantize(...), or scales of a byte or e4m3 with M or N contiguous that no instruction takes",
            fix="leave convert to the compiler",
        )
    return given


def write(function: ir.Operation, schedule: Request) -> None:
    """Sets what is decided of a program."""
    function.operation.attributes["scale.schedule"] = schedule.to_attribute()
