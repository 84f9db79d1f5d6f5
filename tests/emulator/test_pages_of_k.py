"""Sums over pages that a table names, `P[s,h,t] @ V[table[s,t/64],t%64,d]`: what no page is for, or lies outside of a
range, NaN too, is not multiplied."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.errors import ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from tests.emulator.test_range_of_k import run
from tests.emulator.test_several_results import TARGETS
from tests.tiers import SEEDS

LENGTHS = " for t < len[s]"

PROGRAMS = {
    "BF16": "O[s,h,d]:f32 = P[s,h,t] @ V[table[s,t/64],t%64,d]" + LENGTHS,
    "f16, left": "O[s,d,h] = V[table[s,t/128],t%128,d]:f16 @ P[s,h,t]:f16" + LENGTHS,
    "FP8": "O[s,h,d]:f32 = P[s,h,t]:e4m3 @ V[table[s,t/64],t%64,d]:e4m3 scale(none,tensor)" + LENGTHS,
    "BF16 by FP8": "O[s,h,d] = P[s,h,t] @ V[table[s/2,t/64],t%64,d]:e4m3" + LENGTHS,  # of tables that two share
    "K last": "O[s,h,d]:f32 = P[s,h,t] @ V[table[s,t/32],d,t%32]" + LENGTHS,
    "of heads": "O[s,g,h,d] = P[s,g,h,t] @ V[table[s,t/64],t%64,g,d]" + LENGTHS,
    "windows": "O[s,h,d]:f32 = P[s,t,h] @ V[table[s,t/256],t%256,d] for t in lo[s]:hi[s]",
    "large pages": "O[s,h,d] = P[s,h,t] @ V[table[s,t/512],t%512,d]" + LENGTHS,
    "promised": "O[s,h,d]:f32 = P[s,h,t] @ V[table[s,t/64],t%64,d]" + LENGTHS + " by 64",
    "one table, +=": "C[h,d]:f32 += P[h,t] @ V[e[t/64],t%64,d] for t in 5:130",
}
SIZES = ((3, 300, 128), (2, 130, 64), (1, 1, 128), (4, 0, 136), (2, 65, 192), (3, 257, 72), (1, 500, 128), (5, 31, 8))
FIXED = ("hdst", "hdt", "", "hd")


def check(text: str, target: str, dims: dict[str, int], fixed: str, seed: int, settings: str = "") -> None:
    """Against the reference, with NaN wherever nothing is summed: in rows of pages that no length reaches, in pages
    that no table names, and beside entries that name none."""
    dims = {d: n for d, n in dims.items() if d == "V_0" or re.search(rf"[\[,]{d}\b", text)}
    source = text + f" with {settings}" * bool(settings)
    kernel = scalec.compile(source, target=target, dims={d: n for d, n in dims.items() if d in fixed})
    rng = np.random.default_rng(seed)
    with context.context():
        program = build(text, {d: n for d, n in dims.items() if n})
        values: dict[str, Any] = dict(reference.make(program, {d: n or 1 for d, n in dims.items()}, seed=seed))
        for t in kernel.spec.operands:
            shape = tuple(e.value(dims) for e in t.shape)
            values[t.name] = values[t.name][tuple(slice(n) for n in shape)]
        t = dims["t"]
        if "len" in values:
            values["len"] = np.array([(t, 0, t // 2, 1, t)[i % 5] for i in range(dims["s"])], np.int32)
            if "by 64" in text:
                values["len"] = np.where(values["len"] < t, values["len"] // 64 * 64, t).astype(np.int32)
        if "lo" in values:
            values["lo"] = np.array([(t // 3, 0, t, 1)[i % 4] for i in range(dims["s"])], np.int32)
            values["hi"] = np.array([(t, t // 2, t, 1)[i % 4] for i in range(dims["s"])], np.int32)
        for name in ("table", "e"):
            if name in values and values[name].size:
                drawn = rng.integers(0, dims["V_0"], values[name].size)
                drawn = np.where(rng.random(drawn.shape) < 0.2, -1, drawn).reshape(values[name].shape)
                if "len" in values and seed % 2:  # else pages that are there, of NaN
                    size = int(re.search(rf"{name}\[[s/2]+,t/(\d+)", text)[1])  # pyright: ignore
                    each = 2 if "s/2" in text else 1
                    most = [max(values["len"][i : i + each]) for i in range(0, dims["s"], each)]
                    behind = np.arange(drawn.shape[1]) * size >= np.array(most)[:, None]
                    drawn = np.where(behind, 1 << 30, drawn)
                values[name] = drawn.astype(np.int32)
        with np.errstate(all="ignore"):
            (wanted,) = reference.run(program, values, dims=dims, exact=True).values()
            for name in (x for x in ("P", "U", "V") if x in values):
                values[name] = poisoned(name, text, values, dims)
            (again,) = reference.run(program, values, dims=dims, exact=True).values()
    assert np.array_equal(wanted, again), "what is summed is poisoned"
    kernel.fixed = device = emulated.EmulatedDevice(target)
    device.checks = False
    got = run(kernel, target, values, dims, seed)
    if not got.size:
        return
    assert not np.isnan(got).any(), f"NaN in {text}, {target}, {kernel.spec.schedule}"
    assert reference.diff(got, wanted) < (1e-5 if ":f32" in text else 1e-3), f"{text}, {target}, {kernel.spec.schedule}"


def poisoned(name: str, text: str, values: dict[str, Any], dims: dict[str, int]) -> np.ndarray:
    """An operand with NaN in all that is not summed."""
    x, t, found = values[name], np.arange(dims["t"]), re.search(r"V\[(\w+)\[(?:[s/2]+,)?t/(\d+)\],([\w,%]+)\]", text)
    assert found is not None
    table, size, rows = np.atleast_2d(values[found[1]]), int(found[2]), dims.get("s", 1)
    low = values.get("lo", [0] * rows if "len" in values else [5])
    high = values.get("len", values.get("hi", [130]))
    of = [s // 2 if "s/2" in text else s for s in range(rows)]  # which table
    inside = np.array([(t >= low[s]) & (t < high[s]) & (table[of[s], t // size] >= 0) for s in range(rows)])
    nothing = np.array(np.nan, x.dtype)
    if name == "P":
        axis = re.findall(r"\w+", text.partition("P[")[2])[: x.ndim].index("t")
        own = np.moveaxis(x, axis, -1)
        kept = inside.reshape(rows, *[1] * (own.ndim - 2), -1) if "P[s," in text else inside[0]
        return np.ascontiguousarray(np.moveaxis(np.where(kept, own, nothing), -1, axis))
    kept, axis = np.zeros((len(x), size), bool), 1 + found[3].split(",").index(f"t%{size}")
    for s in range(rows):
        kept[table[of[s], t[inside[s]] // size], t[inside[s]] % size] = True
    shape = [len(x) if i == 0 else x.shape[i] if i == axis else 1 for i in range(x.ndim)]
    return np.where(kept[:, : x.shape[axis]].reshape(shape), x, nothing)


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sums(name: str, target: str, seed: int) -> None:
    s, t, d = SIZES[seed]
    t = max(t, 130) if "5:130" in PROGRAMS[name] else t
    dims = {"s": s, "t": -(-t // 16) * 16, "d": -(-d // 16) * 16, "h": (16, 40)[seed % 2], "g": 3, "V_0": 13}
    check(PROGRAMS[name], target, dims, FIXED[seed % 4], seed)


SCHEDULES = ("cluster=2x1", "swap=0", "tile=64x64x32", "stages=2")
REFUSED = {("sm_100a", "tile=64x64x32"): "128 rows in tensor memory", ("sm_120a", "cluster=2x1"): "is 2 CTAs"}
REFUSED |= {(target, split): "items are whole tiles" for target in TARGETS for split in ("split=2", "split=3")}


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "settings"), [x for x in product(TARGETS, SCHEDULES) if x not in REFUSED])
def test_schedules(target: str, settings: str) -> None:
    check(PROGRAMS["BF16"], target, {"s": 3, "t": 400, "d": 128, "h": 80, "V_0": 13}, "hd", 5, settings)


@pytest.mark.parametrize(("target", "settings"), REFUSED)
def test_schedules_that_are_refused(target: str, settings: str) -> None:
    with pytest.raises(ScheduleError, match=REFUSED[target, settings]):
        check(PROGRAMS["BF16"], target, {"s": 3, "t": 400, "d": 128, "h": 80, "V_0": 13}, "hd", 5, settings)


@pytest.mark.thorough
@pytest.mark.parametrize("change", [{"h": 0}, {"d": 0}, {"t": 0}, {"h": 1}, {"V_0": 1}], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_sizes_of_0_and_1(target: str, change: dict[str, int]) -> None:
    dims = {"s": 2, "t": 160, "d": 64, "h": 16, "g": 3, "V_0": 13} | change
    for name in ("BF16", "of heads", "windows"):
        check(PROGRAMS[name], target, dims, "", 1)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("O[s,h,d] = P[s,h,t] @ V[table[s,t/64],t%64,d]", "V is in pages of 64 t(.|\n)*range"),
        ("O[s,h,d] = P[s,h,t] @ V[table[s,t/8],t%8,d]" + LENGTHS, "pages of a multiple of 32"),
        ("O[s,h,d] = U[table[s,t/64],t%64,h] @ V[table[s,t/64],t%64,d]" + LENGTHS, "so is the other"),
        ("O[s,h,d] = P[s,h,t]:e4m3 @ V[table[s,t/64],d,t%64]:e4m3 scale(1x1x128,none)" + LENGTHS, "P_scale"),
        ("O[s,h,d] = P[s,h,t] @ V[table[s,t/64],d,t%64] with tile=64x64x128", "64"),
    ],
)
def test_refused(source: str, message: str) -> None:
    dims = {"t": 640} if "with" in source else {}
    with pytest.raises((ScheduleError, UnsupportedError), match=message):
        scalec.compile(source, target="sm_90a", dims=dims)
