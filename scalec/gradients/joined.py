"""Joins steps: programs without a contraction that read the same become one, with several results of one read.

    dC_n[m,n]:e4m3 scale(1x128) = dC[m,n]
    dC_m[n,m]:e4m3 scale(1x128) = dC[m,n]

What is computed only to be quantised is a temporary of the program that does so: numbers are rounded once, from f32.

What a step without a contraction reads with another index last than the rest, as the gradients of results in two orders
are, a step before copies: dT_k[m,k] = dT[k,m].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from scalec.frontend import affine
from scalec.frontend.affine import Linear, of_dims
from scalec.frontend.program import Contract, Read, Reduce, Statement, Tensor, Value, reads_in
from scalec.gradients.expressions import NOWHERE, below, read, rewritten
from scalec.gradients.kept import below_own
from scalec.gradients.trace import FLOATS, Made


def joined(steps: list[Made]) -> list[Made]:
    """The steps, in an order in which they run."""
    steps = _in_pairs(steps, _quantises)
    for step in list(steps):
        _quantise_at_once(steps, step)
    return _in_pairs(steps, _is_plain)


def in_one_order(steps: list[Made], fresh: Callable[[str], str]) -> list[Made]:
    """The steps, and copies before them, so that each without a contraction reads all with one index last: that of its
    result, if one of what it reads has it; R[m,h] beside X[m,h,n] is not in the way. `fresh` makes names."""
    made: list[Made] = []
    copies: dict[tuple[str, ...], Tensor] = {}
    for step in steps:
        values = [v for s in step.statements for v in below(s.value)]
        lasts = Counter(at[-1] for v in values if len(at := _plain(v)) > 1)
        turned = all(any(x in at[:-1] and at[-1] != x for v in values if (at := _plain(v))) for x in lasts)
        if len(lasts) > 1 and turned and not any(isinstance(v, Contract) for v in values):
            own = [affine.plain(s.index[-1]) for s in step.results if s.index]
            last = next((x for x in own if x in lasts), None) or lasts.most_common(1)[0][0]

            def change(v: Value, last: str = last) -> Value | None:
                at = _plain(v)
                if last not in at[:-1] or at[-1] == last or not isinstance(v, Read) or not isinstance(v.source, Tensor):
                    return None
                if v.source.levels or v.source.element not in FLOATS:
                    return None
                dims = (*(d for d in at if d != last), last)
                if (key := (v.source.name, *dims)) not in copies:
                    name = fresh(f"{v.source.name}_{last}")
                    tensor = copies[key] = Tensor(name, NOWHERE, [None] * len(dims), v.source.element)
                    made.append(Made([Statement(tensor, of_dims(dims), dims, v, False)], {name: ""}, False))
                return read(copies[key], of_dims(dims))

            for s in step.statements:
                s.value = rewritten(s.value, change)
        made.append(step)
    return made


def _plain(v: Value) -> tuple[str, ...]:
    """The dimensions by which a tensor is read, where these are its indices; else none."""
    if not isinstance(v, Read) or not isinstance(v.source, Tensor):
        return ()
    at = [affine.plain(i) for i in v.index]
    return tuple(x for x in at if x) if all(at) else ()


def _in_pairs(steps: list[Made], of_kind: Callable[[Made], bool]) -> list[Made]:
    """Steps of a kind joined to the first one before them that reads the same, if what they read is known there."""
    made: list[Made] = []
    for step in steps:
        for i, one in enumerate(made):
            known = not step.reads & {name for m in made[i:] for name in m.of}
            if known and of_kind(one) and of_kind(step) and _tensors(one).items() & _tensors(step).items():
                made[i] = _both(one, step)
                break
        else:
            made.append(step)
    return made


def _both(one: Made, other: Made) -> Made:
    """Temporaries first; a name of the second step's, a letter, may stand for something else in the first."""
    names = {s.tensor.name for s in one.statements}
    for s in other.statements:
        while s.tensor.name in names:
            s.tensor.name += "_"
    every = [*one.statements, *other.statements]
    return Made(sorted(every, key=lambda s: not s.temporary), one.of | other.of, one.zeroed)


def _quantise_at_once(steps: list[Made], step: Made) -> None:
    """Makes a step's result a temporary of the step that quantises it, where nothing else reads it."""
    users = [x for x in steps if x.reads & step.of.keys()]
    if not _is_plain(step) or any(step.of.values()) or len(users) != 1 or not _quantises(users[0]):
        return
    (user,), (*before, s) = users, step.statements
    made = replace(s, temporary=True)

    def change(v: Value) -> Value | None:
        return read(made, made.index) if isinstance(v, Read) and v.source is s.tensor else None

    results = [replace(x, value=rewritten(x.value, change)) for x in user.statements]
    steps[steps.index(user)] = Made([*before, made, *results], user.of, False)
    steps.remove(step)


def _tensors(step: Made) -> dict[str, tuple[Linear, ...]]:
    """What has several indices, and where it is read."""
    return {t.name: i for s in step.statements for t, i in reads_in(s.value) if len(i) > 1}


def _elementwise(step: Made) -> bool:
    """Whether a step has a result at each point that it reads, without a range."""
    every = [*_tensors(step).values(), *(s.index for s in step.results)]
    values = [v for s in step.statements for v in below_own(s.value)]
    return (
        len({frozenset(d for i in index for d in affine.dims(i)) for index in every}) == 1
        and all(affine.plain(i) for s in step.results for i in s.index)
        and not any(isinstance(v, (Contract, Reduce)) for v in values)
        and not any(s.ranges for s in step.statements)
    )


def _quantises(step: Made) -> bool:
    """Whether a step does nothing but quantise."""
    statements = step.statements
    return _elementwise(step) and all(s.tensor.levels and (s.hadamard or isinstance(s.value, Read)) for s in statements)


def _is_plain(step: Made) -> bool:
    """Whether a step's results are as what it reads is: all of it, with the same index last, and not quantised."""
    last = {index[-1] for index in (*_tensors(step).values(), *(s.index for s in step.results)) if index}
    at_once = _elementwise(step) and not step.zeroed and len(last) == 1
    return at_once and not any(s.tensor.levels for s in step.results)
