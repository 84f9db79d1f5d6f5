"""One refusal of each kind, with its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import scalec
from scalec.errors import ScheduleError
from scalec.ir.schedule import Schedule
from tests.passes.scale_programs import text

PLAIN = text(a_block=None, b_block=None)

REFUSED: dict[str, tuple[str, dict[str, object], str]] = {
    "rows": (text(), {"tile": (96, 128, 128)}, r"tile M = 96 is not a multiple of 64 \(64 rows for each of 1 "),
    "rows of warpgroups": (text(), {"tile": (128, 64, 128), "warpgroups": 3}, "tile M = 128 is not a multiple of 192"),
    "columns": (
        text(b_block="1, 128"),
        {"tile": (128, 100, 128)},
        "tile N = 100.*\n  expected: a multiple of 8 from 8",
    ),
    "too many columns": (PLAIN, {"tile": (64, 264, 128)}, "tile N = 264.*\n  expected: .* to 256"),
    "k of an instruction": (PLAIN, {"tile": (128, 128, 48)}, "tile K = 48 is not a multiple of 32"),
    "k of a row": (PLAIN, {"tile": (128, 64, 256), "promote": 256}, "tile of A is 256 bytes and swizzle_a = 128"),
    "swizzle": (PLAIN, {"swizzle_b": 64}, "tile of B is 128 bytes and swizzle_b = 64"),
    "no swizzle": (PLAIN, {"swizzle_a": 0}, "tile of A is 128 bytes and swizzle_a = 0"),
    "cluster": (text(), {"cluster": (4, 4)}, "a cluster of 4x4 is 16 CTAs\n  expected: at most 8 on sm_90a"),
    "promotion of scales": (
        text(),
        {"promote": 0},
        "promote = 0 with tile K = 128\n  expected: tile K = 128 and promote = 128 or 64 or 32",
    ),
    "tile K of scales": (text(), {"tile": (128, 128, 64), "promote": 128}, "promote = 128 with tile K = 64"),
    "promotion": (PLAIN, {"promote": 256}, "promote = 256 with tile K = 128\n.*0 .* or 128"),
    "cluster in two directions": (PLAIN, {"cluster": (2, 2)}, "a cluster of 2x2 shares tiles in two directions"),
    "cluster of three": (PLAIN, {"cluster": (1, 3)}, "a cluster of 1x3 .* no power of two"),
    "box": (PLAIN, {"tile": (320, 64, 128)}, "tile M = 320 is more rows than one bulk copy brings\n.*256"),
    "register pool": (
        text(),
        {"tile": (256, 128, 128), "registers": (48, 232)},
        "48 and 2 x 232 registers a thread are 65536 a CTA\n.*64512",
    ),
    "huge cluster": (PLAIN, {"cluster": (200, 1)}, "a cluster of 200x1 is 200 CTAs"),
    "unroll": (text(k="?"), {"unroll": 2}, "unroll = 2 and k is not known\n.*unroll = 1"),
    "split of unknown K": (
        text(k="?"),
        {"split": 2},
        "split = 2 and k is not known\n.*split = 1.*\n  fix: give k in dims",
    ),
    "scheduler": (
        text(),
        {"scheduler": "dynamic"},
        "scheduler=dynamic .*\n  got: sm_90a has no cluster launch control",
    ),
    "tiles in a row by turns": (
        text(),
        {"consumers": "pingpong", "run": 4, "tile": (128, 128, 128)},
        "run=4 is not possible\n  got: consumers=pingpong: .*\n  fix: run=1",
    ),
    "parts in a row": (text(), {"split": 2, "run": 4}, "run=4 is not possible\n  got: split = 2: .*\n  fix: run=1"),
    "turns of one warpgroup": (
        text(),
        {"consumers": "pingpong", "warpgroups": 1, "tile": (64, 128, 128)},
        "consumers=pingpong is not possible\n  got: one consumer warpgroup, .*\n  fix: consumers=cooperative",
    ),
    "turns of parts": (
        text(),
        {"consumers": "pingpong", "split": 2},
        "consumers=pingpong is not possible\n  got: split = 2, and the parts of a tile are added up by all",
    ),
    "registers of a whole tile": (
        text(),
        {"consumers": "pingpong", "tile": (256, 128, 128)},
        "about 352 registers: 256 accumulators, 64 partial sums.*\n.*\n  fix: a smaller tile, or consumers=cooperative",
    ),
    "warps of turns": (
        text(),
        {"consumers": "pingpong", "warps": (8, 1), "tile": (128, 128, 128)},
        "warps = 8x1, .*\n  expected: 4x1",
    ),
    "goes that do not share out a tile": (
        text(),
        {"mma_n": 48, "tile": (256, 128, 128)},
        "mma_n = 48, and a tile has 128 columns.*\n  expected: 128, 64, 32, 16, 8\n  fix: mma_n=32",
    ),
    "goes without promotion": (
        PLAIN,
        {"mma_n": 64, "promote": 0, "tile": (128, 128, 128)},
        "mma_n = 64 is not possible\n  got: promote = 0.*\n  fix: mma_n=0",
    ),
    "registers of goes": (
        text(),
        {"mma_n": 88, "tile": (256, 176, 128)},
        "about 244 registers: 176 accumulators, 44 partial sums, 24 for the rest.*\n.*\n  fix: .*, a smaller mma_n",
    ),
    "split of few blocks": (text(k=512), {"split": 5}, "split = 5 and k = 512 has 4 blocks of 128\n.*\n.*split=4"),
    "unroll of parts": (text(k=1280), {"split": 4, "unroll": 2}, "unroll = 2 and parts of k have 2 or 3 K blocks"),
    "unroll beyond parts": (text(k=1280), {"split": 2, "unroll": 2}, "unroll = 2 and parts of k have 5 K blocks"),
    "register count": (text(), {"registers": (44, 232)}, "44 registers for a producer thread\n.*multiple of 8 from 24"),
    "register file": (
        text(),
        {"tile": (256, 128, 128), "registers": (40, 240)},
        "40 and 2 x 240 registers a thread are 66560 a CTA\n.*64512",
    ),
    "converters": (text(), {"converters": 1}, "converters=1, and no operand is converted\n  expected: 0\n"),
    "registers": (
        text(),
        {"tile": (256, 128, 128), "registers": (40, 176)},  # nor are there 128 + 32 + 24 for goes of 64 columns
        "about 224 registers: 128 accumulators, 64 partial sums, 32 for the rest\n  got: registers=40x176",
    ),
    "bulk of unknown N": (text(n="?"), {"epilogue": "bulk"}, "n is not known at compile time"),
    "bulk of unaligned N": (text(n=7172), {"epilogue": "bulk"}, r"a row of C is 14344 bytes \(n = 7172\), not a multi"),
    "swizzle of the result": (text(), {"tile": (64, 32, 128), "swizzle_c": 128}, "= 128 does not divide .*64"),
    "bulk scales of unknown K": (
        text(k="?"),
        {"scale_path": "bulk"},
        "scale_path=bulk is not possible\n  got: A_scale is row-major and k is not known",
    ),
    "bulk scales of unaligned rows": (
        text(k=2176),
        {"scale_path": "bulk"},
        r"a row of A_scale is 68 bytes \(k = 2176\), not a multiple of 16",
    ),
    "bulk scales of long blocks": (
        text(a_block="1, 256"),
        {"scale_path": "bulk"},
        "A_scale is row-major with one scale for each 256 elements of k",
    ),
    "bulk scales of unaligned M": (
        text(m=4098, layout="col"),
        {"scale_path": "bulk"},
        r"a column of A_scale is 16392 bytes \(m = 4098\), not a multiple of 16",
    ),
    "shared memory": (
        text(),
        {"tile": (256, 128, 128), "stages": 5},
        r"needs 262224 bytes.* has 232448\n.*A 163840 \+ B 81920 \+ A_scale 16384 \+ barriers 80",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(decide: Callable[..., Schedule], case: str) -> None:
    program, fields, message = REFUSED[case]
    with pytest.raises(ScheduleError) as refusal:
        decide(program, **fields)
    assert re.search(message, str(refusal.value)), str(refusal.value)


@pytest.mark.parametrize(
    ("program", "message", "fix"),
    [
        (
            "C[g,m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1] with unroll=2",
            "unroll = 2 and k has a range",
            "unroll=1",
        ),
        (
            "C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128) with tile=128x256x128, warpgroups=1",
            "needs about 416 registers",
            "a smaller tile, or more warpgroups",
        ),
        (
            "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 with tile=128x256x128, warpgroups=1, promote=128",
            "needs about 416 registers",
            "a smaller tile, more warpgroups, or promote=0",
        ),
    ],
)
def test_a_fix_can_be_followed(program: str, message: str, fix: str) -> None:
    with pytest.raises(ScheduleError, match=message) as error:
        scalec.compile(program, target="sm_90a", dims={"k": 4096, "n": 512})
    assert error.value.fix == fix


def test_decided_fields_stay(decide: Callable[..., Schedule]) -> None:
    fields = {"tile": (128, 64, 128), "cluster": (2, 1), "stages": 4, "band": 3, "unroll": 2, "early_wait": 0}
    schedule = decide(text(), **fields)
    assert {name: getattr(schedule, name) for name in fields} == fields


def test_scales_come_in_bulk_where_they_can(decide: Callable[..., Schedule]) -> None:
    assert decide(text(layout="col")).scale_path == "bulk"
    assert decide(text(m="?", layout="col")).scale_path == "bulk"
    assert decide(text()).scale_path == "bulk"
    assert decide(text(m="?")).scale_path == "bulk"
    assert decide(text(m=4098, layout="col")).scale_path == "thread"
    assert decide(text(k="?")).scale_path == "thread"
    assert decide(text(k=2176)).scale_path == "thread"
