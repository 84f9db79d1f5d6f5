"""`scalec.grad`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scalec.arguments import checked
from scalec.errors import NAME, ArgumentError, shown
from scalec.formats import ELEMENT_TYPES
from scalec.frontend.diagnostics import Source, one_of
from scalec.frontend.names import FUNCTIONS, KEYWORDS, REDUCTIONS
from scalec.frontend.parser import parse
from scalec.frontend.program import Program, Scales, Tensor, scale_name
from scalec.frontend.resolve import Resolver
from scalec.gradients.backward import Backward
from scalec.gradients.joined import in_one_order, joined
from scalec.gradients.kept import Keeper
from scalec.gradients.parts import take
from scalec.gradients.quantisers import quantisers
from scalec.gradients.recipes import RECIPES, Recipe
from scalec.gradients.steps import Gradients, MadeIndex, Part, Step, names_of, whole
from scalec.gradients.trace import FLOATS, Options
from scalec.suggestions import did_you_mean


@checked
def grad(
    source: str,
    *,
    wrt: Sequence[str] | str | None = None,
    quantize: str | Recipe | None = None,
    types: Mapping[str, str] | None = None,
    straight_through: bool = False,
    once: Sequence[str] | str = (),
    turned: Sequence[str] | str = (),
    covered: Sequence[str] | str = (),
    results: Sequence[str] | str | None = None,
    quantized_from: Mapping[str, str] | None = None,
    name: str = NAME,
) -> Gradients:
    """The programs of a program's gradients, as text.

    Args:
        source: the program, e.g. "C[m,n] = A[m,k] @ B[n,k]".
        wrt: the inputs whose gradients are wanted; all that have one if None.
        quantize: what the operands of the gradients' products are quantised to: a name of RECIPES, or a Recipe. None:
            to nothing, so that they are of bf16, f16 or tf32.
        types: by name, the types of gradients and of what is kept, e.g. {"dB": "f32"}; else a gradient has the type of
            its input, and bf16 where that is quantised.
        straight_through: whether the gradient of a quantised result, or of `quantize(...)`, is taken for that of what
            was rounded.
        once: index tensors that name each row once at most: what is read through them is scattered back.
        turned: operands of 8 bits or fewer that are given with another index last too, for instructions that read what
            is summed contiguous alone: steps read `W_n[k,n]` where the program has `W[n,k]` (see `layouts`).
        covered: dimensions whose ranges by groups (`off[g]:off[g+1]`) together have every index: an input that has the
            dimension and not the group gets its gradient without a range.
        results: the results that have a gradient; all if None.
        quantized_from: by operand with scales, the type in which the caller has it, e.g. {"A": "bf16", "B": "f32"}: a
            program quantises it in all orders that are read (`Gradients.quantisers`), and its gradient has that type.
        name: what messages call the text.

    Raises:
        SourceError: the program is wrong, or something in it has no gradient, with line and caret.
        UnsupportedError: the language has no program of a gradient.
        ArgumentError: an argument that does not fit the program.
    """
    text = Source(source, name)
    program = _resolved(text)
    if (s := next((s for s in program.statements if s.largest), None)) is not None:
        raise text.error(
            s.tensor.span,
            f"{s.tensor.name} is scaled by magnitudes that are given",
            got="scale(... of M[...])",
            expected="scales that are found",
            fix="quantise in a program of its own, whose gradient is that of what it quantises",
        )
    indices = _indices(program)
    made = [s.tensor.name for s in program.statements if not s.temporary]
    options = Options(
        wrt=_wanted(program, wrt),
        types=dict(types or {}),
        straight_through=straight_through,
        once=_named("once", once, indices, "index tensor"),
        turned=_named("turned", turned, _narrow(program), "operand of 8 bits or fewer"),
        covered=_named("covered", covered, program.dims, "dimension"),
        results=frozenset(made) if results is None else _named("results", results, made, "result"),
        recipe=_recipe(quantize),
        sources=dict(quantized_from or {}),
    )
    names = _names(program)
    parts = take(program, names, options.sources)
    options = _of_parts(options, parts)
    wholes = _wholes(options, parts, names)
    keeper = Keeper(program, dict(names), options.types, parts)
    Backward(text, program, options, keeper, names).walk()
    keeper.choose()
    b = Backward(text, program, options, keeper, dict(keeper.fresh))
    again = b.computed_again()
    b.walk()
    b.made = [*(made for k, made in again if k.used), *b.made]
    forward, kept = keeper.forward()
    known = dict.fromkeys(b.given.values(), "gradient") | dict.fromkeys(b.indices, "index")
    known |= dict.fromkeys((k.tensor.name for k in keeper.used() if not k.again), "kept")
    layouts = {g.name: operand for (operand, *_), (g, _) in b.layouts.items()}
    if unread := sorted(options.turned - {*layouts.values(), *options.sources}):
        expected = "an operand whose scales hold along what a gradient sums over, or with quantize; no gathered rows"
        raise ArgumentError(f"turned names {unread[0]}, which no gradient reads so", got=unread[0], expected=expected)
    known |= {n: "layout" for g, _ in b.layouts.values() for n in names_of(g)}
    known |= dict.fromkeys(parts, "part")
    steps = []
    for made in in_one_order(joined(b.made), b.fresh):
        tensors = [s.tensor for s in made.results]
        makes = [n for t in tensors for n in names_of(t)]
        resolved = _resolved(Source(made.text, "gradient"))
        reads = {n: known.get(n, "input") for n in _names_of(resolved)}
        step = Step(made.of, made.text, reads, tuple(makes), made.zeroed, tuple(resolved.dims), whole(made.statements))
        steps.append(step)
        known |= dict.fromkeys(step.makes, "step")
    of, views = _made_of(steps, b.indices, parts, wholes)
    _check_types(types or {}, {name for s in steps for name in s.results} | set(kept) | set(of.values()))
    made_of, given = quantisers(b, options.sources, program), dict(b.given)
    return Gradients(
        source, forward or source, kept, given, tuple(steps), of, dict(b.indices), layouts, b.left_out, made_of, views
    )


def _made_of(
    steps: Sequence[Step], indices: Mapping[str, MadeIndex], parts: Mapping[str, Part], wholes: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Part]]:
    """The names of inputs' gradients, and the parts of inputs and of these that steps have to do with."""
    made = {name: x for s in steps for name, x in s.results.items() if x}
    named = {n for s in steps for n in s.reads} | {n for x in indices.values() for n in (x.of, x.along[0])}
    views = {n: part for n, part in parts.items() if n in named | set(made.values())}
    views |= {name: replace(parts[x], of=wholes[parts[x].of]) for name, x in made.items() if x in parts}
    return {parts[x].of if x in parts else x: views[n].of if n in views else n for n, x in made.items()}, views


def _wholes(options: Options, parts: Mapping[str, Part], names: dict[str, str]) -> dict[str, str]:
    """The names of gradients that are made part by part, by input."""
    made = {}
    for n in (part.of for name, part in parts.items() if name in options.wrt):
        name = f"d{n}"
        while n not in made and name in names:
            name += "_"
        made.setdefault(n, name)
        names[made[n]] = "whole"
    return made


def _of_parts(options: Options, parts: Mapping[str, Part]) -> Options:
    """What was said of tensors that are read in parts, said of each part."""

    def each(names: Iterable[str]) -> frozenset[str]:
        return frozenset(x for n in names for x in [p for p, part in parts.items() if part.of == n] or [n])

    types = {f"d{p}": options.types[f"d{part.of}"] for p, part in parts.items() if f"d{part.of}" in options.types}
    return replace(options, wrt=each(options.wrt), turned=each(options.turned), types={**types, **options.types})


def inputs(source: str, name: str = NAME) -> dict[str, bool]:
    """The arguments of a program in their order, scales among them, and whether torch has gradients of their type."""
    program = _resolved(Source(source, name))
    plain = {a.name for a in program.arguments if isinstance(a, Tensor) and a.element in FLOATS and not a.levels}
    plain -= {s.tensor.name for s in program.statements}  # what += adds to
    return {n: n in plain for n in _names_of(program)}


def elements(source: str, name: str = NAME) -> dict[str, str]:
    """By argument of a program that is a tensor, its element type."""
    return {a.name: a.element for a in _resolved(Source(source, name)).arguments if isinstance(a, Tensor)}


def check_most(source: str, most: Mapping[str, int], name: str = NAME) -> None:
    """Refuses what is no number of times for each index tensor of a program.

    Raises:
        ArgumentError: it is none.
    """
    _named("most", tuple(most), _indices(_resolved(Source(source, name))), "index tensor")
    for n, times in most.items():
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise ArgumentError(f"most gives {n}: {shown(times)}", got=shown(times), expected="a number, 1 or more")


def _indices(program: Program) -> list[str]:
    return [a.name for a in program.arguments if isinstance(a, Tensor) and a.index]


def _resolved(source: Source) -> Program:
    return Resolver(source, {}).program(parse(source))


def _names_of(program: Program) -> list[str]:
    """The names of the arguments, in their order."""
    found = []
    for a in program.arguments:
        if isinstance(a, Scales):
            found += [scale_name(a.tensor.name, i) for i in range(a.first, len(a.tensor.levels or ()))]
        else:
            found.append(a.name)
    return found


def _names(program: Program) -> dict[str, str]:
    """What names of gradients may not be."""
    taken = {*KEYWORDS, *FUNCTIONS, *REDUCTIONS, *program.dims}
    for a in program.arguments:
        if not isinstance(a, Scales):
            taken.add(a.name)
            taken |= {scale_name(a.name, i) for i in range(2)}
    for s in program.statements:
        taken |= {s.tensor.name, *s.dims}
    return dict.fromkeys(sorted(taken), "taken")


def _wanted(program: Program, wrt: Sequence[str] | str | None) -> frozenset[str]:
    inputs = {a.name: a for a in program.arguments if not isinstance(a, Scales)}
    has = {n for n, a in inputs.items() if not isinstance(a, Tensor) or _differentiable(a)}
    results = {s.tensor.name for s in program.statements}
    has -= results  # what += adds to: its gradient is the result's
    if wrt is None:
        if not has:
            raise ArgumentError(
                "no input of this program has a gradient",
                got=", ".join(inputs),
                expected="one of floating-point numbers",
            )
        return frozenset(has)
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
    if not names:
        raise ArgumentError("no gradient is asked for", got="no name in wrt", expected=one_of(sorted(has)))
    for n in names:
        if n in has:
            continue
        a = inputs.get(n)
        why = f"{n} is of {a.element}, which has no gradient" if isinstance(a, Tensor) else f"{n} is no input"
        added = n in inputs and n in results
        fix = "the gradient of what += adds to is that of the result" if added else ""
        raise ArgumentError(f"{n} is added to" if added else why, got=n, expected=one_of(sorted(has)), fix=fix)
    return frozenset(names)


def _narrow(program: Program) -> list[str]:
    return [a.name for a in program.arguments if isinstance(a, Tensor) and ELEMENT_TYPES[a.element].bits <= 8]


def _differentiable(a: Tensor) -> bool:
    return not a.index and (a.element in FLOATS or a.element.startswith("e"))


def _named(argument: str, given: Sequence[str] | str, known: Sequence[str], kind: str) -> frozenset[str]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for n in names:
        if n not in known:
            expected = one_of(known) if known else f"none, as there is no {kind}"
            raise ArgumentError(f"{argument} names {n}, which is no {kind}", got=n, expected=expected)
    return frozenset(names)


def _recipe(quantize: str | Recipe | None) -> Recipe | None:
    if quantize is None or isinstance(quantize, Recipe):
        return quantize
    if quantize not in RECIPES:
        raise ArgumentError(
            f"quantize is {quantize!r}, which is no recipe",
            got=repr(quantize),
            expected=one_of(RECIPES),
            fix=did_you_mean(quantize, RECIPES) if isinstance(quantize, str) else "",
        )
    return RECIPES[quantize]


def _check_types(types: Mapping[str, str], made: set[str]) -> None:
    for name, element in types.items():
        if name not in made or element not in ("bf16", "f16", "f32"):
            raise ArgumentError(
                f"types gives {name}: {element}",
                got=f"{name}: {element}",
                expected=f"bf16, f16 or f32 for one of {', '.join(sorted(made))}",
            )
