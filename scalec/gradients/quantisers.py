"""Programs that quantise the operands of a program of what a caller has in more bits, in all orders that are read."""

from __future__ import annotations

from collections.abc import Mapping

from scalec.errors import ArgumentError, shown
from scalec.formats import WHOLE
from scalec.frontend import affine
from scalec.frontend.affine import of_dims
from scalec.frontend.program import Program, Read, Statement, Tensor, Value, pads
from scalec.gradients.expressions import below, read, times
from scalec.gradients.places import signs
from scalec.gradients.steps import Step, names_of, whole
from scalec.gradients.text import Writer, granularity, program
from scalec.gradients.trace import Trace

TYPES = ("bf16", "f16", "f32")


def quantisers(t: Trace, given: Mapping[str, str], forward: Program) -> tuple[Step, ...]:
    """A step for each operand, `X[m,k]:e4m3 scale(1x128) = X_bf16[m,k]`: of one read also `X_m[k,m]`, where steps of
    gradients read that (`t.layouts`).

    Args:
        t: a walk that is done.
        given: by operand, the type in which the caller has it.
        forward: the program whose operands they are.

    Raises:
        ArgumentError: what is no such operand, or type.
    """
    operands = {a.name: a for a in forward.arguments if isinstance(a, Tensor) and a.levels and a.element not in TYPES}
    for name, element in given.items():
        if name not in operands:
            raise ArgumentError(
                f"quantized_from names {name}, which is no operand with scales",
                got=name,
                expected=", ".join(operands) or "a program of one, as C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128)",
            )
        if element not in TYPES:
            raise ArgumentError(
                f"quantized_from gives {name}: {shown(element)}", got=shown(element), expected=", ".join(TYPES)
            )
        tensor = operands[name]
        if tensor.element in ("i4", "u4"):
            raise ArgumentError(
                f"{name} is of {tensor.element}, to which no program quantises",
                got=f"quantized_from={{'{name}': '{element}'}}",
                expected="an operand of a type that results may have with scales, as e4m3 or e2m1",
                fix=f"leave {name} out of quantized_from, and pass it as it is stored",
            )
        if any(set(level.block) != {WHOLE} or level.type != "f32" for level in (tensor.levels or ())[1:]):
            raise ArgumentError(
                f"{name} has scales of two levels, the second of which is not one f32",
                got=granularity(tensor.levels or (), of_dims("abcdefgh"[: len(tensor.extents)])),
                expected="scales of one level, or times tensor, as 1x16:ue4m3*tensor",
                fix=f"quantise {name} before, by scalec.quantize or a program of its own",
            )
        if any(pads(tensor, level) for level in tensor.levels or ()):
            raise ArgumentError(
                f"{name} has blocks, or tiles, of scales for each of groups that are apart",
                got=f"quantized_from={{'{name}': '{element}'}}",
                expected="scales of single rows, as 1x128, of layout row or col",
                fix=f"quantise {name} before, by scalec.quantize with offsets or a program of its own",
            )
    return tuple(_quantiser(t, operands[name], element, _index(t, forward, name)) for name, element in given.items())


def _quantiser(t: Trace, operand: Tensor, element: str, index: tuple[affine.Linear, ...]) -> Step:
    source = Tensor(t.fresh(f"{operand.name}_{element}"), operand.span, list(operand.extents), element)
    made = [(operand, index)]
    for (name, *_), (tensor, axis) in t.layouts.items():
        if name == operand.name:
            made.append((tensor, (*index[:axis], *index[axis + 1 :], index[axis])))
    dims = tuple(d for i in index for d in affine.dims(i))
    statements, given = [], {source.name: "input"}
    for tensor, at in made:
        value: Value = read(source, index)
        if hadamard := t.transformed.get(tensor.name, 0):
            given[t.signs[affine.plain(at[-1]) or ""].name] = "index"
            value = times(value, signs(t, affine.plain(at[-1]) or ""))
        statements.append(Statement(tensor, at, dims, value, False, hadamard=hadamard))
    makes = [n for tensor, _ in made for n in names_of(tensor)]
    text = program(Writer(), statements)
    results = {tensor.name: "" for tensor, _ in made}
    return Step(results, text, given, tuple(makes), dims=dims, whole=whole(statements))


def _index(t: Trace, program: Program, name: str) -> tuple[affine.Linear, ...]:
    """What counts the whole of an operand: the program's dimension where it is read at one, else a fresh one."""
    reads = [x for s in program.statements for x in below(s.value) if isinstance(x, Read)]
    at = next(x.index for x in reads if isinstance(x.source, Tensor) and x.source.name == name)
    names: list[str] = []
    for i in at:
        dim = affine.plain(i)
        names.append(dim if dim is not None and dim not in names else t.fresh("r"))
    return of_dims(tuple(names))
