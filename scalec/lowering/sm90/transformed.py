"""A of wgmma out of registers whose elements are computed, or reduced along K, on their way."""

from __future__ import annotations

from scalec.formats import element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_convert import FRAGMENT_ROWS
from scalec.lowering import scalar
from scalec.lowering.common.elements import (
    converted,
    widened,
)
from scalec.lowering.common.state import State
from scalec.lowering.common.transform import computed_of, rounded, take_terms
from scalec.lowering.common.words import Words
from scalec.lowering.sm90.converted import own_parts, registers, tied
from scalec.lowering.sm90.loaded import element_in, quarter_of
from scalec.lowering.sm90.table import TABLE


@TABLE.lowers("tile.transformed")
def transformed(s: State, op: ir.OpView) -> None:
    """Of each chunk of 16 bytes that is made, a thread has the elements of one register."""
    b, attributes, block = s.b, op.operation.attributes, op.body.blocks[0]
    stored, made = element_in(op.stored.type), element_in(op.result.type)
    computed = str(ir.TypeAttr(attributes["computed"]).value) if "computed" in attributes else ""
    between = element_spelled(computed) or stored
    loaded = s.get(op.stored).slice(*tile.slice_of(op))
    scalars, inputs = [s.get(x) for x in op.scalars], [s.get(x) for x in op.inputs]
    each, chunk, first = 32 // made.bits, 128 // made.bits, tile.int_of(op.first)
    inside: list[ir.Value] = []
    if op.inside is not None:
        end = b.sub(s.get(op.inside), b.mul(quarter_of(s), each))
        numbers = (first + i * chunk + j for i in range(len(loaded.words[0])) for j in range(each))
        inside = [b.compare("slt", b.constant(number), end) for number in numbers]  # below 0 beside an odd K
    rows: list[Words] = []
    for half, words in enumerate(loaded.words):
        row = FRAGMENT_ROWS * tile.int_of(op.wave) + half
        own = list(own_parts(s, words, stored, made))
        values = widened(b, own, stored.name, each * len(words))
        results = []
        for i, value in enumerate(values, first * each // chunk):
            beside = [x.values[row if x.by_row else i] for x in inputs]
            results.append(scalar.evaluate_all(b, block, [value, *beside, *scalars]))
        if computed:
            own = rounded(s, computed, computed_of(b, results, inside))
        elif stored == made:  # what is multiplied stays until it was waited for, and the next may be loaded before
            own = [b.pure("mov.b32 $0, $1;", b.i32, x) for x in own]
        rows.append(converted(b, own, between.name, made.name))
        take_terms(s, [s.get(x) for x in op.folds], row, results, inside)
    s.values[op.result] = tied(b, registers(rows))
