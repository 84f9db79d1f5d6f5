"""Scales of groups that a program copies from one layout to another, on every target: bit for bit what the reference
gives, and what the product of these groups reads."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, Guarded, between_guards
from scalec.checking.launch import upload
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.packing import numpy_dtype, to_layout
from scalec.runtime import emulated
from tests.emulator.test_copied_scales import SPECIAL
from tests.emulator.test_groups_apart_results import guards_kept
from tests.emulator.test_several_results import TARGETS
from tests.tiers import SEEDS

ROWS, K = "for m in off[g]:off[g+1]", "for k in off[g]:off[g+1]"

FORMS = {
    "rows to tiles": f"R[m,j]:ue8m0@blocked = S[m,j]:ue8m0 {ROWS} apart",
    "f32 to tiles": f"R[m,j]:ue8m0@blocked = S[m,j]:f32 {ROWS} apart",
    "ue4m3 to tiles": f"R[m,j]:ue4m3@blocked = S[m,j]:ue4m3 {ROWS} apart",
    "tiles to rows": f"R[m,j]:ue8m0 = S[m,j]:ue8m0@blocked {ROWS} apart",
    "tiles to words": f"R[m,j]:ue8m0@packed = S[m,j]:ue8m0@blocked {ROWS} apart",
    "words": f"R[m,j]:ue8m0@packed = S[m,j]:ue8m0 {ROWS}",
    "columns": f"R[m,j]:f32@col = S[m,j]:f32 {ROWS}",
    "columns of bf16": f"R[m,j]:f32@col = S[m,j]:bf16 {ROWS} apart",
    "turned": f"R[j,m]:f32 = S[m,j]:ue8m0@packed {ROWS}",
    "one a row": f"R[m,j]:f32@col = S[m,j]:f32 {ROWS}",
    "gathered": f"R[m,j]:ue8m0@blocked = S[idx[m],j]:ue8m0 {ROWS} apart",
    "gathered tiles": f"R[m,j]:ue8m0@packed = S[idx[m],j]:ue8m0@blocked {ROWS}",
    "gathered tiles to tiles": f"R[m,j]:ue8m0@blocked = S[idx[m],j]:ue8m0@blocked {ROWS} apart",
    "gathered, of all": "R[m,j]:f32@col = S[idx[m],j]:f32",
    "gathered, turned": "R[j,m]:ue8m0@packed = S[idx[m],j]:f32",
    "scattered": f"R[idx[m],j]:ue8m0@packed = S[m,j]:f32 {ROWS}",
    "scattered tiles": "R[idx[m],j]:ue8m0@blocked = S[m,j]:ue8m0",
    "masked": "R[g,m,j]:ue8m0@blocked = S[g,m,j]:ue8m0 for m < rows[g]",
    "masked words": "R[g,m,j]:ue8m0@packed = S[g,m,j]:f32 for m < rows[g]",
    "masked to rows": "R[g,m,j]:f32 = S[g,m,j]:ue8m0@packed for m < rows[g]",
    "masked, gathered": "R[g,m,j]:f32@col = S[idx[g,m],j]:f32 for m < rows[g]",
    "masked blocks": "R[g,m/128,j]:ue8m0@blocked = S[g,m/128,j]:f32 for m < rows[g]",
    "group of each block": "R[m,j]:f32@col = S[e[m/32],m,j]:f32",
    "batches": f"R[b,m,j]:ue8m0@blocked = S[b,m,j]:f32 {ROWS} apart",
    "a matrix for each group": f"R[g,m,j]:ue8m0@blocked = S[m,j]:ue8m0 {ROWS} apart",
    "squares": f"R[m/128,k/128]:ue8m0@blocked = S[m/128,k/128]:f32 {ROWS} apart",
    "squares to rows": f"R[m/32,k/32]:f32 = S[m/32,k/32]:ue8m0@blocked {ROWS} apart",
    "squares in words": f"R[m/32,k/32]:ue8m0@packed = S[m/32,k/32]:f32 {ROWS} apart",
    "squares of whole groups": f"R[m/32,j]:ue8m0@packed = S[m/32,j]:ue8m0 {ROWS} by 32",
    "squares of all": "R[m/128,k/128]:ue8m0@blocked = S[m/128,k/128]:f32",
    "two": f"R[m,j]:ue8m0@blocked = S[m,j]:f32 {ROWS} apart; T[m,j]:ue8m0@packed = U[m,j]:f32@col {ROWS} apart",
    "along k": f"R[m,k/32]:ue8m0@packed = S[m,k/32]:ue8m0 {K} apart",
    "along k, tiles": f"R[m,k/32]:ue8m0@blocked = S[m,k/32]:f32 {K} apart",
    "along k, to rows": f"R[m,k/16]:ue4m3 = S[m,k/16]:ue4m3@blocked {K} apart",
    "along k, of rows of k": f"R[m,k/32]:ue8m0@blocked = S[k/32,m]:f32 {K} apart",
    "along k, one each": f"R[m,k]:ue8m0@packed = S[m,k]:ue8m0 {K} apart",
    "along k, not apart": f"R[m,k]:ue8m0@packed = S[m,k]:f32 {K}",
    "along k, masked": "R[g,m,k]:ue8m0@packed = S[g,m,k]:f32 for k < rows[g]",
    "windows": "R[m,j]:ue8m0@packed = S[m,j]:f32 for j < len[m]",
    "both": f"R[m,k/32]:ue8m0@blocked = S[m,k/32]:ue8m0 {K} apart for m in cut[h]:cut[h+1] apart",
}
SIZES = [(300, 7, 5), (40, 4, 1), (140, 5, 30), (0, 8, 3), (129, 16, 2), (33, 0, 4), (70, 1, 20), (1, 3, 2)]
USUAL = {
    "f32 to tiles", "tiles to words", "gathered", "gathered, turned", "scattered", "masked words", "squares to rows",
    "squares of all", "along k, tiles", "along k, not apart", "both",
}  # fmt: skip


def sizes(source: str, seed: int) -> dict[str, int]:
    """Empty groups, groups of one, many; none of which one is all of."""
    m, j, g = SIZES[seed % len(SIZES)]
    along, j = "for k" in source, max(j, source.count("@") - 1)  # nothing else tells it where both are padded
    named = {"m": 33 if along else m, "k": 4 * m if along else 32 * j, "j": j, "g": g, "b": 2, "h": 3}
    named |= {"S_0": 40 if "e[m" not in source else 3, "R_0": m + 9}
    here = {"S_0": r"S\[(idx|e)\[", "R_0": r"R\[idx"}
    return {d: n for d, n in named.items() if re.search(here.get(d, rf"\b{d}\b"), source)}


def offsets(rng: np.random.Generator, size: int, groups: int, step: int) -> Any:
    """Some groups are empty; rows in front of the first, and behind the last, are nobody's."""
    cuts = np.sort(rng.integers(0, size // step + 1, groups + 1)) * step
    if groups > 2:
        cuts[2] = cuts[1]
    return cuts.astype(np.int32)


def values_of(kernel: Any, source: str, dims: dict[str, int], seed: int) -> dict[str, Any]:
    """All bits that types of scales have, and routings."""
    rng, made = np.random.default_rng(seed), dict[str, Any]()
    layouts = {n: (t, lay or "row") for n, t, lay in re.findall(r"([SU])\[.*?\]:(\w+)@?(\w*)", source)}
    ranged = "k" if "for k" in source else "m"
    for t in kernel.spec.operands:
        shape = tuple(e.value(dims) for e in t.shape)
        if t.name in layouts:
            kind, layout = layouts[t.name]
            shape = (*shape[:-1], 4 * shape[-1]) if layout == "packed" else shape
            if kind == "f32":
                powers = np.exp2(rng.integers(-126, 128, shape) * 1.0)
                x = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), powers).astype(np.float32)
            else:
                bits = 8 * numpy_dtype(kind).itemsize
                most = 128 if kind == "ue4m3" else 1 << bits
                x = rng.integers(0, most, shape).astype(f"u{bits // 8}").view(numpy_dtype(kind))
            made[t.name] = to_layout(x, layout)
        elif t.name == "idx":
            pool = dims.get("S_0") or dims["R_0"]
            many = int(np.prod(shape))
            x = rng.permutation(pool)[:many] if "R_0" in dims else rng.integers(0, pool, many)
            made["idx"] = np.where(rng.random(many) < 0.2, -1, x).astype(np.int32).reshape(shape)
        elif t.name == "e":
            made["e"] = rng.integers(-1, dims["S_0"], shape).astype(np.int32)
        elif t.name in ("rows", "len"):
            most = dims["j" if t.name == "len" else "k" if "for k" in source else "m"]
            made[t.name] = rng.integers(0, most + 1, shape).astype(np.int32)
        else:
            size = dims["m" if t.name == "cut" else ranged]
            step = int((re.findall(r"by (\d+)", source) or ["1"])[0])
            made[t.name] = offsets(rng, size, shape[0] - 1, step)
    return made


@pytest.mark.once("target", touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, target: str, seed: int) -> None:
    source = FORMS[name]
    dims = sizes(source, list(FORMS).index(name) + seed)
    few = ("m", "k", "S_0", "R_0", *"j" * (source.count("@") > 1))
    told = {d: n for d, n in dims.items() if d in few} if seed % 2 else dict(dims)
    told = {d: n for d, n in told.items() if n}
    right(source, target, dims, told, seed)


def right(source: str, target: str, dims: dict[str, int], told: dict[str, int], seed: int) -> None:
    """Twice between guards, over two bytes: all scales that are to be written are right, and no other byte is."""
    kernel = scalec.compile(source, target=target, dims=told)
    device = kernel.fixed = emulated.EmulatedDevice(target)
    values = values_of(kernel, source, dims, seed)
    with context.context(), np.errstate(all="ignore"):
        expected = reference.run(build(source), values, dims=dims)
    for fill in FILLS:
        given, outs = between_guards(device, kernel.spec, values, dims, fill)
        kernel(*given, **{x.spec.name: x for x in outs})
        device.synchronize(0)
        assert not any(x.changed() for x in given)
        for out in outs:
            points = expected.reached[out.spec.name]
            assert not out.changed(dims, points), f"bytes around {out.spec.name} have changed"
            same(out, expected, points)


def same(out: Any, expected: Any, points: Any) -> None:
    """The scales of `points` are those of the reference, NaN bytes too."""
    name, g = out.spec.name, expected.copied[out.spec.name]
    got, want = (
        reference.from_layout(np.asarray(x) if g.layout == "packed" else reference.decode(np.asarray(x), g.type),
                              g.layout, points.shape, g.type)
        for x in (out.numpy(), expected[name])
    )  # fmt: skip
    got, want = got[points], want[points]
    if g.type == "f32":
        assert np.array_equal(got, want, equal_nan=True)
    else:
        assert np.array_equal(got.view(np.uint8), want.view(np.uint8))


PRODUCTS = {
    "blocked": ("ue8m0", "1x32:ue8m0@{}, 1x1x32:ue8m0", f"{ROWS} apart"),
    "packed": ("ue8m0", "1x32:ue8m0@{}, 1x1x32:ue8m0", ROWS),
    "col": ("f32", "1x128@{}, 1x128x128", ROWS),
}


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", PRODUCTS)
def test_products_read_what_is_copied(layout: str, target: str) -> None:
    """Row-major scales of gathered rows, which a program lays out for the product of their groups: its bits are those
    of the product of row-major ones, which the reference has."""
    (kind, granularities, groups), dims = PRODUCTS[layout], {"m": 200, "n": 64, "k": 128, "g": 4}
    product = f"C[m,n]:f32 = A[m,k] @ B[g,n,k] scale({granularities}) {groups}"
    offsets, rng = np.array([3, 3, 150, 151, 190], np.int32), np.random.default_rng(7)
    with context.context():
        rows = build(product.format("row"))
        values = dict(reference.make(rows, dims, seed=3, exact=True)) | {"off": offsets}
    order = rng.permutation(dims["m"]).astype(np.int32)
    scales = np.ascontiguousarray(values["A_scale"][: dims["m"]][np.argsort(order)])
    j = scales.shape[1]
    made = launched(f"R[m,j]:{kind}@{layout} = S[idx[m],j]:{kind} {groups}", target, dims | {"j": j},
                    {"S": scales, "idx": order, "off": offsets}, {"m": 200, "j": j})["R"]  # fmt: skip
    with context.context(), np.errstate(all="ignore"):
        wanted = reference.run(rows, values, dims=dims)["C"]
    given = made.numpy() if layout == "packed" else made.numpy().view(values["A_scale"].dtype)
    got = launched(product.format(layout), target, dims, values | {"A_scale": given}, {"n": 64, "k": 128})["C"].numpy()
    assert got[3:190].tobytes() == wanted[3:190].tobytes()


def launched(source: str, target: str, dims: dict[str, int], values: dict[str, Any], told: dict[str, int]) -> Any:
    """The results of a kernel, by name, over NaN; no byte around them has changed."""
    kernel = scalec.compile(source, target=target, dims=told)
    device = emulated.EmulatedDevice(target)
    device.checks, device.options = False, replace(device.options, ignore=frozenset({"race", "in-flight", "proxy"}))
    kernel.fixed = device
    given, _ = upload(device, kernel.spec, values, dims)
    outs = tuple(Guarded.result(device, r, dims, 0xFF, None) for r in kernel.spec.results)
    kernel(*given, out=outs if len(outs) > 1 else outs[0])
    assert all(map(guards_kept, outs))
    return {x.spec.name: x for x in outs}


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["rows to tiles", "squares", "along k, tiles", "tiles to words"])
@pytest.mark.parametrize("offsets", [[9, 3, 70, 20], [-9, 400, -1, 2**31 - 1], [-(2**31), 7, 9, 9]])
def test_offsets_out_of_order_write_nothing_else(offsets: list[int], name: str, target: str) -> None:
    source, dims = FORMS[name], {"m": 70, "k": 96, "j": 8, "g": 3}
    dims = {d: n for d, n in dims.items() if re.search(rf"\b{d}\b", source)}
    kernel = scalec.compile(source, target=target, dims=dims)
    values = values_of(kernel, source, dims, 1) | {"off": np.array(offsets, np.int32)}
    launched(source, target, dims, values, dims)


TELL = ("squares", "squares to rows", "squares in words", "along k", "along k, to rows", "along k, of rows of k")


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TELL)
def test_sizes_that_blocks_tell(name: str, seed: int) -> None:
    """A call takes the largest size that has as many blocks: which of them there are, offsets say."""
    right(FORMS[name], "sm_90a", sizes(FORMS[name], seed), {}, seed)
