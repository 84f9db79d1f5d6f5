"""What a program is, names apart: two programs of one text here are one to the tuner."""

from __future__ import annotations

from dataclasses import replace

from scalec.formats import IN_ORDER, WHOLE
from scalec.passes.problem.access import Coord, Dim, Gaps
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.result import EpilogueInput
from scalec.passes.problem.types import Problem


def describe(problem: Problem) -> str:
    """The program as the schedule sees it: types, scales and their layouts, what the epilogue reads and computes.

    `C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) + b[n]`, whatever its names are:

        bf16[m,n] = e4m3[m,k]*f32/1x128@row . e4m3[n,k]*f32/128x128@row; bf16[n]: extf addf truncf

    Dimensions that a tile does not run along are o0, o1, ..., further ones that are summed over s0, s1, ..., and the
    text has their sizes where these are known, as entries have those of N and K: `Z[b,h,d] = X[b,h,r]@Y[h,d,r]` with
    h = 8, and `D[m,n] = A[b,m,k]@B[b,n,k]` with b = 129:

        bf16[m,o0=8,n] = bf16[m,o0,k] . bf16[o0,n,k]: truncf
        bf16[m,n] = bf16[s0=129,m,k] . bf16[s0,n,k]: truncf

    Products that are added up are joined by " + ", and what they sum over are such further dimensions, too:
    `C[m,n] = A[m,k]@B[n,k] + D[m,r]@E[n,r]` with r = 16:

        bf16[m,n] = bf16[m,k] . bf16[n,k] + bf16[m,s0=16] . bf16[n,s0]: truncf

    and with `alpha * (D[m,r]@E[n,r])`, of which something is computed before:

        bf16[m,n] = bf16[m,k] . bf16[n,k] + (bf16[m,s0=16] . bf16[n,s0]: mulf); f32: truncf

    Indices that are read from memory are i0, i1, ..., with the block of a tile's dimension over which they stay the
    same. A range has what shares it out, where that is so, and what the program promises of it:
    `C[m,n] = A[m,k]@B[e[m/128],n,k]`, and
    `C[m,n] = A[m,k]@B[g,n,k] for m in off[g]:off[g+1] about 20` with g = 8:

        bf16[m,n] = bf16[m,k] . bf16[i0,n,k]: truncf, i0 by 128 of m
        bf16[m,n] = bf16[m,k] . bf16[o0,n,k]: truncf, m shared out to o0=8 about 20

    What a result reduces is said behind what it is computed of, columns counting both indices:
    `L[q,t]:f32 = sum[h](relu(Q[q,h,d]@K[t,d])) for t in lo[q]:hi[q] else 0` with h = 64:

        f32[m/64,n] = bf16[m/64,m%64,k] . bf16[n,k]: maximumf; sum of 64: ; n in i32[m]:i32[m] else 0.0

    Of several results, and reductions of the product, it says each, joined by " & ", and behind these what operands are
    reduced to. Of `S[m] = sum[k](A[m,k]^2)` beside a product:

        f32[m,n] = bf16[m,k] as tf32 . tf32[n,k] & f32[m] = sum bf16[m,k]: extf fpowi
    """
    if problem.folds:
        bare = replace(problem, lhs=replace(problem.lhs, folds=()), rhs=replace(problem.rhs, folds=()))
        return " & ".join([describe(bare), *_folds(problem)])
    if len(problem.bodies) > 1:
        return " & ".join(map(describe, (*problem.each, *problem.each_reduction)))
    if problem.reductions:
        return describe(problem.each_reduction[0])
    roles = _roles(problem)
    inputs = [_input(x, roles) for x in problem.inputs if x.name != problem.result.name]
    result, scale = problem.result, problem.result.scale
    made = _result(problem, result.element.name)
    if scale is not None:
        made += f"*{scale.type}/1x{scale.block}@{scale.layout}" + " apart" * bool(scale.apart)
    made += f"*{scale.outer.element.name}/all" if scale and scale.outer else ""
    made += " by chance" * (result.chance is not None) + " transformed" * result.transformed
    body = " ".join(_body(problem))
    if (reduced := result.reduced) is not None:
        body += f", {reduced.kind} over {roles[reduced.over]}: {' '.join(_ops(reduced.final))}"
        for x in reduced.beside:
            final = () if x.reduced is None else (x.reduced.kind, *_ops(x.reduced.final))
            body += f", {_result(replace(problem, results=(x,)), x.element.name)} {' '.join(final)}"
    text = f"{made} {'+=' if result.inout else '='} {_product(problem)}"
    text += (f"; {' '.join(inputs)}" if inputs else "") + (f": {body}" if body else "") + _folded(problem)
    return ", ".join([text, *_read(problem)])


def _folded(problem: Problem) -> str:
    """What a result reduces, what follows that, and which of its points are computed."""
    fold, window, roles, text = problem.column_fold, problem.result.window, _roles(problem), ""
    if fold is not None:
        inputs = [_input(x, roles) for x in fold.inputs if x.name != problem.result.name]
        rest = replace(problem.result, body=fold.body)
        text = f"; {fold.kind} of {fold.size}" + "".join(f" {x}" for x in inputs)
        text += f": {' '.join(_body(replace(problem, results=(rest,))))}"
    if window is not None:
        low, high = (str(x) if isinstance(x, int) else _input(x, roles) for x in window.bounds)
        text += f"; {roles[window.dim]} in {low}:{high}"
        text += "" if window.otherwise is None else f" else {window.otherwise}"
        text += "" if window.width is None else " away"
    return text


def describe_kin(problem: Problem) -> str:
    """The contraction alone, rounded to bf16, without gaps: what a program multiplies that writes as many bytes or
    fewer, "" for one that writes more, or several results, or adds to what is there."""
    several = len(problem.bodies) > 1 or problem.reductions or problem.folds or problem.result.window is not None
    several = several or problem.column_fold
    if several or problem.result.inout or problem.result.element.bits > 16:
        return ""
    plain = replace(problem, results=(replace(problem.result, gaps=None),))
    return ", ".join([f"{_result(plain, 'bf16')} = {_product(problem)}: truncf", *_read(problem)])


def _folds(problem: Problem) -> list[str]:
    """What operands are reduced to."""
    roles, made = _roles(problem), []
    for x in (problem.lhs, problem.rhs):
        for f in x.folds:
            body = " ".join(_ops((*f.body, *f.after)))
            text = f"{f.element.name}[{_index(f.coords, roles)}] = {f.kind} {x.stored.name}[{_index(x.coords, roles)}]"
            made.append(text + (f": {body}" if body else ""))
    return made


def _read(problem: Problem) -> list[str]:
    """What of the product is read from memory."""
    roles = _sized(problem, problem.outer)
    lookups = [f"{roles[x.name]} by {x.block} of {roles[x.dim]}" for x in problem.lookups if x.dim]
    shared = problem.shared_out
    ranges = [
        f"{roles[d.dim]} {'shared out to' if d is shared else 'cut short for each'} "
        + (" and ".join(roles[x] for x in d.groups) or "all")
        + (f" {'in' if d.floored > 1 else 'by'} {d.step}" if d.step > 1 else "")
        + (f" about {d.typical}" if d.typical else "")
        for d in problem.domains
    ]
    return lookups + ranges


def _roles(problem: Problem) -> dict[str, str]:
    """What the text calls each dimension."""
    roles = {problem.m.name: "m", problem.n.name: "n", problem.k.name: "k"}
    roles |= {d.name: f"o{i}" for i, d in enumerate(problem.outer)}
    roles |= {x.name: f"i{i}" for i, x in enumerate(problem.lookups)}
    further = problem.dims[3 + len(problem.outer) :]
    return roles | {d.name: f"s{i}" for i, d in enumerate(further)}


def _sized(problem: Problem, dims: tuple[Dim, ...]) -> dict[str, str]:
    """Likewise, some with their sizes, where these are known."""
    roles = _roles(problem)
    return roles | {d.name: f"{roles[d.name]}={d.size}" for d in dims if d.size is not None}


def _result(problem: Problem, element: str) -> str:
    around = _around(problem.result.gaps, "n")
    return f"{element}[{_index(problem.result.coords, _sized(problem, problem.outer))}{around}]"


def _around(gaps: Gaps | None, dim: str) -> str:
    return f"+{gaps.size}*(({dim}+{gaps.phase})/{gaps.every})" if gaps is not None else ""


def _product(problem: Problem) -> str:
    roles, sized = _roles(problem), _sized(problem, problem.dims[3 + len(problem.outer) :])

    def text(x: Problem) -> str:
        lhs, rhs = (
            _operand(own, of) + f" and {len(own.others)} more" * bool(own.others)
            for own, of in ((x.lhs, sized), (x.rhs, roles))
        )
        return f"{lhs} . {rhs}"

    made = list(map(text, problem.products))
    for term in problem.terms:
        computed = "; ".join(" ".join(_ops(x.body)) for x in term.results)
        made[term.number] = f"({made[term.number]}: {computed})"
    return " + ".join(made)


def _index(coords: tuple[Coord, ...], roles: dict[str, str]) -> str:
    def text(at: Coord) -> str:
        divided, wrapped = f"/{at.divisor}" if at.divisor > 1 else "", f"%{at.modulus}" if at.modulus else ""
        moved = f"+{at.offset}" if at.offset else ""
        return roles.get(at.dim, "0") + moved + divided + wrapped + _around(at.gaps, at.dim and roles[at.dim])

    return ",".join(map(text, coords))


def _operand(operand: Operand, roles: dict[str, str]) -> str:
    scales = [
        f"*{s.type}/{'all' if s.rows == WHOLE else s.rows}x{'all' if s.k == WHOLE else s.k}@{s.layout}"
        + " apart" * any(at.apart for at in s.coords)
        + " made" * s.made
        for s in operand.scales
    ]
    element, zeros = operand.stored.name + f" as {operand.element.name}" * operand.converted, operand.zeros
    if operand.rounded is not None:
        inputs = "".join(f" {x.element.name}[{_index(x.coords, roles)}]" for x in operand.inputs)
        element = f"({' '.join((operand.stored.name, *_ops(operand.body)))}{inputs}) as {operand.element.name}"
    less = "" if zeros is None else f"-{zeros.type}[{_index(zeros.coords, roles)}]" if zeros.name else "-number"
    less += " in another order" * (zeros is not None and any(zeros.orders))
    words = " in words" * operand.in_words + " ordered" * (operand.order != IN_ORDER)
    return f"{element}[{_index(operand.coords, roles)}]{words}{less}" + "".join(scales)


def _input(x: EpilogueInput, roles: dict[str, str]) -> str:
    at = _index(x.coords, roles)
    return x.element.name + (f"[{at}]" if at else "") + ("" if x.layout == "row" else f"@{x.layout}")


def _body(problem: Problem) -> list[str]:
    """The names of the ops that the epilogue computes, in order."""
    return _ops(problem.result.body)


def _ops(names: tuple[str, ...]) -> list[str]:
    return [x.partition(".")[2] for x in names if x not in ("scale.yield", "arith.constant")]
