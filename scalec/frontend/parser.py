"""Text to syntax tree: lark's LALR parser, and its refusals in the words of the language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.tree import Meta

from scalec.errors import SourceError
from scalec.frontend import ast, laid
from scalec.frontend.diagnostics import Source, Span, one_of
from scalec.suggestions import did_you_mean

MAX_CHARACTERS = 65536  # far beyond any program; bounds the work that a stray file given as a program can cause
MAX_DEPTH = 100  # nodes of the parse tree above each other: keeps every recursion far from Python's own limit

# How messages name the grammar's terminals, in the order in which they list them.
TERMINALS = {
    "NAME": "a name",
    "INT": "an integer",
    "FLOAT": "a number",
    "INF": "inf",
    "BLOCK": "a block such as 1x128",
    "VALUE": "a value such as 128x128x128",
    "LSQB": "'['",
    "RSQB": "']'",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "COLON": "':'",
    "EQUAL": "'='",
    "ASSIGN": "'=' or '+='",
    "LESSTHAN": "'<'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "SLASH": "'/'",
    "PERCENT": "'%'",
    "AT": "'@'",
    "CIRCUMFLEX": "'^'",
    "SCALE": "scale(...)",
    "FOR": "for",
    "IN": "in",
    "ELSE": "else",
    "WITH": "with",
    "END": "the end of the statement",
}


LINES = "a statement ends with its line, unless ( ) or [ ] are open"
_BROKEN = re.compile(
    r"[^\s;][ \t\r\f]*\n\s*(for|with|scale)\s*$"
)  # a line that begins with a clause, after a statement
_BEGINS = re.compile(r"[^\s;][ \t\r\f]*\n\s*$")  # the beginning of a line, after a statement

_TYPE = re.compile(r":\s*\w+\s*$")
_WORD = re.compile(r"[A-Za-z]\w+")
KEYWORDS = (
    "SCALE",
    "QUANTIZE",
    "FOR",
    "IN",
    "ELSE",
    "WITH",
    "INF",
    "BY",
    "ABOUT",
    "APART",
    "OF",
)  # terminals that are words; written in lower case


def blank(text: str) -> str:
    """`text` with comments, and line breaks inside brackets, replaced by as many spaces."""
    text = re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), text)
    out, depth = list(text), 0
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth = max(0, depth - 1)
        elif c == "\n" and depth:
            out[i] = " "
    return "".join(out)


def _span(meta: Meta) -> Span:
    return (0, 0) if meta.empty else (meta.start_pos, meta.end_pos)


def _said(rest: list[Any]) -> tuple[tuple[ast.Promise, ...], ast.Name | None]:
    """The promises of a range, and what fills the points outside."""
    promises = tuple(x for x in rest if isinstance(x, ast.Promise))
    return promises, next((x[0] for x in rest if isinstance(x, tuple)), None)


def _name(token: Token) -> ast.Name:
    start = token.start_pos or 0
    return ast.Name((start, start + len(token)), str(token))


@v_args(meta=True)
class _ToAst(Transformer[Token, Any]):
    """Lark's parse tree to ours."""

    def start(self, meta: Meta, c: list[Any]) -> ast.Program:
        statements = tuple(s for s in c if isinstance(s, ast.Statement))
        return ast.Program(_span(meta), statements)

    def statement(self, meta: Meta, c: list[Any]) -> ast.Statement:
        target, assign, value, *rest = c
        ranges = tuple(r for r in rest if isinstance(r, ast.Range))
        settings = tuple(s for r in rest if isinstance(r, list) for s in r)
        return ast.Statement(_span(meta), target, str(assign) == "+=", value, ranges, settings)

    def target(self, meta: Meta, c: list[Any]) -> ast.Target:
        name, indices, *rest = c
        kind = next((r for r in rest if isinstance(r, ast.Name)), None)
        scale = next((r for r in rest if isinstance(r, ast.Scale)), None)
        return ast.Target(_span(meta), _name(name), tuple(indices), kind, scale)

    def type(self, meta: Meta, c: list[Any]) -> ast.Type:
        name, at = _name(c[0]), c[1].start_pos if len(c) > 1 else 0
        layout = ast.Name((at + 1, at + len(c[1])), c[1][1:]) if len(c) > 1 else None
        return ast.Type(name.span, name.text, layout)

    def kind(self, meta: Meta, c: list[Any]) -> ast.Name:
        return _name(c[0])

    def layout(self, meta: Meta, c: list[Any]) -> tuple[ast.Name]:
        return (_name(c[0]),)  # wrapped: `level` tells it from a type by this

    def indices(self, meta: Meta, c: list[Any]) -> list[ast.Node]:
        return c

    # expressions

    def binary(self, meta: Meta, c: list[Any]) -> ast.Binary:
        return ast.Binary(_span(meta), str(c[1]), c[0], c[2])

    def negate(self, meta: Meta, c: list[Any]) -> ast.Negate:
        return ast.Negate(_span(meta), c[1])

    def power(self, meta: Meta, c: list[Any]) -> ast.Power:
        return ast.Power(_span(meta), c[0], str(c[1]))

    def number(self, meta: Meta, c: list[Any]) -> ast.Number:
        return ast.Number(_span(meta), str(c[0]))

    def name(self, meta: Meta, c: list[Any]) -> ast.Name:
        return _name(c[0])

    def tensor(self, meta: Meta, c: list[Any]) -> ast.Tensor:
        kind = c[2] if len(c) > 2 else None
        return ast.Tensor(_span(meta), _name(c[0]), tuple(c[1]), kind)

    def scaled(self, meta: Meta, c: list[Any]) -> ast.Tensor:
        return replace(c[0], scale=c[1])

    def shifted(self, meta: Meta, c: list[Any]) -> ast.Shifted:
        return ast.Shifted(_span(meta), c[0], c[1])

    def reduce(self, meta: Meta, c: list[Any]) -> ast.Reduce:
        return ast.Reduce(_span(meta), _name(c[0]), tuple(c[1]), c[2])

    def call(self, meta: Meta, c: list[Any]) -> ast.Call:
        return ast.Call(_span(meta), _name(c[0]), tuple(c[1:]))

    def typed(self, meta: Meta, c: list[Any]) -> ast.Typed:
        return ast.Typed(_span(meta), c[0], c[1])

    def quantize(self, meta: Meta, c: list[Any]) -> ast.Quantize:
        return ast.Quantize(_span(meta), c[1], _name(c[2]), c[3])

    def contract(self, meta: Meta, c: list[Any]) -> ast.Contract:
        left, right, *rest = c
        scale = rest[0] if rest else None
        if isinstance(right, ast.Tensor) and scale is None:
            scale, right = right.scale, replace(right, scale=None)
        elif isinstance(right, ast.Shifted) and scale is None:
            scale, right = right.scale, right.value
        return ast.Contract(_span(meta), left, right, scale)

    # scales

    def scale(self, meta: Meta, c: list[Any]) -> ast.Scale:
        return ast.Scale(_span(meta), tuple(c[1:]))

    def item(self, meta: Meta, c: list[Any]) -> ast.Item:
        return ast.Item(_span(meta), tuple(x for x in c if isinstance(x, ast.Level)))

    def level(self, meta: Meta, c: list[Any]) -> ast.Level:
        kind = next((x for x in c[1:] if isinstance(x, ast.Name)), None)
        layout = next((x[0] for x in c[1:] if isinstance(x, tuple)), None)
        largest = next((x for x in c[1:] if isinstance(x, ast.Tensor)), None)
        return ast.Level(_span(meta), _name(c[0]), kind, layout, largest)

    # indices

    def index_constant(self, meta: Meta, c: list[Any]) -> ast.IndexConstant:
        return ast.IndexConstant(_span(meta), str(c[0]))

    def index_name(self, meta: Meta, c: list[Any]) -> ast.IndexName:
        return ast.IndexName(_span(meta), str(c[0]))

    def index_read(self, meta: Meta, c: list[Any]) -> ast.IndexRead:
        return ast.IndexRead(_span(meta), _name(c[0]), tuple(c[1]))

    def index_size(self, meta: Meta, c: list[Any]) -> ast.IndexSize:
        return ast.IndexSize(_span(meta), _name(c[0]), _name(c[1]))

    def index_binary(self, meta: Meta, c: list[Any]) -> ast.IndexBinary:
        return ast.IndexBinary(_span(meta), str(c[1]), c[0], c[2])

    def index_negate(self, meta: Meta, c: list[Any]) -> ast.IndexNegate:
        return ast.IndexNegate(_span(meta), c[1])

    # ranges and the schedule

    def otherwise(self, meta: Meta, c: list[Any]) -> tuple[ast.Name]:
        text = "".join(str(t) for t in c[1:])
        return (ast.Name((c[1].start_pos, c[-1].start_pos + len(c[-1])), text),)

    def promise(self, meta: Meta, c: list[Any]) -> ast.Promise:
        return ast.Promise(_span(meta), _name(c[0]), _name(c[1]) if len(c) > 1 else None)

    def span(self, meta: Meta, c: list[Any]) -> ast.Range:
        return ast.Range(_span(meta), _name(c[1]), c[3], c[4], *_said(c[5:]))

    def mask(self, meta: Meta, c: list[Any]) -> ast.Range:
        return ast.Range(_span(meta), _name(c[1]), None, c[2], *_said(c[3:]))

    def schedule(self, meta: Meta, c: list[Any]) -> list[ast.Setting]:
        return c[1:]

    def setting(self, meta: Meta, c: list[Any]) -> ast.Setting:
        return ast.Setting(_span(meta), _name(c[0]), _name(c[1]) if len(c) > 1 else None)


@cache
def _lark() -> Lark:
    return Lark.open("grammar.lark", rel_to=__file__, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _expected(names: Sequence[str]) -> str:
    words = [TERMINALS[n] for n in TERMINALS if n in names or (n == "END" and "$END" in names)]
    return words[0] if len(words) == 1 else one_of(words) if words else ""


def _refusal(source: Source, error: UnexpectedInput, accepted: Sequence[str]) -> SourceError:
    """What lark could not read, where it would have read any of `accepted`."""
    text = source.text
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        # the last character that is not blank is what the program broke off after
        start = max(0, len(blank(text).rstrip()) - 1)
        expected = _expected(accepted) + " next"
        return source.error(
            (start, start + 1), "the program ends too early", got="nothing after this", expected=expected
        )
    start = error.pos_in_stream or 0
    clause = _BROKEN.search(blank(text)[:start])
    if clause:
        return source.error(
            clause.span(1),
            f"{clause[1]} begins a statement",
            got=f"a line that begins with {clause[1]}",
            expected=f"{clause[1]} on the line of the statement that it belongs to",
            fix=f"write it at the end of the line before: {LINES}",
        )
    found = str(error.token) if isinstance(error, UnexpectedToken) else text[start]
    if (unknown := laid.UNKNOWN.match(text, start)) and _TYPE.search(text[:start]):
        return laid.no_layout(source, unknown.span(1))
    what, got = found, repr(found)
    if found in "\n;":
        what = got = "the end of the statement"
    elif not (found.isprintable() and found.isascii()):
        what = got = f"the character U+{ord(found[0]):04X}"
    return source.error(
        (start, start + len(found)),
        f"{what} cannot stand here",
        got=got,
        expected=_expected(accepted),
        fix=_fix(text, start, accepted),
    )


def _fix(text: str, start: int, accepted: Sequence[str]) -> str:
    if text[start : start + 1] in tuple("+-*/@^,:)]") and _BEGINS.search(blank(text)[:start]):
        return f"write it at the end of the line before and in brackets: {LINES}"
    if text.startswith("\n", start):
        return f"go on in this line: {LINES}"
    pair = text[max(0, start - 1) : start + 1]
    if pair == "==":
        return "write = or +="
    if pair == "**":
        return "write x^2"
    if text.startswith("=", start) and "LSQB" in accepted:
        return "write the result's indices, as in C[m,n] = ..."
    if text.startswith("scale", start):
        return "write scale(...) right after the contraction A[...]@B[...], or after the type of a tensor or a result"
    if text.startswith(":", start):
        return "write the type right after the tensor, as in A[m,k]:e4m3"
    word = _WORD.match(text, start)
    return did_you_mean(word[0], [n.lower() for n in KEYWORDS if n in accepted]) if word else ""


def _check_depth(source: Source, tree: Tree[Token]) -> None:
    """Refuses what a recursion over the tree could not walk. Itself no recursion."""
    depth: dict[int, int] = {}
    for node in tree.iter_subtrees():  # children before their parents
        depth[id(node)] = 1 + max((depth[id(c)] for c in node.children if isinstance(c, Tree)), default=0)
        if depth[id(node)] > MAX_DEPTH:
            raise source.error(
                _span(node.meta),
                "this expression is nested too deeply",
                got=f"more than {MAX_DEPTH} operations inside each other",
                expected=f"at most {MAX_DEPTH}",
                fix="give a part of it a statement of its own",
            )


@lru_cache(maxsize=64)  # of one program kernels for several sizes, a key, a reference
def parse(source: Source) -> ast.Program:
    """Reads a program.

    Raises:
        SourceError: at the first place that the grammar does not allow.
    """
    if len(source.text) > MAX_CHARACTERS:
        raise source.error(
            (0, 1),
            "the program is too long",
            got=f"{len(source.text)} characters",
            expected=f"at most {MAX_CHARACTERS} characters",
        )
    reading = _lark().parse_interactive(blank(source.text))
    try:
        reading.exhaust_lexer()
        tree = reading.feed_eof()
    except UnexpectedInput as error:
        raise _refusal(source, error, sorted(reading.accepts())) from None
    _check_depth(source, tree)
    return _ToAst().transform(tree)
