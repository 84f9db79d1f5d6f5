"""A program of which an operand is quantised in a launch of its own, cut into two programs: the second multiplies.

    C[m,n] = quantize(silu(A[m,k]), e4m3, 1xk) @ B[n,k] scale(none, 1xk) with stages=4
    -->
    A_e4m3[m,k]:e4m3 scale(1xk) = silu(A[m,k])
    C[m,n] = A_e4m3[m,k]:e4m3 @ B[n,k] scale(1xk, 1xk) with stages=4

Where an index is read from memory, the first program would quantise another tensor than the caller's.
"""

from __future__ import annotations

from scalec.errors import NAME
from scalec.formats import FORMATS
from scalec.frontend import ast
from scalec.frontend.cut import Cut
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import parse

NOTHING = "none"


def by_whole_operands(source: str) -> list[str]:
    """The tensors of operands that are quantised in blocks other than some elements of one index, as `1xk`.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    found = {_tensor(x).name.text: x for x in ast.walk(program) if isinstance(x, ast.Quantize)}
    return [name for name, x in found.items() if not _some(x.level.block.text)]


def cut_operand(source: str, operand: str) -> Cut | None:
    """The program in two, the first of which quantises the tensor `operand`; None where a text does not say it.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    nodes = list(ast.walk(program))
    every = [x for x in nodes if isinstance(x, ast.Quantize) and _tensor(x).name.text == operand]
    names = {x.name.text for x in nodes if isinstance(x, (ast.Tensor, ast.Target, ast.IndexRead))}
    names |= {x.text for x in nodes if isinstance(x, ast.Name)}

    def text(node: ast.Node) -> str:
        return source[slice(*node.span)]

    def read(where: ast.Node) -> list[str]:
        return [x.name.text for x in ast.walk(where) if isinstance(x, ast.Tensor)]

    one = every[0] if every else None
    if one is None or any(text(x) != text(one) or isinstance(y, ast.IndexRead) for x in every for y in ast.walk(x)):
        return None
    inside = read(one)
    if sum(x in inside for x in read(program)) != len(every) * len(inside):
        return None  # what it is made of is read elsewhere, too, where its type may stand
    between = f"{operand}_{one.type.text}"
    while {between, f"{between}_scale"} & names:
        between += "_"
    at = f"{between}[{','.join(map(text, _tensor(one).indices))}]:{one.type.text}"
    own, edits = set[str](), list[tuple[tuple[int, int], str]]()
    for contract in (x for x in nodes if isinstance(x, ast.Contract)):
        sides = [contract.left, contract.right]
        mine = [x in every for x in sides]
        if not any(mine):
            continue
        edits += [(x.span, at) for x, quantised in zip(sides, mine, strict=True) if quantised]
        entries = iter(contract.scale.items if contract.scale is not None else ())
        told = [next(entries, None) if _has_entry(x) else None for x in sides]
        own |= {text(x) if x is not None else NOTHING for x, quantised in zip(told, mine, strict=True) if quantised}
        said = [
            text(one.level) if quantised else text(x) if x is not None else NOTHING
            for side, x, quantised in zip(sides, told, mine, strict=True)
            if quantised or _has_entry(side)
        ]
        end = contract.span[1]
        place = contract.scale.span if contract.scale is not None else (end, end)
        edits.append((place, " " * (contract.scale is None) + f"scale({', '.join(said)})"))
    if len(own) != 1:
        return None
    (entry,) = own
    types = [x.type.text for x in ast.walk(one) if isinstance(x, ast.Tensor) and x.type is not None]
    if any(len(x.lhs) > 1 or x.lhs != x.rhs for x in (FORMATS[t] for t in types if t in FORMATS)):
        return None  # a level for all of the tensor multiplies sums; others are of the side of `@`
    if entry != NOTHING and not (
        isinstance(one.value, ast.Tensor) and _some(entry.partition(":")[0].partition("@")[0])
    ):
        return None
    second = source
    for (first, end), new in sorted(edits, reverse=True):
        second = second[:first] + new + second[end:]
    made = f"{at} scale({text(one.level)}) = {text(one.value)}" + f" scale({entry})" * (entry != NOTHING)
    return Cut(made, second, between)


def _tensor(quantize: ast.Quantize) -> ast.Tensor:
    """The tensor with all indices of an operand."""
    return max((x for x in ast.walk(quantize) if isinstance(x, ast.Tensor)), key=lambda x: len(x.indices))


def _has_entry(operand: ast.Node) -> bool:
    """Whether an operand has an entry in its contraction's `scale(...)`."""
    tensors = [x for x in ast.walk(operand) if isinstance(x, ast.Tensor)]
    return not any(x.type is not None and x.type.text in FORMATS for x in tensors)


def _some(block: str) -> bool:
    """Whether a block has some elements of one index, as a K tile has whole ones of."""
    return block.replace("x", "").isdecimal() and sum(x != "1" for x in block.split("x")) < 2
