"""Operands with K outermost: tiles [K, rows] in shared memory, transposed on the way to registers.

A tile is panels as wide as its swizzle (tile.buffer). Elements of 16 bits and of a byte are transposed by ldmatrix (PTX
ISA 9.7.14.5.15), and 4-bit ones that the product takes packed are packed after; tf32, for which there is none, is
loaded word by word. All are free of bank conflicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.state import State, swizzle

UNPACK = {4: "b4x16_p64", 6: "b6x16_p32"}
"""Source formats of ldmatrix for elements narrower than their byte in shared memory, by their bits."""

_CHUNK = 16  # bytes of a row of a matrix of ldmatrix, and of what a swizzle moves


@dataclass(frozen=True)
class _Load:
    """One `tile.load` of a [K, rows] tile."""

    s: State
    op: ir.OpView
    side: str  # "a" or "b"
    rows: int  # of the warp
    depth: int  # elements of K of the tile
    pitch: int  # bytes of a row of a panel
    bits: int  # of an element in shared memory
    beyond: int  # bytes from the first slice to this one

    @staticmethod
    def of(s: State, op: ir.OpView) -> _Load:
        (rows, step_k), source = tile.shape_of(op.target.type), op.source.type
        depth, pitch = tile.shape_of(source)[0], tile.swizzle_of(source)
        beyond = tile.int_of(op.step) * step_k * pitch
        bits, side = tile.bits_of(tile.element_of(source)), tile.str_of(op.target.type.side)
        return _Load(s, op, side, rows, depth, pitch, bits, beyond)

    def place(self, first: int, k: ir.Value, right: ir.Value | int, what: str) -> tuple[ir.Value, int]:
        """(shared address, bytes beyond it) of element k of the slice, `right` further than the warp's row `first`.

        `first` is a multiple of a chunk's elements and `right` stays in its panel; `what` tells k and right apart.
        """
        s, b, source = self.s, self.s.b, self.s.get(self.op.source)
        width, per_chunk = self.pitch * 8 // self.bits, _CHUNK * 8 // self.bits
        panels, within = divmod(first, width)  # rows whole panels apart share an address

        def emit() -> ir.Value:
            row = b.value(b.add(b.mul(s.unit(0 if self.side == "a" else 1), self.rows), within))
            panel, right_of = b.div(row, width), b.and_(row, width - 1)
            chunk = b.add(b.div(right_of, per_chunk), b.div(right, per_chunk))
            in_chunk = b.mul(b.and_(b.value(right), per_chunk - 1), self.bits // 8)
            line = b.add(b.mul(panel, self.depth * self.pitch), b.mul(k, self.pitch))
            return b.add(b.add(source.base, line), b.add(b.shl(b.xor(chunk, swizzle(b, k, self.pitch)), 4), in_chunk))

        base = s.once(("transposed", self.op.source, within, what), emit)
        return source.at(b, s.get(self.op.cursor), base), panels * self.depth * self.pitch + self.beyond


def load_transposed(s: State, op: ir.OpView, registers: Sequence[Sequence[Variable]]) -> None:
    """`tile.load` with `transpose`, into the registers of 16 rows of A or 8 columns of B each."""
    x = _Load.of(s, op)
    flat = [r for group in registers for r in group]
    packs = x.bits * tile.shape_of(op.target.type)[1] > 8 * tile.STEP_BYTES
    move = _nibbles if packs else {8: _bytes, 16: _halves, 32: _words}[x.bits]
    for first in range(0, x.rows, 16):
        move(x, first, flat[first // 4 : first // 4 + 4])


def _halves(x: _Load, first: int, registers: list[Variable]) -> None:
    """ldmatrix of four matrices of 8 by 8, in the order of the registers of the product: of A rows first, of B K."""
    s, b = x.s, x.s.b
    low, high = s.once("8 of 8", lambda: b.and_(s.lane, 8)), s.once("8 of 16", lambda: b.shr(b.and_(s.lane, 16), 1))
    right, of_k = (low, high) if x.side == "a" else (high, low)
    k = s.once(("k", x.side), lambda: b.add(b.and_(s.lane, 7), of_k))
    at, beyond = x.place(first, k, right, "matrices")
    text = f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{$0, $1, $2, $3}}, [$4 + {beyond}];"
    for v, value in zip(registers, b.asm(text, [b.i32] * 4, [at]), strict=True):
        v.set(value)


def _bytes(x: _Load, first: int, registers: list[Variable]) -> None:
    """ldmatrix of two matrices of 16 rows by 16 of K, each of which fills a register for its low, one for its high
    rows."""
    b, element = x.s.b, tile.bits_of(tile.element_of(x.op.target.type))
    at, beyond = x.place(first, x.s.lane, 0, "matrices")
    form = f"b8x16.{UNPACK[element]}" if element < 8 else "b8"
    text = f"ldmatrix.sync.aligned.m16n16.x2.trans.shared.{form} {{$0, $1, $2, $3}}, [$4 + {beyond}];"
    for v, value in zip(_by_k(registers, x.side), b.asm(text, [b.i32] * 4, [at]), strict=True):
        v.set(b.shl(value, 2) if element == 4 else value)  # mxf8f6f4 takes e2m1 in bits 2 to 5: 9.7.14.5.10


def _nibbles(x: _Load, first: int, registers: list[Variable]) -> None:
    """Two adjacent elements of K to a byte, out of two matrices: one has the even elements, the other the odd.

    Even elements alone would meet each other in the banks: 8 rows, every other one, have 4 places for their chunks. So
    the matrices exchange every other four of their rows, which is what a lane's register holds of them: odd lanes find
    their odd elements in the first matrix. Each is shifted to its place by a product, by 1 or 16.
    """
    s, b = x.s, x.s.b

    def element() -> ir.Value:
        i, odd = b.and_(s.lane, 15), b.and_(b.xor(b.shr(s.lane, 4), b.shr(s.lane, 2)), 1)
        return b.add(b.shl(i, 1), odd)

    places = [s.once(("nibble", i), lambda i=i: b.add(b.mul(b.xor(b.and_(s.lane, 1), i), 15), 1)) for i in range(2)]
    at, beyond = x.place(first, s.once("element of 32", element), 0, "nibbles")
    by_k = _by_k(registers, x.side)
    for half in range(2):
        text = (
            "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b4x16_p64 {$0, $1, $2, $3}, "
            f"[$4 + {beyond + half * 32 * x.pitch}];"
        )
        loaded = b.asm(text, [b.i32] * 4, [at])
        for v, one, other in zip(by_k[2 * half : 2 * half + 2], loaded[:2], loaded[2:], strict=True):
            v.set(b.add(b.mul(one, places[0]), b.mul(other, places[1])))


def _words(x: _Load, first: int, registers: list[Variable]) -> None:
    """tf32: lane 4g + t has row g at t and at t + 4 of K.

    Were all lanes to load t first, the 8 rows of one t, two chunks, would meet those of the next in the same banks. So
    lanes whose t has the bit that the panel's swizzle lacks load t + 4 first, and exchange the two after.
    """
    s, b = x.s, x.s.b
    row, t = s.once("group", lambda: b.shr(s.lane, 2)), s.once("member", lambda: b.and_(s.lane, 3))
    bit = {128: 1, 64: 2, 32: 0}[x.pitch]  # rows of 32 bytes: four of them are the 32 banks
    turned = s.once(("turned", bit), lambda: b.compare("ne", b.and_(t, bit), 0)) if bit else None

    def either(usual: ir.Value, other: ir.Value) -> ir.Value:
        return usual if turned is None else b.select(turned, other, usual)

    ks = [s.once(("k", bit, i), lambda i=i: either(b.add(t, i), b.add(t, 4 - i))) for i in (0, 4)]
    by_k = _by_k(registers, x.side)
    for half, pair in enumerate(zip(by_k[:2], by_k[2:], strict=True)):
        loaded = []
        for i, k in enumerate(ks):
            at, beyond = x.place(first + 8 * half, k, row, f"word {i}")
            loaded += b.asm(f"ld.shared.b32 $0, [$1 + {beyond}];", [b.i32], [at])
        for v, usual, other in zip(pair, loaded, loaded[::-1], strict=True):
            v.set(either(usual, other))


def _by_k(registers: list[Variable], side: str) -> list[Variable]:
    """The registers of 16 rows of A or columns of B: low and high rows of the low half of K, then of the high half."""
    return registers if side == "a" else [registers[i] for i in (0, 2, 1, 3)]
