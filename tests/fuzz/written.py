"""A case whose program is a text: what `Case` is to one contraction, to programs of any statements."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scalec.formats import ELEMENT_TYPES, WHOLE, Granularity
from tests.fuzz.case import Case, Operand
from tests.fuzz.groups import apart, block_amax, block_shape, spread_out, worst
from tests.fuzz.language import Program, Statement, read

if TYPE_CHECKING:
    from scalec.abi import TensorSpec
    from tests.fuzz.bounds import Bounded

Array = Any


@dataclass(frozen=True)
class Alone:
    """One result."""

    result: Operand
    gaps: tuple[int, ...] = ()
    apart: tuple[int, str] | None = None  # the index along which groups are apart, and their offsets

    def seen(self, x: Array, values: dict[str, Any]) -> Array:
        """An array of the result's elements as its scales see it."""
        if self.apart is None:
            return x
        axis, offsets = self.apart
        return spread_out(x, axis, *apart(self.result.granularities("result")[0], x.shape, axis, values[offsets]))

    def columns(self, sizes: dict[str, int]) -> list[int]:
        """None are apart."""
        raise NotImplementedError


@dataclass(frozen=True)
class Written:
    """One draw.

    Attributes:
        target: a row of scalec.targets.
        program: the text.
        routing: of each index tensor how it is filled, see `routing.ROUTINGS`.
        form: what it was drawn from.

    The others are those of Case.
    """

    target: str
    program: str
    routing: dict[str, str] = field(default_factory=dict)
    form: str = ""
    schedule: dict[str, str] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    launches: tuple[dict[str, int], ...] = ()
    exact: bool = True
    twists: tuple[tuple[str, int], ...] = ()
    pads: tuple[int, ...] = ()
    views: tuple[int, ...] = ()
    sms: int = 4
    seed: int = 0

    def text(self) -> str:
        return self.program

    @property
    def read(self) -> Program:
        return read(self.program)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What contractions multiply."""
        return tuple(self.read.tensors[n] for n in self.read.sides)

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(self.read.sides.values())

    def used(self) -> dict[str, Operand]:
        """What no contraction multiplies, of floating-point numbers."""
        found = self.read.tensors.items()
        return {n: x for n, x in found if n not in self.read.sides and x.element in ("f32", "bf16", "f16")}

    @property
    def result(self) -> Operand:
        return self.read.results[0].result

    def each(self) -> list[Alone]:
        return [Alone(s.result, (), apart_along(s)) for s in self.read.results]

    def but(self, **changes: Any) -> Written:
        return replace(self, **changes)

    dims = Case.dims

    def bounded(self, sizes: dict[str, int], values: dict[str, Any], functions: bool = False) -> list[Bounded]:
        """What each result may be; `functions`: if sums of products were exact."""
        from tests.fuzz.meaning import Meaning

        meaning = Meaning(self.read, sizes, values, functions)
        return [meaning.result(s, self.shape(s, sizes)) for s in self.read.results]

    def shape(self, s: Statement, sizes: dict[str, int]) -> tuple[int, ...]:
        """Its extents; of an index that leaves gaps, n + n/32*16, up to where the last n goes."""

        def extent(at: int, index: str) -> int:
            name, _, gaps = index.partition(" + ")
            n = sizes.get(name, sizes.get(f"{s.result.name}_{at}", 0))
            return eval(index.replace("/", "//"), {name: n - 1}) + 1 if gaps and n else n

        return tuple(extent(at, index) for at, index in enumerate(s.result.index))

    def points(self, r: TensorSpec, sizes: dict[str, int], values: dict[str, Any]) -> Array | None:
        """Which elements of a result, or of its scales, are written."""
        bounded = dict(zip((s.result.name for s in self.read.results), self.bounded(sizes, values), strict=True))
        name = r.name if r.name in bounded else r.name.removesuffix("_scale")
        asked = bounded[name].asked
        if r.name == name:
            return asked
        one = next(x for x in self.each() if x.result.name == name)
        g = one.result.granularities("result")[0]
        if not asked.size:  # a row without elements has a scale
            return self.rows(name, g, sizes, values)
        asked = one.seen(asked, values)
        return block_amax(asked.astype(np.float64), block_shape(g, asked.shape)) > 0

    def rows(self, name: str, g: Granularity, sizes: dict[str, int], values: dict[str, Any]) -> Array:
        """Which scales of a result without elements are written: those that are if what blocks span has a point."""
        from tests.fuzz.meaning import Meaning

        s = next(s for s in self.read.results if s.result.name == name)
        block = block_shape(g, self.shape(s, sizes))
        spanned = {d for d, b in zip(s.result.index, block, strict=True) if b == WHOLE}
        sizes = {d: n or int(d in spanned) for d, n in sizes.items()}
        asked = Meaning(self.read, sizes, values).result(s, self.shape(s, sizes)).asked
        asked = next(x for x in self.each() if x.result.name == name).seen(asked, values)
        return block_amax(asked.astype(np.float64), block_shape(g, asked.shape)) > 0

    def route(self, sizes: dict[str, int], values: dict[str, Any], rng: np.random.Generator) -> None:
        """Fills index tensors; and elements that nothing reads, with the worst that there is."""
        from tests.fuzz.meaning import Meaning, stored
        from tests.fuzz.routing import route

        for name in self.read.lookups:
            values[name] = route(self, name, sizes, values, rng)
        meaning = Meaning(self.read, sizes, values)
        for s in self.read.results:
            meaning.result(s, self.shape(s, sizes))
        for name, x in self.read.tensors.items():
            kept = meaning.reads.get(name)
            if kept is not None and not kept.all() and x.element in ELEMENT_TYPES:
                kept = stored(self.read, name, kept, values[name].shape) if name in self.read.eights else kept
                values[name] = worst(values[name], kept, x.element)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def apart_along(s: Statement) -> tuple[int, str] | None:
    """The index of a result along which groups are apart, and their offsets."""
    if s.range is None or not s.range.apart or s.range.dim not in s.result.index:
        return None
    return s.result.index.index(s.range.dim), s.range.high.partition("[")[0]


def from_json(text: str) -> Case | Written:
    """A case of either kind."""
    data = json.loads(text)
    if "program" not in data:
        return Case.from_json(text)
    for name in ("known", "launches", "pads", "views"):
        data[name] = tuple(data[name])
    data["ranges"] = {k: tuple(v) for k, v in data["ranges"].items()}
    data["twists"] = tuple((str(name), int(n)) for name, n in data["twists"])
    return Written(**data)
