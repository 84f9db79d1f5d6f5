"""Operands converted from shared to shared memory: elements to wider ones, exactly, and rows that are
contiguous along M or N to rows that are contiguous along K.

A thread makes 16 bytes of what is multiplied at a time, of as many elements of a row; threads that share a row are
adjacent, so that what they load and store lies side by side, in other banks each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scalec.formats import ELEMENT_TYPES, PACKED_BITS, PER_WORD, ElementType, element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.elements import converted, pair_of, scaled, smaller_in_order
from scalec.lowering.common.state import COMMON, Cursor, State, swizzle, thread_of
from scalec.lowering.common.turned_words import turn_words
from scalec.lowering.common.word_rows import WordRows
from scalec.lowering.common.words import Words
from scalec.targets import WARPGROUP

AT_ONCE = 8
"""Chunks of 16 bytes whose elements a thread loads before it stores the first."""


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
        s: State, op: ir.OpView, thread: ir.Value, stored: ElementType, made: ElementType, shift: ir.Value | None = None
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


@COMMON.lowers("tile.convert")
def convert(s: State, op: ir.OpView) -> None:
    b, cursor = s.b, s.get(op.cursor)
    stored, made = elements_of(op)
    thread = thread_of(s)
    if "in_words" in op.operation.attributes:
        _of_words(s, op, thread, stored.name, made.name)
        return
    if "turned" in op.operation.attributes:
        if stored.bits == PACKED_BITS:
            turn_words(s, op, stored, made)
        else:
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
            elif "smaller" in op.operation.attributes:
                values = [x for word in words[i] for x in smaller_in_order(b, word)]
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


def _of_words(s: State, op: ir.OpView, thread: ir.Value, stored: str, made: str) -> None:
    """Of words of adjacent K, as `WordRows` shares them out."""
    b, cursor = s.b, s.get(op.cursor)
    c = WordRows.of(b, thread, op.target.type, tile.shape_of(op.source.type)[1])
    base, pitch = s.get(op.source).address(b, cursor), tile.swizzle_of(op.target.type)
    turned = b.shl(b.xor(swizzle(b, c.row, pitch), c.chunk), 4)
    target = b.add(b.add(s.get(op.target).address(b, cursor), b.mul(c.row, pitch)), turned)
    targets = [b.xor(target, step * c.beside << 4) for step in range(c.steps)]  # of each the low bits are the chunk
    factors = [_factor_of_words(s, op, c, step) for step in range(c.steps)] if op.factors is not None else []

    def some(chunks: Sequence[tuple[int, int]], known: dict[object, Words]) -> None:
        loaded = []
        for first, step in chunks:
            at, behind = c.source(b, base, first)
            of_half = c.each < PER_WORD
            places = [behind + x for x in c.places(step)]
            loaded.append([w for x in places for w in _load(b, at, 2 if of_half else 4, x)])
        by = [factor(b, factors[step], first) for first, step in chunks] if factors else []
        for i, (first, step) in enumerate(chunks):
            if op.zeros is not None:
                values = s.get(op.zeros).of_words(b, loaded[i], (first, step), stored, made, known)
            else:
                values = converted(b, loaded[i], stored, made)
            if by:
                pair = pair_of(b, by[i], made)
                values = [scaled(b, x, pair, made) for x in values]
            text = f"st.shared.v4.b32 [$0 + {first * pitch}], {{$1, $2, $3, $4}};"
            b.asm(text, [], [targets[step], *values])

    whole = [first for first, partly in c.firsts() if not partly]
    chunks, known = [(first, step) for first in whole for step in range(c.steps)], dict[object, Words]()
    for i in range(0, len(chunks), AT_ONCE):
        some(chunks[i : i + AT_ONCE], known)
    for first in (first for first, partly in c.firsts() if partly):
        with b.when(b.compare("lt", c.row, c.rows - first)):
            some([(first, step) for step in range(c.steps)], {})


def _factor_of_words(s: State, op: ir.OpView, c: WordRows, step: int) -> ir.Value:
    """The shared address of what f32 of [blocks of K, rows] are for a thread's chunk of its first row."""
    b, planes = s.b, tile.shape_of(op.factors.type)[0]
    block, beside = c.chunks * c.each // planes, c.beside * c.each
    own = b.mul(c.chunk, c.each) if block % beside else 0  # else all chunks beside each other have one block
    plane = b.div(b.add(own, step * beside), block)
    return b.add(s.get(op.factors).address(b, s.get(op.cursor)), b.shl(b.add(c.row, b.mul(plane, c.rows)), 2))


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
                values = converted(b, values, stored, made)
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
