"""Which dimensions of a contraction are batch, M, N and K."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, dims_of_domains, dims_read, map_of, maps_of, program_dims, symbols_in
from scalec.passes.base import programs
from scalec.passes.problem.contraction import contractions
from scalec.targets import Target


class InferRoles:
    """Names the roles of a contraction's dimensions, from where each appears.

    In both operands and the result: batch; in the left one and the result: M; in the right one and the result: N;
    in both operands alone: K. An operand depends on the dimensions that its indices read from memory depend on:
    `A[idx[m],k]` has m. One that is only chosen anew for each block of a dimension (`B[e[m/128],n,k]`) does not make
    that dimension batch: m is M, as it is for each matrix of B alone. That of pages is chosen for each s of
    `K[table[s/2,t/64],t%64,d]`, which is batch. Where a range ties a dimension to another
    (`for m in off[g]:off[g+1]`, `for k in off[g]:off[g+1]`), the one that its bounds read is "group", where it stands
    in one operand alone (the range says which of its matrices) or in the result alone (one product for each).

        %t = scale.contract(%A, %B) {maps = [(m, n, k) -> (m, k), (m, n, k) -> (n, k), (m, n, k) -> (m, n)]}
    -->
        %t = scale.contract(%A, %B) {maps = ..., roles = {batch = [], group = [], k = ["k"], m = ["m"], n = ["n"]}}
    """

    name = "infer-roles"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            for contract in contractions(function):
                contract.operation.attributes["roles"] = self._roles(contract)

    @staticmethod
    def _roles(contract: ir.OpView) -> ir.Attribute:
        names, symbols, maps = program_dims(contract), list(contract.symbols), maps_of(contract.maps)
        lhs, rhs, result = (dims_read(m, symbols) for m in maps)
        # dimensions that depend on indices from memory alone, one for each block of the dimension
        by_blocks = [dims_read(m, symbols) - _by_points(m, symbols) for m in maps[:2]]
        rhs -= by_blocks[1] & lhs & result
        lhs -= by_blocks[0] & rhs & result
        linked = dims_of_domains(list(contract.domains))
        group = linked & (((lhs ^ rhs) - result) | (result - lhs - rhs))
        alone = (lhs ^ rhs) - result - group
        if alone:
            raise UnsupportedError(
                f"dimension {', '.join(names[d] for d in sorted(alone))} is in one operand alone",
                expected="every dimension in both operands, or in one and the result",
                fix="sum it in a statement of its own",
                place=place_of(contract),
            )
        roles = {
            "batch": lhs & rhs & result,
            "group": group,
            "m": lhs & result - rhs,
            "n": rhs & result - lhs,
            "k": lhs & rhs - result,
        }
        return ir.DictAttr.get(
            {
                role: ir.ArrayAttr.get([ir.StringAttr.get(names[d]) for d in sorted(dims)])
                for role, dims in roles.items()
            }
        )


def _by_points(where: ir.AffineMap, symbols: list[ir.Value]) -> set[int]:
    """Dimensions that stand in a map itself, or undivided in that of an index it reads from memory: a number that is
    added makes no difference. Of an index that says which page, whose rows the map has, all do."""
    found = dims_in(where)
    for position in symbols_in(where):
        index = symbols[position].owner.opview
        at = map_of(index.map)
        moved = [
            r.lhs if isinstance(r, ir.AffineAddExpr) and isinstance(r.rhs, ir.AffineConstantExpr) else r
            for r in at.results
        ]
        divided = [r for r in moved if isinstance(r, ir.AffineFloorDivExpr)]
        pages = dims_in(ir.AffineMap.get(at.n_dims, at.n_symbols, divided)) & dims_in(where)
        whole = [r for r in moved if pages or r not in divided]
        found |= _by_points(ir.AffineMap.get(at.n_dims, at.n_symbols, whole), list(index.symbols))
    return found
