"""Compiles the kernels of this folder with Triton, without a GPU, and stores their PTX and index.json.

pip install triton==3.9.0 && python generate.py [NAME...]
"""

import json
import os
import sys
from pathlib import Path

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import builds_gluon
import builds_triton
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

HERE = Path(__file__).parent


def compile_build(build, target: int):
    """(PTX, row of the index) of a build for cuda:`target`."""
    arguments = build.arguments(target) if callable(build.arguments) else build.arguments
    signature, constants, attributes = {}, {}, {}
    for place, (name, kind) in enumerate(arguments.items()):
        if isinstance(kind, str) and kind[0] in "*iuft":
            kind, _, divisible = kind.partition(":")
            signature[name] = kind
            if divisible:
                attributes[(place,)] = [["tt.divisibility", int(divisible)]]
        else:
            signature[name] = "constexpr"
            constants[name] = kind
    source = (GluonASTSource if build.gluon else ASTSource)(build.kernel, signature, constants, attributes)
    # .version 9.0, so that the ptxas of CUDA 13.0 takes it too
    options = {"num_warps": build.warps, "num_stages": build.stages, "num_ctas": build.ctas, "ptx_version": 90}
    compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
    facts = compiled.metadata
    row = {
        "entry": facts.name,
        "target": f"sm_{target}a",
        "block": [32 * facts.num_warps, 1, 1],
        "cluster": [facts.num_ctas, 1, 1],
        "shared": facts.shared,
        "scratch": [facts.global_scratch_size, facts.global_scratch_align],
        "arguments": {name: kind for name, kind in arguments.items() if signature[name] != "constexpr"},
        "constants": {name: str(kind) for name, kind in constants.items()},
    }
    if facts.tensordesc_meta:
        row["tensor_maps"] = facts.tensordesc_meta
    return compiled.asm["ptx"], row


def main(wanted: list[str]) -> None:
    path = HERE / "index.json"
    index = json.loads(path.read_text()) if path.exists() and wanted else {}
    for build in builds_triton.BUILDS + builds_gluon.BUILDS:
        if wanted and build.name not in wanted:
            continue
        for target in build.targets:
            name = f"{build.name}.sm_{target}a"
            try:
                ptx, index[name] = compile_build(build, target)
            except Exception as error:
                print(f"{name}: {str(error)[:600]}", file=sys.stderr)
                continue
            (HERE / f"{name}.ptx").write_text(ptx)
            print(f"{name}: {len(ptx)} bytes")
    rows = (f"  {json.dumps(name)}: {json.dumps(index[name], default=str)}" for name in sorted(index))
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
