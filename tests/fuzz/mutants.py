"""Faults put into our kernels' PTX: the emulator finds each, or its numbers are wrong, or it escapes and is counted.

A fault is drawn from what the kernel executed without one, and a number only where its result is read; a kernel whose
results are nearly all the same number is drawn again. A seed runs each launch in lockstep or with every warp alone, one
launch of several both ways; sizes have tails, there are more K blocks than stages, and more tiles than CTAs.

An escape is a fault that two such sets of launches ran with, of other sizes, data, seeds and numbers of CTAs, without a
finding and with right numbers throughout. The judge missed it, or the fault changed nothing: a barrier beside another
one, bits that are always 0, a bound with slack. Who counts escapes says which; one is called idle where the changed
instruction never gave another value than the right one.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import numpy as np

from scalec.compiler import Compilation
from scalec.emulator.parser import parse
from scalec.frontend import build
from scalec.ir import context
from tests.fuzz import bounds, data
from tests.fuzz.case import Case
from tests.fuzz.draw import draw, multiple, steps_of
from tests.fuzz.launches import Several
from tests.fuzz.running import Launched, Outcome, check

MOST = 100_000
"""Instructions of a warp, of which kernels of these sizes execute a tenth."""

LARGEST = 1 << 20
"""Elements of a launch's tiles, as in running.py, for its kernel runs up to nine times: 2.6 million took 36 s each."""

_RESULT = re.compile(r"[a-z][\w.:]* \t?(%\w+)")
"""Of an instruction that computes, its result."""

DRAWS = 40
"""Of a case, of which some are refused or show nothing."""

SAME = 0.75
"""Of a result's elements may be one number, else it shows too little."""

EDGES = (1, 31, 64, 65)
"""Sizes of rows or columns that the compiler does not know, where the others are many."""

LONG = (385, 513, 640)
"""The others: more tiles of 128 than CTAs have accumulators."""

LONGER = (1025, 1100)
"""And more than tiles are grouped by."""


FAULTS: dict[str, tuple[str, str]] = {
    "a proxy fence dropped": (r"\tfence\.proxy\.async[^\n]*\n", ""),
    "the fence of mbarrier.init dropped": (r"\tfence\.mbarrier_init[^\n]*\n", ""),
    "a barrier dropped": (r"\t(bar|barrier)\.sync[^\n]*\n", ""),
    "a wait for a stage dropped": (r"@P1 bra DONE;\nbra WAIT;", "bra DONE;"),
    "a wait with a retry dropped": (r"@!P1 bra WAIT;\n", ""),
    "wgmma.fence dropped": (r"\twgmma\.fence\.sync\.aligned;\n", ""),
    "wgmma.wait_group dropped": (r"\twgmma\.wait_group\.sync\.aligned \d+;\n", ""),
    "wgmma.commit_group dropped": (r"\twgmma\.commit_group\.sync\.aligned;\n", ""),
    "a commit of the tensor core dropped": (r"\t?tcgen05\.commit[^\n]*\n", ""),
    "a wait for loads of tensor memory dropped": (r"\t?tcgen05\.wait::ld[^\n]*\n", ""),
    "a tensor fence dropped": (r"\t?tcgen05\.fence[^\n]*\n", ""),
    "a bulk store's wait dropped": (r"\tcp\.async\.bulk\.wait_group[^\n]*\n", ""),
    "a bulk store's commit dropped": (r"\tcp\.async\.bulk\.commit_group;\n", ""),
    "an arrival dropped": (r"@?(%p\d+ )?mbarrier\.arrive[^\n]*\n", ""),
    "an expectation dropped": (r"mbarrier\.expect_tx[^\n]*\n", ""),
    "a count of a barrier": (r"mov\.b32 \t(%r\d+), (\d+);(?=\n\tmbarrier\.init)", "number"),
    "a parity": (r"xor\.b32 \t(%r\d+), (%r\d+), 1;", r"mov.b32 \t\1, \2;"),
    "a comparison": (r"setp\.(?:lt|gt|eq|ne|le|ge)\.[us]\d+ \t%p\d+, %r\d+, (\d+);", "number"),
    "a shift": (r"sh[lr]\.b32 \t%r\d+, %r\d+, (\d+);", "number"),
    "an address of shared memory": (r"(?:ld|st)\.shared[^\n]*\[%rd?\d+\+(\d+)\]", "number16"),
    "an addend": (r"add\.s(?:32|64) \t%rd?\d+, %rd?\d+, (\d+);", "number16"),
    "a mask": (r"and\.b32 \t%r\d+, %r\d+, (\d+);", "number"),
    "a descriptor": (r"or\.b64 \t%rd\d+, %rd\d+, (\d{5,});", "number"),
    "multicast": (r"mov\.b16 \t%rs\d+, (\d+);", "number"),
    "a product left out": (r"\tfma\.rn\.f32[^\n]*\n", ""),
    "a store left out": (r"\t(@%p\d+ )?st\.global[^\n]*\n", ""),
}
"""What is matched, and what it becomes; "number": its last group is one more or less, or twice; "number16": 16."""


def check_mutant_seed(seed: int) -> Outcome:
    """Puts a fault into a program's kernel, and says whether it was found; a failure where one is found without it."""
    random = Random(f"mutant {seed}")
    for _ in range(DRAWS):
        case = _case(random)
        if not _telling(case):
            continue
        kernel = Executed()
        right = check(case, beside=kernel.note, runs=1, largest=LARGEST)
        if right.failed:
            return right
        if right.kind != "ok" or kernel.made is None:  # no single kernel: operands that launches before store otherwise
            continue
        if isinstance(right.case, Case) and (faults := kernel.faults()):
            return _with_a_fault(right.case, kernel, faults, random)
    return Outcome("refused", f"{DRAWS} draws, and none that runs and shows its numbers")


def _with_a_fault(case: Case, kernel: Executed, faults: dict[str, list[re.Match[str]]], random: Random) -> Outcome:
    what = random.choice(sorted(faults))
    match = random.choice(faults[what])
    new = changed(match, FAULTS[what][1], random)
    tries = (case, _again(case, random))
    place = f"{what} (line {kernel.line(match)}: {match[0].strip()} -> {new.strip() or 'nothing'})"
    escape = Outcome("escape", place, case=case, refusals=[f"escape: {what}"])
    for again, tried in enumerate(tries):
        found = check(tried, lambda text: _put(text, match, new), MOST, made=kernel.made, largest=LARGEST)
        if found.kind in ("exception", "timeout", "crash"):
            found.message = f"{place}: {found.message}"
            return found
        if found.kind not in ("ok", "refused"):
            if again and (right := check(tried, largest=LARGEST)).kind != "ok":
                return right
            return Outcome("found", f"{place}: {found.kind}", refusals=[f"found: {what}"], seconds=found.seconds)
        escape.seconds = found.seconds
    telling = trapping(match[0], new)
    if telling and all(
        check(tried, lambda text: _put(text, match, telling), MOST, made=kernel.made, largest=LARGEST).kind == "ok"
        for tried in tries
    ):
        escape.message, escape.refusals = f"idle: {place}", [f"idle: {what}"]
    return escape


def _put(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def trapping(old: str, new: str) -> str:
    """An instruction and its changed form, and a trap where their results differ; empty without a result."""
    result = _RESULT.match(old)
    if not result or result[1] not in new:
        return ""
    kind = {"%r": "b32", "%rd": "b64", "%rs": "b16", "%p": "pred"}[result[1].rstrip("0123456789")]
    differ = "xor.pred" if kind == "pred" else f"setp.ne.{kind}"
    right = old.replace(result[1], "rightly", 1)
    return (
        f"{{\n.reg .{kind} rightly;\n.reg .pred differs;\n{right}\n{new}\n"
        f"{differ} differs, rightly, {result[1]};\n@differs trap;\n}}\n"
    )


# ------------------------------------------------------------------------------------------------------------- the case


def _case(random: Random) -> Case:
    """A drawn program with sizes of several tiles in rows and columns and of four K blocks; the compiler knows
    the rows or the columns at most."""
    case = draw(random.randrange(2000))
    block = _block(case)
    tile = random.choice(("64x16", "64x32", "128x16", "32x32"))
    case = case.but(
        twists=(("integers", 3),),
        exact=True,
        sms=random.choice((1, 2)),
        known=case.known if not {"m", "n"} <= {*case.known} else tuple(d for d in case.known if d != "m"),
        ranges={},
        seed=6 * random.randrange(1000),  # and then 77 more, where each warp goes alone
        schedule={
            **case.schedule,
            "tile": f"{tile}x{block}",
            "stages": "2",
            "cluster": random.choice(("1x1", "1x1", "2x1", "1x2")),
        },
    )
    sizes = {
        "m": random.choice((128, 129, 140)),
        "n": random.choice((64, 72, 100)),
        "k": 4 * block - _tail(block, random),
    }
    steps = steps_of(case)
    more = {d: min(2, size) for d, size in case.launches[0].items() if d not in sizes}
    first = {d: multiple(size, steps[d]) for d, size in sizes.items()} | more
    return case.but(launches=(first, _other(case, first, random)))


def _block(case: Case) -> int:
    """Elements of a K block: 128 bytes of a row."""
    bits = max(x.bits for x in case.operands)
    return 1024 // {6: 8}.get(bits, bits)


def _tail(block: int, random: Random) -> int:
    """What the last K block lacks."""
    return random.choice((0, 0, 1, 8, 24, block - 8))


def _other(case: Case, first: dict[str, int], random: Random, most: tuple[int, ...] = LONG) -> dict[str, int]:
    """Other sizes, where the compiler does not know them: many rows or many columns."""
    long = random.choice([d for d in "mn" if d not in case.known])
    steps, block = steps_of(case), _block(case)
    sizes = {
        "m": random.choice(most if long == "m" else EDGES),
        "n": random.choice(most if long == "n" else EDGES),
        "k": random.randint(1, 3) * block - _tail(block, random),
    }
    return {d: first[d] if d in case.known or d not in sizes else multiple(sizes[d], steps[d]) for d in first}


def _again(case: Case, random: Random) -> Case:
    """Other launches of the same kernel, on another number of CTAs, with other data and another order."""
    return case.but(
        launches=tuple(_other(case, case.launches[0], random, most) for most in (LONG, LONGER)),
        sms=3 - case.sms,
        seed=6 * random.randrange(1000),
        twists=(*case.twists, *(("specials", kind) for kind in range(3))),
    )


def _telling(case: Case) -> bool:
    """Whether a result shows what it was made of: most of it is judged, and one number is not nearly all there is."""
    sizes = case.launches[0]
    with context.context():
        values = data.make(case, build(case.text(), sizes), 0)
    bounded = bounds.evaluate(case, sizes, values)
    judged = bounded.value[np.isfinite(bounded.error)]
    most = np.unique(judged, return_counts=True)[1].max(initial=0)
    return judged.size > bounded.value.size / 2 and most < SAME * judged.size


# ------------------------------------------------------------------------------------------------------------ the fault


class Executed:
    """A kernel, and what of it was executed.

    Attributes:
        made: the kernel, after the first launch.
        lines: that some launch executed, 1-based.
    """

    def __init__(self) -> None:
        self.made: Compilation | None = None
        self.lines = set[int]()

    @property
    def text(self) -> str:
        assert self.made is not None
        return self.made.ptx

    def note(self, launched: Launched) -> None:
        """Adds what the last run executed, of a single kernel."""
        if isinstance(launched.made, Several):
            return
        self.made = launched.made
        function = parse(self.text).function(launched.spec.entry)
        assert function is not None
        counted = launched.stats.executed if launched.stats else {}
        self.lines |= {function.code[pc].line for pc, times in counted.items() if times}

    def line(self, match: re.Match[str]) -> int:
        return self.text.count("\n", 0, match.start()) + 1

    def faults(self) -> dict[str, list[re.Match[str]]]:
        """The places of each kind of fault, those kinds alone that have any."""
        lines = self.text.split("\n")
        read = Counter(name for line in self.lines for name in re.findall(r"%\w+", lines[line - 1]))
        found: dict[str, list[re.Match[str]]] = {}
        for what, (old, new) in FAULTS.items():
            for match in re.finditer(old, self.text):
                line = self.line(match)
                result = _RESULT.match(match[0]) if new else None
                unread = result and read[result[1]] <= lines[line - 1].count(result[1])
                if line in self.lines and not unread:
                    found.setdefault(what, []).append(match)
        return found


def changed(match: re.Match[str], new: str, random: Random) -> str:
    if not new.startswith("number"):
        return match.expand(new)
    last = match.re.groups
    number, step = int(match[last]), 16 if new.endswith("16") else 1
    other = random.choice([n for n in (number + step, max(0, number - step), 2 * number) if n != number])
    start, end = match.start(last) - match.start(), match.end(last) - match.start()
    return match[0][:start] + str(other) + match[0][end:]
