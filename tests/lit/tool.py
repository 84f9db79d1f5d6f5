"""What the lit tests run beside `scalec` and `filecheck`.

%roundtrip FILE              parses FILE, prints it, checks that the print parses and prints the same
%invalid PASSES FILE         FILE is cases separated by `// -----`, each with lines `// EXPECT: text`; each case
                             must be refused, by the parser or the passes (comma-separated, or `none`), with
                             every text in its message
"""

import sys
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


def invalid(passes: str, file: str) -> int:
    failures = 0
    for number, case in enumerate(Path(file).read_text().split("// -----"), 1):
        wanted = [line.partition("EXPECT:")[2].strip() for line in case.splitlines() if "// EXPECT:" in line]
        try:
            opt(case, [] if passes == "none" else passes.split(","))
            message = "nothing: accepted"
        except ScalecError as error:
            message = f"{type(error).__name__}: {error}"
        missing = [text for text in wanted if text not in message]
        if missing or not wanted:
            failures += 1
            print(f"case {number}: expected {missing or 'an EXPECT line'}, got {message}", file=sys.stderr)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit({"roundtrip": roundtrip, "invalid": invalid}[sys.argv[1]](*sys.argv[2:]))
