"""A kernel of sm_120a by hand: a copy that pads packed elements, ldmatrix that unpacks them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalec.abi import PADDED, Argument, Extent, KernelSpec, Launch, TensorSpec
from scalec.errors import DeviceError, UnsupportedError
from scalec.reference import numpy_dtype, storage
from scalec.runtime import emulated
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from scalec.targets import TARGETS

ROWS, COLUMNS = 8, 128
MAP = Argument("tensor_map", "A", box=(COLUMNS, ROWS), swizzle=128, element=PADDED)

# one warp: a box of 8 rows of 128 elements to shared memory, eight 8x16 matrices to registers, their codes to C
HEAD = """
.version 8.7
.target sm_120a
.address_size 64
.extern .shared .align 1024 .b8 scalec_shared[];

.visible .entry C(.param .align 64 .b8 C_map[128], .param .u64 C_out, .param .u32 C_k)
.reqntid 32
{
    .reg .pred %first, %done, %more;
    .reg .b32 %lane, %tile, %barrier, %row, %address, %codes, %chunk, %at, %k, %column, %phase;
    .reg .b64 %map, %out, %to, %offset;
    mov.u32 %lane, %tid.x;
    mov.u32 %tile, scalec_shared;
    add.u32 %barrier, %tile, 1024;
    mov.b64 %map, C_map;
    cvta.param.u64 %map, %map;
    ld.param.u64 %out, [C_out];
    ld.param.u32 %k, [C_k];
    cvta.to.global.u64 %out, %out;
    setp.eq.u32 %first, %lane, 0;
    @%first mbarrier.init.shared::cta.b64 [%barrier], 1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mov.u32 %column, 0;
    mov.u32 %phase, 0;
COLUMNS:
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], BYTES;
    @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%tile], [%map, {%column, 0}], [%barrier];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%barrier], %phase;
    @!%done bra WAIT;
    and.b32 %row, %lane, 7;
"""
MATRIX = """
    xor.b32 %chunk, %row, NUMBER;
    mad.lo.u32 %address, %row, 128, %tile;
    mad.lo.u32 %address, %chunk, 16, %address;
    ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.FORMAT {%codes}, [%address];
    shr.u32 %at, %lane, 2;
    mul.lo.u32 %at, %at, %k;
    add.u32 %at, %at, %column;
    and.b32 %chunk, %lane, 3;
    mad.lo.u32 %at, %chunk, 4, %at;
    cvt.u64.u32 %offset, %at;
    add.u64 %to, %out, %offset;
    st.global.b32 [%to+PLACE], %codes;
"""
TAIL = """
    bar.sync 0;
    xor.b32 %phase, %phase, 1;
    add.u32 %column, %column, 128;
    setp.lt.u32 %more, %column, %k;
    @%more bra COLUMNS;
    ret;
}
"""


def ptx(element: str) -> str:
    bits, form = (4, "b4x16_p64") if element == "e2m1" else (6, "b6x16_p32")
    text = HEAD.replace("BYTES", str(ROWS * COLUMNS * bits // 8))  # padding is not counted
    for number in range(COLUMNS // 16):
        text += MATRIX.replace("NUMBER", str(number)).replace("FORMAT", form).replace("PLACE", str(16 * number))
    return text + TAIL


def spec_of(element: str) -> KernelSpec:
    extents = Extent("m"), Extent("k")
    return KernelSpec(
        source="",
        target="sm_120a",
        entry="C",
        dims={"m": ROWS, "k": None},
        operands=(TensorSpec("A", element, extents, align=32),),
        results=(TensorSpec("C", "i8", extents, align=4),),
        arguments=(MAP, Argument("pointer", "C"), Argument("dim", dim="k")),
        launch=Launch(32, 1032, 1, (("m", ROWS, 1),)),
    )


@pytest.fixture
def device(monkeypatch) -> emulated.EmulatedDevice:
    if "sm_120a" not in TARGETS:
        row = replace(TARGETS["sm_90a"], name="sm_120a", capability=(12, 0), shared_bytes=99 * 1024)
        monkeypatch.setitem(TARGETS, "sm_120a", row)
    return emulated.EmulatedDevice("sm_120a")


@pytest.mark.parametrize("element", ["e2m1", "e3m2", "e2m3"])
def test_packed_elements_arrive_one_a_byte(device, element):
    bits = 4 if element == "e2m1" else 6
    codes = np.random.default_rng(0).integers(0, 1 << bits, (ROWS, 3 * COLUMNS)).astype(np.uint8)
    packed = storage(codes.view(numpy_dtype(element)))
    row = packed.shape[1]
    aligned = np.zeros(packed.nbytes + 32, np.uint8)
    start = -aligned.ctypes.data % 32
    given = aligned[start : start + packed.nbytes].reshape(ROWS, row)
    given[...] = packed
    made = Kernel(spec_of(element), b"", ptx=ptx(element), device=device)(given)
    np.testing.assert_array_equal(made.view(np.uint8), codes)


def test_the_device_says_what_it_is(device):
    assert (device.capability, device.place, device.image) == ((12, 0), ("cpu", 0), "ptx")
    assert device.name == "the emulator (sm_120a)"
    with pytest.raises(UnsupportedError, match="unknown target 'sm_1'"):
        emulated.EmulatedDevice("sm_1")


def test_it_has_the_shared_memory_of_its_target(device):
    spec = spec_of("e2m1")
    large = replace(spec, launch=replace(spec.launch, shared_bytes=100 * 1024))
    made = DeviceArray(device, (ROWS, 64), "e2m1")
    device.upload(made.pointer, bytes(64 * ROWS), 0)
    with pytest.raises(DeviceError, match="102400 bytes of shared memory a CTA, sm_120a has 101376"):
        Kernel(large, b"", ptx=ptx("e2m1"), device=device)(made)
