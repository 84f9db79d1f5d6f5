"""What `tile.convert` takes where it makes rows of words of adjacent K or rows, shifts rows, or makes elements
smaller."""

from __future__ import annotations

from scalec.formats import IN_ORDER, PACKED_BITS, PER_WORD, SMALLER, WORD_BITS
from scalec.ir.mlir import ir
from scalec.ir.tile_checks import in_step, maker, plainly_swizzled
from scalec.ir.tile_cut import CHUNK, LINE
from scalec.ir.tile_types import *
from scalec.ir.verify import refuse

ROWS_OF_WORDS = 8
"""Rows, a multiple of which a strip of words has: those after which a swizzle repeats (PTX ISA 5.5.7)."""


def of_words(op: ir.OpView, stored: int, made: int) -> None:
    """Refuses a source that is not of words, or has other ones than the target's, or what nobody makes of words."""
    (rows, depth), swizzle, source = shape_of(op.target.type), swizzle_of(op.target.type), op.source.type
    lines, strip = shape_of(source)
    if stored != PACKED_BITS or str(element_of(source)) != f"i{WORD_BITS}" or swizzle_of(source):
        refuse(f"converts words of {source}, expected i{WORD_BITS}, not swizzled, of elements of {PACKED_BITS} bits")
    if depth % PER_WORD or lines * strip != rows * depth // PER_WORD or rows % strip or strip % ROWS_OF_WORDS:
        refuse(f"converts words {source} to {op.target.type}, expected one for each {PER_WORD} of a row, strips of "
               f"whole {ROWS_OF_WORDS} rows")  # fmt: skip
    if (
        depth * made != 8 * swizzle
        or "turned" in op.operation.attributes
        or op.shift is not None
        or op.last is not None
    ):
        refuse(f"converts words to {op.target.type}, expected rows of the swizzle, not turned, shifted or cut")
    _beside(op, rows, depth, "in_words")


def turned_words(op: ir.OpView, made: int) -> None:
    """Likewise where rows of 4 bits are contiguous, and turned."""
    (rows, depth), swizzle, source = shape_of(op.target.type), swizzle_of(op.target.type), op.source.type
    lines, width = shape_of(source)
    if str(element_of(source)) != "i8" or swizzle_of(source) or width % CHUNK:
        refuse(f"turns {source}, expected lines of whole {CHUNK} bytes, not swizzled")
    if (lines, width * 8) != (depth, rows * PACKED_BITS) or depth * made != 8 * swizzle:
        refuse(f"turns {source} to {op.target.type}, expected a line for each element of a row of the swizzle")
    if op.shift is not None or op.last is not None:
        refuse("turns rows that are shifted or cut")
    if sorted(order := ordered_in(op)) != list(IN_ORDER):
        refuse(f"has elements of words in the order {list(order)}, expected each of {PER_WORD} rows once")
    _beside(op, rows, depth, "turned")


def ordered_in(op: ir.OpView) -> tuple[int, ...]:
    """Which of eight rows each element of a word is of, from the lowest bits on."""
    return tuple(optional(op, "order", IN_ORDER))


def _beside(op: ir.OpView, rows: int, depth: int, how: str) -> None:
    """Refuses factors, or zero points, of other rows than are made so."""
    if op.factors is not None:
        (planes, count), first = shape_of(op.factors.type), optional(op, "first")
        fits = first >= 0 and first + rows <= count and (how == "turned" or count == rows)
        if str(element_of(op.factors.type)) != "f32" or not fits or depth % planes or depth // planes % PER_WORD:
            refuse(f"has factors {op.factors.type} for {rows} rows of {depth}")
    if op.zeros is not None and (points := maker(op.zeros, "tile.zero_points")) is not None:
        own = points.operation.attributes
        alike = how != "turned" or "number" in own or tuple(optional(points, "turned", ())) == ordered_in(op)
        if points.target.type != op.target.type or not (how in own or "number" in own) or not alike:
            refuse(f"converts words to {op.target.type} with the zero points of another tile, or of rows")
    plainly_swizzled(op, op.target)
    in_step(op, None, *(x for x in (op.source, op.target, op.factors) if x is not None))


def loaded_of_words(op: ir.OpView, depth: int) -> None:
    """Refuses a source of words, of `depth` elements of K, that no `tile.load_stored` reads."""
    (lines, rows), interleaved = shape_of(op.source.type), "interleaved" in op.operation.attributes
    swizzle, attributes = LINE if interleaved else 0, op.operation.attributes
    fits = lines * PER_WORD == depth and rows * WORD_BITS % (8 * LINE) == lines % ROWS_OF_WORDS == 0
    if str(element_of(op.source.type)) != f"i{WORD_BITS}" or not fits or swizzle_of(op.source.type) != swizzle:
        refuse(f"loads words of {op.source.type} for {depth} of K, expected i{WORD_BITS}, a swizzle of {swizzle}")
    if "words" in attributes:
        refuse("loads words of elements and of scales")


def smaller(stored: str, made: str, plain: bool) -> None:
    """Refuses elements that no bits moved make smaller, or that more becomes of."""
    if not plain or (stored, made) not in SMALLER:
        refuse(f"makes {made} of {stored} smaller, expected {' or '.join(map(' to '.join, SMALLER))}, plainly")


def shifts(op: ir.OpView, width: int, stored: int, made: int) -> None:
    """Refuses a shift of rows that end too early, or of elements that are turned, or become others 8 times as long."""
    row = width * bits_of(element_of(op.source.type)) // 8
    wanted = shape_of(op.target.type)[1] * stored // 8 + CHUNK
    if row < wanted or row % CHUNK or op.zeros is not None or op.last is not None:
        refuse(f"shifts rows of {row} bytes, expected {wanted} in whole {CHUNK}, and no zero points or last")
    if "turned" in op.operation.attributes or made > 4 * stored:
        refuse(f"shifts {stored} bits that become {made}, or are turned")
