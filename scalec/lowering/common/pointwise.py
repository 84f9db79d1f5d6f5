"""Programs without a contraction: adjacent columns of a row, in registers of a thread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from scalec.formats import ELEMENT_TYPES, PACKED_BITS, TRANSFORMED, element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering import scalar
from scalec.lowering.builder import Variable
from scalec.lowering.common import copies, elements, epilogue, global_elements, quantize, rounding
from scalec.lowering.common import hadamard as hadamards
from scalec.lowering.common.state import COMMON, State

REDUCTIONS = {
    "sum": ("arith.addf", 0.0),
    "max": ("arith.maximumf", -math.inf),
    "min": ("arith.minimumf", math.inf),
    "absmax": ("arith.maximumf", 0.0),
}
"""What takes a term, or its magnitude, into a reduction of each kind, and what one of no terms is."""


ALL = tile.LANES - 1
"""The bits in which the lanes of a warp differ."""

CHAINS, IN_CHAINS = 4, 16
"""Parts of a thread's terms that are reduced by themselves, where there are so many terms or more: within one, each
waits for the one before."""


def _combined(s: State, kind: str, before: ir.Value, value: ir.Value) -> ir.Value:
    """A reduction with one more term; a product is multiplied and added at once."""
    if kind == "sum" and _is_product(value):
        one, other = value.owner.operands  # pyright: ignore
        return s.b.fma(one, other, before)
    term = scalar.OPS["math.absf"](s.b, value) if kind == "absmax" else value
    return scalar.OPS[REDUCTIONS[kind][0]](s.b, before, term)


def _is_product(value: Any) -> bool:
    """Whether it is one that nothing else takes."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.mulf" and not list(value.uses)


@COMMON.lowers("tile.point")
def point(s: State, op: ir.OpView) -> None:
    """Threads have the vectors of a tile in order, those of a row all or as many as a power of two."""
    b, vector = s.b, tile.int_of(op.vector)
    across = tile.int_of(op.columns) // vector
    row = s.get(op.m0) if across == s.threads else b.add(s.get(op.m0), b.div(s.tid, across))
    column = b.add(s.get(op.n0), b.mul(s.tid if across == s.threads else b.and_(s.tid, across - 1), vector))
    inside = b.and_(b.compare("lt", row, s.get(op.m)), b.compare("lt", column, s.get(op.n)))
    s.values[op.row], s.values[op.column], s.values[op.inside] = row, column, inside


@COMMON.lowers("tile.aligned")
def aligned(s: State, op: ir.OpView) -> None:
    """The address and all strides have no bit below `bytes`."""
    b, bits = s.b, rounding.bits_of(str(op.source.type.element_type))
    every = b.integer(s.get(op.source))
    for stride in op.strides:
        every = b.or_(every, b.mul(s.get(stride), max(1, bits // 8)))
    s.values[op.result] = b.compare("eq", b.and_(every, tile.int_of(op.bytes) - 1), 0)


def address_of(s: State, source: Any, at: Any, strides: Any, element: str) -> ir.Value:
    """The address in bytes of an element of memory, an i64; of a narrow one, of the first that shares its byte."""
    b, row = s.b, element_spelled(element)
    assert row is not None
    index, last = b.constant(0, b.i64), len(list(at)) - 1
    for number, (i, stride) in enumerate(zip(at, strides, strict=True)):
        i = b.value(s.get(i))
        if number == last and row.bits < 8:
            i = b.mul(b.div(i, row.unit), row.bytes(row.unit))
        index = b.add(index, b.mul(b.widen(i), s.get(stride)))
    return global_elements.address_of(s, s.get(source), index, element)


@COMMON.lowers("tile.load_columns")
def load_columns(s: State, op: ir.OpView) -> None:
    """A list of values: words of several elements are loaded whole, other elements one by one."""
    b, element, count = s.b, str(op.source.type.element_type), tile.int_of(op.result.type.count)
    address, valid = address_of(s, op.source, op.at, op.strides, element), b.value(s.get(op.valid), b.i1)
    together, bits = tile.int_of(op.together), rounding.bits_of(element)
    size = bits // 8

    def single(i: int, inside: ir.Value) -> ir.Value:
        if not size or size == 1:
            return _bytes(s, address, i, 1, element, [inside])[0]
        pointer = b.op("llvm.inttoptr", [ir.Type.parse("!llvm.ptr<1>")], [b.add(address, i * size)])
        return epilogue.numbers(s, global_elements.load(s, pointer, element, inside, 1))[0]

    if bits == PACKED_BITS and (count == 1 or not tile.int_of(op.along)):
        there = [b.compare("lt", 0, b.value(s.get(x))) for x in op.count]
        s.values[op.result] = [_half(s, address, op.at[-1], element, reduce(b.and_, there, valid))] * count
        return
    if not tile.int_of(op.along):
        s.values[op.result] = [single(0, valid)] * count
        return

    if order := tile.optional(op, "order", ()):
        s.values[op.result] = _permuted(s, op, address, element, order, valid)
        return

    def whole() -> list[ir.Value]:
        values: list[ir.Value] = []
        for first in range(0, count, together):
            words = together * bits // 32
            if bits <= 8:
                values += _bytes(s, address, first, together, element, [valid])
                continue
            if not words:
                values += [single(first + i, valid) for i in range(together)]
                continue
            raw = _words(s, address, first * size, words, valid)
            for word in raw:
                if size == 4:
                    values += elements.widened(b, [word], element, 1)
                else:
                    values += [global_elements.unpack(s, word, element, half) for half in (0, 1)]
        return values

    def some(there: ir.Value) -> list[ir.Value]:
        size = max(8, bits)  # of a load
        inside = [b.and_(valid, b.compare("lt", at // bits, there)) for at in range(0, count * bits, size)]
        if bits > 8:
            return [single(i, x) for i, x in enumerate(inside)]
        least, each = 8 // math.gcd(8, bits), bits // math.gcd(8, bits)  # elements, and bytes of so many
        return [
            x
            for i in range(count // least)
            for x in _bytes(s, address, i * least, least, element, inside[i * each : (i + 1) * each])
        ]

    if not op.count:
        s.values[op.result] = whole()
        return
    made, there = [b.variable(b.f32) for _ in range(count)], b.value(s.get(op.count[0]))

    def of(values: list[ir.Value]) -> None:
        for held, value in zip(made, values, strict=True):
            held.set(value)

    b.either(b.value(s.get(op.whole[0]), b.i1), lambda: of(whole()), lambda: of(some(there)))
    s.values[op.result] = [x.get() for x in made]


def _permuted(
    s: State, op: ir.OpView, address: ir.Value, element: str, order: Sequence[int], valid: ir.Value
) -> list[ir.Value]:
    """Columns that lie in another order in words, which are loaded whole, or byte by byte; zeros behind a `count`."""
    b, count, each = s.b, tile.int_of(op.result.type.count), len(order)
    first = b.and_(b.value(s.get(op.at[-1])), each - 1)  # column of its word
    address = b.sub(address, b.widen(b.div(first, 2))) if count < each else address
    words = range(0, max(count, each), each)

    def loaded(step: int) -> list[ir.Value]:
        starts = [w + i for w in words for i in range(0, each, step)]
        return [x for at in starts for x in _bytes(s, address, at, step, element, [valid])]

    def chosen(found: list[ir.Value]) -> list[ir.Value]:
        values, size = [found[w + place] for w in words for place in order], each
        while size > count:  # the half that the thread has
            size //= 2
            upper = b.compare("ne", b.and_(first, size), 0)
            values = [b.select(upper, y, x) for x, y in zip(values[:size], values[size:], strict=True)]
        return values

    if not op.count:
        return chosen(loaded(each))
    held, there = [b.variable(b.f32) for _ in range(count)], b.value(s.get(op.count[0]))

    def keep(values: list[ir.Value]) -> None:
        for x, value in zip(held, values, strict=True):
            x.set(value)

    def some() -> None:
        nothing = b.constant(0.0, b.f32)
        found = enumerate(chosen(loaded(2)))
        keep([b.select(b.compare("lt", i, there), x, nothing) for i, x in found])

    b.either(b.value(s.get(op.whole[0]), b.i1), lambda: keep(chosen(loaded(each))), some)
    return [x.get() for x in held]


def _half(s: State, address: ir.Value, index: Any, element: str, inside: ir.Value) -> ir.Value:
    """The element of 4 bits at an index, of a byte at an address that two share; zero unless `inside`."""
    b, row = s.b, element_spelled(element)
    assert row is not None
    (byte,) = b.asm("@$2 ld.global.u8 $0, [$1];", [b.i32], [address, inside, 0], tied=1)
    by = b.shl(b.and_(b.value(s.get(index)), 1), 2)
    return elements.widened(b, [b.pure("shr.u32 $0, $1, $2;", b.i32, byte, by)], row.name, 2)[0]


def _bytes(s: State, address: ir.Value, first: int, count: int, element: str, inside: list[ir.Value]) -> list[ir.Value]:
    """`count` adjacent elements of 8 bits or fewer, number `first` on; zeros unless `inside`, of all or each load."""
    b, row = s.b, element_spelled(element)
    assert row is not None
    offset, size, parts, words = first * row.bits // 8, row.accessed(count), [], []
    for i, at in enumerate(range(0, row.bytes(count), size)):
        valid = inside[i % len(inside)]
        if size >= 4:
            words += _words(s, address, offset + at, size // 4, valid)
        else:
            parts += b.asm(f"@$2 ld.global.u{8 * size} $0, [$1 + {offset + at}];", [b.i32], [address, valid, 0], tied=1)
    while parts:
        several, parts = parts[: 4 // size], parts[4 // size :]
        words.append(reduce(b.or_, [b.shl(x, 8 * size * n) if n else x for n, x in enumerate(several)]))
    wide = math.lcm(row.bits, 32)  # of words that begin with an element
    each, of = wide // row.bits, wide // 32
    return [
        x
        for i in range(0, len(words), of)
        for x in elements.widened(b, words[i : i + of], row.name, min(each, count - i // of * each))
    ]


@COMMON.lowers("tile.load_scales")
def load_scales(s: State, op: ir.OpView) -> None:
    """A load for each block that a thread has columns of."""
    b, kind, block = s.b, tile.str_of(op.scale), tile.int_of(op.block)
    count, row, n = tile.int_of(op.result.type.count), _value(s, op.row), _value(s, op.n)
    base, valid = b.integer(s.get(op.source)), b.value(s.get(op.valid), b.i1)
    made: list[ir.Value] = []
    for first in range(0, count, block):
        column = b.add(_value(s, op.column), first)
        inside = b.and_(valid, b.compare("lt", column, n)) if first else valid
        address = quantize.address_of_scale(s, op, base, row, b.value(b.div(column, block)), n)
        if ELEMENT_TYPES[kind].bits > 8:
            pointer = b.op("llvm.inttoptr", [ir.Type.parse("!llvm.ptr<1>")], [address])
            scale = global_elements.load(s, pointer, ELEMENT_TYPES[kind].mlir, inside, 1)[0]
        else:
            (byte,) = b.asm("@$2 ld.global.u8 $0, [$1];", [b.i32], [address, inside, 0], tied=1)
            scale = copies.widened(b, byte, 0, kind)
        made += [scale] * min(block, count)
    s.values[op.result] = made


def _words(s: State, address: ir.Value, offset: int, words: int, valid: ir.Value) -> list[ir.Value]:
    """So many words, 1, 2 or 4, of memory; zeros unless `valid`."""
    b = s.b
    names = ", ".join(f"${i}" for i in range(words))
    shape = f".v{words}.b32 {{{names}}}" if words > 1 else ".b32 $0"
    text = f"@${words + 1} ld.global{shape}, [${words} + {offset}];"
    return b.asm(text, [b.i32] * words, [address, valid, *[b.constant(0)] * words], tied=words)


def now(x: Any) -> ir.Value:
    """What a register that changes holds here; a value as it is."""
    return x.get() if isinstance(x, Variable) else x


@COMMON.lowers("tile.running")
def running(s: State, op: ir.OpView) -> None:
    """A variable for each column."""
    empty = REDUCTIONS[tile.str_of(op.kind)][1]
    s.values[op.result] = [s.b.variable(s.b.f32, float(empty)) for _ in range(tile.int_of(op.result.type.count))]


@COMMON.lowers("tile.term")
def term(s: State, op: ir.OpView) -> None:
    """No branch: a term that is not valid is computed, and not taken."""
    kind, valid = tile.str_of(op.kind), s.b.value(s.get(op.valid), s.b.i1)
    for held, value in zip(s.get(op.sums), s.get(op.value), strict=True):
        before = held.get()
        held.set(s.b.select(valid, _combined(s, kind, before, now(value)), before))


@COMMON.lowers("tile.counted")
def counted(s: State, op: ir.OpView) -> None:
    """A select for each column."""
    b, count, empty = s.b, s.get(op.count), REDUCTIONS[tile.str_of(op.kind)][1]
    values = enumerate(s.get(op.value))
    s.values[op.result] = [b.select(b.compare("lt", i, count), now(x), float(empty)) for i, x in values]


@COMMON.lowers("tile.within")
def within(s: State, op: ir.OpView) -> None:
    """The bits below the end, without those below the beginning."""
    b, column, columns = s.b, _value(s, op.column), tile.int_of(op.columns)

    def below(end: ir.Value) -> ir.Value:
        count = b.select(b.compare("lt", column, end), b.min(b.sub(end, column), columns), 0)
        bits = b.op("arith.shli", [b.i32], [b.constant(2), b.sub(count, 1)])  # of 32 columns the last one is lost
        return b.select(b.compare("eq", count, 0), 0, b.sub(bits, 1))

    s.values[op.mask] = b.and_(below(_value(s, op.high)), b.xor(below(_value(s, op.low)), -1))


@COMMON.lowers("tile.filled")
def filled(s: State, op: ir.OpView) -> None:
    b, mask, otherwise = s.b, _value(s, op.mask), ir.FloatAttr(op.otherwise).value
    s.values[op.result] = [
        b.select(b.compare("eq", b.and_(mask, 1 << i), 0), otherwise, now(x)) for i, x in enumerate(s.get(op.value))
    ]


@COMMON.lowers("tile.reduce_lanes")
def reduce_lanes(s: State, op: ir.OpView) -> None:
    """A thread's own first, then lanes at distances of powers of two, then warps: each thread leaves what its warp has,
    and reads what those that share it left, in the order of their numbers."""
    every = [[now(x) for value in op.values for x in s.get(value)]]
    s.values[op.result] = _reduced(s, op, every, tile.str_of(op.kind))[0]


@COMMON.lowers("tile.reduce_each")
def reduce_each(s: State, op: ir.OpView) -> None:
    """Likewise, of several numbers at once: warps meet once for all of them."""
    every = [[now(x) for x in own] for own in zip(*map(s.get, op.values), strict=True)]
    s.values[op.result] = _reduced(s, op, every, tile.str_of(op.kind))


@COMMON.lowers("tile.some")
def some(s: State, op: ir.OpView) -> None:
    """Likewise, of 1 where it holds and 0 elsewhere."""
    b = s.b
    values = [b.select(b.value(s.get(x), b.i1), b.constant(1.0, b.f32), 0.0) for x in op.values]
    (found,) = _reduced(s, op, [values], "max")
    s.values[op.result] = b.compare("ne", b.bits(found), 0)


def _reduced(s: State, op: ir.OpView, every: list[list[ir.Value]], kind: str) -> list[ir.Value]:
    """What is found of each list of values of a thread, and those of the threads that share it."""
    b, sharing, found = s.b, tile.int_of(op.sharing), []
    of_lanes = "max" if kind == "absmax" else kind

    def chain(values: list[ir.Value]) -> ir.Value:
        first, *others = values
        made = scalar.OPS["math.absf"](b, first) if kind == "absmax" else first
        for x in others:
            made = _combined(s, kind, made, x)
        return made

    for own in every:
        count = CHAINS if len(own) >= IN_CHAINS else 1
        made, *others = [chain(own[i::count]) for i in range(count)]
        for x in others:
            made = _combined(s, of_lanes, made, x)
        if of_lanes == "max" and sharing & ALL == ALL:
            made = _largest(s, made, kind == "absmax")
        else:
            for distance in (1, 2, 4, 8, 16):
                if sharing & distance:
                    other = b.butterfly(made, distance)
                    made = _combined(s, of_lanes, made, other)
        found.append(made)
    return found if sharing < tile.LANES else _of_warps(s, op, of_lanes, found)


def _largest(s: State, value: ir.Value, magnitude: bool) -> ir.Value:
    """That of a warp: bits of magnitudes, and of others those below 0 turned round, are in the order of their numbers,
    and NaN, made one that is above 0, is behind all of them. One instruction in place of ten that wait for each other:
    one row of two formats takes 0.06 us less (H200)."""
    b = s.b
    if magnitude:
        (bits,) = b.asm("redux.sync.max.u32 $0, $1, 0xFFFFFFFF;", [b.i32], [b.bits(value)])
        return b.float_of(bits)

    def turned(bits: ir.Value) -> ir.Value:
        return b.xor(bits, b.and_(b.op("arith.shrsi", [b.i32], [bits, b.constant(31)]), 0x7FFFFFFF))

    own = b.bits(scalar.OPS["arith.maximumf"](b, value, value))
    (bits,) = b.asm("redux.sync.max.s32 $0, $1, 0xFFFFFFFF;", [b.i32], [turned(own)])
    return b.float_of(turned(bits))


def _of_warps(s: State, op: ir.OpView, kind: str, values: list[ir.Value]) -> list[ir.Value]:
    """What warps share: unless `fresh` they meet before too, as all have then read what was left there last. Several
    numbers are put together by one of the threads that share them, which leaves them to the others: each would read all
    of them."""
    b, sharing = s.b, tile.int_of(op.sharing)
    bits = sharing & ~ALL
    room, several = b.add(s.shared, tile.int_of(op.exchange)), len(values) > 1
    own, start = (b.add(room, b.shl(x, 2)) for x in (s.tid, b.and_(s.tid, s.threads - 1 & ~bits)))

    def leave(values: list[ir.Value]) -> None:
        for i, value in enumerate(values):
            b.asm(f"st.shared.f32 [$0 + {4 * i * s.threads}], $1;", [], [own, value])

    def left(i: int, thread: int) -> ir.Value:
        return b.asm(f"ld.shared.f32 $0, [$1 + {4 * (i * s.threads + thread)}];", [b.f32], [start])[0]

    def found() -> list[ir.Value]:
        made = []
        for i in range(len(values)):
            first, *others = [left(i, x) for x in range(s.threads) if not x & ~bits]
            for x in others:
                first = _combined(s, kind, first, x)
            made.append(first)
        return made

    def whole() -> list[ir.Value]:
        """A word of each warp, all of whose lanes have the same: one row of two formats takes 0.13 us less (H200)."""
        warp, many = b.div(s.tid, tile.LANES), len([x for x in range(0, s.threads, tile.LANES) if not x & ~bits])
        first = b.compare("eq", b.and_(s.tid, ALL), 0)
        b.asm("@$2 st.shared.f32 [$0], $1;", [], [b.add(room, b.shl(warp, 2)), values[0], first])
        b.asm("bar.sync 0;")
        start = b.add(room, b.shl(b.and_(warp, ~(bits // tile.LANES)), 2))
        made: list[ir.Value] = []
        while len(made) < many:
            count = 1 << min(2, (many - len(made)).bit_length() - 1)
            names = ", ".join(f"${i}" for i in range(count))
            shape = f".v{count}.f32 {{{names}}}" if count > 1 else ".f32 $0"
            made += b.asm(f"ld.shared{shape}, [${count} + {4 * len(made)}];", [b.f32] * count, [start])
        while len(made) > 1:
            odd = made[len(made) & ~1 :]
            made = [_combined(s, kind, *made[i : i + 2]) for i in range(0, len(made) - 1, 2)] + odd
        return made

    if "fresh" not in op.operation.attributes:
        b.asm("bar.sync 0;")
    if not several and sharing & ALL == ALL and not bits & (bits + tile.LANES):
        return whole()
    leave(values)
    b.asm("bar.sync 0;")
    if not several:
        return found()
    with b.when(b.compare("eq", b.and_(s.tid, bits), 0)):
        leave(found())
    b.asm("bar.sync 0;")
    return [left(i, 0) for i in range(len(values))]


@COMMON.lowers("tile.column")
def column(s: State, op: ir.OpView) -> None:
    s.values[op.result] = now(s.get(op.value)[tile.int_of(op.at)])


@COMMON.lowers("tile.columns_of")
def columns_of(s: State, op: ir.OpView) -> None:
    s.values[op.result] = [s.get(x) for x in op.values]


@COMMON.lowers("tile.hadamard")
def hadamard(s: State, op: ir.OpView) -> None:
    values = [now(x) for x in s.get(op.value)]
    own, apart = len(values), [1 << i for i in range(TRANSFORMED.bit_length() - 1)]
    steps = [("own", x) if x < own else ("lanes", x // own) for x in apart]
    s.values[op.result] = hadamards.transformed(s, values, s.tid, steps)


@COMMON.lowers("tile.find_scale")
def find_scale(s: State, op: ir.OpView) -> None:
    """As results of contractions find theirs."""
    b, found = s.b, quantize.scale_of(s, op, s.get(op.largest))
    s.values[op.code] = found.code if found.code.type == b.i32 else b.bits(found.code)
    s.values[op.reciprocal] = found.reciprocal


@COMMON.lowers("tile.own_turn")
def own_turn(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.value(s.b.and_(s.tid, tile.int_of(op.threads) - 1))


@COMMON.lowers("tile.store_scale")
def store_scale(s: State, op: ir.OpView) -> None:
    """The thread whose number has no bit of those that the threads of a block differ in."""
    b, row, block, n = s.b, _value(s, op.row), _value(s, op.at), _value(s, op.n)
    base = b.integer(s.get(op.target))
    mine = b.compare("eq", b.and_(s.tid, tile.int_of(op.sharing)), 0)
    inside = b.and_(b.value(s.get(op.inside), b.i1), mine)

    def address(at: ir.Value) -> ir.Value:
        return quantize.address_of_scale(s, op, base, row, at, n)

    width = 8 if ELEMENT_TYPES[tile.str_of(op.scale)].bits == 8 else 32
    operands = [address(block), s.get(op.code), inside]
    if "kept" in op.operation.attributes:
        policy = b.asm("createpolicy.fractional.L2::evict_last.b64 $0, 1.0;", [b.i64])
        b.asm(f"@$2 st.global.L2::cache_hint.b{width} [$0], $1, $3;", [], [*operands, *policy])
    else:
        b.asm(f"@$2 st.global.b{width} [$0], $1;", [], operands)
    if tile.int_of(op.padding):
        with b.when(b.and_(inside, b.compare("ge", b.add(block, 1), b.ceildiv(n, tile.int_of(op.block))))):
            quantize.store_padding(s, block, 1, address)


def _value(s: State, x: Any) -> ir.Value:
    """What an i32 became, as a value."""
    return s.b.value(s.get(x))


@COMMON.lowers("tile.compute")
def compute(s: State, op: ir.OpView) -> None:
    """The body once for each column."""
    made, inputs, count = [], [s.get(x) for x in (*op.inputs, *op.scalars)], tile.int_of(op.result.type.count)
    functions = epilogue.functions_of(op) | (scalar.QUOTIENTS if count > 1 else {})
    for i in range(count):
        own = [now(x[i]) if isinstance(x, list) else x for x in inputs]
        made.append(scalar.evaluate(s.b, op.body.blocks[0], own, functions))
    s.values[op.result] = made
