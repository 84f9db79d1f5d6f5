"""Zero points: what integers may be less, and as which element types the difference is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalec.formats import CONVERTED, FOLDED

RANGES = {"u4": (0, 15), "i4": (-8, 7), "i8": (-128, 127)}
"""The least and the largest value of the types that zero points may have."""

MOST = 127
"""The largest number that zero points may be, or that may be added to them or taken away."""

SHIFTED = ("u4", "i4")
"""Element types of operands that may have zero points."""

EVERY = {"e4m3": 16, "bf16": 256, "f16": 2048, "tf32": 2048}
"""Up to which magnitude a type has every integer: two to the number of its significant bits."""

NUMBERS = {("u4", "bf16"): 128, ("i4", "bf16"): 136, ("u4", "f16"): 1024, ("i4", "f16"): 1032}
"""By the types before and behind a number whose last bits, of those that type has, an integer of 4 bits goes into: an
i4 with its sign turned. What that makes is the number plus the integer."""

STEP = 16
"""Elements along K of which blocks that share a zero point are multiples: those that a thread converts with one."""


MOST_TAKEN = 56
"""The largest zero point that is taken away with the number that an integer is in the last bits of, whatever is made:
of bf16 that number is 192, half way between two powers of two, within which an integer less it remains."""


@dataclass(frozen=True)
class Order:
    """Where blocks of zero points lie, or elements, if not one behind the other: block x at `constant` + the sum of
    c * (x / d % m) for the `terms` (c, d, m), without % m where that is 0. AWQ's eight columns of a word, 0 2 4 6 1 3 5
    7, are n/8*8 + n%2*4 + n/2%4."""

    terms: tuple[tuple[int, int, int], ...]
    constant: int = 0

    @property
    def flat(self) -> tuple[int, ...]:
        """As ops have it: the constant and the terms."""
        return (self.constant, *(x for term in self.terms for x in term))

    @staticmethod
    def of(flat: Sequence[int]) -> Order:
        """Of what ops have."""
        constant, *rest = flat
        return Order(tuple(zip(rest[::3], rest[1::3], rest[2::3], strict=True)), constant)

    @staticmethod
    def of_places(places: Sequence[int]) -> Order | None:
        """That of elements whose place among so many, a power of two, `places` says; None where a bit of a place is not
        one of the index."""
        terms, bit, count = [(len(places), len(places), 0)], 1, len(places)
        while bit < count:
            several = 2
            while bit * several < count and places[bit * several] == places[bit] * several:
                several *= 2
            terms.append((places[bit], bit, several))
            bit *= several
        made = Order(tuple(terms))
        return made if [made.place(x) for x in range(count)] == [*places] else None

    def place(self, block: int) -> int:
        """Where a block lies."""
        return self.constant + sum(c * (block // d % m if m else block // d) for c, d, m in self.terms)

    def within(self, several: int) -> tuple[int, ...]:
        """Where each of so many lies among these, of each so many in a row; () where they do not lie together."""
        found = tuple(self.place(x) for x in range(several))
        return found if self.step(several) == several and sorted(found) == [*range(several)] else ()

    def step(self, blocks: int) -> int | None:
        """By how much further each block lies than the one that is so many before it; None where that differs."""
        if any(blocks % (d * (m or 1)) for _, d, m in self.terms):
            return None
        return sum(c * (blocks // d) for c, d, m in self.terms if not m)


def largest_difference(stored: str, low: int, high: int) -> int:
    """The largest magnitude of an element of type `stored` less a zero point between `low` and `high`."""
    least, most = RANGES[stored]
    return max(most - low, high - least)


LOOKED_UP = "e4m3"
"""Of what is made that type registers look differences up: a zero point comes with all that there are less it."""


def words(made: str) -> int:
    """Words of a zero point in shared memory, where consumers convert: a pair of 16 bits, or a table of 16 bytes."""
    return 4 if made == LOOKED_UP else 1


def added(stored: str, made: str, low: int, high: int) -> int:
    """What zero points between `low` and `high` are stored with for `made`, of 16 bits: the number that is taken away
    with them (NUMBERS), where the type has their sums; else 0, and it is taken away before."""
    number = NUMBERS.get((stored, made), 0)
    return number if max(abs(number + low), abs(number + high)) <= EVERY[made] else 0


def converts(stored: str, low: int, high: int) -> tuple[str, ...]:
    """Element types to which such differences convert without rounding, narrowest first."""
    largest = largest_difference(stored, low, high)
    return tuple(x for x in CONVERTED[stored] if largest <= EVERY[x])


def subtracts(stored: str, made: str, number: int) -> bool:
    """Whether registers make differences from a number, without rounding."""
    return takes_zeros(stored, made) and made in converts(stored, number, number)


def takes_zeros(stored: str, made: str) -> bool:
    """Whether registers make differences from zero points of such types."""
    return (stored, made) in NUMBERS or (stored in SHIFTED and made == LOOKED_UP)


def folds(stored: str, scale: str, made: str, low: int, high: int) -> bool:
    """Whether such a difference times a scale converts to a type without rounding: where it has 4 bits at most."""
    return made in FOLDED.get((stored, scale), ()) and largest_difference(stored, low, high) <= EVERY["e4m3"]
