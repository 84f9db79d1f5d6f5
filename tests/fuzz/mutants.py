"""Faults put into our kernels' PTX: the emulator finds each, or its numbers are wrong, or it escapes and is counted.

An escape need not be a miss: a fault in what is not executed, or that no order of these sizes shows, changes nothing.
So there are several K blocks, more than stages, and several tiles for each CTA.
"""

from __future__ import annotations

import re
from random import Random

from tests.fuzz.draw import draw
from tests.fuzz.running import Outcome, check

MOST = 20_000
"""Instructions of a warp, of which kernels of these sizes execute a tenth."""


class _NothingToChange(Exception):
    """The kernel has none of what the fault changes."""


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
    """Puts a fault into a program's kernel, and says whether it was found."""
    random = Random(f"mutant {seed}")
    case = draw(random.randrange(2000))
    tile, k = random.choice((("64x16x64", 320), ("64x32x128", 640), ("128x16x128", 640), ("32x32x64", 320)))
    case = case.but(
        launches=({"m": 140, "n": 128, "k": k},),
        twists=(("integers", 3),),
        exact=True,
        sms=2,
        ranges={},
        schedule={**case.schedule, "tile": tile, "stages": "2", "cluster": random.choice(("1x1", "1x1", "2x1", "1x2"))},
    )
    chosen: list[str] = []
    places: list[str] = []

    def change(text: str) -> str:
        able = {what: found for what, (old, _) in FAULTS.items() if (found := list(re.finditer(old, text)))}
        if not able:
            raise _NothingToChange
        what = random.choice(sorted(able))
        match = random.choice(able[what])
        chosen.append(what)
        places.append(f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}")
        return text[: match.start()] + _changed(match, FAULTS[what][1], random) + text[match.end() :]

    found = check(case, change, MOST)
    if found.kind == "refused" or not chosen:
        return Outcome("refused", found.message)
    if found.kind in ("exception", "timeout", "crash"):
        found.message = f"{chosen[0]}: {found.message}"
        return found
    kind = "escape" if found.kind == "ok" else "found"
    return Outcome(kind, f"{chosen[0]} ({places[0]}): {found.kind}", refusals=[f"{kind}: {chosen[0]}"], seconds=found.seconds)


def _changed(match: re.Match[str], new: str, random: Random) -> str:
    if not new.startswith("number"):
        return match.expand(new)
    last = match.re.groups
    number, step = int(match[last]), 16 if new.endswith("16") else 1
    other = random.choice((number + step, max(0, number - step), 2 * number + (number == 0)))
    start, end = match.start(last) - match.start(), match.end(last) - match.start()
    return match[0][:start] + str(other) + match[0][end:]
