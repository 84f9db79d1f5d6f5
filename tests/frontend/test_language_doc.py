"""docs/language.md is true: its programs build, its refusals read as shown, its last sections are what targets do.

A fenced block is one program a line, unless its info string says `scale program` or `scale refused`: then it is one
program, and the rest of a `scale refused` block its message. Programs within a sentence are built too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scalec import compiler
from scalec.errors import SourceError, UnsupportedError
from scalec.formats import ELEMENT_TYPES, FORMATS, LAYOUTS
from scalec.frontend import build
from scalec.frontend.names import FUNCTIONS, KEYWORDS, REDUCTIONS
from scalec.ir import schedule
from scalec.ir.context import context, parse
from scalec.launches import launches
from scalec.sizes import of_later
from scalec.targets import TARGETS

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
BLOCKS = re.findall(r"^```(\w[^\n]*)\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
SENTENCES = re.findall(r"`(\w+\[[^`]*\](?::\w+)? \+?= [^`]*@[^`]*)`", PROSE)


def programs(info: str) -> list[str]:
    """The programs of the blocks with this info string, one a line."""
    return [line for kind, text in BLOCKS if kind == info for line in text.splitlines()]


def sizes(text: str) -> dict[str, int]:
    """Those that the comment behind a program gives: `h = 64`."""
    return {name: int(size) for name, size in re.findall(r"\b(\w+) = (\d+)", text.partition("#")[2])}


WHOLE = [text for kind, text in BLOCKS if kind == "scale program"]
REFUSED = [re.split(r"\n(?=program:)", text, maxsplit=1) for kind, text in BLOCKS if kind == "scale refused"]
SECTIONS = {target: "sm_100a" if target == "sm_103a" else target for target in TARGETS}
"""The target whose blocks a target's programs stand in."""
RUNS = [(target, text) for target, of in SECTIONS.items() for text in programs(f"scale {of}")]
NO_KERNEL = [(target, text) for target, of in SECTIONS.items() for text in programs(f"scale {of} refused")]


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    kinds = {
        "scale",
        "scale program",
        "scale refused",
        *(f"scale {t}{r}" for t in SECTIONS.values() for r in ("", " refused")),
    }
    assert {kind for kind, _ in BLOCKS} == kinds
    assert PAGE.count("```") == 2 * len(BLOCKS)
    assert not re.search(r"^    ", PROSE, re.MULTILINE), "an indented block is not tested"
    assert len(SENTENCES) == 10


@pytest.mark.parametrize("text", [*programs("scale"), *WHOLE, *SENTENCES, *(text for _, text in RUNS + NO_KERNEL)])
def test_the_front_end_accepts(text: str) -> None:
    with context():
        module = build(text)
        assert str(parse(str(module))) == str(module)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_the_front_end_refuses(text: str, message: str) -> None:
    with context(), pytest.raises(SourceError) as caught:
        build(text, name="program")
    assert str(caught.value) == message


def compile_all(text: str, target: str) -> list[bytes | None]:
    """The machine code of each launch that a program takes."""
    every = launches(text, target, sizes(text))
    named = [(x, of_later(x, every.sizes(i, sizes(text)))) for i, x in enumerate(every.texts)]
    return [compiler.compile_source(x, target, dims).cubin for x, dims in named]


@pytest.mark.once("target")
@pytest.mark.parametrize(("target", "text"), RUNS)
def test_the_target_compiles(target: str, text: str) -> None:
    assert all(compile_all(text, target))


@pytest.mark.parametrize(("target", "text"), NO_KERNEL)
def test_the_target_refuses(target: str, text: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        compile_all(text, target)
    place = refusal.value.place
    assert place is not None
    assert (place.name, place.line, place.text) == ("<program>", 1, text)
    assert text[place.column - 1 :][: place.width].strip()
    assert f"\n  {' ' * (place.column - 1)}{'^' * place.width}\n" in str(refusal.value)
    assert refusal.value.expected
    assert refusal.value.fix


def test_rows_begin_at_multiples_of_16_bytes() -> None:
    made = compiler.compile_source("C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3", "sm_90a", {"k": 100})
    assert made.spec is not None
    assert [t.align for t in made.spec.operands] == [16, 16]


def test_every_word_of_the_language_is_there() -> None:
    words = set(re.findall(r"\w+", PAGE))
    named = [*ELEMENT_TYPES, *FORMATS, *LAYOUTS, *FUNCTIONS, *REDUCTIONS, *KEYWORDS, *schedule.FIELDS]
    assert [w for w in named if w not in words] == []


def test_every_example_of_a_schedule_field_parses() -> None:
    table = PROSE.partition("## The schedule")[2]
    rows = re.findall(r"^\| ((?:`\w+` ?)+)\| [^|]* \| (`[^|]*`) \|$", table, re.MULTILINE)
    seen = []
    for names, values in rows:
        fields, examples = re.findall(r"\w+", names), re.findall(r"\w+", values)
        examples *= len(fields) if len(examples) == 1 else 1
        for field, example in zip(fields, examples, strict=True):
            schedule.parse_field(field, example)
            seen.append(field)
    assert sorted(seen) == sorted(schedule.FIELDS)


def test_the_argument_order_that_the_page_gives() -> None:
    text = "C[m,n] = alpha * A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]"
    assert text.partition(" = ")[2] in PAGE
    with context():
        module = build(text)
        names = [a["scale.name"].value for a in module.body.operations[0].attributes["arg_attrs"]]
    assert f"`{', '.join(names)}`" in PAGE
