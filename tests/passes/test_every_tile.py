"""Programs for which no listed tile fits: each gets one of all that the instructions can have, or is refused for what
it says. Those with a seed are what `python -m tests.fuzz --seed N` draws."""

from __future__ import annotations

from typing import Any

import pytest

from scalec import compiler
from scalec.errors import ApartError, ScheduleError, UnsupportedError
from scalec.ir.schedule import Request
from scalec.lowering import ptxas
from scalec.passes.choose.tiling import choose

FEW_REGISTERS = {
    "sums for a block beside column factors, seed 21479": (
        "sm_100a", "C[m,n]:fp8_block = A[m,k] @ B[n,k] scale(128x128:ue8m0, 24x128)", {"n": 87}, (128, 128, 128)),
    "of rows and columns, seed 100507": (
        "sm_100a", "C[m,n]:fp8_block = A[m,k] @ B[n,k] scale(1x256@col, 40x256@col)", {}, (128, 128, 128)),
    "reads beside a block of 128, seed 2137": (
        "sm_100a", "C[m,n]:fp8_block = x[m,n]:f32 + A[k,m]:e4m3 @ B[n,k]:e4m3 scale(96x64:ue8m0, 64x128:ue8m0)", {},
        (128, 128, 128)),
    "reads beside a block of 64, seed 20313": (
        "sm_100a", "C[m,n]:e4m3 scale(1x64:ue8m0) = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(40x16:ue4m3, 16x16:ue4m3) * x[m,n]",
        {"m": 3}, (128, 64, 256)),
    "likewise, N contiguous, seed 21642": (
        "sm_103a", "C[m,n]:e2m1 scale(1x64:ue8m0) = (A[m,k]:bf16 @ B[k,n]:bf16) - x[m,n] + y[m,n/128]", {"k": 153},
        (128, 64, 64)),
    "reads beside uneven blocks, seed 1618": (
        "sm_100a", "C[m,n]:e4m3 scale(1x40) = A[m,k]:tf32 @ B[n,k]:tf32 + x[m,n/128]:f32", {}, (128, 80, 32)),
    "two reads and partial sums, seed 4251": (
        "sm_90a", "C[m,n]:e4m3 scale(1x128) = max(A[m,k]:e4m3 @ B[n,k]:e5m2 * x[m,n/128], y[m,n])", {},
        (128, 128, 128)),
}  # fmt: skip


@pytest.mark.parametrize("program", FEW_REGISTERS)
def test_estimates_leave_no_program_without_a_tile(program: str) -> None:
    target, text, dims, tile = FEW_REGISTERS[program]
    assert compiler.decide(text, target, dims, tuned=False)[0].tile == tile


def test_a_tile_is_chosen_with_the_registers_that_it_gets() -> None:
    """Seed 2046: 192 columns of two warpgroups need 192 registers, and where a warp copies scales there are 176."""
    text = "C[m,n]:e4m3 scale(1x24) = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(128x64:ue4m3, nx16:ue4m3@blocked)"
    chosen, _ = compiler.decide(text, "sm_103a", tuned=False)
    assert (chosen.tile, chosen.scale_copier, chosen.registers) == ((128, 96, 256), 1, (80, 240))


def test_partial_sums_take_fewer_registers_of_narrower_instructions() -> None:
    target, text, dims, _ = FEW_REGISTERS["two reads and partial sums, seed 4251"]
    assert compiler.decide(text, target, dims, tuned=False)[0].mma_n == 64


@pytest.mark.parametrize(("target", "block"), [("sm_90a", 72), ("sm_90a", 200), ("sm_120a", 72), ("sm_100a", 144)])
def test_blocks_of_any_eights_have_a_tile(target: str, block: int) -> None:
    chosen, _ = compiler.decide(f"C[m,n]:e4m3 scale(1x{block}) = A[m,k] @ B[n,k]", target, tuned=False)
    assert chosen.tile[1] % block == 0


@pytest.mark.parametrize(("target", "text", "message", "fix"), [
    ("sm_120a", "C[m,n]:e4m3 scale(1x40) = A[m,k]:e2m1 @ B[k,n]:e2m1",
     "blocks of 40: no tile of up to 256 of n has whole ones and whole copies of B, which bring 128 at a time",
     "store B as [n, k], say 1x32"),
    ("sm_120a", "C[m,n]:e2m1 scale(1x24:ue8m0@col) = A[m,k]:e2m1 @ B[k,n]:e2m1", "blocks of 24", "store B as [n, k]"),
    ("sm_90a", "C[m,n]:e4m3 scale(1x4096) = A[m,k] @ B[n,k]", "no tile of up to 256 of n has whole ones, on sm_90a",
     "say 1x32 or 1x128, or give C f32"),
    ("sm_120a", "C[m,n]:e4m3 scale(1x512) = A[m,k] @ B[n,k]", "no tile of up to 256 of n", "say 1x32 or 1x128"),
])  # fmt: skip
def test_blocks_that_no_tile_has_are_refused_where_they_stand(target: str, text: str, message: str, fix: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        compiler.compile_source(text, target, until="ptx", tuned=False)
    assert message in refusal.value.message
    assert fix in refusal.value.fix
    at = refusal.value.place
    assert at is not None
    assert (at.line, at.column, at.text) == (1, 1, text)


@pytest.mark.parametrize(("text", "cluster"), [
    ("C[m,n]:e4m3 scale(1x256) = A[m,k] @ B[n,k]", (1, 2)),
    ("C[m,n]:e4m3 scale(1x1024) = A[m,k] @ B[n,k]", (1, 8)),
    ("G[m,n] = X[m,k] @ V[n,k] scale(1x128, 128x128);"
     " H[m,n]:fp8_block = silu(G) * (X[m,k] @ W[n,k] scale(1x128, 128x128))", (1, 4)),
])  # fmt: skip
def test_blocks_that_no_tile_has_are_those_of_a_cluster(text: str, cluster: tuple[int, int]) -> None:
    chosen, _ = compiler.decide(text, "sm_100a", {"k": 128}, tuned=False)
    assert (chosen.cluster, chosen.split, chosen.consumers) == (cluster, 1, "cooperative")


@pytest.mark.parametrize(("text", "fix"), [
    ("T[m,n] = A[m,k] @ B[n,k] scale(1x128, 1x128); R[m]:f32 = max[n](T) * w[m]", "keep n in the result"),
])  # fmt: skip
def test_what_a_refusal_offers_is_not_what_the_program_says(text: str, fix: str) -> None:
    sizes = {name: n for name, n in (("n", 256), ("k", 128), ("h", 32)) if f"{name}]" in text or f",{name}," in text}
    with pytest.raises(UnsupportedError, match="no tile fits") as refusal:
        compiler.decide(text, "sm_100a", sizes, tuned=False)
    assert fix in refusal.value.fix


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_blocks_that_a_refusal_names_have_a_tile(target: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        compiler.decide("C[m,n]:e4m3 scale(1x4096) = A[m,k] @ B[n,k]", target, tuned=False)
    named = [int(block) for block in refusal.value.expected.removeprefix("blocks of ").split(", ")]
    for block in (32, 96, 104, 144, 160, 176, 224, 256):
        try:
            compiler.decide(f"C[m,n]:e4m3 scale(1x{block}) = A[m,k] @ B[n,k]", target, tuned=False)
        except UnsupportedError:
            assert block not in named
        else:
            assert block in named


def test_every_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ptxas spills, each tile is tried once, the smallest last; some once more with something else."""
    asked: list[Request] = []

    def slow(ptx: str, arch: str, what: str) -> Any:
        ptxas.judge("4 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads", what)

    def note(*given: Any) -> Request:
        asked.append(choose(*given))
        return asked[-1]

    monkeypatch.setattr(ptxas, "assemble", slow)
    monkeypatch.setattr("scalec.passes.choose.tiling.choose", note)
    target, text, dims, _ = FEW_REGISTERS["two reads and partial sums, seed 4251"]
    with pytest.raises(ApartError, match="ptxas made a slow kernel"):
        compiler.compile_source(text, target, dims, tuned=False)
    assert len(asked) == len({(s.swap, s.tile, s.mma_n, s.registers, s.epilogue) for s in asked})
    tiles = [(s.swap, s.tile, s.mma_n) for s in asked]
    assert len(set(tiles)) > 3
    assert tiles[:2] == [(0, (128, 128, 128), 64), (0, (128, 128, 128), 32)]
    assert (1, (128, 8, 128), None) in tiles


def test_fields_that_a_target_has_not_are_refused_where_no_listed_tile_fits() -> None:
    """Seed 1996: every tile was asked for columns of products by two CTAs, of which sm_90a has none."""
    text = "C[m,n]:mxfp4 = A[m,k] @ B[n,k]:e4m3 scale(64x128, none)"
    with pytest.raises(ScheduleError, match=r"no tile fits|cta_group"):
        compiler.decide(text, "sm_90a", {}, {"cta_group": "2", "mma_n": "16", "promote": "0"}, tuned=False)
