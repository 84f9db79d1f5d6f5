"""Draws texts: a form is a row of FORMS (texts.py), its holes are filled from rows of other tables (holes.py)."""

from __future__ import annotations

import re
from math import prod
from random import Random

from scalec import grad
from scalec.errors import ScalecError
from scalec.formats import FRAGMENTS_TEXT
from tests.fuzz import draw as structured
from tests.fuzz.case import Case
from tests.fuzz.holes import ALWAYS_KNOWN, EXTENTS, PAIRS, TABLES, Pair
from tests.fuzz.language import every, read, split
from tests.fuzz.routing import ROUTINGS
from tests.fuzz.schedules import converted, schedule, told
from tests.fuzz.texts import FORMS, Form
from tests.fuzz.weights import TARGET, TEXTS, TWIST_OF, pick
from tests.fuzz.written import Written

MOST = 2_000_000
"""Products of the sizes of all dimensions."""

HOLE = re.compile(r"\{(\w+)( ((?:[^{}]|\{[^{}]*\})*))?\}")


def of_seed(seed: int) -> Case | Written:
    """The case of a seed, always the same one: a contraction that draw.py draws piece by piece, or a text."""
    return draw(seed) if Random(f"text {seed}").random() < TEXTS else structured.draw(seed)


def draw(seed: int) -> Written:
    """The text of a seed, and how it runs."""
    random = Random(f"form {seed}")
    target = pick(random, TARGET)
    name = pick(random, {n: f.weight for n, f in FORMS.items() if not f.targets or target in f.targets})
    form = FORMS[name]
    text, step = filled(random, form)
    text = step_of(random, text) if form.straight_through else text
    program = read(text)
    exact = random.random() < 0.5
    known = {d for d, kind in form.sizes.items() if kind in ALWAYS_KNOWN}
    names = [*program.dims]
    known |= {d for d in names if random.random() < 0.4}

    def size(dim: str) -> int:
        if dim in form.sizes:
            return pick(random, EXTENTS[form.sizes[dim]])
        made = random.randint(129, 400) if dim == form.k and random.random() < 0.3 else structured.size(random)
        return max(step, made // step * step) if dim == form.k else made

    def smaller(sizes: dict[str, int], fixed: set[str]) -> dict[str, int]:
        """Sizes that the emulator takes a second for: the largest are halved until they are."""
        least = {d: step if d == form.k else 1 for d in sizes if d not in form.sizes and d not in fixed}
        while prod(max(n, 1) for n in sizes.values()) > MOST and (
            able := [d for d in least if sizes[d] >= 2 * least[d]]
        ):
            d = max(able, key=sizes.__getitem__)
            sizes = {**sizes, d: sizes[d] // 2 // least[d] * least[d]}
        return sizes

    first = smaller({d: size(d) for d in names}, set())
    reached = {at: structured.size(random) for at in program.reached}
    for at, of in program.reached.items():  # a scatter has room for all rows, mostly
        if program.lookups[of] == "scatter" and random.random() < 0.7:
            reached[at] = max(first.values())
    known |= {d for d in reached if random.random() < 0.4}
    if random.random() < 0.05:
        first[random.choice([d for d in names if d not in form.sizes] or names)] = 0
    launches = [first]
    free = [d for d in names if d not in known]
    for _ in range(random.choice((0, 1, 2)) if free else 0):
        launches.append(smaller({**first, **{d: size(d) for d in free if random.random() < 0.7}}, known))
    wanted = [t for t in TWIST_OF["exact" if exact else "rounded"] if t != "outer"]
    twists = [(random.choice(wanted), random.randrange(1, 1000)) for _ in range(random.choice((0, 1, 1, 2)))]
    if exact and random.random() < 0.5:
        twists.insert(0, ("integers", random.randrange(1, 7)))
    launches = [sizes | {d: reached[d] if d in known or not i else structured.size(random) for d in reached}
                for i, sizes in enumerate(launches)]  # fmt: skip
    case = Written(
        target, text, {x: pick(random, ROUTINGS) for x in program.lookups}, name,
        known=tuple(d for d in (*names, *reached) if d in known), launches=tuple(launches), exact=exact,
        twists=tuple(twists),
        pads=tuple(random.choice((0, 0, 1, 2)) for _ in range(12)),
        views=tuple(random.choice((0, 0, random.randrange(1, 100))) for _ in range(12))
        if random.random() < 0.3 else (),
        sms=random.choice((1, 2, 4, 4, 8)), seed=seed,
    )  # fmt: skip
    if not any(t[0] == "@" for s in program.statements for t in every(s.tree)):
        return case
    if random.random() < 0.5:
        case = case.but(schedule=schedule(random, case))
    if random.random() < 0.1:
        dim = random.choice(names)
        own = [sizes[dim] for sizes in launches if sizes[dim]]
        if dim not in known and own:
            case = case.but(
                ranges={dim: (max(1, min(own) - random.choice((0, 5))), max(own) + random.choice((0, 100)))}
            )
    return told(random, case.but(schedule=converted(random, case, case.schedule)))


def step_of(random: Random, text: str) -> str:
    """A step of the gradients of a text, straight through what it rounds; the text itself where it has none."""
    try:
        g = grad(text, straight_through=True, quantize=random.choice((None, "deepseek_v3", "mxfp8")))
    except ScalecError:
        return text
    return random.choice(g.steps).text.replace("\n", "; ")


def written(operand: str, tensor: str, k: str) -> str:
    """An operand of PAIRS, of a tensor `B[n,k]`."""
    name, _, inside = tensor[:-1].partition("[")
    *others, row, last = split(inside) if "," in inside else ("", inside)
    at = ",".join([*filter(None, others), ""])
    order = f"{row}/8*8 + {row}%2*4 + {row}%8/2"
    return operand.format(
        tensor, f"{name}Z[{','.join(split(inside))}", k=k,
        words=f"{name}[{at}{last}/8,{row},{last}%8]", turned=f"{name}[{at}{last},{row}]",
        awq=f"{name}[{at}{last}, {order}]", reverse=f"{name}[{at}{last}, {row}/8*8 + 7 - {row}%8]",
        zeros=f"{name}Z[{at}{last}", order=order, row=row,
        **{x: f"{name}[{at}{row}, {text.format(last)}]" for x, text in FRAGMENTS_TEXT.items()},
    )  # fmt: skip


def filled(random: Random, form: Form) -> tuple[str, int]:
    """The text of a form, and a step of K."""
    able = {
        p: p.weight
        for p in PAIRS
        if form.pairs in ("any", *p.kinds.split()) and (form.pairs, p.kinds) != ("any", "computed")
    }
    pair: Pair = pick(random, able) if able else PAIRS[0]
    drawn: dict[str, str] = {"s": pair.scales, "k": form.k}
    index = re.search(r"\b[A-Z]\[((?:[^][]|\[[^][]*\])*)\](?:\{\w+\}|:\w+ scale)", form.text)  # of a result
    found = re.findall(r"(?:^|[,[] ?)([a-z]+)\b(?!\[)", index[1] if index else "m,n")
    drawn |= {"m": found[0], "n": found[-1]}

    def fill(match: re.Match[str]) -> str:
        name, _, inner = match.groups()
        if name in ("l", "r"):
            return written(pair.left if name == "l" else pair.right, inner or "", form.k)
        if name not in drawn:
            drawn[name] = str(pick(random, TABLES[name.rstrip("123456789")]))
        return drawn[name].replace("{0}", inner) if inner is not None else drawn[name]

    text = form.text
    while HOLE.search(text):  # what holes are filled with may have some
        text = HOLE.sub(fill, text)
    return text, max(form.step, pair.step)
