"""Operands whose rows are of pages that a table names (`K[table[s,t/64],t%64,d]`), on every target."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import made_up
from scalec.errors import ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.test_fold_columns import launched
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

FP8 = (
    "L[s,t]:f32 = sum[h](relu(Q[s,h,d]:e4m3 @ K[table[s,t/64],t%64,d]:e4m3 scale(none,1x1xd)) * W[s,h]:f32)"
    " for t < len[s] else -inf"
)
FORMS = {
    "FP8": (FP8, 64),
    "MXFP4": (
        "L[s,t] = sum[h](relu(Q[s,h,d]:mxfp4 @ K[table[s,t/64],t%64,d]:mxfp4) * W[s,h]:f32) for t < len[s] else -inf",
        64,
    ),
    "BF16 by FP8": (
        "L[s,t]:f32 = sum[h](relu(Q[s,h,d] @ K[table[s,t/16],t%16,d]:e4m3 scale(none,1x1xd)) * W[s,h]) for t < len[s]",
        16,
    ),
    "several tokens, each to where it is": (
        "L[s,j,t] = sum[h](relu(Q[s,j,h,d]:mxfp8 @ K[table[s,t/128],t%128,d]:mxfp8) * W[s,j,h])"
        " for t < len[s,j] else 0",
        128,
    ),
    "largest, of tables that two share": (
        "L[s,t]:f32 = max[h](Q[s,h,d] @ K[table[s/2,t/64],t%64,d]) for t < len[s]",
        64,
    ),
    "all, by columns": ("L[t,q] = max[h](Q[q,h,d] @ K[table[t/32],t%32,d])", 32),
    "promoted": (
        "L[s,t] = sum[h](relu(Q[s,h,d]:e4m3 @ K[table[s,t/32],t%32,d]:e4m3 scale(none,1x1x128)) * W[s,h]:f32)"
        " for t < len[s] else 0",
        32,
    ),
}
SIZES = [
    (3, 300, 128),
    (2, 130, 256),
    (1, 1, 128),
    (4, 64, 128),
    (2, 65, 384),
    (3, 257, 128),
    (1, 500, 128),
    (5, 31, 256),
]
FIXED = ("hd", "hdt", "hds", "hdst")


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, target: str, seed: int) -> None:
    source, page = FORMS[name]
    s, t, d = SIZES[seed]
    dims = {"s": s, "t": t, "d": d, "h": (16, 32)[seed % 2], "j": 3, "q": 5, "K_0": s * -(-t // page) + 2}
    names = used(source)
    fixed = "".join(x for x in FIXED[seed % len(FIXED)] if x in names)
    run(source, target, {x: n for x, n in dims.items() if x in names}, fixed, seed)


CUT = (40, 24, 48, 56, 72, 80, 88, 96, 104, 112, 120)
"""Pages that tiles of the targets have whole, or cut."""
ODD = (20, 33, 100, 2, 3, 4, 5, 12, 63, 129, 255, 1000)
"""Pages whose rows are copied one by one, as they are no multiple of eight; and a large one."""


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("page", CUT + ODD)
@pytest.mark.parametrize("target", TARGETS)
def test_pages_of_any_size(target: str, page: int, seed: int) -> None:
    """Of tiles that no page divides, each copy brings rows of one page, or one row."""
    number = page // 8 + seed + 1 if page in CUT else ODD.index(page) + seed
    source, old = list(FORMS.values())[number % len(FORMS)]
    source = source.replace(f"/{old},", f"/{page},").replace(f"/{old}]", f"/{page}]").replace(f"%{old}", f"%{page}")
    s, t, d = SIZES[seed]
    dims = {"s": s, "t": t, "d": d, "h": (16, 32)[seed % 2], "j": 3, "q": 5, "K_0": s * -(-t // page) + 2}
    names = used(source)
    fixed = "".join(x for x in FIXED[seed % len(FIXED)] if x in names)
    run(source, target, {x: n for x, n in dims.items() if x in names}, fixed, seed)


def used(source: str) -> set[str]:
    """The dimensions of a form."""
    return {"t", "h", "d", "K_0"} | {x for x in "sjq" if f"[{x}," in source or f"{x}]" in source}


TABLES = {
    "a page twice": lambda table: np.zeros_like(table),
    "backwards": lambda table: table[:, ::-1],
    "no page": lambda table: np.where(np.arange(table.shape[1]) % 2, -1, table),
    "rubbish beyond the context": lambda table: np.where(np.arange(table.shape[1]) < 2, table, 1 << 30),
}


def of_pages(page: int, source: str = FP8) -> str:
    """Of another size than 64; of 1 the table names rows."""
    if page > 1:
        return source.replace("t/64", f"t/{page}").replace("t%64", f"t%{page}")
    return source.replace("t/64],t%64", "t]").replace("1x1xd", "1xd")


@pytest.mark.once("target", "name", "page")
@pytest.mark.parametrize("otherwise", [True, False])
@pytest.mark.parametrize("page", [64, 1, 7, 20, 33])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, target: str, page: int, otherwise: bool) -> None:
    """Contexts of 0, of one, of whole pages and all; what no page is for lies outside too."""
    dims = {"s": 4, "t": 200, "d": 128, "h": 16, "K_0": 9}
    source = of_pages(page, FP8 if otherwise else FP8.replace(" else -inf", ""))
    values, _ = made_up(source, dims, 2)
    table = TABLES[name](values["table"]).astype(np.int32)
    lengths = [0, 1, 2 * page, 2 * page if "rubbish" in name else 200]
    values = {**values, "table": table, "len": np.array(lengths, np.int32)}
    with context.context():
        results = reference.run(build(source, dims), values, dims=dims, exact=True)
    expected, reached = results["L"], results.written["L"]
    got = launched(source, target, dims, values, 0x5A)
    kept = np.frombuffer(b"\x5a" * 4, np.float32)[0]
    assert (got[~reached] == kept).all()
    filled = reached & np.isinf(expected)
    assert (got[filled] == -np.inf).all()
    inside = reached & ~filled
    assert np.abs(got[inside] - expected[inside]).max(initial=0) < 1e-2 * np.abs(expected[inside]).max(initial=1)


PARTS = [
    ("sm_90a", "tile=64x16x128", 128),
    ("sm_90a", "tile=64x32x128, cluster=2x1", 32),
    ("sm_90a", "tile=64x16x128, consumers=pingpong", 64),
    ("sm_90a", "tile=128x16x128, split=2", 64),
    ("sm_100a", "tile=128x16x128", 256),
    ("sm_120a", "tile=32x64x128, warpgroups=1, warps=1x4", 64),
    ("sm_90a", "tile=192x16x128", 128),
    ("sm_90a", "tile=128x16x128, cluster=2x1", 80),
    ("sm_120a", "tile=32x64x128, warpgroups=1, warps=1x4", 40),
    ("sm_90a", "tile=128x16x128, cluster=2x1", 33),
    ("sm_90a", "tile=64x16x128, consumers=pingpong", 20),
    ("sm_90a", "tile=128x16x128, split=2", 100),
    ("sm_100a", "tile=128x32x128, cluster=2x1, cta_group=2", 33),
    ("sm_100a", "tile=128x32x128, cluster=2x1", 5),
    ("sm_120a", "tile=32x64x128, warpgroups=1, warps=1x4", 3),
]


@pytest.mark.once(touches=lambda case: {case[0]})
@pytest.mark.parametrize("case", PARTS, ids=[f"{target}, {fields}, {page}" for target, fields, page in PARTS])
def test_tiles_of_pages(case: tuple[str, str, int]) -> None:
    """Pages larger than a tile, and smaller ones, in several schedules."""
    target, fields, page = case
    source = of_pages(page)
    run(f"{source} with {fields}", target, {"s": 2, "t": 300, "d": 256, "h": 16, "K_0": 20}, "hd")


DEALERS = [
    ("for t < len[s]", "queue"),
    ("for t in 0:len[s]", "queue"),
    ("for t < len[s] else -inf", "static"),  # who stores fills what is outside
    ("for t in lo[s]:len[s]", "static"),  # a page does not begin where a tile does
    ("for t < 100", "static"),
    ("", "static"),
]


@pytest.mark.parametrize(("written", "expected"), DEALERS)
def test_who_deals_out_tiles(written: str, expected: str) -> None:
    """Lengths of sequences alone, where nothing is written beyond them, are a list of tiles."""
    source = f"{FP8.split(' for ')[0]} {written}"
    kernel = scalec.compile(source, target="sm_90a", dims={"h": 16, "d": 128})
    assert f"scheduler={expected}" in kernel.spec.schedule
    few = "stages=3" in kernel.spec.schedule  # what is read beside copies waits behind them
    assert few == (expected == "queue")
    assert "dependent=1048576" in kernel.spec.schedule


@pytest.mark.parametrize(
    ("target", "d", "brought"), [("sm_90a", 128, True), ("sm_90a", 256, False), ("sm_120a", 128, False)]
)
def test_scales_of_pages(target: str, d: int, brought: bool) -> None:
    """They come with the only K block of a tile; else L2 is asked for them."""
    kernel = scalec.compile(FP8.replace(" else -inf", ""), target=target, dims={"h": 16, "d": d})
    assert ("cp.async.ca.shared.global" in kernel.ptx) == brought
    assert ("prefetch.global.L2" in kernel.ptx) != brought


@pytest.mark.parametrize(("target", "cluster"), [("sm_90a", "2x1"), ("sm_100a", "2x1"), ("sm_120a", "1x1")])
def test_many_lengths(target: str, cluster: str) -> None:
    """More sequences than a warp looks at together, most of no length; CTAs take several tiles each. Q has scales too,
    which are read beside those of K that come into the stages."""
    dims = {"s": 150, "t": 150, "d": 128, "h": 16, "K_0": 50}
    source = FP8.replace(" else -inf", "").replace("none", "1x1xd") + f" with cluster={cluster}"
    values, _ = made_up(source, dims, 4)
    draw, lengths = np.random.default_rng(4), np.zeros(150, np.int32)
    lengths[draw.permutation(150)[:34]] = draw.integers(1, 151, 34)
    values = {**values, "len": lengths, "table": abs(values["table"])}  # all name pages
    with context.context():
        results = reference.run(build(source, dims), values, dims=dims, exact=True)
    expected, reached = results["L"], results.written["L"]
    assert (reached.sum(1) == lengths).all()
    got = launched(source, target, dims, values, 0x5A, 6)
    assert (got[~reached] == np.frombuffer(b"\x5a" * 4, np.float32)[0]).all()
    assert np.abs(got - expected)[reached].max() < 1e-2 * np.abs(expected[reached]).max()


@pytest.mark.thorough
@pytest.mark.parametrize("fields", ["run=4", "run=3, tile=128x32x128", "run=1"])
@pytest.mark.parametrize("tokens", [1, 3])
def test_tiles_of_a_sequence_in_a_row(fields: str, tokens: int) -> None:
    """A CTA takes several, of which those of another sequence, or of other columns, need what is read for each column
    anew; the last ones of a sequence are fewer. The lengths leave some with none."""
    dims = {"s": 9, "t": 600, "d": 128, "h": 16, "K_0": 12}
    source = FP8.replace(" else -inf", "").replace("L[s,t]", "L[s,u,t]").replace("[s,h", "[s,u,h")
    source = (source if tokens > 1 else FP8.replace(" else -inf", "")) + f" with cluster=1x1, {fields}"
    dims |= {"u": tokens} if tokens > 1 else {}
    values, _ = made_up(source, dims, 5)
    lengths = np.array([600, 0, 129, 1, 512, 257, 0, 600, 384], np.int32)
    values = {**values, "len": lengths, "table": abs(values["table"])}
    with context.context():
        results = reference.run(build(source, dims), values, dims=dims, exact=True)
    expected, reached = results["L"], results.written["L"]
    got = launched(source, "sm_100a", dims, values, 0x5A, 1)
    assert (got[~reached] == np.frombuffer(b"\x5a" * 4, np.float32)[0]).all()
    assert np.abs(got - expected)[reached].max() < 1e-2 * np.abs(expected[reached]).max()


def test_a_tile_that_cuts_pages_often() -> None:
    words = r"128 t, and K has pages of 40: 16 copies of 8 rows, and a thread has registers for 8"
    with pytest.raises(ScheduleError, match=words):
        scalec.compile(FP8.replace("64", "40") + " with tile=128x16x128", target="sm_90a", dims={"h": 16, "d": 128})


@pytest.mark.parametrize(("page", "rows"), [(48, 192), (40, 64)])
def test_tiles_that_cut_no_pages_are_chosen(page: int, rows: int) -> None:
    """Where there are some."""
    kernel = scalec.compile(FP8.replace("64", str(page)), target="sm_90a", dims={"h": 16, "d": 128})
    assert f"tile={rows}x" in kernel.spec.schedule


def test_refusals() -> None:
    dims = {"h": 16, "d": 128}
    for source, words in (
        (FP8.replace("t/64", "t/1").replace("t%64", "t%1"), "pass a view of K without the index 0"),
        ("L[s,m,t] = Q[s,m,d] @ relu(K[table[s,t/20],t%20,d])", "a computed operand has an index from memory"),
        ("L[s,m,t] = Q[s,m,d] @ K[table[s,t/64],d,t%64]", "has pages of t, and is contiguous along it"),
        ("L[s,m,t] = Q[s,m,d] @ K[table[s,t/20],d,t%20]", "has pages of t, and is contiguous along it"),
        ("L[s,m,t] = Q[s,m,d] @ (K[table[s,t/20],t%20,d]:u4 - Z[table[s,t/20],t%20,d/64])", "d] is of pages"),
    ):
        with pytest.raises(UnsupportedError) as found:
            scalec.compile(source, target="sm_90a", dims={x: n for x, n in dims.items() if f"{x}" in source})
        assert words in str(found.value)
        assert found.value.place is not None
