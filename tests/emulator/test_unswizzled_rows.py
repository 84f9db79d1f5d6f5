"""Results whose rows in shared memory are an odd number of 16 bytes: not swizzled, all of a row in one box."""

from __future__ import annotations

import re

import pytest

from scalec.compiler import Compilation, compile_source, decide
from scalec.errors import DeviceError, ScheduleError
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import changed, run_quantised
from tests.emulator.running import run_on
from tests.emulator.test_turned import fields_of
from tests.tiers import fields

BLOCKS = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
BF16 = "D[m,n]{} = A[m,k] @ B[n,k]"

QUANTISED = {
    "three warpgroups": (BLOCKS, "nvfp4", (200, 288, 256), "tile=192x96x128"),
    "80 bytes": (BLOCKS, "mxfp4", (72, 320, 256), "tile=64x160x128"),
    "112 bytes": (BF16, "nvfp4", (72, 448, 128), "tile=64x224x64"),
    "16 bytes, without stmatrix.x4": (BLOCKS, "nvfp4", (72, 160, 256), "tile=64x32x128"),
    "one wave of two at a time": (
        BLOCKS,
        "nvfp4",
        (140, 224, 128),
        "tile=128x96x128, warpgroups=1, staged=1, epilogue=bulk",
    ),
    "tiles by turns": (BLOCKS, "mxfp4", (200, 224, 128), "tile=64x96x128, consumers=pingpong"),
    "parts of K": (BLOCKS, "nvfp4", (72, 96, 512), "tile=64x96x128, split=2, parts=cluster"),
    "columns not permuted": (BLOCKS, "nvfp4", (72, 224, 128), "tile=64x96x128, permute_n=0"),
    "8 bits": (BF16, "e4m3 scale(1x16)", (72, 112, 128), "tile=64x48x64"),
}


def epilogue(source: str, dims: dict[str, int], target: str = "sm_90a") -> str:
    return decide(source, target, dims)[0].epilogue


def bulk(kernel: Kernel | Compilation) -> None:
    fields = fields_of(kernel)
    assert (fields["epilogue"], fields["swizzle_c"]) == ("bulk", "0")
    assert "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group" in kernel.ptx


@pytest.mark.once(touches=lambda name: fields(QUANTISED[name]))
@pytest.mark.parametrize("name", QUANTISED)
def test_quantised(name: str) -> None:
    program, result, (m, n, k), settings = QUANTISED[name]
    bulk(run_quantised(program, result, {"m": m, "n": n, "k": k}, ("n", "k"), len(name), "sm_90a", settings, times=1))


@pytest.mark.once
@pytest.mark.parametrize("settings", ["tile=64x24x64", "tile=128x40x64, cluster=1x1", "tile=64x8x64"])
def test_16_bits(settings: str) -> None:
    source, dims = f"C[m,n] = silu(A[m,k]@B[n,k] + b[n]) with epilogue=bulk, {settings}", {"n": 136, "k": 192}
    bulk(compile_source(source, "sm_90a", dims))
    run_on(source, {"m": 150, **dims}, ("n", "k"), 3, 3e-3, target="sm_90a")


def test_a_row_is_whole_lines_of_16_bytes() -> None:
    with pytest.raises(ScheduleError, match="a row of the staged tile is 40 bytes, not a multiple of 16"):
        compile_source(f"{BLOCKS.format(':nvfp4')} with tile=64x80x128, epilogue=bulk", "sm_90a", {"n": 160, "k": 128})
    assert epilogue(f"{BLOCKS.format(':nvfp4')} with tile=64x80x128", {"n": 160, "k": 128}) == "direct"


ODD = f"{BLOCKS.format(':nvfp4')} with tile=64x96x128"  # rows of 48 bytes


@pytest.mark.parametrize("swizzle", [32, 64])
def test_a_swizzle_that_is_given_must_divide_it(swizzle: int) -> None:
    text = f"swizzle_c = {swizzle} does not divide a row of the staged tile, 48 bytes\n.*swizzle_c=0"
    with pytest.raises(ScheduleError, match=re.compile(text, re.DOTALL)):
        compile_source(f"{ODD}, swizzle_c={swizzle}, epilogue=bulk", "sm_90a", {"n": 192, "k": 128})


def test_beside_a_swizzle_that_is_given_nothing_is_staged() -> None:
    assert epilogue(f"{ODD}, swizzle_c=64", {"n": 192, "k": 256}) == "direct"
    assert epilogue(ODD, {"n": 192, "k": 256}) == "bulk"


def test_16_bits_are_staged_so_only_where_that_is_asked() -> None:
    assert epilogue(f"{BF16.format('')} with tile=64x24x64", {"n": 192, "k": 256}) == "direct"


@pytest.mark.parametrize("tile", ["128x128x128", "128x96x128"])
def test_other_targets_stage_what_a_swizzle_divides(tile: str) -> None:
    """sm_120a: 16 bytes of a warp; staged, the first spilled."""
    assert epilogue(f"{BLOCKS.format(':nvfp4')} with tile={tile}", {"n": 3072, "k": 512}, "sm_120a") == "direct"
    with pytest.raises(ScheduleError, match="bytes: no swizzle divides it"):
        epilogue(f"{BLOCKS.format(':nvfp4')} with tile={tile}, epilogue=bulk", {"n": 3072, "k": 512}, "sm_120a")


@pytest.mark.parametrize("panels", [1, 2])
def test_a_row_is_one_panel(panels: int) -> None:
    with pytest.raises(ScheduleError, match=f"panels = {panels} of 48 bytes, and a row of a staged wave is 48 bytes"):
        compile_source(
            f"C[m,n] = A[m,k]@B[n,k] with tile=64x24x64, epilogue=bulk, staged=1, panels={panels}",
            "sm_90a",
            {"n": 120, "k": 128},
        )


FAULTS = [
    ("another pitch", r"(mul\.lo\.s32 \t%r\d+, %r\d+,|mad\.lo\.s32 \t%r\d+, %r\d+,) 48([;,])", r"\1 32\2"),
    ("the last 16 bytes of a row", r"stmatrix\.sync\.aligned\.m8n8\.x2[^;]*;", ""),
]


@pytest.mark.once
@pytest.mark.parametrize(("what", "old", "new"), FAULTS, ids=[f[0] for f in FAULTS])
def test_fault(what: str, old: str, new: str) -> None:
    with pytest.raises((AssertionError, DeviceError)):
        run_quantised(
            BLOCKS, "nvfp4", {"m": 72, "n": 192, "k": 256}, ("n", "k"), 1, "sm_90a", "tile=64x96x128",
            changed(old, new), times=1,
        )  # fmt: skip
