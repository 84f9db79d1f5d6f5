"""What a program is, names apart: two programs of one text here are one to the tuner."""

from __future__ import annotations

from scalec.formats import WHOLE
from scalec.passes.problem.types import EpilogueInput, Operand, Problem


def describe(problem: Problem) -> str:
    """The program as the schedule sees it: types, scales and their layouts, what the epilogue reads and computes.

    `C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) + b[n]`, whatever its names are:

        bf16[m,n] = e4m3[m,k]*f32/1x128@row . e4m3[n,k]*f32/128x128@row; bf16[n]: extf addf truncf
    """
    roles = {problem.m.name: "m", problem.n.name: "n", problem.k.name: "k"}
    inputs = [_input(x, roles) for x in problem.inputs if x.name != problem.result.name]
    result, scale = problem.result, problem.result.scale
    made = f"{result.element.name}[m,n]" + (f"*{scale.type}/1x{scale.block}@{scale.layout}" if scale else "")
    made += f"*{scale.outer.element.name}/all" if scale and scale.outer else ""
    body = " ".join(_body(problem))
    text = f"{made} {'+=' if result.inout else '='} {_operand(problem.lhs, 'm')} . {_operand(problem.rhs, 'n')}"
    return text + (f"; {' '.join(inputs)}" if inputs else "") + (f": {body}" if body else "")


def describe_kin(problem: Problem) -> str:
    """The contraction alone, rounded to bf16: what a program multiplies that writes as many bytes or fewer, "" for one
    that writes more, or adds to what is there."""
    if problem.result.inout or problem.result.element.bits > 16:
        return ""
    return f"bf16[m,n] = {_operand(problem.lhs, 'm')} . {_operand(problem.rhs, 'n')}: truncf"


def _operand(operand: Operand, rows: str) -> str:
    index = f"[k,{rows}]" if operand.mn_major else f"[{rows},k]"
    scales = [
        f"*{s.type}/{'all' if s.rows == WHOLE else s.rows}x{'all' if s.k == WHOLE else s.k}@{s.layout}"
        for s in operand.scales
    ]
    return operand.element.name + index + "".join(scales)


def _input(x: EpilogueInput, roles: dict[str, str]) -> str:
    at = [roles.get(i.dim, "0") + (f"/{i.divisor}" if i.divisor > 1 else "") for i in x.coords]
    return x.element.name + (f"[{','.join(at)}]" if at else "") + ("" if x.layout == "row" else f"@{x.layout}")


def _body(problem: Problem) -> list[str]:
    """The names of the ops that the epilogue computes, in order."""
    if problem.epilogue is None:
        return []
    ops = [op.operation.name for op in problem.epilogue.body.blocks[0].operations]
    return [name.partition(".")[2] for name in ops if name not in ("scale.yield", "arith.constant")]
