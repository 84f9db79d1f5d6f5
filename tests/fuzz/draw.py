"""Draws a case from a seed, out of the rows of weights.py: what docs/language.md has. What a target refuses counts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE
from scalec.zero_points import SHIFTED
from tests.fuzz.case import SUMS, Case, Level, Operand, Tree
from tests.fuzz.groups import grouped
from tests.fuzz.schedules import converted, schedule, told
from tests.fuzz.weights import (
    BLOCK_K,
    COMPUTED,
    CONVERTED,
    F32_K,
    FINE_K,
    FUNCTIONS,
    GROUP_BLOCK,
    GROUP_COUNT,
    GROUP_KIND,
    GROUP_ROUTING,
    GROUPS,
    KINDS,
    LAYOUT,
    MIXED,
    NUMBERS,
    PAIRS,
    PLAIN,
    RESULT_BLOCK,
    RESULT_FORMAT,
    RESULT_TYPE,
    ROW_STEPS,
    ROWS,
    SIZE,
    TARGET,
    TWIST_OF,
    ZEROS,
    Weighted,
    pick,
)


def draw(seed: int) -> Case:
    """The case of a seed: always the same one."""
    random = Random(f"scalec {seed}")
    target = pick(random, TARGET)
    exact = random.random() < 0.5
    operands = _operands(random, target)
    own = Random(f"converted {seed}")  # draws of its own: cases without are those of before there were any
    if own.random() < CONVERTED:
        operands = _converted(own, target)
    result, adds = _result(random)
    scaled = any(o.levels or o.type in FORMATS for o in operands)
    inputs: dict[str, Operand] = {}
    value = _value(random, inputs, exact)
    case = Case(
        target,
        operands,
        result,
        value,
        inputs,
        adds=adds,
        temporary=_uses(value) > 1 or random.random() < 0.1,
        exact=exact,
        sms=random.choice((1, 2, 4, 4, 8)),
        seed=seed,
    )
    case = case.but(inputs=case.used(), pads=tuple(random.choice((0, 0, 1, 2)) for _ in range(12)))
    case = _sizes(random, case, scaled)
    own = Random(f"outer {seed}")  # draws of its own: a case without further indices is that of before there were any
    if own.random() < OUTER:
        case = _outer(own, case)
    own = Random(f"gaps {seed}")
    if own.random() < GAPS and not adds and (unit := _whole(result)):
        every = pick(own, EVERY)
        gaps = pick(own, GAP), every, own.choice((0, every // 2, own.randrange(2 * every)))
        case = case.but(gaps=tuple(unit * x for x in gaps))
    own = Random(f"several {seed}")  # likewise
    if own.random() < SEVERAL:
        case = _several(own, case)
    own = Random(f"groups {seed}")
    if own.random() < GROUPS:
        case = _grouped(own, case)
    own = Random(f"computed {seed}")
    if own.random() < COMPUTED and case.groups is None:
        case = case.but(operands=tuple(_computed(own, x) for x in case.operands))
    wanted = TWIST_OF["exact" if exact else "rounded"]
    count = random.choice((0, 1, 1, 2))
    case = case.but(twists=tuple((random.choice(wanted), random.randrange(1, 1000)) for _ in range(count)))
    if exact and random.random() < 0.5:
        case = case.but(twists=(("integers", random.randrange(1, 7)), *case.twists))
    fields = schedule(random, case) if random.random() < 0.5 else {}
    return told(random, case.but(schedule=converted(Random(f"converts {seed}"), case, fields)))


# ------------------------------------------------------------------------------------------------------------ operands


def _operands(random: Random, target: str) -> tuple[Operand, Operand]:
    """Both operands: their elements, orders of indices, formats and scales."""
    pairs = PAIRS.get(target, PAIRS["blackwell"])
    elements = [pick(random, KINDS[kind]) for kind in pick(random, pairs)]
    style = pick(random, SCALES[_width(elements)] if target != "sm_90a" else SCALES_90[_width(elements)])
    core = "ue4m3" if elements == ["e2m1", "e2m1"] and random.random() < 0.5 else "ue8m0"
    made = []
    for side, (name, rows, element) in enumerate(zip("AB", "mn", elements, strict=True)):
        able = target != "sm_90a" and style != "format" and (ELEMENT_TYPES[element].bits >= 8 or target == "sm_120a")
        turned = able and random.random() < 0.2
        index = ("k", rows) if turned else (rows, "k")
        levels = _levels(random, target, style, side, rows, core)
        ordered = tuple(_ordered(level, turned) for level in levels)
        format_ = _format_of(random, element, core) if style == "format" else None
        if format_:
            made.append(Operand(name, index, format_))
            continue
        unsaid = element == ("e4m3" if levels else "bf16") and random.random() < 0.7
        made.append(Operand(name, index, "" if unsaid else element, ordered))
    return made[0], made[1]


def _computed(random: Random, x: Operand) -> Operand:
    """An operand, computed if it can be."""
    plain = x.index[-1] == "k" and x.type not in FORMATS and not (x.levels or x.zeros)
    able = plain and ELEMENT_TYPES[x.element].bits >= 8
    return replace(x, body=random.choice(("", *PLAIN))) if able else x


def _converted(random: Random, target: str) -> tuple[Operand, Operand]:
    """Of a row of MIXED: 4 and 8 bits with promoted scales along K or none, 8 and 32 bits also with M or N last."""
    types = list(pick(random, MIXED))
    random.shuffle(types)
    made = []
    for side, (name, rows, type) in enumerate(zip("AB", "mn", types, strict=True)):
        bits = ELEMENT_TYPES[type].bits if type in ELEMENT_TYPES else 0
        turned = bits in (8, 32) and random.random() < 0.4
        levels = _levels(random, target, "f32", side, rows, "ue8m0") if bits in (4, 8) and random.random() < 0.5 else ()
        levels = tuple(_finer(random, level) for level in levels)
        index = ("k", rows) if turned else (rows, "k")
        alone = type in SHIFTED and not any(x.zeros for x in made)
        zeros = pick(random, ZEROS) if alone else ""
        made.append(Operand(name, index, type, tuple(_ordered(level, turned) for level in levels), zeros))
    return made[0], made[1]


SCALES: dict[str, Weighted] = {
    "8": {"none": 3, "f32": 3, "constant": 2, "core": 4, "mixed": 2, "format": 4, "two": 2},
    "4": {"none": 2, "constant": 1, "core": 3, "format": 5},
    "16": {"none": 3, "constant": 1},
}
SCALES_90: dict[str, Weighted] = {
    "8": {"none": 2, "f32": 5, "constant": 2, "two": 2, "one": 1},
    "16": {"none": 3, "constant": 1},
}
"""Kinds of scales, by the narrower operand's bits: none; in f32 along K; in f32, constant along K; applied by the
tensor core; one side by it, and the other in f32; a named format; two levels; one side alone."""


def _width(elements: list[str]) -> str:
    bits = min(ELEMENT_TYPES[e].bits for e in elements)
    return "16" if bits >= 16 else "8" if bits == 8 else "4"


def _format_of(random: Random, element: str, core: str) -> str | None:
    """A format of an element, with scales in f32 or of the one type that the tensor core is to apply."""
    names = [n for n, f in FORMATS.items() if f.element == element and f.lhs[0].type in ("f32", core)]
    return random.choice(names) if names else None


def _levels(random: Random, target: str, style: str, side: int, rows: str, core: str) -> tuple[Level, ...]:
    """The levels of one operand, blocks as (rows, K)."""
    if style in ("none", "format") or (style == "one" and random.random() < 0.5):
        return ()
    if style == "constant":
        return (_constant(random, rows),)
    if style in ("f32", "one"):
        return (_promoted(random, target, side, rows),) if random.random() < 0.85 else (_constant(random, rows),)
    if style == "two":
        return (
            (_promoted(random, target, side, rows), _constant(random, rows))
            if random.random() < 0.5
            else (_promoted(random, target, side, rows),)
        )
    if style == "mixed" and (random.random() < 0.4 or side):
        return (_promoted(random, target, side, rows),) if random.random() < 0.7 else ()
    return (_core(random, rows, core),)


def _promoted(random: Random, target: str, side: int, rows: str) -> Level:
    step = ROW_STEPS.get(target, ROW_STEPS["blackwell"])[side]
    able = {b: w for b, w in ROWS.items() if b in ("1", "all") or int(b) % step == 0}
    block = (_all(pick(random, able), rows), pick(random, F32_K))
    return Level(block, "f32", pick(random, LAYOUT["f32"]))


def _finer(random: Random, level: Level) -> Level:
    """A level in f32 with scales of another type, and blocks of another length along K."""
    block = level.block if level.block[-1] not in F32_K else (*level.block[:-1], pick(random, FINE_K))
    return replace(level, block=block, type=pick(random, NUMBERS))


def _constant(random: Random, rows: str) -> Level:
    if random.random() < 0.3:
        return Level(("tensor",))
    return Level((_all(pick(random, ROWS), rows), "k"), "f32", pick(random, {"row": 3, "col": 1}))


def _core(random: Random, rows: str, kind: str) -> Level:
    k = pick(random, {"16": 4, "32": 1, "64": 1}) if kind == "ue4m3" else pick(random, BLOCK_K)
    return Level((_all(pick(random, {"1": 6, **ROWS}), rows), k), kind, pick(random, LAYOUT[kind]))


def _all(block: str, name: str) -> str:
    return name if block == "all" else block


def _ordered(level: Level, turned: bool) -> Level:
    return Level(level.block[::-1], level.type, level.layout) if turned else level


# -------------------------------------------------------------------------------------------------------------- results


def _result(random: Random) -> tuple[Operand, bool]:
    """The result, and whether it is added to."""
    style = pick(random, {"plain": 6, "adds": 2, "format": 2, "blocks": 2})
    if style == "format":
        return Operand("C", ("m", "n"), pick(random, RESULT_FORMAT)), False
    if style == "blocks":
        element = pick(random, {"e4m3": 3, "e5m2": 1, "e2m1": 2})
        kind = pick(random, {"f32": 3, "ue8m0": 3, "ue4m3": 2})
        level = Level(("1", pick(random, RESULT_BLOCK)), kind, pick(random, LAYOUT[kind]))
        return Operand("C", ("m", "n"), element, (level,)), False
    if style == "adds":
        return Operand("C", ("m", "n"), pick(random, {"f32": 6, "": 1, "f16": 1})), True
    return Operand("C", ("m", "n"), pick(random, RESULT_TYPE)), False


# ------------------------------------------------------------------------------------------------------------ epilogues


def _value(random: Random, inputs: dict[str, Operand], exact: bool) -> Tree:
    """What is written: the sums alone, or a tree of up to a few steps."""
    tree: Tree = SUMS
    for _ in range(pick(random, {0: 5, 1: 3, 2: 2, 3: 1})):
        tree = _step(random, tree, inputs, exact)
    return tree


def _step(random: Random, tree: Tree, inputs: dict[str, Operand], exact: bool) -> Tree:
    kind = pick(
        random, {"infix": 5, "function": 2 if exact else 4, "power": 1, "largest": 1, "negative": 1, "twice": 1}
    )
    if kind == "infix":
        op = pick(random, {"+": 3, "*": 3, "-": 1, "/": 0 if exact else 1})
        other = _leaf(random, inputs)
        return (op, tree, other) if random.random() < 0.6 else (op, other, tree)
    if kind == "function":
        return (random.choice(PLAIN if exact and random.random() < 0.8 else FUNCTIONS), tree)
    if kind == "power":
        return ("^", tree, random.choice((1, 2, 2, 3, 5, 7)))
    if kind == "largest":
        return (random.choice(("max", "min")), tree, *(_leaf(random, inputs) for _ in range(random.choice((1, 1, 2)))))
    if kind == "twice":
        return ("*", tree, (random.choice(PLAIN if exact else FUNCTIONS), tree))
    return ("negative", tree)


INDEX: Weighted = {
    ("n",): 4,
    ("m",): 3,
    ("m", "n"): 4,
    ("m/128", "n"): 1,
    ("m", "n/128"): 1,
    ("m/3", "n"): 1,
    ("m", "0"): 1,
    ("0", "n"): 1,
    ("n/16",): 1,
    ("m/32",): 1,
    ("0",): 1,
}
"""Of an elementwise input."""


def _leaf(random: Random, inputs: dict[str, Operand]) -> Tree:
    kind = pick(random, {"in": 5, "number": 2, "scalar": 1})
    if kind == "number":
        return ("number", random.choice(("0", "1", "2", "0.5", "0.1", "3", "448", "inf")))
    if kind == "scalar":
        return ("scalar", random.choice(("alpha", "beta")))
    name = f"x{len(inputs)}"
    inputs[name] = Operand(name, pick(random, INDEX), pick(random, {"": 3, "f32": 3, "f16": 1}))
    return ("in", name)


def _uses(tree: Tree) -> int:
    below = [_uses(t) for t in tree[1:] if isinstance(t, tuple)]
    return sum(below) if below else int(tree == SUMS)


# ---------------------------------------------------------------------------------------------------------------- sizes


def size(random: Random) -> int:
    kind = pick(random, SIZE)
    if kind == "few":
        return random.randint(1, 8)
    if kind == "odd":
        return random.randint(1, 100)
    if kind == "edge":
        step = random.choice((8, 16, 32, 64))
        return max(1, step * random.randint(1, max(1, 128 // step)) + random.choice((-1, 0, 0, 0, 1)))
    return random.randint(100, 300)


def _sizes(random: Random, case: Case, scaled: bool) -> Case:
    """Sizes of one to three launches, and which of them the compiler knows."""
    steps = steps_of(case)
    first = {d: multiple(size(random), steps[d]) for d in "mnk"}
    if scaled and random.random() < 0.5:  # several blocks along K
        first["k"] = multiple(random.randint(129, 400), steps["k"])
    known = tuple(d for d in "mnk" if random.random() < 0.4)
    if random.random() < 0.05:
        first[random.choice("mkkn")] = 0
    launches = [first]
    free = [d for d in "mnk" if d not in known]
    if free:
        for _ in range(random.choice((0, 1, 2))):
            launches.append({**first, **{d: multiple(size(random), steps[d]) for d in free if random.random() < 0.7}})
    ranges = {}
    if free and random.random() < 0.15:
        d = random.choice(free)
        sizes = [s[d] for s in launches if s[d]]
        if sizes:
            ranges[d] = (max(1, min(sizes) - random.choice((0, 5))), max(sizes) + random.choice((0, 0, 100, 5000)))
    return case.but(known=known, ranges=ranges, launches=tuple(launches))


def multiple(size: int, step: int) -> int:
    """A size as a multiple of a step, at least one; 0 stays 0."""
    return max(step, size // step * step) if size else 0


def steps_of(case: Case) -> dict[str, int]:
    """What sizes are multiples of, as the documents have it: rows that copies pad, mostly."""
    steps = dict.fromkeys("mnk", 1)
    bits = [x.bits for x in case.operands]
    turned = [x.index[-1] != "k" for x in case.operands]
    for x, other in zip(case.operands, reversed(case.operands), strict=True):
        if x.element in ("i4", "u4"):  # which no copy pads
            continue
        mixed = x.bits < 8 and (other.bits != x.bits or x.bits == 6)
        if mixed or (x.bits < 8 and x.index[-1] != "k") or (x.bits < 8 and any(turned)) or (x.bits < 8 and 6 in bits):
            steps[x.index[-1]] = 128
    return steps


# ---------------------------------------------------------------------------------------------------- further indices

OUTER = 0.3
"""How many of the cases have indices that no tile runs along, or another order of the result's."""

FURTHER: Weighted = {"ABC": 5, "AC": 3, "BC": 3, "AB": 2}
"""Tensors that have such an index."""

BLOCK_OUTER: Weighted = {"1": 8, "2": 1, "all": 1}
"""Its elements that share a scale."""

GAPS = 0.08
"""How many results that may have gaps have some, along their last index; of such a size, so far apart."""

GAP: Weighted = {1: 1, 2: 1, 8: 2, 16: 1, 64: 3}
EVERY: Weighted = {2: 1, 3: 1, 8: 2, 24: 1, 32: 2, 64: 3, 128: 2}

OUTER_SIZE: Weighted = {1: 2, 2: 5, 3: 4, 5: 1}


def _whole(result: Operand) -> int:
    """What gaps of a result are multiples of: blocks that share a scale, or bytes; 0 where it may have none."""
    levels = result.granularities("result")
    if levels:
        block = levels[0].block[-1]
        return 0 if block == WHOLE or result.bits == 6 else int(block)
    return {4: 2, 6: 0}.get(result.bits, 1)


def _outer(random: Random, case: Case) -> Case:
    """The case with up to two more indices, in any places but the contiguous ones, and another order of the result's;
    some tensors are views whose outer indices lie in another order, or apart."""
    count = random.choice((0, 1, 1, 1, 2))
    lhs, rhs = case.operands
    index, inputs = case.result.index, case.inputs
    if not count or random.random() < 0.2:
        index = index[::-1]
    names = {"b": pick(random, FURTHER), "h": pick(random, FURTHER)} if count == 2 else {"b": pick(random, FURTHER)}
    for name, sides in list(names.items())[:count]:
        lhs, rhs = (_with(random, x, name) if x.name in sides else x for x in (lhs, rhs))
        if "C" in sides:
            index = _put(random, index, name)
            inputs = {n: _read_at(random, x, name) for n, x in inputs.items()}
    result, more = case.result, ("1",) * (len(index) - 2)
    levels = tuple(Level(more + level.block, level.type, level.layout) for level in result.levels)
    case = case.but(operands=(lhs, rhs), result=Operand("C", index, result.type, levels), inputs=inputs)
    sizes = {name: pick(random, OUTER_SIZE) for name in list(names)[:count]}
    known = tuple(d for d in sizes if random.random() < 0.4)
    launches = []
    for i, launch in enumerate(case.launches):
        new = {d: n if not i or d in known else random.choice((n, 0, 1, 2, 4)) for d, n in sizes.items()}
        launches.append({**launch, **new})
    views = tuple(random.choice((0, 0, random.randrange(1, 100))) for _ in range(12))
    return case.but(known=(*case.known, *known), launches=tuple(launches), views=views)


def _put(random: Random, index: tuple[str, ...], name: str) -> tuple[str, ...]:
    """An index more, anywhere but last."""
    at = random.randrange(len(index))
    return (*index[:at], name, *index[at:])


def _with(random: Random, x: Operand, name: str) -> Operand:
    """An operand that has an index more. Named formats stay as they are: their blocks are of the last indices."""
    index = _put(random, x.index, name)
    at = index.index(name)
    block = _all(pick(random, BLOCK_OUTER), name)
    levels = tuple(
        level if level.block == ("tensor",) else
        Level((*level.block[:at], block, *level.block[at:]), level.type, level.layout)
        for level in x.levels
    )  # fmt: skip
    return Operand(x.name, index, x.type, levels)


def _read_at(random: Random, x: Operand, name: str) -> Operand:
    """An elementwise input that mostly has the index too."""
    text = pick(random, {name: 4, f"{name}/2": 1, "0": 1, "": 2})
    return Operand(x.name, _put(random, x.index, text), x.type) if text else x


SEVERAL = 0.15
"""How many of the cases have further results of the same sums."""


def _several(random: Random, case: Case) -> Case:
    """The case with a result more, or two, each made and stored in its own way."""
    index, inputs, further = case.result.index, dict(case.inputs), []
    for name in ("D", "E")[: random.choice((1, 1, 2))]:
        x, adds = _result(random)
        levels = tuple(Level((*("1",) * (len(index) - 2), *y.block), y.type, y.layout) for y in x.levels)
        tree = _value(random, inputs, case.exact)
        further.append((Operand(name, index, "" if adds else x.type, levels), tree))
    case = case.but(inputs=inputs, further=tuple(further))
    return case.but(inputs=case.used())


# --------------------------------------------------------------------------------------------------------------- groups


def _grouped(random: Random, case: Case) -> Case:
    """The case with groups of rows, seldom of columns. Their number may change from launch to launch."""
    kind = pick(random, GROUP_KIND)
    at = random.choice((0, 0, 0, 1))
    case = grouped(
        case, kind, pick(random, {"m": 4, "n": 1}), pick(random, GROUP_BLOCK) if kind == "blocks" else 0,
        pick(random, GROUP_ROUTING), at,
    )  # fmt: skip
    assert case.groups is not None
    name = case.groups.name
    if name in case.result.index:
        case = case.but(inputs={n: _read_at(random, x, name) for n, x in case.inputs.items()})
    small = all(sizes["m"] * sizes["n"] * sizes["k"] < 1 << 20 for sizes in case.launches)
    count = pick(random, GROUP_COUNT if small else {n: w for n, w in GROUP_COUNT.items() if n < 9})
    launches = tuple(
        {**sizes, name: random.choice((count, count, 0, 1, 2)) if i and kind != "blocks" else count}
        for i, sizes in enumerate(case.launches)
    )
    known = (name,) if random.random() < 0.4 and len({sizes[name] for sizes in launches}) == 1 else ()
    return case.but(launches=launches, known=(*case.known, *known))
