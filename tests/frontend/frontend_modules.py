"""The examples, and what a module of the front end says: its dims, arguments, results, ops and maps, as text."""

from __future__ import annotations

from pathlib import Path

from scalec.ir import scale
from scalec.ir.mlir import ir

EXAMPLES = {p.stem: p.read_text() for p in sorted((Path(__file__).parents[2] / "examples").glob("*.scale"))}


def function(module: ir.Module) -> ir.Operation:
    return module.body.operations[0]


def ops(module: ir.Module, name: str) -> list[ir.Operation]:
    return [op for op in function(module).operation.regions[0].blocks[0].operations if op.operation.name == name]


def dims(module: ir.Module) -> str:
    return " ".join(scale.program_dims(function(module)))


def arguments(module: ir.Module) -> list[str]:
    f = function(module)
    types = f.operation.regions[0].blocks[0].arguments
    return [f"{a['scale.name'].value} {t.type}" for a, t in zip(f.attributes["arg_attrs"], types, strict=True)]


def results(module: ir.Module) -> list[str]:
    f = function(module)
    types = ops(module, "func.return")[0].operands
    return [f"{a['scale.name'].value} {t.type}" for a, t in zip(f.attributes["res_attrs"], types, strict=True)]


def maps(op: ir.Operation) -> list[str]:
    """The results of an op's maps, with the program's dims by name."""
    names = scale.program_dims(op)
    found = []
    for m in scale.maps_of(op.attributes["maps"]):
        text = str(m).split("-> ")[1]
        for i, name in reversed(list(enumerate(names))):
            text = text.replace(f"d{i}", name)
        found.append(text)
    return found


def elements(described: list[str]) -> str:
    """`A tensor<?x?xbf16>` as `A bf16`."""
    return ", ".join(
        f"{d.split()[0]} {d.split()[1].removeprefix('tensor<').removesuffix('>').split('x')[-1]}" for d in described
    )
