"""Operands converted from shared to shared memory: elements to wider ones, exactly, and rows that are
contiguous along M or N to rows that are contiguous along K.

A thread makes 16 bytes of what is multiplied at a time, of as many elements of a row; threads that share a row are
adjacent, so that what they load and store lies side by side, in other banks each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise

from scalec.formats import ELEMENT_TYPES, ElementType, element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common import six_bits
from scalec.lowering.common.state import COMMON, Cursor, State, swizzle
from scalec.targets import WARPGROUP

AT_ONCE = 8
"""Chunks of 16 bytes whose elements a thread loads before it stores the first."""

Words = list[ir.Value]
"""Registers of 32 bits, the first elements in the lowest bits of the first."""


@COMMON.lowers("tile.own_stage")
def own_stage(s: State, op: ir.OpView) -> None:
    b, of = s.b, tile.int_of(op.of)
    own = b.div(b.sub(s.warp, s.first_warp), WARPGROUP // tile.LANES)
    stage = s.get(op.cursor).stage.get()
    turn = b.sub(stage, b.mul(b.div(stage, of), of))
    s.values[op.result] = b.compare("eq", turn, own)


@dataclass(frozen=True)
class Chunks:
    """The chunks of 16 bytes that a thread makes, one of each of its rows: `at_once` lie between these.

    Attributes:
        rows, pitch: of the tile that is made; rows of its panels along K have so many bytes.
        chunks, each: of a row, and elements of each.
        loaded, apart: bytes that become a chunk, and from row to row of what is stored.
        row, chunk: the thread's first row, and its chunk of each.
        shift: bytes that lie before what becomes its chunk and does not, fewer than become it; None for none.
        source, target: shared addresses of these in the first row.
    """

    rows: int
    pitch: int
    chunks: int
    each: int
    loaded: int
    apart: int
    row: ir.Value
    chunk: ir.Value
    source: ir.Value
    target: ir.Value
    shift: ir.Value | None = None

    @staticmethod
    def of(
        s: State,
        op: ir.OpView,
        thread: ir.Value,
        stored: ElementType,
        made: ElementType,
        shift: ir.Value | None = None,
    ) -> Chunks:
        """Those of the cursor's stage, from byte `shift` of each row on."""
        b, cursor = s.b, s.get(op.cursor)
        (rows, depth), pitch = tile.shape_of(op.target.type), tile.swizzle_of(op.target.type)
        each, of_panel = 8 * tile.CHUNK // made.bits, pitch // tile.CHUNK
        chunks = depth // each
        loaded = each * stored.bits // 8
        row, chunk = place_of(b, thread, chunks)
        apart = tile.shape_of(op.source.type)[1] * tile.bits_of(tile.element_of(op.source.type)) // 8
        own = b.mul(thread, loaded) if apart == chunks * loaded else b.add(b.mul(row, apart), b.mul(chunk, loaded))
        source = b.add(s.get(op.source).address(b, cursor), own)
        if shift is not None:
            within = b.and_(shift, loaded - 1)
            source, shift = b.add(source, b.sub(shift, within)), within
        turned = b.shl(b.xor(b.and_(chunk, of_panel - 1), swizzle(b, row, pitch)), 4)
        target = b.add(b.add(s.get(op.target).address(b, cursor), b.mul(row, pitch)), turned)
        if chunks > of_panel:
            target = b.add(target, b.mul(b.div(chunk, of_panel), rows * pitch))
        return Chunks(rows, pitch, chunks, each, loaded, apart, row, chunk, source, target, shift)

    @property
    def at_once(self) -> int:
        """Rows that a warpgroup makes at once: a multiple of those after which the swizzle repeats."""
        return WARPGROUP // self.chunks

    def of_rows(self, s: State, operand: ir.Value, cursor: Cursor) -> ir.Value:
        """The shared address of what f32 of [blocks of K, rows] are for the thread's chunk of its first row."""
        b, planes = s.b, tile.shape_of(operand.type)[0]
        plane = b.div(b.mul(self.chunk, self.each), self.chunks * self.each // planes)
        return b.add(s.get(operand).address(b, cursor), b.shl(b.add(b.mul(plane, self.rows), self.row), 2))

    def load(self, b: Builder, first: int) -> Words:
        """What becomes the thread's chunk of the row that is `first` rows behind its first one."""
        words = _load(b, self.source, self.loaded, first * self.apart)
        if self.shift is None:
            return words
        return _shifted(b, words + _load(b, self.source, self.loaded, first * self.apart + self.loaded), self.shift)

    def store(self, b: Builder, first: int, values: Words) -> None:
        text = f"st.shared.v4.b32 [$0 + {first * self.pitch}], {{$1, $2, $3, $4}};"
        b.asm(text, [], [self.target, *values])

    def all(self, b: Builder, some: Callable[[Sequence[int]], None], together: int = AT_ONCE) -> None:
        """Calls `some` with so many rows at a time: all loads before the first store, which they would wait for."""
        whole = list(range(0, self.rows - self.at_once + 1, self.at_once))
        for i in range(0, len(whole), together):
            some(whole[i : i + together])
        if rest := self.rows % self.at_once:
            with b.when(b.compare("lt", self.row, rest)):
                some([self.rows - rest])


def factor(b: Builder, factors: ir.Value, first: int) -> ir.Value:
    """That of the row that is `first` rows behind the one whose is at the address `factors`."""
    return b.asm(f"ld.shared.f32 $0, [$1 + {4 * first}];", [b.f32], [factors])[0]


def place_of(b: Builder, thread: ir.Value, chunks: int) -> tuple[ir.Value, ir.Value]:
    """A thread's row among those that a warpgroup makes at once, and its chunk there."""
    return b.div(thread, chunks), b.and_(thread, chunks - 1)


def thread_of(s: State) -> ir.Value:
    """This thread's index in its warpgroup."""
    b = s.b
    return b.and_(b.add(b.shl(b.sub(s.warp, s.first_warp), 5), s.lane), WARPGROUP - 1)


@COMMON.lowers("tile.convert")
def convert(s: State, op: ir.OpView) -> None:
    b, cursor = s.b, s.get(op.cursor)
    stored, made = elements_of(op)
    thread = thread_of(s)
    if "turned" in op.operation.attributes:
        _turn(s, op, thread, stored.name, made.name)
        return
    c = Chunks.of(s, op, thread, stored, made, s.get(op.shift) if op.shift is not None else None)
    factors = c.of_rows(s, op.factors, cursor) if op.factors is not None else None
    cut = _cut(s, op, c, stored) if op.last is not None else None

    def some(firsts: Sequence[int]) -> None:
        words = [c.load(b, first) for first in firsts]
        if cut is not None:
            number, kept = cut
            words = [[b.and_(x, kept) if i == number else x for i, x in enumerate(row)] for row in words]
        by = [factor(b, factors, first) for first in firsts] if factors is not None else []
        for i, first in enumerate(firsts):
            if op.zeros is not None:
                values = s.get(op.zeros).convert(b, words[i], first, stored.name, made.name)
            else:
                values = converted(b, words[i], stored.name, made.name)
            if by:
                pair = pair_of(b, by[i], made.name)
                values = [scaled(b, x, pair, made.name) for x in values]
            c.store(b, first, values)

    c.all(b, some, AT_ONCE if op.shift is None else AT_ONCE // 2)  # of which each is loaded with the next


def _cut(s: State, op: ir.OpView, c: Chunks, stored: ElementType) -> tuple[int, ir.Value]:
    """Of the words of each chunk the one that may have the element that counts as 0, and the bits of it that remain."""
    b, (chunk, place) = s.b, divmod(tile.int_of(op.operation.attributes["element"]), c.each)
    number, first = divmod(place * stored.bits, 32)
    mine = b.and_(b.compare("eq", c.chunk, chunk), s.get(op.last))
    return number, b.select(mine, b.constant(0xFFFFFFFF ^ ((1 << stored.bits) - 1 << first)), -1)


def elements_of(op: ir.OpView) -> tuple[ElementType, ElementType]:
    """Of what is stored, and of what is made."""
    stored = element_spelled(str(ir.TypeAttr(op.stored).value))
    made = element_spelled(str(tile.element_of(op.target.type)))
    assert stored is not None
    assert made is not None
    return stored, made


def converted(b: Builder, words: Words, stored: str, made: str) -> Words:
    """The same elements as another type, or as they are."""
    return words if stored == made else _CONVERSIONS[stored, made](b, words)


def widened(b: Builder, words: Words, stored: str, count: int) -> list[ir.Value]:
    """The first `count` elements of some words, as f32."""
    bits = words
    if ELEMENT_TYPES[stored].bits == six_bits.BITS:
        return six_bits.widened(b, words, stored, count)
    if ELEMENT_TYPES[stored].bits < 8:  # eight elements of a word
        pairs = [x for word in words for x in _CONVERSIONS[stored, "bf16"](b, [word])]
        bits = _bf16_to_tf32(b, pairs[: count // 2])
    elif stored not in ("f32", "tf32"):
        bits = _CONVERSIONS[stored, "tf32"](b, words)
    return [b.float_of(x) for x in bits[:count]]


def _turn(s: State, op: ir.OpView, thread: ir.Value, stored: str, made: str) -> None:
    """A thread makes 16 bytes of each of the rows whose elements lie in a word, out of one word of as many lines of K.
    Adjacent threads have adjacent words of a line, so that their loads meet no bank conflict. Each begins with another
    row of its word, so that of 8 threads, whose stores are one access, all rows have another place in the swizzle."""
    b, cursor = s.b, s.get(op.cursor)
    (rows, depth), pitch = tile.shape_of(op.target.type), tile.swizzle_of(op.target.type)
    bits, to = ELEMENT_TYPES[stored].bits, ELEMENT_TYPES[made].bits
    each, together = 8 * tile.CHUNK // to, 32 // bits  # elements of K in a chunk, rows of a word
    words, line = rows // together, rows * bits // 8  # of a line
    chunks = depth // each
    source, target = (s.get(x).address(b, cursor) for x in (op.source, op.target))
    factors, of_block = None, 1  # words of a block of rows
    if op.factors is not None:
        factors, of_block = s.get(op.factors).address(b, cursor), words // tile.shape_of(op.factors.type)[0]
    for first in range(0, words * chunks, WARPGROUP):
        number = b.add(thread, first)
        chunk = b.div(number, words)
        word = b.sub(number, b.mul(chunk, words))
        at = b.add(b.add(source, b.mul(chunk, each * line)), b.shl(word, 2))

        def one(at: ir.Value = at, chunk: ir.Value = chunk, word: ir.Value = word) -> None:
            found = [b.asm(f"ld.shared.b32 $0, [$1 + {k * line}];", [b.i32], [at])[0] for k in range(each)]
            by: Words = []
            if factors is not None:
                place = b.add(b.mul(b.div(word, of_block), 4 * depth), b.mul(chunk, 4 * each))
                by = _pairs_at(b, b.add(factors, place), each)
            for i in range(together):
                column = b.and_(b.add(b.shr(word, 1), i), together - 1)
                row = b.add(b.mul(word, together), column)
                values = [_column(b, found[k : k + together], column) for k in range(0, each, together)]
                if stored != made:
                    values = _CONVERSIONS[stored, made](b, values)
                if by:
                    values = [scaled(b, x, pair, made) for x, pair in zip(values, by, strict=True)]
                place = b.add(b.mul(row, pitch), b.shl(b.xor(chunk, swizzle(b, row, pitch)), 4))
                b.asm("st.shared.v4.b32 [$0], {$1, $2, $3, $4};", [], [b.add(target, place), *values])

        if first + WARPGROUP > words * chunks:
            with b.when(b.compare("lt", number, words * chunks)):
                one()
        else:
            one()


def _pairs_at(b: Builder, address: ir.Value, count: int) -> Words:
    """So many f32 that lie side by side, which bf16 has too, as pairs of that."""
    found = [x for i in range(0, count, 4) for x in _load(b, address, 16, 4 * i)]
    return [b.pure("cvt.rn.bf16x2.f32 $0, $2, $1;", b.i32, *found[i : i + 2]) for i in range(0, count, 2)]


def _column(b: Builder, words: Words, byte: ir.Value) -> ir.Value:
    """That byte of each of four words, or the one word."""
    if len(words) == 1:
        return words[0]
    selector = b.add(b.mul(byte, 0x11), 0x40)
    pairs = [b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *words[i : i + 2], selector) for i in (0, 2)]
    return b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *pairs, 0x5410)


def _shifted(b: Builder, words: Words, by: ir.Value) -> Words:
    """Of some words the half that begins at byte `by`, of fewer than a half has."""
    step = len(words) // 4
    while step:
        further = b.compare("ne", b.and_(by, 4 * step), 0)
        words = [b.select(further, y, x) for x, y in zip(words, words[step:], strict=False)]
        step //= 2
    bits = b.shl(b.and_(by, 3), 3)
    return [b.pure("shf.r.wrap.b32 $0, $1, $2, $3;", b.i32, *x, bits) for x in pairwise(words)]


def _load(b: Builder, address: ir.Value, count: int, offset: int) -> Words:
    """So many bytes: 2, 4, 8, or a multiple of 16."""
    if count > 16:
        return [word for i in range(0, count, 16) for word in _load(b, address, 16, offset + i)]
    words = count // 4
    if not words:
        return b.asm(f"ld.shared.u16 $0, [$1 + {offset}];", [b.i32], [address])
    if words == 1:
        return b.asm(f"ld.shared.b32 $0, [$1 + {offset}];", [b.i32], [address])
    to = ", ".join(f"${i}" for i in range(words))
    return b.asm(f"ld.shared.v{words}.b32 {{{to}}}, [${words} + {offset}];", [b.i32] * words, [address])


def pair_of(b: Builder, factor: ir.Value, made: str) -> ir.Value:
    """An f32 that the type has too as one multiplies a word by it."""
    return factor if made == "tf32" else b.pure(f"cvt.rn.{made}x2.f32 $0, $1, $1;", b.i32, factor)


def scaled(b: Builder, word: ir.Value, factor: ir.Value, made: str) -> ir.Value:
    """The elements of a word times a factor (`pair_of`)."""
    return b.pure(f"mul.rn.{'f32' if made == 'tf32' else made + 'x2'} $0, $1, $2;", b.i32, word, factor)


# e2m1: sign, and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6. PTX ISA 9.7.9.7, prmt: each of four bytes by a selector of 4 bits,
# whose highest one would replicate a sign, so that the e2m1's is masked out and set behind.
_BYTES = {
    ("e4m3", 1): (0x3C383000, 0x4C484440),
    ("bf16", 1): (0x3F3F3F00, 0x40404040),
    ("bf16", 0): (0xC0800000, 0xC0804000),
    ("f16", 1): (0x3E3C3800, 0x46444240),
}
"""By type and byte (1: the highest) that byte of the eight magnitudes, the least first. That byte of f16 is all."""


def _picked(b: Builder, table: tuple[int, int], selectors: ir.Value, *, kept: bool = False) -> ir.Value:
    """One word of a table may be a constant of `prmt`; the other is a register's for a whole loop, if `kept`."""
    first, second = held(b, table[0]) if kept else b.constant(table[0]), table[1]
    return b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, first, second, selectors)


def held(b: Builder, number: int) -> ir.Value:
    """A number in a register of each thread. The second constant of an instruction ptxas 13.0 has in a uniform register
    and moves before each use, unless it seems to differ by lane: no lane has the highest bit of its lanemask_lt."""
    text = "{ .reg .b32 T; mov.u32 T, %lanemask_lt; shr.u32 T, T, 31; add.u32 $0, T, $1; }"
    return b.pure(text, b.i32, b.constant(number))


def _narrow(b: Builder, word: ir.Value, half: int, made: str) -> tuple[ir.Value, ir.Value | None]:
    """Of four e2m1, a half of a word, the highest bytes and the lowest ones, None where these are 0, or the same."""
    magnitudes = b.and_(b.shr(word, 16) if half else word, 0x7777)
    spread = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, b.shl(word, 4), word, 0x7362 if half else 0x5140)
    signs = b.and_(spread, 0x80808080)
    low = _BYTES.get((made, 0))
    kept = made != "e4m3"  # whose sums are promoted, by threads that have no more registers
    high = b.or_(_picked(b, _BYTES[made, 1], magnitudes, kept=kept), signs)
    return high, _picked(b, low, magnitudes, kept=kept) if low is not None else None


def _e2m1_to_e4m3(b: Builder, words: Words) -> Words:
    return [_narrow(b, word, half, "e4m3")[0] for word in words for half in (0, 1)]


def half_of_e2m1(b: Builder, word: ir.Value, half: int, made: str) -> Words:
    """Two pairs of 16 bits of half a word."""
    high, low = _narrow(b, word, half, made)
    low = b.constant(0) if low is None else low
    return [b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, low, high, which) for which in (0x5140, 0x7362)]


def _e2m1_to_16(made: str) -> Callable[[Builder, Words], Words]:
    return lambda b, words: [pair for half in (0, 1) for pair in half_of_e2m1(b, words[0], half, made)]


def _8_to_f16(stored: str) -> Callable[[Builder, Words], Words]:
    """PTX ISA 9.7.9.21, cvt: .f16x2 of two adjacent bytes, from sm_89 on."""
    text = f"cvt.rn.f16x2.{stored}x2 $0, H; }}"

    def convert(b: Builder, words: Words) -> Words:
        halves = (("cvt.u16.u32 H, $1;"), ("{ .reg .b32 W; shr.b32 W, $1, 16; cvt.u16.u32 H, W; }"))
        return [b.pure(f"{{ .reg .b16 H; {half} {text}", b.i32, word) for word in words for half in halves]

    return convert


def _8_to_bf16(stored: str) -> Callable[[Builder, Words], Words]:
    """By way of f16 and f32, each of which holds them."""
    to_f16 = _8_to_f16(stored)
    text = "{ .reg .b16 L, H; .reg .f32 A, B; mov.b32 {L, H}, $1; cvt.f32.f16 A, L; cvt.f32.f16 B, H; "

    def convert(b: Builder, words: Words) -> Words:
        return [b.pure(text + "cvt.rn.bf16x2.f32 $0, B, A; }", b.i32, x) for x in to_f16(b, words)]

    return convert


def _bf16_to_tf32(b: Builder, words: Words) -> Words:
    """Their bits are the upper half of those of f32."""
    return [made for word in words for made in (b.shl(word, 16), b.and_(word, 0xFFFF0000))]


def halves_to_tf32(b: Builder, words: Words) -> Words:
    text = "{{ .reg .b16 L, H; mov.b32 {{L, H}}, $1; cvt.f32.f16 $0, {}; }}"
    return [b.pure(text.format(half), b.i32, word) for word in words for half in "LH"]


def _8_to_tf32(stored: str) -> Callable[[Builder, Words], Words]:
    to_f16 = _8_to_f16(stored)
    return lambda b, words: halves_to_tf32(b, to_f16(b, words))


def _e2m1_to_tf32(b: Builder, words: Words) -> Words:
    """Four of them, of half a word."""
    return _bf16_to_tf32(b, _e2m1_to_16("bf16")(b, words)[:2])


def four_as(b: Builder, word: ir.Value, number: int, made: str, less: Words | None = None) -> Words:
    """Eight integers of 4 bits, a word, as pairs of 16 bits. In the lowest bits of a `number` of these whose last bit
    is worth one, the bits of v and one xor make that number plus v: `less` the number it is v, exactly. 13 instructions
    for eight elements."""
    both = 0x10001 * number
    odd, found = b.shr(word, 4), []
    for byte in range(4):
        pair = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, word, odd, 0x0400 + 0x1111 * byte)
        more = b.xor(b.and_(pair, 0x000F000F), both)
        found.append(taken_away(b, more, less or [b.constant(both)], made))
    return found


def _4_to_16(made: str, number: int) -> Callable[[Builder, Words], Words]:
    """Of an i4 the number is 136 as bf16, or 1032 as f16, as its sign is turned; of a u4 128 or 1024."""
    return lambda b, words: four_as(b, words[0], number, made)


def _e2m1_apart(b: Builder, word: ir.Value, made: str) -> Words:
    """Eight e2m1 as pairs of 16 bits, each of two that are four apart: their bits where the type has a sign, and the
    ends of its exponent and of its fraction, times what that lacks of the exponent's bias. Shifts to the left and
    products are not of the pipe that `prmt` and logic wait for (sm_90a issues those every other clock): 23 instructions
    for eight elements, 10 of them there."""
    fraction, bias = {"bf16": (7, 127), "f16": (10, 15)}[made]
    kept, factor = 0x10001 * (7 << (fraction - 1)), b.constant(0x10001 * (2 * bias - 1 << fraction))  # 2^(bias - 1)
    found = []
    for i in range(4):
        signs, values = (_moved(b, word, to - 4 * i) for to in (12, fraction - 1))
        bits = b.or_(b.and_(signs, 0x80008000), b.and_(values, kept))
        found.append(scaled(b, bits, factor, made))
    return found


def _moved(b: Builder, word: ir.Value, by: int) -> ir.Value:
    """To the left by so many bits, or to the right."""
    return b.shl(word, by) if by > 0 else b.shr(word, -by) if by else word


def _integers_apart(b: Builder, word: ir.Value, less: Words | None = None, *, number: int, made: str) -> Words:
    """Likewise eight integers of 4 bits, as `four_as` has them: 11 instructions."""
    both, nibbles = 0x10001 * number, held(b, 0x000F000F)
    bits = [b.xor(b.and_(_moved(b, word, -4 * i), nibbles), both) for i in range(4)]
    return [taken_away(b, x, less or [b.constant(both)], made) for x in bits]


def taken_away(b: Builder, pair: ir.Value, less: Words, made: str) -> ir.Value:
    """A pair of 16 bits less others, one after the other."""
    return reduce(lambda x, y: b.pure(f"sub.rn.{made}x2 $0, $1, $2;", b.i32, x, y), less, pair)


_I4_BYTES = (0x44403800, 0x4E4C4A48), (0x4A4C4E50, 0x38404448)
"""What an i4 is as e4m3, without sign: 0 to 7, and -8 to -1."""


def i4_to_e4m3(b: Builder, words: Words) -> Words:
    """A selector of prmt from 8 on gives the sign of a byte eight times, here zeros: one table gives those of 0 to 7,
    one, with the sign turned, those of -8 to -1. 14 instructions for eight elements."""
    found = []
    for word in words:
        signs = b.and_(b.shl(word, 4), 0x80808080), b.and_(word, 0x80808080)
        for half, pick in enumerate((0x5140, 0x7362)):
            plain, turned = (b.shr(x, 16) if half else x for x in (word, b.xor(word, 0x88888888)))
            sign = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *signs, pick)
            magnitude = b.or_(_picked(b, _I4_BYTES[0], plain), _picked(b, _I4_BYTES[1], turned))
            found.append(b.or_(magnitude, sign))
    return found


def _u4_to_e4m3(b: Builder, words: Words) -> Words:
    """Likewise: 0 to 7, and 8 to 15, which are larger by 8."""
    found = []
    for word in words:
        for half in (0, 1):
            plain, turned = (b.shr(x, 16) if half else x for x in (word, b.xor(word, 0x88888888)))
            found.append(b.or_(_picked(b, _I4_BYTES[0], plain), _picked(b, _U4_BYTES, turned)))
    return found


_U4_BYTES = (0x53525150, 0x57565554)


def _4_to_tf32(number: int) -> Callable[[Builder, Words], Words]:
    """Four of them, of half a word."""
    return lambda b, words: _bf16_to_tf32(b, four_as(b, words[0], number, "bf16")[:2])


_CONVERSIONS: dict[tuple[str, str], Callable[[Builder, Words], Words]] = {
    ("e2m1", "e4m3"): _e2m1_to_e4m3,
    ("e2m1", "bf16"): _e2m1_to_16("bf16"),
    ("e2m1", "f16"): _e2m1_to_16("f16"),
    ("i4", "e4m3"): i4_to_e4m3,
    ("i4", "bf16"): _4_to_16("bf16", 0x4308),
    ("i4", "f16"): _4_to_16("f16", 0x6408),
    ("i4", "tf32"): _4_to_tf32(0x4308),
    ("u4", "e4m3"): _u4_to_e4m3,
    ("u4", "bf16"): _4_to_16("bf16", 0x4300),
    ("u4", "f16"): _4_to_16("f16", 0x6400),
    ("u4", "tf32"): _4_to_tf32(0x4300),
    ("e4m3", "f16"): _8_to_f16("e4m3"),
    ("e5m2", "f16"): _8_to_f16("e5m2"),
    ("e4m3", "bf16"): _8_to_bf16("e4m3"),
    ("e5m2", "bf16"): _8_to_bf16("e5m2"),
    ("e2m1", "tf32"): _e2m1_to_tf32,
    ("e4m3", "tf32"): _8_to_tf32("e4m3"),
    ("e5m2", "tf32"): _8_to_tf32("e5m2"),
    ("bf16", "tf32"): _bf16_to_tf32,
    ("f16", "tf32"): halves_to_tf32,
}
"""By the types before and behind (scalec.formats.CONVERTED)."""

APART: dict[tuple[str, str], Callable[..., Words]] = {
    ("e2m1", "bf16"): partial(_e2m1_apart, made="bf16"),
    ("e2m1", "f16"): partial(_e2m1_apart, made="f16"),
    ("i4", "bf16"): partial(_integers_apart, number=0x4308, made="bf16"),
    ("i4", "f16"): partial(_integers_apart, number=0x6408, made="f16"),
    ("u4", "bf16"): partial(_integers_apart, number=0x4300, made="bf16"),
    ("u4", "f16"): partial(_integers_apart, number=0x6400, made="f16"),
}
"""Likewise, of a word of eight elements of 4 bits, as pairs of two that are four apart; of integers less others, where
these are given."""
