"""What holes of forms (forms.py) are filled with, and sizes: rows of tables.

`{fn}` is a draw of TABLES["fn"], of which `{fn1}`, `{fn2}` are others; `{of T}` is one with `{0}` replaced by T.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.fuzz.weights import GROUP_COUNT, Weighted


class Pair(NamedTuple):
    """Operands, {0} the tensor, {1} a tensor of zero points with its indices but for what follows K; their scales; a
    step of K; where else than in "any" they may be; a weight."""

    left: str
    right: str
    scales: str
    step: int
    kinds: str
    weight: int


PAIRS: tuple[Pair, ...] = tuple(Pair(*row) for row in (
    ("{0}", "{0}", "", 1, "plain grouped fold added", 5),
    ("{0}:f16", "{0}:f16", "", 1, "plain grouped fold added", 1),
    ("{0}:tf32", "{0}:tf32", "", 1, "plain grouped fold added", 1),
    ("{0}:e4m3", "{0}:e4m3", "", 1, "plain grouped fold added", 2),
    ("{0}:e5m2", "{0}:e4m3", "", 1, "plain grouped fold added", 1),
    ("{0}:bf16", "{0}:e4m3", "", 1, "plain grouped fold", 1),
    ("{0}:bf16", "{0}:tf32", "", 1, "plain fold", 1),
    ("{0}", "{0}", " scale(1x128, 1x128)", 1, "grouped added", 2),
    ("{0}", "{0}", " scale(1x128, 128x128)", 1, "grouped added", 3),
    ("{0}", "{0}", " scale(1x{k}, 1x{k})", 1, "grouped", 2),
    ("{0}", "{0}", " scale(1x128@col, tensor)", 1, "grouped", 1),
    ("{0}:bf16", "{0}:bf16", " scale(1x{k}, tensor)", 1, "grouped", 1),
    ("{0}", "{0}", " scale(1x64, 1x128:bf16)", 1, "grouped", 1),
    ("{0}:e4m3", "{0}", " scale(none, 128x128@col)", 1, "added", 1),
    ("{0}:mxfp8", "{0}:mxfp8", "", 1, "grouped", 2),
    ("{0}:nvfp4", "{0}:nvfp4", "", 2, "grouped", 2),
    ("{0}:mxfp4", "{0}:mxfp4", "", 2, "grouped", 1),
    ("{0}", "{0}:mxfp4", " scale(1x128)", 128, "grouped", 1),
    ("{0}:bf16", "{0}:nvfp4", "", 2, "grouped", 2),
    ("{0}:bf16", "{0}:i4", "", 2, "grouped", 1),
    ("{0}:bf16", "{0}:i4", " scale(none, 1x64:bf16)", 2, "grouped", 1),
    ("{0}:e4m3", "{0}:i4", " scale(1x128, 1x128:f16)", 2, "grouped", 1),
    ("{0}:bf16", "({0}:u4 - 8)", " scale(none, 1x128:f16)", 2, "grouped", 1),
    ("{0}:bf16", "({0}:u4 - {1}/64])", " scale(none, 1x64:bf16)", 2, "", 1),
    ("{0}:e4m3", "({0}:u4 - {1}/128]:i8)", " scale(1x128, 1x128)", 2, "", 1),
    ("{0}:e2m1", "{0}:e2m1", "", 2, "", 1),
    ("{0}", "quantize({0}:nvfp4, e4m3, 1x128)", " scale(1x128)", 2, "anew", 2),
    ("{0}", "quantize({0}:mxfp4, e4m3, 1x128:ue8m0)", " scale(1x128@col)", 2, "anew", 1),
    ("quantize({0}:bf16, e4m3, 1x128)", "{0}", " scale(none, 128x128)", 1, "anew", 2),
    ("quantize({0}:f16, e5m2, 1x128)", "quantize({0}:f32, e4m3, 1x128)", "", 1, "anew", 1),
    ("{0}:e4m3", "quantize({0}:i4, e4m3, 1x128)", " scale(none, 1x64:bf16)", 2, "anew", 1),
    ("{0}", "quantize({0}:u4 - 8, e4m3, 1x128)", " scale(1x128, 1x{k}:f16)", 2, "anew", 1),
    ("{0}:nvfp4", "{0}:bf16", "", 2, "converted", 2),
    ("{0}:mxfp4", "{0}:f16", "", 2, "converted", 1),
    ("{0}:mxfp4", "{0}", " scale(1x128)", 128, "converted", 1),
    ("{0}:i4", "{0}:bf16", " scale(1x64:bf16, none)", 2, "converted", 2),
    ("{0}:i4", "{0}:e4m3", " scale(1x128, 128x128)", 2, "converted", 1),
    ("{0}:e4m3", "{0}:bf16", "", 1, "converted", 2),
    ("{0}:e5m2", "{0}:f16", " scale(1x{k}, 1x{k})", 1, "converted", 1),
    ("{0}:e4m3", "{0}:tf32", "", 1, "converted", 1),
    ("{0}:bf16", "{0}:f16", "", 1, "converted", 1),
    ("({0}:u4 - 8)", "{0}:bf16", " scale(1x128:f16, none)", 2, "converted", 1),
    ("{0}:bf16", "({0}:u4 - {1}/64])", " scale(none, 1x64:bf16)", 2, "zeros", 1),
    ("{0}:e4m3", "({0}:u4 - {1}/128]:i8)", " scale(1x128, 1x128)", 2, "zeros", 1),
    ("{0}:f16", "({0}:i4 - zp[{k}/64]:i8)", " scale(none, 1x128:f16)", 2, "zeros", 1),
    ("{0}:bf16", "({0}:u4 - zp[{k}/128,n])", " scale(none, 1x{k}:f16)", 2, "zeros", 1),
    ("{0}:bf16", "({0}:i4 - {1}/32])", " scale(none, 128x128)", 2, "zeros", 1),
    ("{0}:tf32", "({0}:u4 - zp[n]:u4)", " scale(none, 1x64)", 2, "zeros", 1),
    ("quantize({0}:bf16, {{e}}, {{qb}})", "{0}:e4m3", "", 1, "blocks", 2),
    ("{0}:e5m2", "quantize({0}:nvfp4, {{e}}, {{qb}})", "", 2, "blocks", 2),
    ("quantize({0}, {{e}}, {{qb}})", "quantize({0}:f16, {{e1}}, {{qb1}})", " scale(1x32:ue8m0, none)", 1, "blocks", 1),
    ("quantize(relu({0}:bf16), {{e}}, {{qb}})", "{0}:e4m3", "", 1, "blocks", 2),
    ("quantize({0}:bf16 * wk[{k}]:f32, {{e}}, {{qb}})", "{0}", " scale(none, 128x128)", 1, "blocks", 1),
    ("quantize(abs({0}) * rm[m], {{e}}, {{qb}})", "quantize({0}:i4, e4m3, 1x64)", " scale(none, 1x64)", 2, "blocks", 1),
    ("quantize({0}:f32, e2m1, {{qb}})", "{0}:e2m1", "", 2, "blocks", 1),
    ("relu({0})", "{0}", "", 1, "computed", 2),
    ("({0} * rm[m] * wk[{k}])", "{0}", "", 1, "computed", 1),
    ("({0}:e2m1 * wk[{k}]):bf16", "{0}", "", 2, "computed", 1),
    ("(tanh({0}:f32) * alpha):f16", "({0}:i4 * rm[n]:f32):f16", "", 2, "computed", 1),
    ("max({0}:e5m2, 0.25):e4m3", "{0}:e4m3", "", 1, "computed", 1),
    ("({0} * wk[{k}]:f32)", "{0}", "", 1, "computed", 1),
    ("({0}:f32 * wk[{k}]):bf16", "{0}", "", 1, "computed", 1),
    ("silu({0}:e4m3):bf16", "abs({0})", "", 1, "computed", 1),
    ("{0}:bf16", "({0}:i4 - alpha):bf16", "", 2, "computed", 1),
))  # fmt: skip
"""What contractions multiply."""

EPILOGUES: Weighted = {
    "{0}": 5, "relu({0})": 2, "{0} * x[{n}]": 2, "gelu({0} + x[{n}])": 1, "-{0}": 1, "alpha * {0}": 1,
    "{0} + y[{m},{n}]:f32": 1, "max({0}, 0)^2": 1,
    "({0} * 0.125)^17": 1, "max(min({0}, x[{n}]), -inf)": 1, "sign({0}) * x[{n}]": 1, "exp(-abs({0}))": 1,
    "{0} * r[{m}] + 0.5": 1, "silu({0})": 1, "{0} + x[{n}%64]": 1,
}  # fmt: skip

TABLES: dict[str, Weighted] = {
    "of": EPILOGUES,
    "fn": {"relu": 2, "silu": 3, "gelu": 1, "sigmoid": 1, "abs": 2, "": 1},
    "t": {"": 3, ":f32": 4, ":f16": 1, ":e4m3": 1, ":e5m2": 1},
    "q": {"": 3, ":f32": 4, ":f16": 1, ":e4m3": 1, ":mxfp8": 2, ":nvfp4": 1, ":fp8_block": 1, ":e2m1": 1},
    "p": {
        ":mxfp8": 4,
        ":mxfp8_e5m2": 1,
        ":mxfp4": 2,
        ":nvfp4": 3,
        ":fp8_block": 1,
        ":e4m3 scale(1x{n})": 2,
        ":e4m3 scale(1x24)": 1,
        ":e5m2 scale(1x8@col)": 1,
        ":e4m3 scale(32x32:ue8m0@blocked)": 1,
        ":e2m1 scale(1x32:ue8m0@packed)": 1,
        ":e4m3 scale(128x128)": 1,
        ":e4m3": 2,
        ":e5m2": 1,
        ":e2m1": 1,
        ":bf16": 2,
        ":f16": 1,
        ":mxfp6": 2,
        ":mxfp6_e2m3": 2,
        ":e3m2": 2,
        ":e2m3 scale(1x64)": 2,
    },
    "d": {
        ":mxfp6": 2,
        ":e2m3 scale(1x32:ue8m0@blocked)": 2,
        ":nvfp4": 3,
        ":mxfp8": 3,
        ":mxfp4": 2,
        ":mxfp8_e5m2": 1,
        ":fp8_block": 1,
        ":e4m3 scale(1x{n})": 1,
        " scale(1x128)": 1,
        " scale(1x32:ue8m0@blocked)": 1,
        " scale(2x32:ue8m0@packed)": 1,
        ":e5m2 scale(8x16@col)": 1,
        ":e2m1 scale(1x16:ue4m3@blocked)": 1,
        ":bf16 scale(1x64:bf16)": 1,
        ":e4m3 scale(1x24*tensor)": 1,
    },
    "pq": {
        "": 2,
        ":f16": 1,
        ":e4m3": 1,
        ":e5m2": 1,
        ":e2m1": 1,
        ":mxfp8": 3,
        ":mxfp8_e5m2": 1,
        ":mxfp4": 2,
        ":nvfp4": 3,
        ":fp8_block": 1,
        ":e4m3 scale(1x24)": 1,
        ":e5m2 scale(1x16@col)": 1,
        ":e4m3 scale(1x32:ue8m0@blocked)": 1,
        ":e2m1 scale(1x32:ue8m0@packed)": 1,
    },
    "pc": {
        "stochastic({0}, seed[0])": 2,
        "stochastic({0}, seed[1], seed[0])": 2,
        "stochastic({0}, words[2,0], seed[3], words[0,1])": 1,
        "stochastic({0}, seed[3], seed[0], seed[2], seed[1])": 1,
    },
    "fac": {
        "alpha * {0}": 3,
        "s[0] * {0}": 2,
        "r[{m}] * {0}": 2,
        "{0} * x[{n}]": 1,
        "y[{m},{n}]:f32 * {0}": 1,
        "r[{m}]:f32 * {0} * x[{n}]": 1,
        "-{0}": 1,
        "relu({0} + x[{n}]) * 0.5": 1,
        "silu({0})": 1,
        "{0} / 3": 1,
    },
    "maybe": {"{0}": 2, "alpha * {0}": 1},
    "sc": {
        " scale(1xk, 1xk)": 2,
        " scale(1xk, tensor)": 1,
        " scale(tensor, 1xk)": 1,
        " scale(1x128*tensor, 1x128)": 1,
    },
    "sb": {
        "1x32:ue8m0, 1x32:ue8m0": 3,
        "1x32:ue8m0@packed, 1x32:ue8m0@packed": 2,
        "1x32:ue8m0@blocked, 1x32:ue8m0@blocked": 2,
        "1x128:ue8m0, 128x128:ue8m0": 1,
    },
    "sf": {
        "1x128, 128x128": 3,
        "1x128, 1x128": 2,
        "1x128@col, 1x128@col": 1,
        "mx128, nx128": 1,
        "1x128, 256x128@col": 1,
    },
    "narrow": {"nvfp4": 2, "mxfp4": 2, "e4m3": 1, "i4": 1},
    "w": {"nvfp4": 3, "mxfp4": 2, "e4m3": 1, "i4 scale(none, 1x64:bf16)": 2, "e4m3 scale(none, 128x128)": 1},
    "chance": {
        "stochastic({0}, seed[0])": 2,
        "stochastic({0}, seed[0], seed[1])": 2,
        "stochastic({0}, words[2,0], seed[3], words[0,1])": 1,
        "stochastic({0}, seed[3], seed[0], seed[2], seed[1])": 1,
        "stochastic(hadamard({0}, 16), seed[0])": 3,
        "hadamard({0}, 16)": 3,
    },
    "turned": {
        "hadamard({0}, 16)": 2,
        "stochastic({0}, seed[1])": 2,
        "stochastic(hadamard({0}, 16), seed[1])": 2,
        "{0}": 1,
    },
    "b": {
        ":mxfp8": 4,
        ":mxfp4": 2,
        ":nvfp4": 2,
        ":e4m3 scale(1x16)": 1,
        ":e4m3 scale(1x128@col)": 1,
        ":bf16": 1,
        ":e5m2": 1,
    },
    "rt": {":f32": 5, "": 1, ":f16": 1},
    "red": {"sum": 2, "max": 2, "min": 1},
    "term": {"abs({0})": 3, "{0}": 2, "{0}*{0}": 2, "{0}^2": 1, "relu({0} + x[{n}])": 1, "-{0}*alpha": 1},
    "back": {"{0}": 4, "{0} / 448": 1, "sqrt(abs({0}) / 128)": 1, "max({0}, 0.25)": 1},
    "head": {"relu({0})*w[{m},h]": 3, "{0}": 2, "relu({0})": 2, "{0} + w[{m},h]:f32": 1, "exp({0}*0.125)": 1},
    "else": {"-inf": 3, "0": 2, "1.5": 1},
    "P": {"8": 1, "16": 2, "32": 2, "64": 3, "24": 1},
    "B": {"128": 3, "64": 1, "32": 2, "8": 1, "24": 1, "1": 1},
    "add": {"": 3, ":f32 +": 3},
    "promise": {"": 1, " by 16": 2, " by 128": 1, " about 5": 1, " by 16 about 300": 1, " about 1 by 32": 1},
    "e": {"e4m3": 2, "e5m2": 1},
    "qb": {"1x128": 2, "1x64": 2, "1x32:ue8m0": 2, "1x128:ue8m0": 1, "1x16": 1},
    "by": {"": 3, " by 16": 1, " by 128": 1},
    "half": {"": 3, ":f16": 1},
    "even": {" by 2": 2, " by 32": 1},
    "word": {"": 1, " apart": 1},
    "term_k": {"{0}^2": 3, "abs({0})": 2, "{0}": 1, "({0} * wk[k])^2": 1, "{0}*alpha": 1},
    "input": {"": 2, ":f32": 2, ":f16": 1},
    "lay": {"": 1, "@blocked": 2, "@packed": 1, "@col": 1},
}
"""What holes are filled with."""

EXTENTS: dict[str, Weighted] = {
    "heads": {8: 2, 16: 3, 32: 3, 64: 2, 24: 1, 40: 1},
    "groups": GROUP_COUNT,
    "few": {1: 1, 2: 3, 3: 3, 5: 2, 8: 1},
    "queries": {1: 1, 2: 2, 3: 2, 5: 2, 9: 1, 20: 1},
    "row": {8: 1, 16: 2, 24: 1, 40: 2, 64: 2, 96: 1, 128: 2, 192: 1, 256: 1},
    "wide": {8: 1, 16: 1, 32: 2, 64: 2, 72: 1, 96: 1, 128: 2, 192: 1},
}
"""Sizes of dimensions that are no M, N or K; of "heads" and "row" ones the compiler knows them."""

ALWAYS_KNOWN = ("heads", "row")
