"""Wrong programs and the full text of their refusals.

wrong_programs.txt holds blocks between lines of `====`: a program, a line of `----`, the message. A message that
changes on purpose is changed there, by hand: the file is what a user sees.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scalec.errors import SourceError
from scalec.frontend import build
from scalec.ir.context import context
from scalec.sizes import Range

BLOCKS = [b.split("\n----\n") for b in (Path(__file__).parent / "wrong_programs.txt").read_text().split("\n====\n")]


def refusal(text: str, dims: dict[str, int] | None = None) -> SourceError:
    with context(), pytest.raises(SourceError) as caught:
        build(text, dims, "program")
    return caught.value


@pytest.mark.parametrize(("program", "message"), BLOCKS, ids=[b[0] for b in BLOCKS])
def test_refused(program: str, message: str) -> None:
    assert str(refusal(program)) == message.rstrip("\n")


@pytest.mark.parametrize(("program", "message"), BLOCKS, ids=[b[0] for b in BLOCKS])
def test_says_got_expected_and_place(program: str, message: str) -> None:
    error = refusal(program)
    assert error.place is not None
    assert error.place.text == "".join(c if c.isascii() else "?" for c in program.split("\n")[error.place.line - 1])
    assert error.got
    assert error.expected


DENSE = "C[m,n] = A[m,k]@B[n,k]"
DIMS = [
    (
        {"kk": 4},
        "dims gives 'kk', which is no dimension of this program\n"
        "  got: 'kk'\n  expected: one of m, n, k\n  fix: did you mean k?",
    ),
    ({"m": -7}, "dims gives m = -7, which is no extent\n  got: m = -7\n  expected: an integer from 0 to 2147483647"),
    (
        {"m": 2**31},
        "dims gives m = 2147483648, which is no extent\n"
        "  got: m = 2147483648\n  expected: an integer from 0 to 2147483647",
    ),
    (
        {"m": True},
        "dims gives m = True, which is no extent\n  got: m = True\n  expected: an integer from 0 to 2147483647",
    ),
    (
        {"m": Range(9, 8)},
        "dims gives m = Range(low=9, high=8), which is no extent\n"
        "  got: m = Range(low=9, high=8)\n  expected: an integer from 0 to 2147483647, the smaller one first",
    ),
    (
        {"mm": Range(1, 8)},
        "dims gives 'mm', which is no dimension of this program\n"
        "  got: 'mm'\n  expected: one of m, n, k\n  fix: did you mean m?",
    ),
]


@pytest.mark.parametrize(("dims", "message"), DIMS)
def test_wrong_dims(dims: dict[str, int], message: str) -> None:
    assert str(refusal(DENSE, dims)) == message


def test_an_extent_that_is_known_to_be_wrong() -> None:
    assert str(refusal("C[m,n] = A[63-m,k]@B[n,k]", {"m": 100})) == (
        "program:1:12: an index of A is negative\n"
        "  C[m,n] = A[63-m,k]@B[n,k]\n"
        "             ^^^^\n"
        "  got: m*-1 + 63, which starts at -36\n"
        "  expected: 0 or more at every point"
    )
    assert "extents up to" in str(refusal("C[m,n] = A[m*2000000000,k]@B[n,k]", {"m": 2000000000}))


def test_nested_too_deeply() -> None:
    text = "C[m] = " + "-" * 3000 + "A[m]"
    message = str(refusal(text))
    assert "\n  got: more than 100 operations inside each other\n  expected: at most 100\n" in message
    assert "nested too deeply" in str(refusal("C[m] = A[m]" + "+A[m]" * 3000))
    assert "nested too deeply" in str(refusal("C[m] = A[" + "e[" * 3000 + "m" + "]" * 3001))


def test_brackets_alone_are_no_nesting() -> None:
    with context():
        build("C[m] = " + "(" * 3000 + "A[m]" + ")" * 3000)


def test_too_long() -> None:
    assert "the program is too long" in str(refusal("C[m] = A[m]" + " " * 70000))


def test_the_place_is_that_of_the_text_as_written() -> None:
    error = refusal("# one\nC[m,n] = relu( # two\n\tA[m,k]@B[n,j] )")
    assert error.place is not None
    assert (error.place.line, error.place.column, error.place.text) == (3, 6, " A[m,k]@B[n,j] )")
