"""What a thread has of A on its way from shared memory to the registers out of which wgmma takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from scalec.formats import FRAGMENTS, PER_WORD, WORD_BITS, ElementType, element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_cut import LINE
from scalec.lowering.common.elements import pair_of
from scalec.lowering.common.state import State, swizzle
from scalec.lowering.common.words import Words
from scalec.lowering.sm90.addends import selector

BELOW = 8  # rows between a thread's two

WORD_BYTES = WORD_BITS // 8  # of words of adjacent K

QUARTERS = 4  # threads that share a row

Scales = Sequence[tuple[ir.Value, ir.Value | int]]


@dataclass(frozen=True)
class Loaded:
    """Of its two rows of a slice: a word for each chunk, in which its part is, and the factor of each, a pair of 16
    bits or an f32; no factors where there are none. Or `scales`: of a row's scale bytes the word that each has, and
    which of its bytes. And the zero point of each word, twice as 16 bits, or its table, where there are `zeros`.

    With `several` a word has the thread's elements of so many chunks, one behind the other; `numbers` are, where there
    are `scales`, of each word which of the row's scales in the stage it has. `fragments`: whether these are reordered
    (scalec.formats.FRAGMENTS)."""

    words: tuple[Words, Words]
    factors: tuple[Words, Words]
    scales: tuple[Scales, Scales] = ((), ())
    several: int = 0
    fragments: bool = False
    numbers: Sequence[ir.Value | int] = ()
    zeros: tuple[list[Any], list[Any]] = ([], [])

    def slice(self, number: int, count: int) -> Loaded:
        """One of so many equal parts."""

        def some(of: Any) -> Any:
            each = len(of) // count
            return of[number * each : (number + 1) * each]

        def both(of: tuple[Any, Any]) -> tuple[Any, Any]:
            return some(of[0]), some(of[1])

        if count == 1:
            return self
        words, factors, scales, zeros = map(both, (self.words, self.factors, self.scales, self.zeros))
        return Loaded(words, factors, scales, self.several, self.fragments, some(self.numbers), zeros)


def element_in(t: ir.Type) -> ElementType:
    """The element type of a type that has one."""
    found = element_spelled(str(tile.element_of(t)))
    assert found is not None
    return found


def quarter_of(s: State) -> ir.Value:
    """The thread's number among those that share a row."""
    return s.once("of four", lambda: s.b.and_(s.lane, QUARTERS - 1))


def interleaved(s: State, op: ir.OpView, stored: ElementType, made: ElementType) -> Loaded:
    """Of a `tile.load_stored` where B's rows are interleaved, or A's elements are reordered: of each group, that LINE
    bytes are made of, the thread has a quarter, side by side."""
    b = s.b
    (wave, depth), of = tile.shape_of(op.result.type), op.source.type
    waves, above, swizzled = tile.int_of(op.waves), tile.int_of(op.a_wave) * wave, bool(tile.swizzle_of(of))
    pitch = tile.shape_of(of)[1] * tile.bits_of(tile.element_of(of)) // 8
    fragments = "fragments" in op.operation.attributes
    group = (len(FRAGMENTS["pairs"]) if fragments else 8 * LINE // made.bits) * stored.bits // 8  # bytes of a row
    mine = group // QUARTERS
    row = s.once(("converted row", waves), lambda: b.add(b.mul(s.unit(0), waves * wave), s.row_in_wave))
    if "in_words" in op.operation.attributes:
        loaded = Loaded(_of_words(s, op, row, made), ([], []), several=made.bits // stored.bits)
        return _beside(s, op, loaded, made)

    def own() -> ir.Value:
        at = b.add(b.add(s.get(op.source).base, b.mul(row, pitch)), b.mul(quarter_of(s), mine))
        return b.xor(at, b.shl(swizzle(b, row, pitch), 4)) if swizzled else at

    at = s.get(op.source).at(b, s.get(op.cursor), s.once(("interleaved", op.source, waves), own))
    words: tuple[Words, Words] = [], []
    count, first = mine // 4, tile.int_of(op.number) * depth * stored.bits // 8
    to = ", ".join(f"${i}" for i in range(count))
    for begin, (found, below) in product(
        range(first, first + depth * stored.bits // 8, group), zip(words, (0, BELOW), strict=True)
    ):
        place = b.xor(at, begin) if swizzled else b.add(at, begin)
        text = f"ld.shared.v{count}.b32 {{{to}}}, [${count} + {(above + below) * pitch}];"
        found += b.asm(text, [b.i32] * count, [place])
    return _beside(s, op, Loaded(words, ([], []), several=made.bits // stored.bits), made)


def _of_words(s: State, op: ir.OpView, row: ir.Value, made: ElementType) -> tuple[Words, Words]:
    """Likewise of words in lines, swizzled in panels of 32 rows: of each group of eight or more lines the thread has a
    quarter. Of a warp's eight rows and four quarters each has another bank, as lines of two quarters differ in the
    swizzle by what rows do not."""
    b, ((wave, depth), (lines, _)) = s.b, (tile.shape_of(op.result.type), tile.shape_of(op.source.type))
    of_group = 8 * LINE // made.bits // PER_WORD
    mine, panel = of_group // QUARTERS, lines * LINE
    of_row = LINE // WORD_BYTES

    def own() -> ir.Value:
        line, place = b.mul(quarter_of(s), mine), b.and_(row, of_row - 1)
        chunk = b.xor(b.div(place, tile.CHUNK // WORD_BYTES), line)
        at = b.add(s.get(op.source).base, b.add(b.mul(b.div(row, of_row), panel), b.mul(line, LINE)))
        return b.add(at, b.add(b.shl(chunk, 4), b.shl(b.and_(place, 3), 2)))

    at = s.get(op.source).at(b, s.get(op.cursor), s.once(("words of a quarter", op.source, op.waves), own))
    above = tile.int_of(op.a_wave) * wave // of_row * panel
    first = tile.int_of(op.number) * depth // PER_WORD
    words: tuple[Words, Words] = [], []
    for begin, i in product(range(first, first + depth // PER_WORD, of_group), range(mine)):
        for found, below in zip(words, (0, BELOW), strict=True):
            place = b.xor(at, (i ^ below * WORD_BYTES // tile.CHUNK) << 4)
            text = f"ld.shared.b32 $0, [$1 + {above + (begin + i) * LINE}];"
            found += b.asm(text, [b.i32], [place])
    return words


def _beside(s: State, op: ir.OpView, loaded: Loaded, made: ElementType) -> Loaded:
    """With the zero points and factors of what was loaded."""
    if "fragments" in op.operation.attributes:
        zeros, factors = (_across(s, op, loaded, made, x) for x in (op.zeros, op.factors))
        return replace(loaded, zeros=zeros, factors=factors, fragments=True)
    if op.zeros is not None:
        loaded = replace(loaded, zeros=_with_scales(s, op, loaded, made, op.zeros, 1).factors)
    in_word = 4 if "words" in op.operation.attributes else 1
    return loaded if op.factors is None else _with_scales(s, op, loaded, made, op.factors, in_word)


ALONG_K = 32
"""Elements along K among which those of a word are that are reordered (scalec.formats.FRAGMENTS)."""


def _across(
    s: State, op: ir.OpView, loaded: Loaded, made: ElementType, source: ir.Value | None
) -> tuple[list[Any], list[Any]]:
    """Of reordered elements the factors, or zero points, of a `source`: those of each word, one or several."""
    if source is None:
        return [], []
    b, ((wave, depth), (planes, row)) = s.b, (tile.shape_of(op.result.type), tile.shape_of(source.type))
    size = 4 * row // tile.shape_of(op.source.type)[0]  # bytes of a row's
    block, count = depth * tile.int_of(op.count) // planes, len(loaded.words[0])

    def own() -> ir.Value:
        at = b.add(b.mul(s.unit(0), tile.int_of(op.waves) * wave), s.row_in_wave)
        return b.add(s.get(source).base, b.mul(at, size))

    at = s.get(source).at(b, s.get(op.cursor), s.once(("factors across", source, op.waves), own))
    first, found = tile.int_of(op.number) * depth, dict[int, Any]()
    which = [(first + k) // block for k in range(0, count * ALONG_K, min(block, ALONG_K))]

    def one(plane: int, below: int) -> Any:
        offset = size * (plane * (4 * row // size) + tile.int_of(op.a_wave) * wave + below)
        if offset not in found:
            several = size > 4
            found[offset] = table_at(s, at, offset) if several else factor_at(s, source, at, offset, made.name)
        return found[offset]

    one_row, other = ([one(plane, below) for plane in which] for below in (0, BELOW))
    return one_row, other


def _with_scales(s: State, op: ir.OpView, loaded: Loaded, made: ElementType, source: ir.Value, in_word: int) -> Loaded:
    """With factors of a `source`, or scale bytes, `in_word` of a word: those of a quarter follow each other too, or
    several quarters have one."""
    b = s.b
    (wave, depth), (planes, rows) = tile.shape_of(op.result.type), tile.shape_of(source.type)
    group = 8 * LINE // made.bits  # elements of K
    groups = depth // group
    block = depth * tile.int_of(op.count) // (in_word * (planes - 1) if in_word > 1 else planes)  # with one scale
    quarter = group // QUARTERS
    of_quarter, apart = max(1, quarter // block), max(1, block // quarter)

    def number() -> ir.Value:
        """Of a group's scales the first of the thread's."""
        return b.mul(b.div(quarter_of(s), apart), of_quarter)

    mine = s.once(("scales of a quarter", of_quarter, apart), number)

    def own() -> ir.Value:
        row = b.add(b.mul(s.unit(0), tile.int_of(op.waves) * wave), s.row_in_wave)
        return b.add(b.add(s.get(source).base, b.shl(row, 2)), b.mul(b.div(mine, in_word), 4 * rows))

    at = s.get(source).at(b, s.get(op.cursor), s.once(("factors of a quarter", source), own))
    found: dict[int, ir.Value] = {}
    each = len(loaded.words[0]) // groups  # words of a group
    factors: tuple[Words, Words] = [], []
    scales: tuple[list[tuple[ir.Value, ir.Value | int]], list[tuple[ir.Value, ir.Value | int]]] = [], []
    numbers = []
    for g, i in product(range(tile.int_of(op.number) * groups, (tile.int_of(op.number) + 1) * groups), range(each)):
        begins, behind = g * group // block, i * of_quarter // each
        numbers.append(b.add(mine, begins + behind))
        plane = begins // in_word if in_word > 1 else begins + behind
        for x, below in enumerate((0, BELOW)):
            offset = 4 * (plane * rows + tile.int_of(op.a_wave) * wave + below)
            if offset not in found:
                found[offset] = factor_at(s, source, at, offset, made.name)
            if in_word == 1:
                factors[x].append(found[offset])
                continue

            def which(behind: int = behind, begins: int = begins) -> ir.Value:
                return selector(b, b.add(b.and_(mine, in_word - 1), begins % in_word + behind))

            key = "byte of a quarter", of_quarter, apart, begins % in_word + behind
            scales[x].append((found[offset], s.once(key, which)))
    return replace(loaded, factors=factors, scales=scales, numbers=numbers)


def table_at(s: State, at: ir.Value, offset: int) -> Words:
    """A table at an address, of four words."""
    return s.b.asm(f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {offset}];", [s.b.i32] * 4, [at])


def factor_at(s: State, source: ir.Value, at: ir.Value, offset: int, made: str) -> ir.Value:
    """A factor of a `source`, at an address: a pair of 16 bits or, of `made` of 32, an f32; or a word of scale
    bytes."""
    words = str(tile.element_of(source.type)) != "f32"
    text = f"ld.shared.{'b32' if words else 'f32'} $0, [$1 + {offset}];"
    value = s.b.asm(text, [s.b.i32 if words else s.b.f32], [at])[0]
    return value if words else pair_of(s.b, value, made)
