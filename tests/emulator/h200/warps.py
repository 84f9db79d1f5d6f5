"""Probes of what warps do together: PTX ISA 9.7.9.6 (shfl), 9.7.13 (vote, match, redux, elect), 9.7.14.5.15 to 17."""

from __future__ import annotations

import numpy as np

from .probe import Buffer, Probe, elementwise, module, output
from .values import integers

LANES = 32


def shuffles() -> list[Probe]:
    """All four modes; segment masks and clamps, sources inside and outside; data and predicate."""
    generator = np.random.default_rng(700)
    count = 16 * LANES
    a = generator.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    by_warp = np.repeat(np.array([0, 1, 2, 3, 5, 8, 15, 16, 17, 24, 30, 31, 32, 33, 40, 63], np.uint32), LANES)
    by_lane = generator.integers(0, 40, count).astype(np.uint32)
    masks = np.array([0, 0x10, 0x18, 0x1C, 0x1E, 0x1F], np.uint32)
    c = np.repeat(masks[generator.integers(0, 6, 16)] << np.uint32(8), LANES)
    c |= np.repeat(generator.choice(np.array([0, 31, 15, 7, 3, 20], np.uint32), 16), LANES)
    mixed = (masks[generator.integers(0, 6, count)] << np.uint32(8)) | generator.integers(0, 32, count).astype(
        np.uint32
    )
    cases = []
    for mode in ("up", "down", "bfly", "idx"):
        for source in "be":
            for clamp in "cg":
                cases.append(f"shfl.sync.{mode}.b32 {{d}}, {{a}}, {{{source}}}, {{{clamp}}}, 0xffffffff;")
        cases.append(
            f"{{{{ .reg .pred p; shfl.sync.{mode}.b32 {{d}}|p, {{a}}, {{b}}, {{c}}, 0xffffffff; "
            f"selp.b32 {{d}}, 1, 0, p; }}}}"
        )
        usual = 0 if mode == "up" else 31
        cases.append(f"shfl.sync.{mode}.b32 {{d}}, {{a}}, 3, {usual}, 0xffffffff;")
    operands = {"a": a, "b": by_warp, "e": by_lane, "c": c, "g": mixed}
    return [elementwise("shfl", cases, operands, 32)]


def votes() -> list[Probe]:
    generator = np.random.default_rng(710)
    count = 16 * LANES
    chance = np.repeat(np.array([0, 1, 0.5, 0.05] * 4), LANES)
    a = (generator.random(count) < chance).astype(np.uint32)
    few = generator.integers(0, 4, count).astype(np.uint32)
    few[: 2 * LANES] = 7
    wide = few.astype(np.uint64) << np.uint64(31)
    cases = [
        f"{{{{ .reg .pred p, q; setp.ne.u32 p, {{a}}, 0; vote.sync.{mode}.pred q, {sign}p, 0xffffffff; "
        f"selp.b32 {{d}}, 1, 0, q; }}}}"
        for mode in ("all", "any", "uni")
        for sign in ("", "!")
    ]
    cases += ["{{ .reg .pred p; setp.ne.u32 p, {a}, 0; vote.sync.ballot.b32 {d}, p, 0xffffffff; }}"]
    cases += [
        "match.any.sync.b32 {d}, {b}, 0xffffffff;",
        "match.all.sync.b32 {d}, {b}, 0xffffffff;",
        "match.any.sync.b64 {d}, {c}, 0xffffffff;",
        "{{ .reg .pred p; match.all.sync.b64 {d}|p, {c}, 0xffffffff; selp.b32 {d}, 1, 0, p; }}",
        "{{ .reg .pred p; elect.sync {d}|p, 0xffffffff; @p add.u32 {d}, {d}, 100; }}",
    ]
    x = integers(32, 1, count, 711)[0]
    x[: 4 * LANES] &= np.uint32(3)
    redux = [f"redux.sync.{op}.{s}32 {{d}}, {{a}}, 0xffffffff;" for op in ("add", "min", "max") for s in "su"]
    redux += [f"redux.sync.{op}.b32 {{d}}, {{a}}, 0xffffffff;" for op in ("and", "or", "xor")]
    divided = [
        "{{ .reg .pred p; .reg .b32 m; setp.ne.u32 p, {a}, 0; vote.sync.ballot.b32 m, p, 0xffffffff; mov.b32 {d}, 77; "
        + f"@p {text} }}}}"
        for text in (
            "redux.sync.add.u32 {d}, {b}, m;",
            "redux.sync.max.s32 {d}, {b}, m;",
            "match.any.sync.b32 {d}, {b}, m;",
            "shfl.sync.idx.b32 {d}, {b}, {e}, 31, m;",
        )
    ]
    first = np.repeat(np.array([_lowest(w) for w in a.reshape(-1, LANES)], np.uint32), LANES)
    parts = {"a": a, "b": few, "e": first}
    return [
        elementwise("votes", cases, {"a": a, "b": few, "c": wide}, 32),
        elementwise("redux", redux, {"a": x}, 32),
        elementwise("divided", divided, parts, 32),
    ]


def _lowest(lanes: np.ndarray) -> int:
    return int(np.flatnonzero(lanes)[0]) if lanes.any() else 0


def matrices() -> list[Probe]:
    """ldmatrix, stmatrix and movmatrix: rows at 16-byte places in an order of their own."""
    result = []
    generator = np.random.default_rng(720)
    image = generator.integers(0, 1 << 32, 512, dtype=np.uint64).astype(np.uint32)  # 128 rows of 16 bytes
    rows = generator.permutation(128)[:LANES].astype(np.uint32) * np.uint32(16)
    fill = """
    .reg .b32 %t, %to, %place, %q<4>, %r<4>, %window;
    .reg .b64 %base, %at;
    mov.u32 %window, window;
    mov.u32 %t, %tid.x;
    ld.param.u64 %base, [rows];
    mad.wide.u32 %at, %t, 4, %base;
    ld.global.b32 %place, [%at];
    add.u32 %place, %place, %window;
    """

    def copy_in(i: int) -> str:
        return (
            f"mad.wide.u32 %at, %t, 16, %base;\nld.global.v4.b32 {{%q0, %q1, %q2, %q3}}, [%at+{512 * i}];\n"
            f"mad.lo.u32 %to, %t, 16, %window;\nst.shared.v4.b32 [%to+{512 * i}], {{%q0, %q1, %q2, %q3}};"
        )

    def copy_out(i: int) -> str:
        return (
            f"mad.lo.u32 %to, %t, 16, %window;\nld.shared.v4.b32 {{%q0, %q1, %q2, %q3}}, [%to+{512 * i}];\n"
            f"mad.wide.u32 %at, %t, 16, %base;\nst.global.v4.b32 [%at+{512 * i}], {{%q0, %q1, %q2, %q3}};"
        )

    copies = "\n".join(map(copy_in, range(4)))
    back = "\n".join(map(copy_out, range(4)))
    for count in (1, 2, 4):
        registers = "{" + ", ".join(f"%r{i}" for i in range(count)) + "}"
        for trans in ("", ".trans"):
            name = f"x{count}{trans.replace('.', '_')}"
            out = output("d", (LANES, count), np.uint32)
            arguments = (Buffer("image", image), Buffer("rows", rows), out)
            stores = "\n".join(f"st.global.b32 [%at+{4 * i}], %r{i};" for i in range(count))
            body = f"""{fill}
            ld.param.u64 %base, [image];
            {copies}
            bar.warp.sync 0xffffffff;
            ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {registers}, [%place];
            ld.param.u64 %base, [d];
            mad.wide.u32 %at, %t, {4 * count}, %base;
            {stores}
            """
            text = module("probe", arguments, body, block=LANES)
            result.append(Probe(f"ldmatrix_{name}", text, "probe", arguments, block=(32, 1, 1), shared=2048))
            data = generator.integers(0, 1 << 32, (LANES, count), dtype=np.uint64).astype(np.uint32)
            out = output("d", (512,), np.uint32)
            arguments = (Buffer("image", image), Buffer("rows", rows), Buffer("data", data), out)
            loads = "\n".join(f"ld.global.b32 %r{i}, [%at+{4 * i}];" for i in range(count))
            body = f"""{fill}
            ld.param.u64 %base, [image];
            {copies}
            bar.warp.sync 0xffffffff;
            ld.param.u64 %base, [data];
            mad.wide.u32 %at, %t, {4 * count}, %base;
            {loads}
            stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%place], {registers};
            bar.warp.sync 0xffffffff;
            ld.param.u64 %base, [d];
            {back}
            """
            text = module("probe", arguments, body, block=LANES)
            result.append(Probe(f"stmatrix_{name}", text, "probe", arguments, block=(32, 1, 1), shared=2048))
    a = generator.integers(0, 1 << 32, 128, dtype=np.uint64).astype(np.uint32)
    result.append(elementwise("movmatrix", ["movmatrix.sync.aligned.m8n8.trans.b16"], {"a": a}, 32))
    return result


def barriers() -> list[Probe]:
    """bar.red: a reduction over the CTA's predicates."""
    generator = np.random.default_rng(730)
    chance = np.repeat(np.array([0, 1, 0.5, 0.99]), 128)
    a = (generator.random(512) < chance).astype(np.uint32)
    cases = [
        "{{ .reg .pred p; setp.ne.u32 p, {a}, 0; barrier.cta.red.popc.aligned.u32 {d}, 0, p; }}",
        "{{ .reg .pred p, q; setp.ne.u32 p, {a}, 0; bar.red.and.pred q, 1, p; selp.b32 {d}, 1, 0, q; }}",
        "{{ .reg .pred p, q; setp.ne.u32 p, {a}, 0; bar.red.or.pred q, 2, !p; selp.b32 {d}, 1, 0, q; }}",
    ]
    return [elementwise("barriers", cases, {"a": a}, 32)]


def probes() -> list[Probe]:
    return shuffles() + votes() + matrices() + barriers()
