"""`with invariant` in groups: a row's bits depend neither on its group's other rows, nor on what the compiler knows or
expects of their number."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import upload
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import cache, emulated
from scalec.runtime.kernel import Kernel
from tests.fuzz.running import without_ptxas

TARGETS = ("sm_90a", "sm_100a", "sm_120a")
ROWS, OWN = "for m in off[g]:off[g+1]", slice(20, 40)
SIZES = {"m": 72, "n": 32, "k": 384, "g": 3, "A_0": 90, "B_0": 3, "C_0": 90, "D_0": 90}
OFFSETS = {"off": [[0, 20, 50, 72], [0, 7, 45, 45], [19, 20, 40, 40], [0, 0, 72, 72]]}
COUNTS = {"rows": [[72, 72, 72], [5, 40, 0], [0, 71, 1]]}
ENDS = {"off": [[0, 100, 300, 384], [100, 100, 300, 300], [7, 100, 300, 301]]}


class Form(NamedTuple):
    """A program, other index tensors of each launch, and where a result has the rows that stay what they are."""

    source: str  # with places for the result, for the operands' types, and for scales
    routed: dict[str, list[list[int]]]
    at: tuple[Any, ...] = (OWN,)

    def text(self, operands: str, result: str) -> str:
        """The program; scales and results have what further indices the form's tensors have."""
        a, b, *scales = OPERANDS[operands]
        further = [self.source.count(x) for x in ("A[g,", "B[g,", "B[e[")]
        leads = (further[0], further[1] + further[2])
        entries = ",".join("1x" * n + x if x != "none" else x for n, x in zip(leads, scales, strict=False))
        c = RESULTS[result]
        if self.at[0] == 1:  # the result of one group
            c = c.replace("[", "[g,").replace("1xn", "1x1xn")
        return self.source.format(c, a, f"{b} scale({entries})" if entries else b).replace("+ =", "+=")


def blocks(of: int) -> Form:
    """The second block stays in its group; the others are in that one too, in others, or in none."""
    count = -(-SIZES["m"] // of)
    ways = [[1] * count, [0, 1, *[2] * (count - 2)], [-1, 1, *[-1] * (count - 2)], [1, 1, *[0] * (count - 2)]]
    return Form(f"{{}} = A[m,k]{{}} @ B[e[m/{of}],n,k]{{}}", {"e": ways}, (slice(of, 2 * of),))


FORMS = {
    "ragged": Form(f"{{}} = A[m,k]{{}} @ B[g,n,k]{{}} {ROWS}", OFFSETS),
    "masked": Form("{} = A[g,m,k]{} @ B[g,n,k]{} for m < rows[g]", COUNTS, (1, slice(40))),
    "blocks of 8": blocks(8),
    "blocks of 24": blocks(24),
    "blocks of 32": blocks(32),
    "gathered": Form(f"{{}} = A[idx[m],k]{{}} @ B[g,n,k]{{}} {ROWS}", OFFSETS),
    "along K": Form("{} = A[m,k]{} @ B[n,k]{} for k in off[g]:off[g+1]", ENDS, (1,)),
}
OPERANDS = {
    "1x128": ("", "", "1x128", "128x128"),
    "bf16": ("", ""),
    "mxfp8": (":mxfp8", ":mxfp8"),
    "nvfp4": (":nvfp4", ":nvfp4"),
    "bf16 by i4": (":bf16", ":i4", "none", "1x64:bf16"),
    "e4m3 by nvfp4": ("", ":nvfp4", "1x128"),
    "tf32": (":tf32", ":tf32"),
}
RESULTS = {
    "f32": "C[m,n]:f32",
    "+=": "C[m,n]:f32 +",
    "mxfp8": "D[m,n]:mxfp8",
    "nvfp4": "D[m,n]:nvfp4",
    "a scale a row": "D[m,n]:e4m3 scale(1xn)",
    "scattered": "C[to[m],n]:f32",
}
CASES = [
    *((form, operands, "f32") for form in FORMS for operands in OPERANDS),
    *((form, "1x128", result) for form in FORMS for result in RESULTS if FORMS[form].at[0] != 1 or result[0] != "s"),
]
SHARE = int(os.environ.get("TEST_TARGETS", "1"))
"""Targets of each case, by turns."""


@pytest.fixture(autouse=True)
def _ptx(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Several kernels a case, which the emulator alone runs."""
    monkeypatch.setenv("SCALEC_CACHE_DIR", f"{cache.directory()}/ptx")
    with without_ptxas():
        yield


def rows_of(kernel: Kernel, target: str, form: Form, seed: int = 0) -> list[list[bytes]]:
    """The bits of the rows that stay, of each launch and each result; with a seed of one launch of another order."""
    dims = {d: SIZES[d] for d in kernel.spec.dims}
    with context.context():
        values = dict(reference.make(build(kernel.spec.source, {}), dims, seed=4))  # sums are rounded, by their order
    for name in {"idx", "to"} & {*values}:
        values[name] = (np.arange(SIZES["m"], dtype=np.int32) * 7) % 89
    device = emulated.EmulatedDevice(target)
    device.options = replace(device.options, seed=seed)
    kernel = Kernel(kernel.spec, b"", ptx=kernel.ptx, device=device)
    found = []
    ways = list(zip(*form.routed.values(), strict=True))
    for routed in ways[seed % len(ways) :][:1] if seed else ways:
        given = values | {n: np.array(x, np.int32) for n, x in zip(form.routed, routed, strict=True)}
        arguments, outs = upload(device, kernel.spec, given, dims)
        kernel(*arguments, out=outs[0] if len(outs) == 1 else tuple(outs))
        at = (given["to"][form.at[0]],) if "to" in given else form.at
        found.append([np.ascontiguousarray(x.numpy()[at]).tobytes() for x in outs])
    return found


def kernels(target: str, source: str, form: str) -> list[Kernel]:
    """Of rows that are not known, that are, and of which some number is expected."""
    about = [" about 3", " about 4000"] if form in ("ragged", "masked", "gathered") else []
    made = [
        scalec.compile(f"{source}{x} with invariant", target=target, dims={d: SIZES[d] for d in known})
        for x, known in zip(("", "", *about), ("nk", "mnk", "n", "n"), strict=False)
    ]
    return [x for x in made if isinstance(x, Kernel)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("form", "operands", "result", "target"),
    [(*case, TARGETS[(i + j) % 3]) for i, case in enumerate(CASES) for j in range(SHARE)],
)
def test_a_row_does_not_depend_on_the_rows_of_its_group(form: str, operands: str, result: str, target: str) -> None:
    source = FORMS[form].text(operands, result)
    found = [x for i, k in enumerate(kernels(target, source, form)) for x in rows_of(k, target, FORMS[form], i)]
    assert len(found) > 3
    assert all(x == found[0] for x in found)


@pytest.mark.thorough
def test_the_data_show_the_order() -> None:
    """Without that the test above would pass whatever the order."""
    form = FORMS["ragged"]
    source = form.source.format("C[m,n]:f32", ":e4m3", ":e4m3")
    made = [scalec.compile(f"{source} with promote={x}", "sm_90a", {"n": 32, "k": 384}) for x in (0, 128)]
    one, other = (rows_of(x, "sm_90a", form) for x in made)
    assert one[0] != other[0]
