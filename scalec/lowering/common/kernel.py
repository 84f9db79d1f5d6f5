"""A `tile.kernel` as an nvvm/llvm module: its entry, parameters and prologue; its ops go through the target's table."""

from __future__ import annotations

from scalec.abi import SHARED
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_control import launch_registers, parts_of
from scalec.lowering.builder import Builder
from scalec.lowering.common import (  # noqa: F401 - they fill the common table
    ahead,
    column_stores,
    control,
    convert,
    copied_scales,
    copies,
    cut,
    epilogue,
    fold_columns,
    gather,
    groups,
    hadamard,
    indices,
    integers,
    items,
    k_rows,
    launch,
    loaded_inputs,
    meeting,
    panes,
    parts,
    pointwise,
    promote,
    quantize,
    reductions,
    relays,
    results,
    row_copies,
    row_stores,
    runs,
    scale_bytes,
    staging,
    stochastic,
    store_within,
    stored_rows,
    stores,
    transform,
    turned,
    turned_columns,
    turns,
    walk,
    zero_points,
)
from scalec.lowering.common.state import Geometry, State
from scalec.lowering.table import Table
from scalec.targets import Target

_MAP = (
    "!llvm.ptr {llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant, llvm.align = 64 : i64, llvm.readonly,"
    " llvm.noalias}"
)


def _parameter(t: ir.Type) -> str:
    """How a kernel parameter of a tile kernel is passed."""
    if isinstance(t, tile.DescriptorType):
        return _MAP
    if isinstance(t, ir.MemRefType):
        return "!llvm.ptr<1>"
    return str(t)


def lower(kernel: ir.OpView, target: Target, table: Table) -> ir.Module:
    """An nvvm/llvm module with one kernel function, from a verified `tile.kernel`."""
    body = kernel.body.blocks[0]
    threads, (cluster_m, cluster_n) = tile.int_of(kernel.threads), tile.ints_of(kernel.cluster)
    ctas = cluster_m * cluster_n * parts_of(kernel)
    name = tile.str_of(kernel.sym_name)
    parameters = ", ".join(f"%p{i}: {_parameter(a.type)}" for i, a in enumerate(body.arguments))
    launched = launch_registers(kernel)
    registers = f"nvvm.maxnreg = {launched}" if launched else "nvvm.minctasm = 1"
    dimensions = f", nvvm.cluster_dim = array<i32: {ctas}, 1, 1>" if ctas > 1 else ""
    module = ir.Module.parse(f"""
module attributes {{llvm.target_triple = "nvptx64-nvidia-cuda"}} {{
  llvm.mlir.global external @{SHARED}() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<0 x i8>
  llvm.func @{name}({parameters}) attributes {{
      nvvm.kernel, nvvm.reqntid = array<i32: {threads}, 1, 1>, {registers} : i32{dimensions}}} {{
    llvm.return
  }}
}}""")
    function = next(o for o in module.body.operations if o.operation.name == "llvm.func")
    entry = function.regions[0].blocks[0]
    with ir.InsertionPoint(entry.operations[0]):
        state = _prologue(kernel, target, table, Builder(entry))
        for mine, theirs in zip(entry.arguments, body.arguments, strict=True):
            state.values[theirs] = mine
        _prefetch(state, body)
        roles = []
        for op in body.operations:
            if op.operation.name == "tile.role":
                roles.append(op)
                continue
            if roles:
                control.roles(state, roles)
                roles = []
            table.one(state, op)
        if roles:
            control.roles(state, roles)
    return module


def _prologue(kernel: ir.OpView, target: Target, table: Table, b: Builder) -> State:
    threads, (cluster_m, cluster_n) = tile.int_of(kernel.threads), tile.ints_of(kernel.cluster)
    tid = b.special("tid_x")
    lane = b.special("laneid")
    # the same in all lanes, and known to be so: ptxas then keeps branches on it uniform
    kind = ir.Attribute.parse("#nvvm<shfl_kind idx>")
    warp = b.op("nvvm.shfl.sync", [b.i32], [b.constant(-1), b.shr(tid, 5), b.constant(0), b.constant(31)], kind=kind)
    sharing, split = cluster_m * cluster_n, parts_of(kernel)  # ranks go along the CTAs of a part first
    rank = b.special("cluster_ctarank") if sharing * split > 1 else 0
    part: ir.Value | int = 0
    if split > 1:
        part, rank = (b.shr(rank, sharing.bit_length() - 1), b.and_(rank, sharing - 1)) if sharing > 1 else (rank, 0)
    pointer = ir.Type.parse("!llvm.ptr<3>")
    base = b.op("llvm.mlir.addressof", [pointer], [], global_name=ir.FlatSymbolRefAttr.get(SHARED))
    shared = b.op("llvm.ptrtoint", [b.i32], [base])
    return State(
        target,
        table,
        Geometry.of(kernel),
        b,
        {},
        threads,
        (cluster_m, cluster_n),
        tid,
        lane,
        warp,
        rank,
        shared,
        parts=split,
        part=part,
        registers=launch_registers(kernel) or target.entry_registers(threads),
    )


def _prefetch(s: State, body: ir.Block) -> None:
    """Brings the tensor maps into the cache before the first copy needs them."""
    b = s.b
    maps = [s.values[a] for a in body.arguments if isinstance(a.type, tile.DescriptorType)]
    if not maps:
        return
    with b.when(b.compare("eq", s.warp, 0)), b.when(b.op("nvvm.elect.sync", [b.i1], [])):
        for pointer in maps:  # nvvm.prefetch would be two: of the parameter, and of its generic address (LLVM 22)
            b.asm("prefetch.tensormap [$0];", [], [b.integer(pointer)])
