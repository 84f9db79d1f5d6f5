"""8-bit results whose accumulators have permuted columns: what is stored is what stands there without, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from scalec import abi, reference
from scalec.errors import DeviceError, ScheduleError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import slots
from tests.emulator.quantised import changed, codes, compile_, in_either_order, launch, run_quantised, same
from tests.tiers import fields

BLOCKS = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
ROWS = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,1x128)"  # of B by bulk copies of windows
COLUMNS = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128:f32@col,1x128:f32@col)"  # and of vectors
OUTER = "D[m,n]{} = relu(A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1xk,1xk) + bias[n])"
BF16 = "D[m,n]{} = A[m,k] @ B[n,k]"
BOTH = "D[m,n]{} = A[m,k] @ B[n,k] + X[m,n] * bias[n]"

CASES = {
    "tiles of 96 in blocks of 128": (BLOCKS, "mxfp8", {"m": 72, "n": 208, "k": 256}, "tile=64x96x128"),
    "tiles of 160": (BLOCKS, "mxfp8", {"m": 136, "n": 336, "k": 128}, "tile=128x160x128"),
    "tiles of 224, by 32 bytes": (BF16, "mxfp8_e5m2", {"m": 40, "n": 240, "k": 128}, "tile=64x224x64"),
    "tiles of 192, by 64 bytes": (BLOCKS, "mxfp8", {"m": 40, "n": 192, "k": 256}, "tile=64x192x128"),
    "a tail of 16 columns": (BLOCKS, "fp8_block", {"m": 136, "n": 272, "k": 256}, "tile=128x128x128"),
    "two waves": (BLOCKS, "mxfp8", {"m": 300, "n": 128, "k": 256}, "tile=256x128x128"),
    "scales of B's rows by windows": (ROWS, "mxfp8", {"m": 72, "n": 208, "k": 512}, "tile=64x96x128"),
    "scales of B's rows by vectors": (COLUMNS, "mxfp8", {"m": 72, "n": 208, "k": 256}, "tile=64x96x128"),
    "scales of B's rows by threads": (ROWS, "fp8_block", {"m": 72, "n": 144, "k": 384}, "scale_path=thread"),
    "a scale for each row of B": (OUTER, "mxfp8", {"m": 72, "n": 208, "k": 256}, "tile=64x96x128"),
    "inputs of the epilogue": (BOTH, "fp8_block", {"m": 72, "n": 208, "k": 128}, "tile=128x128x64"),
    "B multicast": (BLOCKS, "mxfp8", {"m": 300, "n": 176, "k": 256}, "tile=128x96x128, cluster=2x1"),
    "A multicast": (BLOCKS, "mxfp8", {"m": 72, "n": 400, "k": 256}, "tile=64x96x128, cluster=1x2"),
    "blocks of 8, of two lanes": (BF16, "e4m3 scale(1x8)", {"m": 72, "n": 224, "k": 128}, "tile=64x64x64"),
    "blocks of 8, packed": (BF16, "e4m3 scale(1x8:ue8m0@packed)", {"m": 40, "n": 208, "k": 128}, "tile=64x64x64"),
    "parts of K": (BLOCKS, "mxfp8", {"m": 72, "n": 208, "k": 512}, "tile=64x96x128, split=2"),
    "waves one by one": (
        BF16,
        "mxfp8",
        {"m": 136, "n": 208, "k": 128},
        "tile=128x96x64, warpgroups=1, epilogue=bulk, staged=1",
    ),
}


@pytest.mark.once(touches=lambda name: fields(CASES[name]))
@pytest.mark.parametrize("name", CASES)
def test_quantised(name: str) -> None:
    program, result, dims, settings = CASES[name]
    kernel = run_quantised(program, result, dims, ("n", "k"), len(name), "sm_90a", settings)
    assert "permute_n=16" in kernel.spec.schedule
    assert "cp.async.bulk.tensor.5d" in kernel.ptx
    assert "st.shared.b16" not in kernel.ptx


@pytest.mark.parametrize(("element", "type"), [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
def test_results_without_scales(element: str, type: type) -> None:
    program, dims = "D[m,n]{} = A[m,k] @ B[n,k] + bias[n] with tile=64x96x64", {"m": 72, "n": 208, "k": 128}
    with context.context():
        values = dict(reference.make(build(program.format(":f32"), dims), dims, seed=1))
    ((sums,), _), ((got,), _) = (
        launch(compile_(program.format(f":{x}"), "sm_90a", dims, ("n", "k")), "sm_90a", values, dims, 2)
        for x in ("f32", element)
    )
    largest = float(ml_dtypes.finfo(type).max)
    same(codes(got), codes(np.clip(sums, -largest, largest).astype(type)), element)


@pytest.mark.once("result", "block")
@pytest.mark.parametrize("result", ["mxfp8", "nvfp4"])
@pytest.mark.parametrize("block", [8, 16, 24])
def test_scales_of_b_that_change_within_what_is_permuted(result: str, block: int) -> None:
    """Lanes of a row would need other factors: copies then leave B's rows in order."""
    program = f"D[m,n]{{}} = A[m,k] @ B[n,k] scale(1x128, {block}x128)"
    dims, settings = {"m": 20, "n": 96, "k": 256}, "tile=64x96x128"
    kernel = run_quantised(program, result, dims, ("n", "k"), 1, "sm_90a", settings, times=1)
    assert ("permute_n=0" in kernel.spec.schedule) == ((result, block) != ("mxfp8", 16))


def test_the_order_of_columns_changes_no_bit() -> None:
    in_either_order(BLOCKS, "mxfp8", {"m": 72, "n": 208, "k": 256}, "", 16)


@pytest.mark.parametrize(
    ("program", "target", "dims", "got"),
    [
        (f"{BF16.format('')} with permute_n=16", "sm_90a", {"n": 256}, "D has 16-bit elements"),
        (f"{BF16.format(':mxfp4')} with permute_n=16", "sm_90a", {"n": 256}, "D has 4-bit elements"),
        (f"{BF16.format(':mxfp8')} with permute_n=16, epilogue=direct", "sm_90a", {"n": 256}, "epilogue=direct"),
        (f"{BF16.format(':mxfp8')} with permute_n=16", "sm_120a", {"n": 256}, "sm_120a does not multiply from shared"),
        (f"{BF16.format(':mxfp8')} with permute_n=16", "sm_100a", {"n": 256}, "sm_100a does not multiply from shared"),
        (f"{BF16.format(':mxfp8')} with permute_n=16", "sm_90a", {}, "does not go through shared memory"),
        (
            f"{BLOCKS.format(':mxfp8').replace('128x128', '8x128')} with permute_n=16",
            "sm_90a",
            {"n": 256},
            "B_scale changes within 16 columns of a tile",
        ),
    ],
)
def test_what_cannot_be(program: str, target: str, dims: dict[str, int], got: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(got)) as caught:
        compile_(program, target, {**dims, "k": 256}, (*dims, "k"))
    assert "permute_n = 16 is not possible" in str(caught.value)
    assert "permute_n=0" in str(caught.value)


# ----------------------------------------------------------------------------------------------------------- mutations


def orders() -> list[tuple[str, Callable[[int, int], tuple[tuple[int, int], ...]]]]:
    """Other orders in which a tensor map might count rows."""
    right = abi.permuted_rows
    return [
        ("rows in order", lambda within, rows: ((2, 1), (4, 2), (within // 8, 8), (rows // within, within))),
        ("e and h exchanged", lambda within, rows: ((2, 2), (4, 4), (2, 1), (rows // within, within))),
        (
            "groups of 16 too far apart",
            lambda within, rows: (*right(within, rows)[:3], (rows // within - 1, 2 * within)),
        ),
    ]


@pytest.mark.parametrize(("what", "order"), orders(), ids=[what for what, _ in orders()])
def test_another_order_is_found(what: str, order: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "permuted_rows", order)
    with pytest.raises((AssertionError, DeviceError)):
        run_quantised(BLOCKS, "mxfp8", {"m": 40, "n": 96, "k": 256}, ("n", "k"), 1, "sm_90a", "tile=64x96x128")


FAULTS = [
    ("pairs of a register exchanged", r"mov\.b32 (%r\d+), \{(%rs\d+), (%rs\d+)\};", r"mov.b32 \1, {\3, \2};", BLOCKS),
    ("the group of 16 rows of B", r"(5d\.shared::cluster.*\{%r\d+, %r\d+, %r\d+, %r\d+, )%r\d+\}", r"\g<1>0}", BLOCKS),
    ("the first of B's scales", r"shl\.b32 \t(%r\d+), (%r\d+), 4;(?=\n\tand\.b32 )", r"shl.b32 \t\1, \2, 3;", COLUMNS),
    ("rows of stmatrix", r"(stmatrix\S+ \[%rd\d+\], \{)(%r\d+), (%r\d+),", r"\1\3, \2,", BLOCKS),
    ("columns of stmatrix", r"(stmatrix\S+ \[%rd\d+\], \{)(%r\d+), (%r\d+), (%r\d+),", r"\1\4, \3, \2,", BLOCKS),
]  # fmt: skip


@pytest.mark.parametrize(("what", "old", "new", "program"), FAULTS, ids=[f[0] for f in FAULTS])
def test_fault(what: str, old: str, new: str, program: str) -> None:
    with pytest.raises((AssertionError, DeviceError)):
        run_quantised(
            program,
            "mxfp8",
            {"m": 40, "n": 192, "k": 256},
            ("n", "k"),
            1,
            "sm_90a",
            "tile=64x96x128",
            changed(old, new),
        )
