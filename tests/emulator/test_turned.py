"""Results that are computed by columns (swap=1) and turned in shared memory (epilogue=turned)."""

from __future__ import annotations

import pytest

from scalec.compiler import Compilation, compile_source, decide
from scalec.errors import DeviceError, ScheduleError, SlowKernelError
from scalec.passes.choose import swizzle as choose_swizzle
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import changed, run_quantised
from tests.emulator.running import refusals, run_on
from tests.tiers import fields

BLOCKS = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
BF16 = "D[m,n]{} = A[m,k] @ B[n,k]"
TURNED = "swap=1, epilogue=turned"

QUANTISED = {
    "4 bits, tails": (BLOCKS, "nvfp4", (21, 160, 256), "tile=64x16x128"),
    "4 bits without a scale of all": (BLOCKS, "mxfp4", (21, 160, 256), "tile=64x24x128"),
    "8 bits, tails": (BLOCKS, "mxfp8", (21, 160, 256), "tile=64x16x128"),
    "8 bits of blocks of 128": (BLOCKS, "fp8_block", (40, 384, 256), "tile=128x40x128"),
    "two warpgroups of two waves": (BLOCKS, "nvfp4", (20, 384, 256), "tile=256x16x128, warpgroups=2"),
    "fewer columns than rows at once": (BLOCKS, "nvfp4", (20, 384, 256), "tile=256x8x128, warpgroups=2"),
    "more columns than rows at once": (BF16, "e4m3 scale(1x16)", (50, 192, 128), "tile=64x56x64"),
    "parts of K": (BLOCKS, "mxfp8", (20, 192, 512), "tile=64x16x128, split=2, parts=cluster"),
    "parts of K in memory": (BLOCKS, "nvfp4", (20, 192, 512), "tile=64x16x128, split=2, parts=memory"),
    "several tiles": (BLOCKS, "mxfp8", (30, 9216, 128), "tile=64x8x128"),
}


def fields_of(kernel: Kernel | Compilation) -> dict[str, str]:
    return dict(x.split("=") for x in str(kernel.spec.schedule).split(", "))


def turned(kernel: Kernel | Compilation) -> None:
    fields = fields_of(kernel)
    assert (fields["epilogue"], fields["swap"], fields["swizzle_c"]) == ("turned", "1", "0")
    assert "st.global.v4.b32" in kernel.ptx


@pytest.mark.once(touches=lambda name: fields(QUANTISED[name]))
@pytest.mark.parametrize("name", QUANTISED)
def test_quantised(name: str) -> None:
    program, result, (m, n, k), settings = QUANTISED[name]
    dims, seed = {"m": m, "n": n, "k": k}, len(name)
    turned(run_quantised(program, result, dims, ("n", "k"), seed, "sm_90a", f"{TURNED}, {settings}", times=1))


@pytest.mark.once("element", touches=lambda settings, **_: fields(settings))
@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(
    "settings",
    [
        "tile=64x16x64",
        "tile=64x8x64",
        "tile=128x24x64, warpgroups=1",
        "tile=256x16x64, warpgroups=2",
        "tile=64x40x64, cluster=2x1",
        "tile=64x16x64, warpgroups=2, consumers=pingpong",
    ],
)
def test_wider_elements(settings: str, element: str) -> None:
    source = f"C[m,n]:{element} = silu(A[m,k]@B[n,k] + b[n]) * g[m] with {TURNED}, {settings}"
    dims = {"n": 296, "k": 192}
    turned(compile_source(source, "sm_90a", dims))
    run_on(source, {"m": 37, **dims}, ("n", "k"), 3, 3e-3, target="sm_90a")


def test_what_is_there_is_read_by_threads() -> None:
    source = f"C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128) with {TURNED}, tile=64x16x128"
    run_on(source, {"m": 21, "n": 200, "k": 256}, ("n", "k"), 5, 3e-3, target="sm_90a")


def chosen(source: str, dims: dict[str, int], target: str = "sm_90a") -> str:
    return decide(source, target, dims)[0].epilogue


KNOWN = {"n": 256, "k": 256}


@pytest.mark.once("epilogue")
@pytest.mark.parametrize(
    ("source", "dims", "epilogue"),
    [
        (f"{BLOCKS.format('')} with swap=1, tile=64x16x128", KNOWN, "turned"),
        (f"{BLOCKS.format(':nvfp4')} with swap=1, tile=64x16x128", KNOWN, "turned"),
        (f"{BLOCKS.format('')} with swap=1, tile=64x64x128", KNOWN, "turned"),
        (f"{BLOCKS.format(':mxfp8')} with swap=1, tile=192x40x128", {"n": 384, "k": 256}, "turned"),
        (f"{BLOCKS.format(':nvfp4')} with swap=1, tile=256x64x128, warpgroups=2", KNOWN, "turned"),
        (f"{BLOCKS.format('')} with swap=1, tile=64x8x128", KNOWN, "direct"),
        (f"{BLOCKS.format(':f32')} with swap=1, tile=64x16x128", KNOWN, "direct"),
        (f"{BLOCKS.format('')} with swap=1, tile=64x16x128", {"n": 252, "k": 256}, "direct"),
        (f"{BLOCKS.format('')} with swap=1, tile=64x16x128", {"k": 256}, "direct"),
        (f"{BLOCKS.format('')} with swap=1, tile=64x16x128, swizzle_c=0", KNOWN, "turned"),
        (f"{BLOCKS.format('')} with swap=0, tile=64x16x128", KNOWN, "bulk"),
        (f"{BF16.format('')} with epilogue=turned", {"m": 16, **KNOWN}, "turned"),
        # beside more columns, or sums of a thread, these spilled
        (f"{BLOCKS.format('')} with swap=1, tile=64x200x128", KNOWN, "direct"),
        (f"{BLOCKS.format('')} with swap=1, tile=256x128x128", KNOWN, "direct"),
        (f"{BLOCKS.format(':mxfp8')} with swap=1, tile=128x96x128, warpgroups=1", KNOWN, "direct"),
        (f"{BF16.format(':nvfp4')} with swap=1, tile=256x64x64, warpgroups=1", KNOWN, "direct"),
    ],
)
def test_choice(source: str, dims: dict[str, int], epilogue: str) -> None:
    assert chosen(source, dims) == epilogue


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_other_targets_store_registers(target: str) -> None:
    assert chosen(f"{BF16.format('')} with swap=1", {"m": 16, **KNOWN}, target) == "direct"
    with pytest.raises(ScheduleError, match=f"epilogue=turned is not possible\n.*{target} does not multiply from"):
        chosen(f"{BF16.format('')} with {TURNED}", {"m": 16, **KNOWN}, target)


test_refused = refusals(
    [
        ("swap=0, epilogue=turned", "swap=0 computes rows of D\n.*: swap=1, or epilogue=bulk"),
        ("epilogue=turned", "swap=0 computes rows of D\n.*: swap=1, or epilogue=bulk"),
        ("swap=0, epilogue=turned", "swap=0 computes rows of D\n.*: epilogue=direct", {"k": 256}),
        (TURNED, r"a row of D is 504 bytes \(n = 252\), not a multiple of 16\n.*epilogue=direct", {"n": 252, "k": 256}),
        (TURNED, "n is not known at compile time: a row of D may be misaligned", {"k": 256}),
        (f"{TURNED}, staged=1", r"staged = 1, and no copy stores D \(epilogue=turned\)\n.*by columns"),
        ("swap=1, epilogue=bulk", "swap=1 computes D by columns, and a bulk copy stores rows\n.*=turned"),
        ("swap=1, epilogue=bulk", "swap=1 computes D by columns, and a bulk copy stores rows\n.*=direct", {"k": 256}),
    ],
    ScheduleError,
    dims=KNOWN,
    within=BF16.format("") + " with {}, tile=64x16x64",
)


def test_blocks_that_no_transposed_tile_has() -> None:
    with pytest.raises(ScheduleError, match=r"swap=0 computes rows of D\n.*: epilogue=bulk"):
        compile_source(f"{BF16.format(':e4m3 scale(1x8)')} with epilogue=turned, tile=64x64x64", "sm_90a", KNOWN)


@pytest.mark.assembled
def test_where_ptxas_spills_registers_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """528 bytes with epilogue=turned (ptxas 13.0), none without."""
    monkeypatch.setattr(choose_swizzle, "not_worth_turning", lambda *_: "")
    source = f"{BF16.format('')} with swap=1, tile=256x88x64, warpgroups=1"
    made = compile_source(source, "sm_90a", KNOWN)
    assert fields_of(made)["epilogue"] == "direct"
    assert "epilogue=turned" in made.dropped[0].schedule
    with pytest.raises(SlowKernelError, match=r"fix: .*epilogue=direct"):
        compile_source(f"{source}, epilogue=turned", "sm_90a", KNOWN)


FAULTS = {
    "another pitch": (r"(mad\.lo\.s32 \t%r\d+, %r\d+,) 144([;,])", r"\1 128\2"),
    "not turned": (r"stmatrix\.sync\.aligned\.m8n8\.x4\.trans", "stmatrix.sync.aligned.m8n8.x4"),
    "read before it is there": (r"(stmatrix[^;]*;\s*)bar\.sync[^;]*;", r"\1"),
    "overwritten before it is read": (r"(st\.global\.v4[^}]*};\s*}\s*// end inline asm\s*)bar\.sync[^;]*;", r"\1"),
    "beyond the last row": (r"and\.pred (\t%p\d+), (%p\d+), %p\d+;((?:(?!pred|bra)[^@])*@%p\d+ ld\.shared\.v4)",
                            r"and.pred \1, \2, \2;\3"),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str) -> None:
    source, dims = f"C[m,n] = A[m,k]@B[n,k] with {TURNED}, tile=64x16x64, cluster=1x1", {"n": 584, "k": 128}
    with pytest.raises((AssertionError, DeviceError)):
        run_on(source, {"m": 21, **dims}, ("n", "k"), 1, 3e-3, sms=4, change=changed(*FAULTS[name]))


def test_rows_that_do_not_exchange() -> None:
    exchange = r"shfl\.sync\.bfly\.b32 (%r\d+), (%r\d+), 4, 31, -1;(\s*// end inline asm\s*selp)"
    fault = changed(exchange, r"mov.b32 \1, \2;\3")
    with pytest.raises((AssertionError, DeviceError)):
        run_quantised(
            BF16, "e4m3 scale(1x16)", {"m": 21, "n": 192, "k": 64}, ("n", "k"), 1, "sm_90a", f"{TURNED}, tile=64x16x64",
            fault, times=1,
        )  # fmt: skip
