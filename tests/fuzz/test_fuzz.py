"""Seeds of every kind: a few always, more with -m thorough. `python -m tests.fuzz --seed N` repeats one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from scalec.reference.packing import numpy_dtype
from tests.fuzz import bounds, forms, launches, minimise, mutants, pool
from tests.fuzz.__main__ import main as fuzz
from tests.fuzz.case import SUMS, Case, Operand
from tests.fuzz.draw import draw
from tests.fuzz.kinds import KINDS
from tests.fuzz.language import read
from tests.fuzz.meaning import stored, unpacked
from tests.fuzz.running import Launched, Outcome, check
from tests.fuzz.written import Written, from_json

CHUNK = 20


OPEN: dict[tuple[str, int], str] = {}
"""Seeds that fail, and how."""


def run(kind: str, seeds: range) -> Counter[str]:
    """What became of the seeds; none fails but those that are open, which do."""
    found = {seed: KINDS[kind](seed) for seed in seeds}
    failed = [
        f"{seed}: {o.kind}: {o.message}"
        for seed, o in found.items()
        if o.failed != ((kind, seed) in OPEN) or OPEN.get((kind, seed), o.kind) != o.kind
    ]
    assert not failed, "\n".join(failed)
    return Counter(o.kind for o in found.values())


@pytest.mark.once
@pytest.mark.parametrize("first", range(0, 12, 3))
def test_programs(first: int) -> None:
    run("programs", range(first, first + 3))


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(12, 300, CHUNK))
def test_more_programs(first: int) -> None:
    found = run("programs", range(first, min(first + CHUNK, 300)))
    assert found["ok"] > found["refused"]


@pytest.mark.parametrize("ends", ["time", "a signal"])
def test_a_run_that_is_cut_short_says_what_it_found(ends: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def some(*_: Any) -> Iterator[tuple[int, Outcome]]:
        yield 7, Outcome("wrong", "by 1")
        if ends == "a signal":
            raise KeyboardInterrupt
        yield 8, Outcome("ok")

    monkeypatch.setattr(pool, "run", some)
    monkeypatch.setattr("sys.argv", ["fuzz", "--seeds", "7:9", "--for", "0" if ends == "time" else "60"])
    with monkeypatch.context() as m:
        m.setattr("signal.signal", lambda *_: None)
        assert fuzz() == 1
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last == ["7, python -m tests.fuzz --seed 7, wrong, by 1", "1 of 2 seeds, 1 failures"]


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("programs", "gpu")])
def test_other_kinds(kind: str) -> None:
    run(kind, range(1 if kind == "mutants" else 3))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("programs", "gpu")])
def test_more_of_other_kinds(kind: str) -> None:
    run(kind, range(1, 40))


def test_a_seed_is_a_case_that_travels() -> None:
    for seed in range(200):
        case = draw(seed)
        assert draw(seed) == case
        assert Case.from_json(case.to_json()) == case


def test_half_of_the_seeds_are_exact_and_half_have_no_schedule() -> None:
    cases = [draw(seed) for seed in range(400)]
    assert 0.4 < np.mean([c.exact for c in cases]) < 0.6
    assert 0.4 < np.mean([not c.schedule for c in cases]) < 0.6


PLAIN = Case(
    "sm_120a", (Operand("A", ("m", "k")), Operand("B", ("n", "k"))), Operand("C", ("m", "n"), "f32"),
    launches=({"m": 9, "n": 11, "k": 400},),
)  # fmt: skip


@pytest.mark.parametrize(
    ("operand", "index", "how"),
    [
        ("(B[g,k/8,n,k%8]:u4 - (Z[g,k/128,n] + 1)):f16", ("g", "n", "k"), "words"),
        ("B[k, n/8*8 + n%2*4 + n%8/2]:i4", ("k", "n"), "i/8*8 + i%2*4 + i%8/2"),
        ("B[k/8,n,k%8]:e4m3", ("k/8", "n", "k%8"), ""),
    ],
)
def test_how_elements_of_4_bits_are_stored(operand: str, index: tuple[str, ...], how: str) -> None:
    program = read(f"C[m,n] = A[m,k]:f16 @ {operand}")
    assert (program.tensors["B"].index, program.eights.get("B", "")) == (index, how)


def test_elements_of_4_bits_as_they_are_stored() -> None:
    rows, program = np.arange(60).reshape(3, 20), read("C[m,n] = A[m,k]:f16 @ B[k/8,n,k%8]:u4")
    words = np.full((3, 3, 8), -1)
    for n, k in np.ndindex(3, 20):
        words[k // 8, n, k % 8] = rows[n, k]
    assert (unpacked(program, "B", words, {"n": 3, "k": 20}) == rows).all()
    assert (stored(program, "B", rows >= 0, words.shape) == (words >= 0)).all()
    program = read("C[m,n] = A[m,k]:f16 @ B[k, n/8*8 + n%2*4 + n%8/2]:u4")
    words = np.array([[0, 2, 4, 6, 1, 3, 5, 7, 8, -1, -1, -1, 9, -1, -1, -1]])
    assert (unpacked(program, "B", words, {"n": 10, "k": 1}) == np.arange(10)).all()
    assert (stored(program, "B", np.ones((1, 10), bool), words.shape) == (words >= 0)).all()


FAULTS = {
    "wrong": (r"(st\.global\.f32 \[%rd15 \+ 0\], )%\w+", r"\g<1>0f00000000"),
    "unwritten": (r"@%p\d+ st\.global[^\n]*\n", ""),
    "finding deadlock": (r"@%p\d+ mbarrier\.arrive\.shared::cta[^\n]*\n", ""),
}
"""The kind of a failure, and what in the kernel makes it."""


def test_without_a_fault_there_is_no_failure() -> None:
    found = check(PLAIN)
    assert (found.kind, found.exact, found.checked) == ("ok", 99, 99)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_a_failure(kind: str) -> None:
    assert check(PLAIN, lambda text: re.sub(*FAULTS[kind], text), 20_000).kind == kind


def test_a_failing_case_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(case: Case) -> Outcome:
        at = case.launches[0]
        return Outcome("wrong" if "tanh" in case.text() and at["n"] >= 3 else "ok", case=case)

    monkeypatch.setattr(minimise, "check", fails)
    case = next(c for c in map(draw, range(1000)) if fails(c).failed and c.schedule and len(c.leaves()) > 2)
    small, found = minimise.minimise(case, fails(case))
    assert found.kind == "wrong"
    assert isinstance(small, Case)
    assert small.value == ("tanh", SUMS)
    assert (small.launches, small.schedule, small.twists) == (({"m": 1, "n": 3, "k": 1},), {}, ())


def test_errors_are_0_where_steps_are_exact() -> None:
    x = bounds.Bounded(np.array([3.0, 1e8, 0.1]))
    made = bounds.INFIX["+"](x, bounds.Bounded(np.array([4.0, 1.0, 0.0])))
    assert made.error[0] == 0
    assert (made.error[1:] > 0).all()


@pytest.mark.parametrize("number", [0, 1, 16])
def test_a_fault_is_another_text(number: int) -> None:
    for what, text in (("a shift", f"shl.b32 \t%r1, %r2, {number};"), ("an addend", f"add.s32 \t%r1, %r2, {number};")):
        old, new = mutants.FAULTS[what]
        match = re.match(old, text)
        assert match
        assert all(mutants.changed(match, new, Random(seed)) != text for seed in range(20))


def test_faults_are_put_where_a_kernel_was() -> None:
    kernel = mutants.Executed()
    assert check(PLAIN, beside=kernel.note, runs=1).kind == "ok"
    faulty = {kernel.line(match) for places in kernel.faults().values() for match in places}
    kernel.lines -= {min(faulty)}
    fewer = {kernel.line(match) for places in kernel.faults().values() for match in places}
    assert fewer == faulty - {min(faulty)}


def test_a_trap_tells_whether_a_result_is_ever_another() -> None:
    kernel = mutants.Executed()
    check(PLAIN, beside=kernel.note, runs=1)
    match = kernel.faults()["a shift"][0]
    other = mutants.changed(match, "number", Random(0))
    found = {
        new: check(PLAIN, lambda text: text.replace(match[0], mutants.trapping(match[0], new), 1), runs=1)  # noqa: B023
        for new in (match[0], other)
    }
    assert found[match[0]].kind == "ok"
    assert "trap" in found[other].message


def test_a_text_is_drawn_twice_alike_and_travels() -> None:
    for seed in range(100):
        case = forms.of_seed(seed)
        assert forms.of_seed(seed) == case
        assert from_json(case.to_json()) == case


def test_every_form_is_read_and_all_its_holes_filled() -> None:
    for name, form in forms.FORMS.items():
        for seed in range(20):
            text, _ = forms.filled(Random(f"{name} {seed}"), form)
            assert not re.search("[{}]", text)
            assert read(text).results


WINDOW = Written(
    "sm_90a",
    "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d])) for t in lo[q]:hi[q] else -inf",
    {"lo": "small", "hi": "whole"},
    known=("h",),
    launches=({"q": 3, "t": 9, "h": 8, "d": 16},),
)  # fmt: skip


def test_a_fault_in_a_text_is_a_failure() -> None:
    assert (check(WINDOW).kind, check(WINDOW).checked) == ("ok", 27)
    other = WINDOW.but(program=WINDOW.program.replace("relu", "abs"))
    kernel = check(other, beside=(made := Made()).note)
    assert kernel.kind == "ok"
    assert check(WINDOW, made=made.made).kind == "wrong"


CHANCE = "Q[m,n]:mxfp8 = stochastic(hadamard(X[m,n] * x[n], 16), seed[0], seed[1])"
ROWS = "T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[m,n] = T; R[m]:f32 = max[n](T)"
COMPRESSED = "L[q, t - lo[q]]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d])) for t in lo[q]:hi[q]"
FORMS = {  # a program, another one of the same tensors, sizes, and how many elements are written
    "chance": (CHANCE, CHANCE.replace("seed[0], seed[1]", "seed[1], seed[0]"), {"m": 5, "n": 40}, 200),
    "transformed": (CHANCE, "Q[m,n]:mxfp8 = stochastic(X[m,n] * x[n], seed[0], seed[1])", {"m": 5, "n": 40}, 200),
    "reduced rows": (ROWS, ROWS.replace("max", "min"), {"m": 30, "n": 20, "k": 16, "g": 3}, 30 * 20 + 30),
    "compressed": (COMPRESSED, COMPRESSED.replace("relu", ""), {"q": 3, "t": 30, "h": 8, "d": 16, "L_1": 9}, 27),
}


@pytest.mark.parametrize("name", FORMS)
def test_another_text_of_a_form_is_a_failure(name: str) -> None:
    text, other, sizes, count = FORMS[name]
    routing = {"off": "whole", "lo": "whole", "hi": "whole"}
    known = tuple(d for d in "h" if d in sizes)
    case = Written("sm_90a", text, routing, known=known, launches=(sizes,), exact=False)
    found = check(case, runs=1)
    assert (found.kind, found.checked) == ("ok", count)
    assert check(case.but(program=other), beside=(made := Made()).note, runs=1).kind == "ok"
    assert check(case, made=made.made, runs=1).kind == "wrong"


@pytest.mark.parametrize(
    "text", ["Q[m,n]:e4m3 scale(1xn) = X[m,n]", "C[k,m]:f32 = quantize(A[m,n], e4m3, 1x128) @ B[k,n]:e4m3"]
)
@pytest.mark.parametrize("empty", ["m", "n"])
def test_texts_of_nothing(text: str, empty: str) -> None:
    case = Written("sm_90a", text, launches=({"m": 3, "n": 5, **({"k": 4} if "k" in text else {}), empty: 0},))
    assert check(case, runs=1).kind == "ok"


OWN = {  # what the fuzzer once asked of results, and nobody says of them
    "a sum in any order": ("C[m,n]:f32 = A[m,k] @ B[n,k] + (D[m,j] @ E[n,j]) / 3",
                           {"m": 8, "n": 24, "k": 40, "j": 40}, ()),
    "an infinite scale": ("C[m,n]:f32 = quantize(A[m,k]:f32, e2m1, 1x128) @ B[n,k]:e2m1", {"m": 2, "n": 2, "k": 130},
                          (("same", 1), ("specials", 1))),
    "groups of nothing": ("C[g,m,n] = A[m,k] @ B[n,k] scale(1x128@col, 1x128@col) for k in off[g]:off[g+1] by 16 apart",
                          {"m": 3, "n": 5, "g": 2, "k": 0}, ()),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("name", OWN)
def test_nothing_more_is_asked_than_the_language_says(name: str) -> None:
    text, sizes, twists = OWN[name]
    case = Written("sm_90a", text, dict.fromkeys(read(text).lookups, "drawn"), launches=(sizes,), twists=twists, seed=1)
    assert check(case, runs=1).kind == "ok"


def test_what_may_be_anything_has_any_sign() -> None:
    with np.errstate(invalid="ignore"):
        anything = bounds.FUNCTIONS["sqrt"](bounds.Bounded(-1e-9, 1e-6), (0, 0))
    assert np.isinf(bounds.EXACT["sign"](anything).error)


def test_computed_operands_saturate() -> None:
    x = Operand("A", ("m", "k"), "e5m2", body="relu")
    value = bounds.dequantized(x, "lhs", {"A": np.array([[np.inf, -np.inf]], numpy_dtype("e5m2"))})
    assert value.tolist() == [[57344, 0]]


@pytest.mark.parametrize(
    ("text", "smaller"),
    [
        (CHANCE, "Q[m,n]:mxfp8 = hadamard(X[m,n] * x[n], 16)"),
        (CHANCE, "Q[m,n]:mxfp8 = stochastic(X[m,n] * x[n], seed[0], seed[1])"),
        (CHANCE, "Q[m,n]:mxfp8 = stochastic(hadamard(X[m,n], 16), seed[0], seed[1])"),
        ("Q[m,n] = stochastic(X[m,n]:f32, r[0,1], r[2,3])", "Q[m,n] = stochastic(X[m,n]:f32, r[0,1])"),
        (COMPRESSED, COMPRESSED.replace(" - lo[q]", "")),
    ],
)
def test_forms_are_made_smaller(text: str, smaller: str) -> None:
    case = Written("sm_90a", text, dict.fromkeys(read(text).lookups, "drawn"), launches=({"m": 5, "n": 40},))
    assert smaller in [x.program for x in minimise.plainer(case)]


class Made:
    """Keeps a kernel."""

    made: launches.Made | None = None

    def note(self, launched: Launched) -> None:
        self.made = launched.made
