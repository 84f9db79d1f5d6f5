"""What options and their values look like to every command: parsed once, refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from scalec.bench import method
from scalec.commands import program
from scalec.commands.compile import SUFFIXES
from scalec.sizes import MOST, Range, Size, natural, parse_size
from scalec.suggestions import did_you_mean
from scalec.targets import TARGETS


class Parsed(click.ParamType):
    """An option whose text is read by one of scalec.commands.program's functions."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class OneOf(Parsed):
    """An option whose value is one of some names, which are looked up when it is read."""

    def __init__(self, name: str, known: Callable[[], Iterable[str]]) -> None:
        super().__init__(name, lambda text: one_of(text, known()))


def one_of(text: str, known: Iterable[str]) -> str:
    names = list(known)
    if text not in names:
        near = did_you_mean(text, names)
        raise ValueError(f"{text!r:.80} is not one of {', '.join(names)}" + (f"; {near}" if near else ""))
    return text


def stage_list(text: str) -> list[str]:
    return [one_of(n.strip(), SUFFIXES) for n in text.split(",") if n.strip()]


def pass_list(text: str) -> list[str]:
    from scalec.passes.pipeline import PIPELINE

    return [one_of(n.strip(), (p.name for p in PIPELINE)) for n in text.split(",") if n.strip()]


def _finding_kinds() -> Iterable[str]:
    from scalec.emulator.findings import KINDS

    return KINDS


def _silent_kinds() -> Iterable[str]:
    from scalec.emulator.findings import SILENT

    return sorted(SILENT)


def merged_dims(ctx: click.Context, param: click.Parameter, parts: Sequence[dict[str, Size]]) -> dict[str, Size]:
    try:
        return program.merge_dims(parts)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


def flattened(ctx: click.Context, param: click.Parameter, parts: Sequence[list[str]]) -> list[str]:
    return [name for part in parts for name in part]


def all_of(*decorators: Callable) -> Callable:
    """One decorator for several, applied so that `--help` lists them in this order."""

    def apply(command: Callable) -> Callable:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


def count(name: str, default: int, doc: str, *, least: int = 1) -> Callable:
    """An option that is an integer, from `least` to the most that 32 bits count."""
    return click.option(
        name, type=click.IntRange(least, MOST), metavar="N", default=default, show_default=True, help=doc
    )


DIM = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE|LOW:HIGH,...",
    type=Parsed("NAME=SIZE", program.parse_dims),
    callback=merged_dims,
    help="Size of a dimension, or a range of sizes; repeats, and takes comma lists. Dimensions left out stay dynamic.",
)


def rows(metavar: str, parse: Callable[[str], Any], doc: str) -> Callable:
    return click.option("--m", "rows", metavar=metavar, type=Parsed(metavar, parse), help=doc)


TARGET = click.option(
    "--target",
    metavar="NAME",
    type=OneOf("NAME", lambda: TARGETS),
    help="GPU to compile for; see `scalec targets`.  [default: SCALEC_TARGET, this machine's, or sm_90a]",
)
SCHEDULE = click.option(
    "--schedule",
    default=None,
    metavar="FIELD=VALUE,...",
    type=Parsed("FIELD=VALUE", program.parse_schedule),
    help="Decisions to take instead of the compiler, as in a `with` clause.",
)
PROGRAM = all_of(TARGET, DIM, SCHEDULE)
OUTPUT = click.option("-o", "output", metavar="PATH", help="Write there instead of stdout; - is stdout.")


def extents(text: str) -> tuple[int, int, int]:
    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(natural(p) > 0 for p in parts):
        raise ValueError(f"{text!r:.80} is not X, X,Y or X,Y,Z")
    x, y, z = (*map(natural, parts), 1, 1)[:3]
    return x, y, z


def named_text(text: str) -> tuple[str, str]:
    name, found, rest = text.partition("=")
    if not found or not rest or not name.isascii() or not name.replace("_", "a").isalnum():
        raise ValueError(f"{text!r:.80} is not NAME=VALUE")
    return name, rest


def byte_count(text: str) -> int:
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    count = natural(text[:-1] if unit else text)
    if count < 1:
        raise ValueError(f"{text!r:.80} is no number of bytes, such as 65536, 512M or 4G")
    return count << unit


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 86400:
        raise ValueError(f"{text!r:.80} is not a number of seconds, 1 to 86400")
    return value


def size_list(text: str) -> list[int]:
    sizes = [parse_size(part) for part in text.split(",")]
    if not all(isinstance(size, int) and size for size in sizes):
        raise ValueError(f"{text!r:.80} is not a list of positive integers")
    return [size for size in sizes if isinstance(size, int)]


def size_range(text: str) -> Range:
    size = parse_size(text)
    if not size:
        raise ValueError(f"{text!r:.80} is not a positive integer, nor a range such as 1:4096")
    return size if isinstance(size, Range) else Range(size, size)


SHAPE = Parsed("X[,Y[,Z]]", extents)
KIND = OneOf("KIND", _finding_kinds)
SILENT = OneOf("KIND", _silent_kinds)
NAMED = Parsed("NAME=VALUE", named_text)
SECONDS = Parsed("SECONDS", seconds)
BYTES = Parsed("BYTES", byte_count)
TENSOR_CORE = OneOf("NAME", lambda: ("exact", "hopper"))

EFFORT = all_of(
    count("--rounds", method.ROUNDS, "Measurements of each contender after a pause."),
    count(
        "--sustained", method.SUSTAINED_ROUNDS, "Measurements of each contender without any pause; 0 for none.", least=0
    ),
    count(
        "--block-ms",
        round(1e3 * method.BLOCK_SECONDS),
        "Length of one without pause: long enough for the clocks to settle.",
    ),
)
"""Of `scalec bench`: how often and for how long it measures."""

LAUNCH = all_of(
    click.option("--entry", metavar="NAME", help="The kernel, where the text has several."),
    click.option("--grid", type=SHAPE, default="1", show_default=True, metavar="X[,Y[,Z]]", help="CTAs of the grid."),
    click.option(
        "--block", type=SHAPE, metavar="X[,Y[,Z]]", help="Threads of a CTA.  [default: the kernel's .reqntid]"
    ),
    click.option(
        "--cluster", type=SHAPE, metavar="X[,Y[,Z]]", help="CTAs of a cluster, where the kernel does not say."
    ),
    count("--shared", 0, "Dynamic shared memory of a CTA, in bytes.", least=0),
    click.option(
        "--arg", "arguments", multiple=True, metavar="ARG", help="One for each parameter, in order; see below."
    ),
    click.option("--buffer", "buffers", multiple=True, metavar="NAME=DATA", type=NAMED, help="Memory that maps reach."),
    click.option(
        "--seed", "seeds", default="0", show_default=True, metavar="N|FIRST:END", help="Of the order of things."
    ),
    click.option(
        "--ignore", multiple=True, metavar="KIND", type=KIND, help="A kind of finding that does not stop the run."
    ),
    click.option(
        "--check", multiple=True, metavar="KIND", type=SILENT, help="A kind that is looked for on request alone."
    ),
    click.option("--tensor-core", type=TENSOR_CORE, metavar="exact|hopper", default="exact", show_default=True),
    count("--sms", 4, "CTAs that run at the same time."),
    click.option(
        "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes that share the work."
    ),
    click.option(
        "--max-instructions",
        type=click.IntRange(1),
        default=20_000_000,
        show_default=True,
        help="That a warp executes.",
    ),
    click.option("--max-memory", type=BYTES, default="4G", show_default=True, help="Of all buffers together."),
    click.option(
        "--save", multiple=True, metavar="N=FILE.npy", type=NAMED, help="Argument N, or buffer N, after the run."
    ),
)
"""Of `scalec emulate`: what is launched, of what, and how."""

PRINTS = all_of(
    click.option(
        "--print-after",
        multiple=True,
        metavar="PASS,...",
        type=Parsed("PASS", pass_list),
        callback=flattened,
        help="Print the IR after these passes, on stderr.",
    ),
    click.option("--print-after-all", is_flag=True, help="Print the IR after every pass, on stderr."),
    click.option("--time-passes", is_flag=True, help="Print the time of every stage and pass, on stderr."),
)
"""Of `scalec compile`: what it tells on its way."""

_NAMES = Parsed("NAME,...", lambda text: text.split(","))

GRADIENTS = all_of(
    click.option(
        "--wrt",
        metavar="INPUT,...",
        type=_NAMES,
        help="The inputs whose gradients are wanted.  [default: all that have one]",
    ),
    click.option("--quantize", metavar="RECIPE", help="What operands of gradients are quantised to, e.g. deepseek_v3."),
    click.option(
        "--type",
        "types",
        metavar="NAME=TYPE,...",
        type=Parsed("NAME=TYPE", program.parse_schedule),
        help="Types of gradients and of what is kept, e.g. dB=f32.",
    ),
    click.option(
        "--quantized-from",
        metavar="INPUT=TYPE,...",
        type=Parsed("INPUT=TYPE", program.parse_schedule),
        help="Operands with scales that are quantised of what has this type, e.g. A=bf16,B=f32.",
    ),
    click.option("--once", metavar="INDEX,...", type=_NAMES, help="Index tensors that name each row once at most."),
    click.option(
        "--turned", metavar="INPUT,...", type=_NAMES, help="Operands that are given with another index last too."
    ),
    click.option(
        "--covered", metavar="DIM,...", type=_NAMES, help="Dimensions whose groups together have every index."
    ),
    click.option(
        "--results", metavar="RESULT,...", type=_NAMES, help="The results that have a gradient.  [default: all]"
    ),
    click.option(
        "--straight-through", is_flag=True, help="Gradients of quantised results are those of what was rounded."
    ),
)
"""Of `scalec grad`: what scalec.grad is told."""
