"""Cluster launch control: a cluster asks for the work of one that has not begun, and reads the response."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.control import NO_CLUSTER, acquire
from scalec.lowering.common.state import COMMON, Cursor, State

# a response is opaque: only query_cancel reads it, out of a 16-byte register (PTX ISA 9.7.13.18.2)
_QUERY = """{
.reg .pred P1;
.reg .b64 L, H;
.reg .b128 R;
ld.shared.v2.b64 {L, H}, [$1];
mov.b128 R, {L, H};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 P1, R;
mov.b32 $0, 0xFFFFFFFF;
@P1 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 $0, R;
}"""


@dataclass(frozen=True)
class Responses:
    """A ring of responses: the shared address of the first."""

    first: ir.Value | int

    def at(self, s: State, c: Cursor) -> ir.Value:
        return s.b.add(self.first, s.b.mul(c.stage.get(), tile.RESPONSE_BYTES))


@COMMON.lowers("tile.depend")
def depend(s: State, op: ir.OpView) -> None:
    """PTX ISA, griddepcontrol. The next kernel's CTAs find room as soon as CTAs of this one exit, and wait there."""
    s.b.asm("griddepcontrol.launch_dependents;")
    s.b.asm("griddepcontrol.wait;")


@COMMON.lowers("tile.stagger")
def stagger(s: State, op: ir.OpView) -> None:
    """`nanosleep` may sleep for nothing, or for twice as long (PTX ISA 9.7.13.16)."""
    b = s.b
    cluster = b.div(b.special("ctaid_x"), s.cluster_ctas)
    lines = ["mov.u64 T0, %clock64;", "LATER:", "mov.u64 T1, %clock64;", "sub.u64 T1, T1, T0;"]
    lines += ["setp.lt.u64 P, T1, $0;", "@P bra LATER;"]
    text = "\n".join(["{", ".reg .pred P;", ".reg .b64 T<2>;", *lines, "}"])
    b.asm(text, [], [b.widen(b.mul(cluster, tile.int_of(op.cycles)))])


@COMMON.lowers("tile.responses")
def responses(s: State, op: ir.OpView) -> None:
    s.values[op.result] = Responses(s.b.add(s.shared, tile.int_of(op.offset)))


@COMMON.lowers("tile.try_cancel")
def try_cancel(s: State, op: ir.OpView) -> None:
    """No request follows one that failed (undefined: PTX ISA 9.7.13.18.1): the loop over tiles has ended then."""
    b, c = s.b, s.get(op.cursor)

    def ask() -> None:
        acquire(s, op)
        everyone = ".multicast::cluster::all" if s.ctas > 1 else ""
        text = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
        operands = [s.get(op.responses).at(s, c), b.add(s.get(op.ring).full, b.shl(c.stage.get(), 3))]
        b.asm(f"{text}{everyone}.b128 [$0], [$1];", [], operands)

    if s.ctas > 1:
        with b.when(b.compare("eq", s.rank, 0)):
            ask()
    else:
        ask()


@COMMON.lowers("tile.query_cancel")
def query_cancel(s: State, op: ir.OpView) -> None:
    """The fence stands between this read and the request that overwrites it (PTX ISA 9.7.13.18.1, example)."""
    b, c, ring, one = s.b, s.get(op.cursor), s.get(op.ring), alone(op)
    cta = b.asm(_QUERY, [b.i32], [s.get(op.responses).at(s, c)])[0]
    b.asm("fence.proxy.async.shared::cta;")
    if not one:
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        # the same in all lanes, and known to be so: the loop over tiles stays uniform
        kind = ir.Attribute.parse("#nvvm<shfl_kind idx>")
        cta = b.op("nvvm.shfl.sync", [b.i32], [b.constant(-1), cta, b.constant(0), b.constant(31)], kind=kind)
    empty, space = ring.empty, "cta"
    if s.ctas > 1:
        pointer, space = ir.Type.parse("!llvm.ptr<7>"), "cluster"

        def first_of_cluster() -> ir.Value:
            theirs = b.op("nvvm.mapa", [pointer], [b.address(3, ring.empty), b.constant(0)])
            return b.op("llvm.ptrtoint", [b.i32], [theirs])

        empty = s.once(("responses", op.ring), first_of_cluster)
    barrier = b.add(empty, b.shl(c.stage.get(), 3))
    first = None if one else b.compare("eq", s.lane, 0)
    b.asm(f"mbarrier.arrive.shared::{space}.b64 _, [$0];", [], [barrier], only=first)
    s.values[op.following] = cta if s.ctas == 1 else b.select(b.compare("eq", cta, NO_CLUSTER), cta, b.div(cta, s.ctas))


def alone(op: ir.OpView) -> bool:
    """Whether one thread of its warp does this."""
    parent = op.operation.parent
    while parent is not None and parent.name != "tile.warp":
        parent = parent.parent
    return parent is not None and bool(tile.int_of(parent.opview.elected))
