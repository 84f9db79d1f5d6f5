"""PTX text that was garbled: the emulator refuses it, finds something, or runs it, in bounded time and memory."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from random import Random

from scalec.emulator.findings import EmulatorError
from scalec.emulator.launch import launch, load
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.machine.options import Options
from tests.fuzz.draw import draw
from tests.fuzz.running import Outcome, check

DATA = Path(__file__).parents[1] / "emulator" / "data"

SECONDS, MEGABYTES = 30.0, 1000
"""Of CPU and memory that a text may take."""

MOST = 3000
"""Instructions of a warp."""

NUMBERS = ("-1", "0", "65536", "2147483648", "4294967295", "18446744073709551616", "1" + "0" * 30, "0x", "0f7FC00000",
           "99999999999", "1.5", "0d", "%r2000000000")  # fmt: skip

CHARACTERS = "{}[]();,.:@%!<>|+-*/ \t\"'\\0aR_$\u00e9\x00"


def check_ptx_seed(seed: int) -> Outcome:
    """Garbles a foreign text, or one of ours, and runs what is left of it."""
    random = Random(f"ptx {seed}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if random.random() < 0.5:
        found = _foreign(random)
    else:
        case = draw(random.randrange(300)).but(schedule={}, twists=())
        found = check(case.but(launches=case.launches[:1]), lambda text: garbled(text, random), MOST)
        if found.kind.split()[0] not in ("exception", "refused"):
            found.kind = "ok"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    if not found.failed and grown > MEGABYTES:
        return Outcome("memory", f"{grown} MB more than before")
    if not found.failed and sum(found.seconds.values()) > SECONDS:
        return Outcome("slow", f"{sum(found.seconds.values()):.0f} s")
    return found


def _foreign(random: Random) -> Outcome:
    paths = sorted(DATA.glob("*/*.ptx"))
    path = random.choice(paths)
    text = garbled(path.read_text(), random)
    found = Outcome("ok", message=path.name)
    try:
        with found.timed("run"):
            memory = GlobalMemory()
            loaded = load(text, memory)
            for entry in [f for f in loaded.module.functions.values() if f.entry][:2]:
                values = [memory.allocate(4096, f"argument {i}").base for i, _ in enumerate(entry.params)]
                launch(loaded, entry.name, (1, 1, 1), (128, 1, 1), values, options=Options(max_instructions=MOST))
    except EmulatorError as error:
        found.refusals.append(f"{type(error).__name__}: {error.message.splitlines()[0]}"[:80])
        found.kind = "refused"
    except Exception as error:
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rpartition('scalec/')[2]}:{last.lineno}"
        return Outcome("exception", f"{path.name}: {type(error).__name__} at {place}: {str(error)[:200]}")
    return found


def garbled(text: str, random: Random) -> str:
    """One to four changes: of lines, of the tokens of a line, or of characters."""
    for _ in range(random.choice((1, 1, 2, 4))):
        lines = text.split("\n")
        at = random.randrange(len(lines))
        kind = random.choice(("drop", "twice", "swap", "number", "token", "character", "character", "cut", "join"))
        if kind == "drop":
            del lines[at]
        elif kind == "twice":
            lines.insert(random.randrange(len(lines)), lines[at])
        elif kind == "swap":
            other = random.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == "number":
            lines[at] = _token(lines[at], random, random.choice(NUMBERS), digits=True)
        elif kind == "token":
            words = random.choice(lines).split() or [""]
            lines[at] = _token(lines[at], random, random.choice(words))
        elif kind == "character":
            place = random.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + random.choice(CHARACTERS) + lines[at][place + random.randrange(2) :]
        elif kind == "cut":
            lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
        else:
            lines[at : at + 2] = ["".join(lines[at : at + 2])]
        text = "\n".join(lines)
    return text


def _token(line: str, random: Random, new: str, digits: bool = False) -> str:
    words = re.sub(r"([\[\],;<>])", r" \1 ", line).split()
    able = [i for i, w in enumerate(words) if not digits or any(c.isdigit() for c in w)]
    if not able:
        return line + new
    words[random.choice(able)] = new
    return " ".join(words)
