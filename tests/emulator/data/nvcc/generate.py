"""Compiles every .cu of this folder to PTX with nvcc 13.0 and writes index.json.

    python generate.py [NAME...]

The first lines of a source say what it is compiled for and how each kernel is launched:

    // targets: 90a 100a
    // launch NAME: block=X,Y,Z cluster=X,Y,Z shared=BYTES
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ["-ptx", "-std=c++17", "-O3", "-diag-suppress", "186"]


def compile_source(source: Path, target: str) -> str:
    name = f"{source.stem}.sm_{target}.ptx"
    subprocess.run(["nvcc", *FLAGS, f"-arch=sm_{target}", source.name, "-o", name], cwd=HERE, check=True)
    return name


def main(wanted: list[str]) -> None:
    index = {}
    for source in sorted(HERE.glob("*.cu")):
        text = source.read_text()
        targets = re.search(r"^// targets: (.*)$", text, re.M)
        assert targets, f"{source.name} names no targets"
        for target in targets[1].split():
            name = f"{source.stem}.sm_{target}.ptx"
            if not wanted or source.stem in wanted:
                compile_source(source, target)
                print(name)
            ptx = (HERE / name).read_text()
            for launch in re.finditer(r"^// launch (\w+): (.*)$", text, re.M):
                row = {"file": name, "entry": launch[1], "target": f"sm_{target}", "shared": 0}
                row |= {"block": [32, 1, 1], "cluster": [1, 1, 1]}
                for field in launch[2].split():
                    key, _, value = field.partition("=")
                    row[key] = int(value) if key == "shared" else [int(part) for part in value.split(",")]
                assert f".entry {launch[1]}(" in ptx, f"{name} has no {launch[1]}"
                index[f"{launch[1]}.sm_{target}"] = row
    rows = (f"  {json.dumps(name)}: {json.dumps(index[name])}" for name in sorted(index))
    (HERE / "index.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
