"""Reads programs, by docs/language.md and without the front end: a second reading of every text that is drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from scalec.formats import ELEMENT_TYPES, FORMATS
from tests.fuzz.case import Level, Operand, Tree

TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+(?:\.\d+)?(?:e-?\d+)?|\+=|.)")
FOLDS = ("sum", "max", "min")


@dataclass(frozen=True)
class Range:
    """`for dim in low:high by step apart`; `about` says nothing of results."""

    dim: str
    low: str
    high: str
    by: int = 1
    apart: bool = False


@dataclass(frozen=True)
class Statement:
    """What is written where: a tree of

    ("tensor", name, index, type), ("name", of a temporary or a scalar), ("number", text), ("rounded", tree, type),
    ("quantize", tree, type, level), ("hadamard", tree), ("stochastic", tree, words: (name, place) each),
    ("scaled", tensor, levels), ("@", left, right, levels of both), ("fold", how, dims, tree),
    and the ops of Case.value.
    """

    result: Operand
    tree: Tree
    adds: bool = False
    range: Range | None = None
    otherwise: str = ""


def split(text: str, by: str = ",") -> tuple[str, ...]:
    """The parts of a text between separators that are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "[(") - (c in "])")
        if c == by and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return tuple(p.strip() for p in parts)


def levels(text: str) -> tuple[Level, ...]:
    """The levels of an entry of scale(...)."""
    made = []
    for level in text.split("*") if text not in ("", "none") else ():
        body, _, layout = level.strip().partition("@")
        block, _, kind = body.partition(":")
        made.append(Level(tuple(block.split("x")), kind or "f32", layout or "row"))
    return tuple(made)


class Reader:
    """Of one statement, from its first token."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def peek(self) -> str:
        found = TOKEN.match(self.text, self.at)
        return found[1] if found else ""

    def take(self, *wanted: str) -> str:
        """The next token; where some are wanted, "" and none taken if it is none of them."""
        found = TOKEN.match(self.text, self.at)
        if not found or (wanted and found[1] not in wanted):
            return ""
        self.at = found.end()
        return found[1]

    def brackets(self, close: str) -> str:
        """What stands before the bracket that closes."""
        start, depth = self.at, 1
        while depth:
            c = self.text[self.at]
            depth += (c in "[(") - (c in "])")
            self.at += 1
        assert self.text[self.at - 1] == close
        return self.text[start : self.at - 1]

    def type(self) -> str:
        return self.take() if self.take(":") else ""

    def statement(self) -> Statement:
        name = self.take()
        assert self.take("[")
        index, kind = split(self.brackets("]")), self.type()
        clause = self.clause()
        result = Operand(name, index, kind, levels(clause[0]) if clause else ())
        adds = self.take("=", "+=") == "+="
        tree = self.sum()
        found, otherwise = None, ""
        if self.take("for"):
            found, otherwise = self.range()
        assert not self.peek(), self.text[self.at :]
        return Statement(result, tree, adds, found, otherwise)

    def range(self) -> tuple[Range, str]:
        dim = self.take()
        sign = self.take("in", "<")
        rest = self.text[self.at :]
        self.at = len(self.text)
        rest, _, otherwise = rest.partition(" else ")
        bounds = re.split(r" (?:by|about|apart)\b", rest)[0].strip()
        by = re.search(r" by (\d+)", rest)
        parts = split(bounds, ":") if sign == "in" else ("0", bounds)
        return Range(dim, parts[0], parts[1], int(by[1]) if by else 1, " apart" in rest), otherwise.strip()

    def clause(self) -> tuple[str, ...]:
        if not self.take("scale"):
            return ()
        self.take("(")
        return split(self.brackets(")"))

    def sum(self) -> Tree:
        made = self.product()
        while op := self.take("+", "-"):
            made = (op, made, self.product())
        return made

    def product(self) -> Tree:
        made = self.unary()
        while op := self.take("*", "/"):
            made = (op, made, self.unary())
        return made

    def unary(self) -> Tree:
        return ("negative", self.unary()) if self.take("-") else self.contraction()

    def contraction(self) -> Tree:
        lhs = self.power()
        if not self.take("@"):
            own = self.clause()
            return ("scaled", lhs, levels(own[0])) if own else lhs
        rhs, clause = self.power(), list(self.clause())
        sides = []
        for x in (lhs, rhs):
            own = clause.pop(0) if clause and not formatted(x) else ""
            sides.append(levels(own))
        return ("@", lhs, rhs, tuple(sides))

    def power(self) -> Tree:
        made = self.leaf()
        return ("^", made, int(self.take())) if self.take("^") else made

    def leaf(self) -> Tree:
        token = self.take()
        if token == "(":
            return self.rounded(self.inside(self.brackets(")")))
        if token[0].isdigit() or token == "inf":
            return ("number", token)
        if token in FOLDS and self.take("["):
            dims = split(self.brackets("]"))
            self.take("(")
            return ("fold", token, dims, self.inside(self.brackets(")")))
        if token == "quantize" and self.take("("):
            inner, kind, level = split(self.brackets(")"))
            return ("quantize", self.inside(inner), kind, levels(level)[0])
        if token == "stochastic" and self.take("("):
            inner, *words = split(self.brackets(")"))
            return ("stochastic", self.inside(inner), tuple(map(word, words)))
        if token == "hadamard" and self.take("("):
            inner, size = split(self.brackets(")"))
            assert size == "16"
            return ("hadamard", self.inside(inner))
        if self.take("("):
            return self.rounded((token, *(self.inside(x) for x in split(self.brackets(")")))))
        if self.take("["):
            index = split(self.brackets("]"))
            return ("tensor", token, index, self.type())
        return ("name", token)

    def rounded(self, tree: Tree) -> Tree:
        return ("rounded", tree, kind) if (kind := self.type()) else tree

    def inside(self, text: str) -> Tree:
        own = Reader(text)
        made = own.sum()
        assert not own.peek(), text
        return made


def word(text: str) -> tuple[str, tuple[int, ...]]:
    """The tensor that has a word of a seed, and where."""
    name, _, place = text.rstrip("]").partition("[")
    return name, tuple(int(x) for x in split(place))


def parts(tree: Tree) -> tuple[Tree, ...]:
    """The trees that a tree is made of."""
    own = {"tensor": (), "@": tree[1:3], "fold": tree[3:], "stochastic": tree[1:2], "scaled": tree[1:2]}.get(
        tree[0], tree[1:]
    )
    return tuple(t for t in own if isinstance(t, tuple))


def every(tree: Tree) -> list[Tree]:
    """The tree and all below it."""
    return [tree, *(x for t in parts(tree) for x in every(t))]


def formatted(tree: Tree) -> bool:
    return any(t[0] == "tensor" and t[3] in FORMATS for t in every(tree))


@dataclass(frozen=True)
class Program:
    """A text, read."""

    statements: tuple[Statement, ...]  # in order
    tensors: dict[str, Operand]  # every tensor that is read, by name, with its type and scales
    sides: dict[str, str]  # of those that are multiplied, lhs or rhs; of others with scales lhs
    lookups: dict[str, str]  # of each index tensor its kind: "gather", "scatter", "offsets", "low", "high" or "count"
    reached: dict[str, str]  # by "tensor_position" the index tensor that alone says how large that extent must be
    dims: tuple[str, ...]  # in order of appearance
    eights: dict[str, str]  # of tensors of 4 bits whose last index lies in words or another order, how: see `in_rows`

    @property
    def results(self) -> tuple[Statement, ...]:
        """Those that nothing uses."""
        used = {t[1] for s in self.statements for t in every(s.tree) if t[0] in ("name", "tensor")}
        return tuple(s for s in self.statements if s.result.name not in used)


NAMES = re.compile(r"[A-Za-z_]\w*")
WORDS = "words"
LAST = "i"
"""What an order calls the last index."""


def in_rows(index: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The indices of a tensor of 4 bits without how it is stored, and that: WORDS, or where element LAST of a row lies;
    "" where it lies in rows, in order."""
    last = index[-1]
    if len(index) > 2 and re.fullmatch(r"(\w+)%8", last) and index[-3] == last.replace("%", "/"):
        return (*index[:-3], index[-2], last[:-2]), WORDS
    names = set(NAMES.findall(last))
    if len(names) == 1 and "/" in last and "%" in last:
        (name,) = names
        return (*index[:-1], name), re.sub(rf"\b{name}\b", LAST, last)
    return index, ""


def places(order: str, n: int) -> list[int]:
    """Where the elements of a row of n lie."""
    return [eval(order.replace("/", "//"), {"__builtins__": {}}, {LAST: i}) for i in range(n)]


def told_in_rows(tree: Tree, types: dict[str, str], eights: dict[str, str]) -> Tree:
    """A tree whose tensors of 4 bits, but for zero points, are indexed in rows; notes how they are stored."""
    op = tree[0]
    if op in ("tensor", "scaled"):
        name = multiplied(tree)
        return _unpacked(tree, name, eights) if packed(types.get(name, "")) else tree
    if op == "@":
        sides = []
        for x in tree[1:3]:
            name = multiplied(x)
            sides.append(_unpacked(x, name, eights) if packed(types.get(name, "")) else x)
        return (op, *sides, *tree[3:])
    return tuple(told_in_rows(t, types, eights) if isinstance(t, tuple) and t in parts(tree) else t for t in tree)


def _unpacked(tree: Tree, name: str, eights: dict[str, str]) -> Tree:
    """A tree with the tensor of that name indexed in rows."""
    if tree[0] == "tensor":
        if tree[1] != name:
            return tree
        index, how = in_rows(tree[2])
        if how:
            eights[name] = how
        return ("tensor", name, index, tree[3])
    return tuple(_unpacked(t, name, eights) if isinstance(t, tuple) and t in parts(tree) else t for t in tree)


def packed(kind: str) -> bool:
    """Whether a type or format has elements of 4 bits."""
    kind = FORMATS[kind].element if kind in FORMATS else kind
    return kind in ELEMENT_TYPES and ELEMENT_TYPES[kind].bits == 4


@cache
def read(text: str) -> Program:
    """A program of its text."""
    eights: dict[str, str] = {}
    statements = tuple(Reader(x).statement() for x in split(text, ";"))
    types = {t[1]: t[3] for s in statements for t in every(s.tree) if t[0] == "tensor" and t[3]}
    statements = tuple(replace(s, tree=told_in_rows(s.tree, types, eights)) for s in statements)
    made = {s.result.name for s in statements}
    tensors: dict[str, Operand] = {}
    sides: dict[str, str] = {}
    lookups: dict[str, str] = {}
    reached: dict[str, str] = {}
    dims: dict[str, None] = {}

    def note(name: str, index: tuple[str, ...], kind: str) -> None:
        for at, i in enumerate(index):
            found = re.findall(r"(\w+)\[", i)
            for x in found:
                lookups.setdefault(x, kind)
            if found and i.endswith("]"):
                reached[f"{name}_{at}"] = found[0]
            dims.update(dict.fromkeys(n for n in NAMES.findall(i) if n not in (*found, "size")))

    for s in statements:
        note(s.result.name, s.result.index, "scatter")
        if s.range:
            ends = [re.findall(r"(\w+)\[", x) for x in (s.range.low, s.range.high)]
            for x, kind in zip(ends, ("low", "high" if ends[0] else "count"), strict=True):
                lookups.update(dict.fromkeys(x, "offsets" if ends[0] == ends[1] else kind))
            for x in (s.range.low, s.range.high):
                dims.update(dict.fromkeys(n for n in NAMES.findall(x) if n not in lookups))
        for t in every(s.tree):
            if t[0] == "tensor" and t[1] not in made:
                note(t[1], t[2], "gather")
                before = tensors.get(t[1], Operand(t[1], t[2]))
                tensors[t[1]] = replace(before, type=before.type or t[3])
                if t[3] in FORMATS and not any(x[0] == "@" for x in every(s.tree)):
                    sides[t[1]] = "lhs"
        for t in every(s.tree):
            found = zip(t[1:3], t[3], ("lhs", "rhs"), strict=True) if t[0] == "@" else ()
            for operand, own, side in ((t[1], t[2], "lhs"),) if t[0] == "scaled" else found:
                name = multiplied(operand)
                tensors[name] = replace(tensors[name], levels=own)
                sides[name] = side
                less = zeros_of(operand, tensors)
                zero = next((t for t in every(less) if t[0] == "tensor"), None) if less else None
                if zero:  # whose extents are those of what they are of
                    tensors[zero[1]] = replace(tensors[zero[1]], type=tensors[zero[1]].type or tensors[name].type)
                    reached = {at: of for at, of in reached.items() if at.rpartition("_")[0] != zero[1]}
    return Program(statements, tensors, sides, lookups, reached, tuple(dims), eights)


def multiplied(tree: Tree) -> str:
    """The tensor that an operand of a contraction is made of: the first one."""
    return next(t[1] for t in every(tree) if t[0] == "tensor")


def zeros_of(tree: Tree, tensors: dict[str, Operand]) -> Any:
    """The zero points of an operand, a tree; None without, and where it is computed: of f32, or a scalar."""
    tree = tree[1] if tree[0] in ("quantize", "rounded") else tree
    if tree[0] != "-" or tree[1][0] != "tensor" or tensors[tree[1][1]].element not in ("u4", "i4"):
        return None
    computed = any(t[0] == "name" or (t[0] == "tensor" and t[3] in ("f32", "bf16", "f16")) for t in every(tree[2]))
    return None if computed else tree[2]
