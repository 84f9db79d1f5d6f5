"""tcgen05.mma, issued by one thread, and tcgen05.commit (PTX ISA 9.7.16.10.9 and 9.7.16.12)."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.state import Buffer, Cursor, State, swizzle
from scalec.lowering.sm100.pairs import pair_mask
from scalec.lowering.sm100.table import TABLE

# kind of the instruction and code of the operand in its descriptor, by element (9.7.16.4.2, instruction descriptor)
_KINDS = {
    "f8E4M3FN": ("f8f6f4", 0),
    "f8E5M2": ("f8f6f4", 1),
    "f6E2M3FN": ("f8f6f4", 3),
    "f6E3M2FN": ("f8f6f4", 4),
    "f4E2M1FN": ("f8f6f4", 5),
    "f16": ("f16", 0),
    "bf16": ("f16", 1),
    "tf32": ("tf32", 2),
    "i8": ("i8", 1),
}
# with block scales: kind, and the bytes of a row's scales that it takes from a word, by K of the instruction and the
# type of the scales (9.7.16.10.7); there e2m1 that is packed has a code of its own
_SCALED = {(32, "ue8m0"): ("mxf8f6f4", 1), (64, "ue8m0"): ("mxf4nvf4", 2), (64, "ue4m3"): ("mxf4nvf4", 4)}
_PACKED = 1
_SCALE_TYPES = {"ue4m3": 0, "ue8m0": 1}
_WORD = 4  # scale bytes in a column of a row
_LANES = 32  # rows of a column
_STEP = 32  # bytes of a row of A or B that one instruction takes
# shared-memory descriptor (9.7.16.4.1): bits 16-29 the leading-dimension byte offset and bits 32-45 the stride byte
# offset, both in units of 16 bytes, bits 46-48 its version, bits 61-63 the swizzle
_VERSION = 1 << 46
_SWIZZLE_MODE = {(128, 32): 1, (128, 16): 2, (64, 16): 4, (32, 16): 6}  # by (bytes, bytes kept together)
_LINES = {16: 8, 32: 4}  # lines of a canonical layout, by the latter (9.7.16.10.6, table 55)
_SUMS = {"i8": 2}  # type of D, by the kind of the instruction: s32, else f32
_F32 = 1
_OWN = 4  # steps along K whose descriptors have registers of their own: those of a row of 128 bytes


@dataclass(frozen=True)
class _Matrix:
    """A tile of A or B as descriptors describe it: one for each step along K.

    Swizzled, in canonical layouts (9.7.16.3.3): 8 lines of a swizzle's bytes follow each other, lines of 8 rows where K
    is contiguous, of 8 of K where the rows are; 4 where a swizzle keeps 32 bytes together. The stride byte offset leads
    to the next 8 or 4. Where the rows are contiguous, a line is as many rows as the swizzle is wide, and the
    leading-dimension byte offset leads to the next panel of rows; else it is not used.

    Attributes:
        start: shared address of the stage, divided by 16.
        swizzle, atom: its bytes, and those that it keeps together.
        panel: bytes from one panel to the next, 0 where K is contiguous.
        step: bytes from one step along K to the next. Within a line, the swizzle of absolute addresses allows that.
    """

    start: ir.Value
    swizzle: int
    atom: int
    panel: int
    step: int

    @staticmethod
    def of(s: State, op: ir.OpView, side: str) -> _Matrix:
        value = getattr(op, side)
        buffer, swizzle, atom = s.get(value), tile.swizzle_of(value.type), tile.atom_of(value.type)
        start = start_of(s, buffer, s.get(op.cursor))
        if tile.int_of(getattr(op, f"{side}_mn")):
            return _Matrix(start, swizzle, atom, tile.shape_of(value.type)[0] * swizzle, tile.int_of(op.k) * swizzle)
        return _Matrix(start, swizzle, atom, 0, _STEP)

    def descriptor(self, s: State, step: int, upper: ir.Value) -> ir.Value:
        """The descriptor of a step; `upper` has the bits of `upper`."""
        return joined(s, s.b.add(self.start, (step * self.step >> 4) + ((self.panel >> 4) << 16)), upper)

    @property
    def upper(self) -> int:
        """The descriptor's upper half, the same for all steps and stages."""
        mode = _SWIZZLE_MODE[self.swizzle, self.atom]
        return (mode << 61 | _VERSION) >> 32 | _LINES[self.atom] * self.swizzle >> 4


def issuer(s: State) -> ir.Value:
    """Whether this is the thread that issues: chosen once, and each of its instructions is predicated. The others walk
    the loop with it, so that addresses and barriers are known to be the warp's, and stay in uniform registers."""
    return s.once("issuer", lambda: s.b.op("nvvm.elect.sync", [s.b.i1], []))


def place_of(b: Builder, address: ir.Value) -> ir.Value:
    """A shared address as matrix descriptors hold it, in 14 bits. In a cluster it may have the CTA's rank above them,
    which would change the leading-dimension byte offset."""
    return b.and_(b.shr(address, 4), 0x3FFF)


def start_of(s: State, buffer: Buffer, cursor: Cursor) -> ir.Value:
    """The shared address of the cursor's stage, likewise."""
    b = s.b
    shared = s.once("start", lambda: place_of(b, s.shared))
    if cursor.known is not None:
        # by constants from a base that is itself no start: its register would be taken for that descriptor's, and the
        # next one that shares its upper half would need a copy of that (ptxas 13.0)
        base = s.once("base", lambda: b.sub(shared, 1))
        return b.add(s.in_round(base), 1 + (buffer.offset >> 4) + buffer.behind(b, cursor, 16))
    first = s.once(("start", buffer.offset), lambda: b.add(shared, buffer.offset >> 4))
    return b.add(first, buffer.behind(b, cursor, 16))


_READ_STAGES = ("tile.copy_words", "tile.mma_sums")


def fence_first(s: State, op: ir.OpView) -> None:
    """The fence after the wait, before the first of a stage's instructions (9.7.16.6.3)."""
    first = next(x for x in op.operation.block.operations if x.operation.name in _READ_STAGES)
    if first == op:
        s.b.asm("tcgen05.fence::after_thread_sync;")


def joined(s: State, lower: ir.Value, upper: ir.Value) -> ir.Value:
    """A matrix descriptor of its halves."""
    return s.b.asm("mov.b64 $0, {$1, $2};", [s.b.i64], [lower, upper], volatile=False, memory=False)[0]


def _instruction(kind: str, a: int, b: int, columns: int, rows: int) -> int:
    """Instruction descriptor: types of D, A and B, N / 8 and M / 16."""
    return _SUMS.get(kind, _F32) << 4 | a << 7 | b << 10 | columns // 8 << 17 | rows // 16 << 24


def _scaled(scale: str, a: int, b: int, columns: int, rows: int, bytes: tuple[int, int]) -> int:
    """Likewise of a block-scaled kind, M / 128: `bytes` are those of the words where the scales of A and B begin."""
    types = _SCALE_TYPES[scale] << 23 | bytes[0] << 29 | bytes[1] << 4
    return a << 7 | b << 10 | columns // 8 << 17 | rows // 128 << 27 | types


@TABLE.lowers("tile.mma_sums")
def mma_sums(s: State, op: ir.OpView) -> None:
    b, made = s.b, s.get(op.sums)
    sides = [_Matrix.of(s, op, side) for side in ("a", "b")]
    fence_first(s, op)
    transposed = tile.int_of(op.a_mn) << 15 | tile.int_of(op.b_mn) << 16
    into = made.at(s, s.get(op.slot))
    depth = tile.shape_of(op.a.type)[0 if tile.int_of(op.a_mn) else 1]
    for step in range(depth * tile.bits_of(tile.element_of(op.a.type)) // (8 * _STEP)):
        kind, instruction, factors = _step(s, op, step)
        own = step % _OWN
        operands = [into]
        # of tiles that a queue deals out made for each: for the whole role ptxas gives them second registers of pairs
        # whose first ones hold something else, and copies them for each product (docs/notes/groups.md)
        uppers = [made.constant(s, x.upper, own + i * _OWN, s.before_k) for i, x in enumerate(sides)]
        operands += [x.descriptor(s, step, upper) for x, upper in zip(sides, uppers, strict=True)]
        # beside the addresses of a slot's words registers are few: there, steps of one descriptor share one
        operands += [made.constant(s, instruction | transposed, own if made.slot is None else 0), *factors]
        at = "".join(f", [${i}]" for i in range(4, 4 + len(factors)))
        flag = "1" if step else f"${len(operands)}"
        if not step:
            operands.append(b.select(s.get(op.accumulate), b.constant(1), 0))
        operands.append(issuer(s))
        text = f"@${len(operands) - 1} tcgen05.mma.cta_group::{s.cta_group}.kind::{kind} [$0], $1, $2, $3{at}, p;"
        b.asm(f"{{\n.reg .pred p;\nsetp.ne.b32 p, {flag}, 0;\n{text}\n}}", [], operands)


def _step(s: State, op: ir.OpView, step: int) -> tuple[str, int, list[ir.Value | int]]:
    """(kind, instruction descriptor, addresses of the scale factors) of one step along K."""
    scale, k, (own, columns) = tile.str_of(op.scale), tile.int_of(op.k), tile.shape_of(op.sums.type)
    rows = own * s.cta_group
    (kind, a), (other, b) = (_KINDS[str(ir.TypeAttr(e).value)] for e in (op.a_element, op.b_element))
    assert kind == other  # of one family (scalec.targets)
    if not scale:
        return kind, _instruction(kind, a, b, columns, rows), []
    kind, count = _SCALED[k, scale]
    if kind != "mxf8f6f4":
        a = b = _PACKED
    addresses, bytes = [], []
    before = None if op.before is None else s.get(op.before)
    sides = ((op.a_words, op.a_unit, own, None), (op.b_words, op.b_unit, columns, before))
    for words, unit, held, shift in sides:
        word, byte = divmod(step * k // tile.int_of(unit), _WORD)
        of_word = -(-held // tile.WORD_ROWS) * tile.WORD_ROWS // _LANES
        addresses.append(s.get(op.sums).beside(s, tile.int_of(words) + word * of_word, shift))
        bytes.append(byte)
    text = f"{kind}.block_scale.scale_vec::{count}X"
    return text, _scaled(scale, a, b, columns, rows, (bytes[0], bytes[1])), addresses


@TABLE.lowers("tile.cut_rows")
def cut_rows(s: State, op: ir.OpView) -> None:
    """A row each lane; the async proxy reads what they store: tcgen05.mma (PTX ISA 9.7.13.4, fence.proxy)."""
    b, source = s.b, s.get(op.tile)
    pitch, (rows, _) = tile.swizzle_of(op.tile.type), tile.shape_of(op.tile.type)
    byte, upper = divmod(tile.int_of(op.element), 2)
    chunk, within = divmod(byte, 16)
    own = b.add(b.mul(s.lane, pitch), b.shl(b.xor(swizzle(b, s.lane, pitch), chunk), 4))
    at = b.add(source.address(b, s.get(op.cursor)), b.add(own, within))
    for row in range(0, rows, tile.LANES):  # of one swizzle with the first
        place = f"[$0 + {row * pitch}]"
        kept = f"ld.shared.b8 B, {place};\nand.b16 B, B, {0x0F if upper else 0xF0};\nst.shared.b8 {place}, B;"
        b.asm(f"{{\n.reg .b16 B;\n{kept}\n}}", [], [at])
    b.asm("fence.proxy.async.shared::cta;")
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])


@TABLE.lowers("tile.hand_over")
def hand_over(s: State, op: ir.OpView) -> None:
    b, cursor, ring, side = s.b, s.get(op.cursor), s.get(op.ring), tile.str_of(op.side)
    barrier = b.add(getattr(ring, side), b.shl(cursor.at(), 3))
    group = f"cta_group::{s.cta_group}"
    text = "@{} tcgen05.commit.{}.mbarrier::arrive::one.shared::cluster{}.b64 [$0]{};"
    mask = None
    if side == "empty" and s.ctas > 1:  # copies of every CTA fill the stage: the barrier of each learns of it
        mask = b.constant((1 << s.ctas) - 1, b.i16)
    elif s.cta_group > 1:
        mask = pair_mask(s)
    if mask is not None:
        b.asm(text.format("$2", group, ".multicast::cluster", ", $1"), [], [barrier, mask, issuer(s)])
    else:
        b.asm(text.format("$1", group, "", ""), [], [barrier, issuer(s)])
