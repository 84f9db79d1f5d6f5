"""What the lit tests run beside `scalec` and `filecheck`.

%roundtrip FILE              parses FILE, prints it, checks that the print parses and prints the same
%invalid PASSES FILE         FILE is cases separated by `// -----`, each with lines `// EXPECT: text`; each case
                             must be refused, by the parser or the passes (comma-separated, or `none`), with
                             every text in its message. Behind an empty line a case is the first one with lines
                             `// CHANGE: text => other`, each replaced wherever it stands; a first one that
                             begins with `// VALID` must be accepted, and has none
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from scalec.errors import ScalecError
from scalec.passes.pipeline import opt


def roundtrip(file: str) -> int:
    once = opt(Path(file).read_text(), [])
    if opt(once, []) != once:
        print("prints differently after a round trip", file=sys.stderr)
        return 1
    print(once)
    return 0


def cases(text: str) -> Iterator[tuple[str, list[str] | None]]:
    """The cases of a file: IR, and what its refusal says; None where it is valid."""
    for group in text.split("// -----"):
        first, *others = group.strip().split("\n\n")
        valid = first.startswith("// VALID")
        yield first, None if valid else _marked(first, "EXPECT")
        for other in others:
            changed = first
            for change in _marked(other, "CHANGE"):
                old, _, new = change.partition(" =>")
                if old not in first:
                    raise ValueError(f"nothing to change: {change}")
                changed = changed.replace(old, new.strip())
            yield changed, _marked(other, "EXPECT")


def _marked(text: str, mark: str) -> list[str]:
    return [line.partition(f"{mark}:")[2].strip() for line in text.splitlines() if f"// {mark}:" in line]


def invalid(passes: str, file: str) -> int:
    failures = 0
    _, _, text = Path(file).read_text().partition("\n")
    for number, (case, wanted) in enumerate(cases(text), 1):
        try:
            opt(case, [] if passes == "none" else passes.split(","))
            message = "nothing: accepted"
        except ScalecError as error:
            message = f"{type(error).__name__}: {error}"
        missing = [x for x in wanted or ["nothing: accepted"] if x not in message]
        if missing or wanted == []:
            failures += 1
            print(f"case {number}: expected {missing or 'an EXPECT line'}, got {message}", file=sys.stderr)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit({"roundtrip": roundtrip, "invalid": invalid}[sys.argv[1]](*sys.argv[2:]))
