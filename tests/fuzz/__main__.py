"""`python -m tests.fuzz`: runs seeds, repeats one, or makes what fails smaller. See README.md."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from math import inf
from pathlib import Path

os.environ["SCALEC_TUNING"] = "off"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> int:
    from tests.fuzz import pool
    from tests.fuzz.kinds import KINDS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", help="FIRST:END, the end left out")
    parser.add_argument("--seed", type=int, help="repeats one")
    parser.add_argument("--case", help="runs a case: its JSON, or a file that holds it")
    parser.add_argument("--minimise", help="makes a failing seed, or a case's file, smaller")
    parser.add_argument("--kind", choices=list(KINDS), default="programs")
    parser.add_argument("--jobs", type=int, default=pool.cpus(), help="processes; as many as CPUs")
    parser.add_argument("--for", type=float, default=inf, dest="most", help="seconds, after which it ends with a count")
    parser.add_argument("--timeout", type=float, default=pool.TIMEOUT, help="seconds of a seed")
    parser.add_argument("--failures", default="", help="a file for a line each, besides stdout")
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    if given.minimise is not None:
        from tests.fuzz.minimise import main as minimise

        return minimise(given.minimise)
    if given.seed is not None or given.case is not None:
        return one(given)
    first, _, end = (given.seeds or "0:300").partition(":")
    return many(given, range(int(first), int(end or int(first) + 1)))


def many(given: argparse.Namespace, seeds: range) -> int:
    """Runs seeds until all are, time is over or a signal comes; what was found is printed either way."""
    from tests.fuzz import pool
    from tests.fuzz.kinds import KINDS

    tally, start = pool.Tally(), time.monotonic()
    shown, failed = start, list[str]()
    option = f" --kind {given.kind}" * (given.kind != "programs")
    memory = None if given.kind == "gpu" else pool.MEMORY
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for seed, outcome in pool.run(KINDS[given.kind], seeds, given.jobs, given.timeout, memory):
            tally.add(seed, outcome)
            now = time.monotonic()
            if outcome.failed:
                message = " | ".join(x.strip() for x in outcome.message.splitlines())[:500]
                failed.append(f"{seed}, python -m tests.fuzz{option} --seed {seed}, {outcome.kind}, {message}")
                print(failed[-1], flush=True)
                if given.failures:
                    with Path(given.failures).open("a") as file:
                        file.write(failed[-1] + "\n")
            if now - shown > 60:
                shown = now
                print(tally.line(), file=sys.stderr, flush=True)
            if now - start > given.most:
                break
    except KeyboardInterrupt:
        pass
    tally.report()
    count = sum(tally.kinds.values())
    print(*failed, f"{count} of {len(seeds)} seeds, {len(failed)} failures", sep="\n", flush=True)
    return int(bool(failed) or count < len(seeds))


def one(given: argparse.Namespace) -> int:
    from tests.fuzz.forms import of_seed
    from tests.fuzz.kinds import KINDS
    from tests.fuzz.running import LARGEST, check
    from tests.fuzz.written import from_json

    if given.kind != "programs":
        outcome = KINDS[given.kind](given.seed)
    else:
        text = given.case or ""
        case = of_seed(given.seed) if given.seed is not None else from_json(read(text))
        outcome = check(case, largest=inf if given.seed is None else LARGEST)
        ran = outcome.case or case
        print(f"{case.text()}\n{case.target}; known {', '.join(case.known) or 'none'} {case.ranges or ''}; launches"
              f" {list(case.launches)}; data {'exact' if case.exact else 'rounded'} {case.twists or ''}")  # fmt: skip
        print(f"schedule drawn {case.schedule or 'none'}, ran {ran.schedule or 'none'}")
        if given.verbose:
            print(case.to_json())
    if given.verbose:
        print(*outcome.refusals, {k: round(v, 3) for k, v in outcome.seconds.items()}, sep="\n")
    print(f"{outcome.kind}: {outcome.message}".rstrip(": "))
    return int(outcome.failed)


def read(text: str) -> str:
    """A case's JSON: the text, or what a file of that name holds."""
    return text if text.lstrip().startswith("{") else Path(text).read_text()


if __name__ == "__main__":
    sys.exit(main())
