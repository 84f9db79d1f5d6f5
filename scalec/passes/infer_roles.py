"""Which dimensions of a contraction are batch, M, N and K."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, maps_of, program_dims
from scalec.passes.base import programs
from scalec.passes.problem import contractions
from scalec.targets import Target


class InferRoles:
    """Names the roles of a contraction's dimensions, from where each appears.

    In both operands and the result: batch; in the left one and the result: M; in the right one and the result: N;
    in both operands alone: K.

        %t = scale.contract(%A, %B) {maps = [(m, n, k) -> (m, k), (m, n, k) -> (n, k), (m, n, k) -> (m, n)]}
    -->
        %t = scale.contract(%A, %B) {maps = ..., roles = {batch = [], k = ["k"], m = ["m"], n = ["n"]}}
    """

    name = "infer-roles"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            for contract in contractions(function):
                contract.operation.attributes["roles"] = self._roles(contract)

    @staticmethod
    def _roles(contract: ir.OpView) -> ir.Attribute:
        names = program_dims(contract)
        lhs, rhs, result = map(dims_in, maps_of(contract.maps))
        alone = (lhs ^ rhs) - result
        if alone:
            raise UnsupportedError(
                f"dimension {', '.join(names[d] for d in sorted(alone))} is in one operand alone",
                expected="every dimension in both operands, or in one and the result",
                fix="sum it in a statement of its own",
            )
        roles = {"batch": lhs & rhs & result, "m": lhs & result - rhs, "n": rhs & result - lhs, "k": lhs & rhs - result}
        return ir.DictAttr.get(
            {
                role: ir.ArrayAttr.get([ir.StringAttr.get(names[d]) for d in sorted(dims)])
                for role, dims in roles.items()
            }
        )
