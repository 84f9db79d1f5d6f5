"""ptxas on every program of sm_100a's table at a real size: no spills, no local memory, two stages or more; for sm_103a
on one of each kind of product.

The ptxas on PATH is used where there is one, as the one of the wheel may be another version; SCALEC_PTXAS wins.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter

import pytest

import scalec
from benchmarks.sass_flow import parse
from scalec import env
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.ir.schedule import parse_field
from scalec.lowering import ptxas
from tests.emulator.sm100_programs import PROGRAMS
from tests.lowering.under_way import Loads, wrong_under_way

NEXT = ("bf16", "mxfp8", "nvfp4", "f32 1x128, 128x128", "e4m3 x e2m1")
PATHS = [
    *((name, "sm_100a", 1, 1) for name in PROGRAMS),
    *((name, "sm_100a", 2, 1) for name, source in PROGRAMS.items() if " with " not in source),
    *((name, "sm_100a", 1, 2) for name, source in PROGRAMS.items() if not re.search("x(48|80)x", source)),
    *((name, "sm_103a", 2, 1) for name in NEXT),
]
WIDE = {
    "C[m,n] = gelu(A[m,k] @ B[n,k] + bias[n])": "128x256x64",
    "C[m,n] = silu(A[m,k]:mxfp8 @ B[n,k]:mxfp8) * R[m,n]": "128x256x128",
    "C[m,n] = gelu(A[m,k]:nvfp4 @ B[n,k]:nvfp4 + bias[n])": "128x256x256",
    "D[m,n]:nvfp4 = A[m,k]:nvfp4 @ B[n,k]:nvfp4": "128x256x256",
}
"""What needs many registers."""


@pytest.mark.once("target", "ctas", "warpgroups")
@pytest.mark.parametrize(("name", "target", "ctas", "warpgroups"), PATHS)
def test_no_spills(name: str, target: str, ctas: int, warpgroups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    schedule = {} if " with " in PROGRAMS[name] else {"cta_group": str(ctas)}
    schedule |= {"warpgroups": "2"} if warpgroups > 1 else {}
    dims = {"n": 7168, "k": 2048}
    kernel = scalec.compile(PROGRAMS[name], target=target, dims=dims, schedule=schedule)  # refuses spills
    fields = dict(f.strip().split("=") for f in kernel.spec.schedule.split(","))
    assert parse_field("stages", fields["stages"]) >= 2
    assert fields["tile"].split("x")[0] == "128"
    if " with " not in PROGRAMS[name]:
        assert fields["tile"].split("x")[1] in (("192", "256") if ctas == 1 else ("256",)), kernel.spec.schedule
    if warpgroups > 1:
        assert fields["warpgroups"] == "2"
    (function,) = parse(disassemble(kernel.cubin, encoding=True))
    assert not wrong_under_way(function, Loads())


@pytest.mark.once
@pytest.mark.parametrize("warpgroups", ["1", "2"])
@pytest.mark.parametrize("source", WIDE)
def test_no_spills_of_the_widest(source: str, warpgroups: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a decided tile nothing is chosen anew; where N is not known, results are stored from registers."""
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    decided = {"tile": WIDE[source], "warpgroups": warpgroups}
    for dims in ({"n": 7168, "k": 2048}, {"k": 2048}):
        kernel = scalec.compile(source, target="sm_100a", dims=dims, schedule=decided)
        assert f"warpgroups={warpgroups}, " in kernel.spec.schedule


@pytest.mark.parametrize("tile", ["128x256x128", "128x192x128"])
def test_pairs_meet_before_they_allocate(tile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ptxas an allocation of two CTAs is stores into the other's shared memory: that one has begun by then. Neither
    there nor at the end does a thread wait for all that it has under way."""
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    source, decided = PROGRAMS["1x32, none"], {"cta_group": "2", "tile": tile}
    made = compile_source(source, "sm_100a", {"m": 4096, "n": 7168, "k": 2048}, decided)
    assert made.cubin is not None
    code = [x.opcode for f in parse(disassemble(made.cubin, encoding=True)) for x in f.instructions]
    met = next(i for i, x in enumerate(code) if x.startswith("UCGABAR_WAIT"))
    assert met < next(i for i, x in enumerate(code) if x.startswith(("STAS", "UTCATOMSWS", "SYNCS.ARRIVE")))
    assert sum(x.startswith("UCGABAR_WAIT") for x in code) == 2
    assert not [x for x in code if x.startswith("MEMBAR") and not x.endswith(".CTA")]
    assert made.spec is not None
    maps = [a for a in made.spec.arguments if a.kind == "tensor_map"]
    assert sum(x == "UTMACCTL.PF" for x in code) == len(maps)  # each is prefetched once


def test_what_the_isa_asks_of_pairs_is_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader of a pair waits by the plain form, and no fence of its loop acquires what threads of the other CTA
    stored. Relaxed waits at the cluster's scope, and the fence, are the same instructions but for padding: a ptxas that
    makes more of them needs them in the kernels (docs/notes/sm_100a.md)."""
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)

    def instructions(text: str) -> Counter[str]:
        code = parse(disassemble(ptxas.assemble(text, "sm_100a", "").cubin, encoding=True))
        return Counter(x.opcode for f in code for x in f.instructions if x.opcode != "NOP")

    made = compile_source(PROGRAMS["1x32, none"], "sm_100a", {"n": 7168, "k": 2048}, {"cta_group": "2"})
    assert made.ptx is not None
    text, acquire = made.ptx, "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;"
    for plain, asked in (
        ("mbarrier.try_wait.parity.shared::cta.b64", "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64"),
        ("tcgen05.fence::after_thread_sync;", f"{acquire} tcgen05.fence::after_thread_sync;"),
    ):
        assert text.count(plain) >= 6, plain  # a round of the loop has six K blocks
        text = text.replace(plain, asked)
    assert instructions(text) == instructions(made.ptx)
