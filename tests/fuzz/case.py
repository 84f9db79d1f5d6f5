"""A case: a program as a structure, where it runs, how, at which sizes, and on what data.

A structure prints as the language's text and travels as JSON. Nothing here asks what kind of program it is: an operand
is its indices, its type and its levels of scales, a result likewise, and what is made of the sums is a tree.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE, Granularity
from tests.fuzz.groups import TENSOR, Groups, covered, of_result, route, spoil

if TYPE_CHECKING:
    from scalec.abi import TensorSpec
    from tests.fuzz.bounds import Bounded

Tree = tuple[Any, ...]
"""What a result is made of: (op, operands or literals), see PRINTED; ("@",) is the contraction."""

SUMS: Tree = ("@",)


@dataclass(frozen=True)
class Level:
    """One level of scales: a block's extents, one text an index ("128", or the index's name for all of it), or
    ("tensor",) alone; the type and layout of the scales."""

    block: tuple[str, ...]
    type: str = "f32"
    layout: str = "row"

    def text(self) -> str:
        return (
            "x".join(self.block) + f":{self.type}" * (self.type != "f32") + f"@{self.layout}" * (self.layout != "row")
        )

    def granularity(self) -> Granularity:
        if self.block == ("tensor",):
            return Granularity((), self.type, self.layout, tensor=True)
        block = tuple(int(b) if b.isdigit() else WHOLE for b in self.block)
        return Granularity(block, self.type, self.layout)


@dataclass(frozen=True)
class Operand:
    """A tensor in a program: its indices as text, and a type or a format ("" is left out); of an operand of the
    contraction or of a result also its levels of scales. `zeros`: the zero points of an operand, a number, or "k/64"
    where a tensor has one for each 64 of k, "k/64 + 1" where each is one more than that, "" for none. `body`: a
    function that an operand is computed by."""

    name: str
    index: tuple[str, ...]
    type: str = ""
    levels: tuple[Level, ...] = ()
    zeros: str = ""
    body: str = ""

    def text(self) -> str:
        made = f"{self.name}[{','.join(self.index)}]" + f":{self.type}" * bool(self.type)
        if self.body:
            return f"{self.body}({made})" + f":{self.element}" * (self.bits < 16)
        if not self.zeros:
            return made
        if self.zeros.isdigit():
            return f"({made} - {self.zeros})"
        at, _, plus = self.zeros.partition(" + ")
        less = f"{self.name}Z[{','.join(at if i == 'k' else i for i in self.index)}]"
        return f"({made} - ({less} + {plus}))" if plus else f"({made} - {less})"

    @property
    def element(self) -> str:
        if self.type in FORMATS:
            return FORMATS[self.type].element
        return self.type or ("e4m3" if self.levels else "bf16")

    @property
    def bits(self) -> int:
        return ELEMENT_TYPES[self.element].bits

    def granularities(self, side: str) -> list[Granularity]:
        """Its scales' granularities, innermost first; `side` is lhs, rhs or result."""
        if self.type in FORMATS:
            return list(getattr(FORMATS[self.type], side))
        return [level.granularity() for level in self.levels]


@dataclass(frozen=True)
class Case:
    """One draw."""

    target: str  # a row of scalec.targets
    operands: tuple[Operand, Operand]  # of the contraction, left and right
    result: Operand  # what is written
    value: Tree = SUMS  # what is written to it
    inputs: dict[str, Operand] = field(default_factory=dict)  # the elementwise tensors of `value`, by name
    adds: bool = False  # whether `+=` it is
    temporary: bool = False  # whether the sums have a name and a statement of their own
    schedule: dict[str, str] = field(default_factory=dict)  # fields as text
    known: tuple[str, ...] = ()  # dimensions whose sizes are given to the compiler
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)  # dimensions of which a range of sizes is given
    launches: tuple[dict[str, int], ...] = ()  # the sizes of each launch
    exact: bool = True  # whether operands begin as small integers, and scales as powers of two
    twists: tuple[tuple[str, int], ...] = ()  # (what is done to the data, a number that it draws from), see data.TWISTS
    # for each tensor, in the order of the call and results last, units of alignment added to its rows.
    pads: tuple[int, ...] = ()
    # likewise a number that says in which order its outer indices lie in memory, and whether with gaps; 0: as written,
    # without.
    views: tuple[int, ...] = ()
    # size, every and phase of what is left out along the result's last index, () where nothing is.
    gaps: tuple[int, ...] = ()
    sms: int = 4  # CTAs that run at once
    seed: int = 0  # of the data and of the emulator
    further: tuple[tuple[Operand, Tree], ...] = ()  # results beside the first, and what is written to each
    groups: Groups | None = None  # what is read from memory, None where nothing is

    def text(self) -> str:
        """The program."""
        clauses = [
            "none" if not o.levels else "*".join(level.text() for level in o.levels)
            for o in self.operands
            if o.type not in FORMATS
        ]
        scaled = f" scale({', '.join(clauses)})" if any(o.levels for o in self.operands) else ""
        write, clause = (self.groups.index, self.groups.clause()) if self.groups else (str, "")
        lhs, rhs = (replace(o, index=tuple(map(write, o.index))).text() for o in self.operands)
        sums = f"{lhs} @ {rhs}{scaled}"
        named = self.temporary or bool(self.further)
        head = f"T[{','.join(self.result.index)}] = {sums}{clause}; " if named else ""
        *others, last = self.result.index
        if self.gaps:
            size, every, phase = self.gaps
            last = f"{last} + ({last}+{phase})/{every}*{size}"
        statements = []
        for i, (x, tree) in enumerate(((replace(self.result, index=(*others, last)), self.value), *self.further)):
            result = x.text() + "".join(f" scale({level.text()})" for level in x.levels)
            adds = "+=" if self.adds and not i else "="
            statements.append(f"{result} {adds} {self.value_text(tree, 'T' if named else sums)}")
        return head + "; ".join(statements) + ("" if named else clause)

    def columns(self, sizes: dict[str, int]) -> list[int]:
        """Where the points of the result's last index go."""
        size, every, phase = self.gaps or (0, 1, 0)
        return [n + (n + phase) // every * size for n in range(sizes[self.result.index[-1]])]

    def blocks(self, n: int) -> list[int]:
        """Where those of `n` points of a quantised result's last index go."""
        width = int(self.result.granularities("result")[0].block[-1])
        return [x // width for x in self.columns({self.result.index[-1]: n})[::width]]

    def value_text(self, tree: Tree, sums: str) -> str:
        op, *rest = tree
        inner = [self.value_text(t, f"({sums})" if " " in sums and not sums.startswith("(") else sums) for t in rest
                 if isinstance(t, tuple)]  # fmt: skip
        if op == "@":
            return sums
        if op == "in":
            return self.inputs[rest[0]].text()
        if op in ("number", "scalar"):
            return str(rest[0])
        if op == "^":
            return f"({inner[0]})^{rest[1]}"
        if op in INFIX:
            return f"({inner[0]} {op} {inner[1]})"
        return f"{'-' if op == 'negative' else op}({', '.join(inner)})"

    def leaves(self, tree: Tree | None = None) -> list[Tree]:
        """The leaves of the value, left to right."""
        tree = self.value if tree is None else tree
        below = [t for t in tree[1:] if isinstance(t, tuple)]
        return [x for t in below for x in self.leaves(t)] if below else [tree]

    def used(self) -> dict[str, Operand]:
        """The inputs that the value reads."""
        trees = (self.value, *(tree for _, tree in self.further))
        names = {t[1] for tree in trees for t in self.leaves(tree) if t[0] == "in"}
        return {n: o for n, o in self.inputs.items() if n in names}

    def each(self) -> list[Case]:
        """The case of each result alone."""
        others = [self.but(result=x, value=tree, adds=False, gaps=(), further=()) for x, tree in self.further]
        return [self.but(further=()), *others]

    @property
    def sides(self) -> tuple[str, ...]:
        """Of the operands."""
        return "lhs", "rhs"

    def bounded(self, sizes: dict[str, int], values: dict[str, Any], functions: bool = False) -> list[Bounded]:
        """What each result may be; `functions`: if sums of products were exact."""
        from tests.fuzz.bounds import evaluate

        made = [evaluate(one, sizes, values, functions) for one in self.each()]
        for one, own in zip(self.each(), made, strict=True):
            own.asked = covered(one, sizes, values)
        return made

    def points(self, r: TensorSpec, sizes: dict[str, int], values: dict[str, Any]) -> Any:
        """Which elements of a result are written, None where all are."""
        made = None if self.groups is None else of_result(self, r, covered(self, sizes, values))
        scales = r.name == self.result.name + "_scale"
        if not self.gaps or (r.name != self.result.name and not scales) or r.inout:
            return made
        columns = self.blocks(sizes[self.result.index[-1]]) if scales else self.columns(sizes)
        around = np.zeros([*(e.value(sizes) for e in r.shape[:-1]), max(columns, default=-1) + 1], bool)
        around[..., columns] = True if made is None else made
        return around

    def route(self, sizes: dict[str, int], values: dict[str, Any], rng: np.random.Generator) -> None:
        """Fills what is read from memory to know what to compute; what nothing reads then may be anything."""
        if self.groups is not None:
            read = TENSOR[self.groups.kind]
            values[read] = route(self, sizes, rng, values[read].shape)
            spoil(self, sizes, values)

    def but(self, **changes: Any) -> Case:
        return replace(self, **changes)

    def dims(self, sizes: dict[str, int]) -> dict[str, Any]:
        """What the compiler is told of the sizes."""
        from scalec.sizes import Range

        return {d: sizes[d] for d in self.known} | {d: Range(*r) for d, r in self.ranges.items()}

    @staticmethod
    def of(target: str, text: str) -> Case:
        """The case of one statement without an elementwise expression; no sizes yet."""
        left, adds, right = re.fullmatch(r"(.*?) (\+?)= (.*)", text).groups()  # type: ignore[union-attr]
        sums, _, clause = right.partition(" scale(")
        scales = iter([level.strip() for level in clause.rstrip(")").split(",")] if clause else ["", ""])
        own, _, block = left.partition(" scale(")
        # a format's own scales are not in the clause
        lhs, rhs = (_written(x, "" if x.partition(":")[2] in FORMATS else next(scales)) for x in sums.split(" @ "))
        return Case(target, (lhs, rhs), _written(own, block.rstrip(")")), adds=bool(adds))

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Case:
        data = json.loads(text)
        return Case(
            **{
                **data,
                "operands": tuple(map(_operand, data["operands"])),
                "result": _operand(data["result"]),
                "value": _tree(data["value"]),
                "inputs": {k: _operand(v) for k, v in data["inputs"].items()},
                "known": tuple(data["known"]),
                "ranges": {k: tuple(v) for k, v in data["ranges"].items()},
                "launches": tuple(data["launches"]),
                "twists": tuple((str(name), int(n)) for name, n in data["twists"]),
                "pads": tuple(data["pads"]),
                "views": tuple(data.get("views", ())),
                "further": tuple((_operand(x), _tree(tree)) for x, tree in data.get("further", ())),
                "gaps": tuple(data.get("gaps", ())),
                "groups": Groups(**data["groups"]) if data.get("groups") else None,
            }
        )


INFIX = ("+", "-", "*", "/")


def _operand(data: dict[str, Any]) -> Operand:
    levels = tuple(Level(tuple(x["block"]), x["type"], x["layout"]) for x in data["levels"])
    more = data.get("zeros", ""), data.get("body", "")
    return Operand(data["name"], tuple(data["index"]), data["type"], levels, *more)


def _written(tensor: str, scales: str) -> Operand:
    """An operand from its text, and that of its levels of scales ("" or none: without)."""
    name, index, kind = re.fullmatch(r"(\w+)\[(.*)\]:?(\w*)", tensor).groups()  # type: ignore[union-attr]
    levels = []
    for level in scales.split("*") if scales not in ("", "none") else ():
        body, _, layout = level.partition("@")
        block, _, type_ = body.partition(":")
        levels.append(Level(tuple(block.split("x")), type_ or "f32", layout or "row"))
    return Operand(name, tuple(index.split(",")), kind, tuple(levels))


def _tree(data: Any) -> Any:
    return tuple(map(_tree, data)) if isinstance(data, list) else data
