"""Any text is either a program or a SourceError; a program's IR verifies and parses back."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalec.errors import SourceError
from scalec.frontend import build
from scalec.ir.context import context, parse

VALID = [p.read_text() for p in sorted((Path(__file__).parents[2] / "examples").glob("*.scale"))]
WORDS = (
    "C D T A B e idx off m n k g t alpha relu gelu max min sum scale for in else with inf none tensor tile stages "
    "f32 bf16 e4m3 e2m1 i32 mxfp8 nvfp4 1x128 128x128 1xk 128x128x128 ue8m0 packed row 0 1 2 64 128 1.5 1e9 "
    "99999999999999999999999 [ ] ( ) , : = += @ + - * / % ^ < ; # é \0"
)
TOKENS = WORDS.split(" ")
TOKENS += ["\n", " ", "A[m,k]", "B[n,k]", "C[m,n]", "C[m,n] = ", "A[m,k]@B[n,k]", "for m in off[g]:off[g+1]", "idx[m]"]
NAMES = st.sampled_from(["m", "n", "k", "g", "t", "B_0"])
SIZES = st.dictionaries(NAMES, st.sampled_from([1, 64, 100, 7168, 2**31 - 1]), max_size=2)
QUICK = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def check(text: str, dims: dict[str, int] | None = None) -> bool:
    """Whether `text` is a program."""
    with context():
        try:
            module = build(text, dims)
        except SourceError as error:
            str(error)
            return False
        assert str(parse(str(module))) == str(module)
        return True


@QUICK
@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    check(text)


@QUICK
@given(st.lists(st.sampled_from(TOKENS), max_size=30), SIZES)
def test_any_tokens(tokens: list[str], dims: dict[str, int]) -> None:
    check(" ".join(tokens), dims)
    check("C[m,n] = A[m,k]@B[n,k] " + "".join(tokens), dims)


@settings(QUICK, max_examples=250)
@given(
    st.sampled_from(VALID),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(TOKENS), st.booleans()), max_size=3),
    SIZES,
)
def test_any_mutation(text: str, edits: list[tuple[float, str, bool]], dims: dict[str, int]) -> None:
    for where, token, replace in edits:
        at = int(where * len(text))
        text = text[:at] + token + text[at + (len(token) if replace else 0) :]
    check(text, dims)


INDEX = st.recursive(
    st.sampled_from(["m", "n", "k", "0", "3", "128", "idx[m]", "e[m/128]"]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda t: f"({''.join(t)})"),
    max_leaves=4,
)
VALUE = st.recursive(
    st.one_of(
        st.sampled_from(["A[m,k]", "B[n,k]", "b[n]", "x", "2", "A[m,k]@B[n,k]", "E[e[m/128],n,k]", "T"]),
        st.builds("X[{}]".format, INDEX),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/@"), inner).map(lambda t: f"({''.join(t)})"),
        st.builds("{}({})".format, st.sampled_from(["relu", "silu", "exp"]), inner),
        st.builds("{}[{}]({})".format, st.sampled_from(["sum", "max"]), st.sampled_from(["k", "n", "m,k"]), inner),
    ),
    max_leaves=5,
)


@settings(QUICK, max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(["C[m,n]", "D[m]", "T[m,n]", "F[m,n/64,n%64]"]), VALUE), max_size=3), SIZES)
def test_any_program_of_the_right_form(lines: list[tuple[str, str]], dims: dict[str, int]) -> None:
    check("\n".join(f"{target} = {value}" for target, value in lines), dims)
