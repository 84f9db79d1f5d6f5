"""ldmatrix and stmatrix, through shared memory and registers."""

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError

from .harness import Out, module, run_ptx
from .test_fragments import accumulator_formula

SHARED = ".shared .align 1024 .b8 window[2048];"
# every lane copies 32 of 1024 bytes into the window; %r1: its address, %r2: of row (lane) of 16 bytes
FILL = """
    mov.u32 %r0, %laneid; mov.u32 %r1, window; ld.param.u64 %rd0, [p0];
    mad.wide.u32 %rd1, %r0, 32, %rd0; mad.lo.u32 %r3, %r0, 32, %r1;
    ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1]; st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7};
    ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1+16]; st.shared.v4.b32 [%r3+16], {%r4, %r5, %r6, %r7};
    bar.warp.sync 0xffffffff;
    mad.lo.u32 %r2, %r0, 16, %r1;
"""


def names(count, first=10):
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def load(name, count, data, address="%r2", target="sm_90a", before=""):
    """Registers (count, 32) after an ldmatrix from 1024 bytes of shared memory."""
    stores = "".join(f"st.global.b32 [%rd3+{128 * i}], %r{10 + i};" for i in range(count))
    text = module(
        f"{SHARED}{FILL}{before} ldmatrix.sync.aligned.{name} {names(count)}, [{address}];"
        f"ld.param.u64 %rd2, [p1]; mad.wide.u32 %rd3, %r0, 4, %rd2; {stores}",
        target=target,
    )
    out = Out(128 * count)
    run_ptx(text, [data, out])
    return out.view(np.uint32).reshape(count, 32)


def image(seed=0):
    return np.random.default_rng(seed).integers(0, 256, 1024, dtype=np.uint8)


# -- ldmatrix ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("space", [".shared", ".shared::cta"])
def test_m8n8(count, space):
    data = image()
    found = load(f"m8n8.x{count}{space}.b16", count, data)
    # lane l: bytes 4 (l % 4) to + 3 of row l / 4 of matrix i, whose rows are 8 i to 8 i + 7
    for i in range(count):
        for lane in range(32):
            at = 16 * (8 * i + lane // 4) + 4 * (lane % 4)
            assert found[i, lane] == data[at : at + 4].view(np.uint32)[0]


def test_m8n8_transposed():
    data = image(1)
    elements = data.view(np.uint16)
    found = load("m8n8.x4.trans.shared.b16", 4, data).view(np.uint16).reshape(4, 32, 2)
    for i in range(4):
        for lane in range(32):
            for half in range(2):  # column l / 4, rows 2 (l % 4) and the next
                assert found[i, lane, half] == elements[8 * (8 * i + 2 * (lane % 4) + half) + lane // 4]


def test_rows_anywhere_and_lanes_that_do_not_matter():
    data = image(2)
    # rows from the end, 48 bytes apart, and no address at all from lane 8 on
    before = "mul.lo.u32 %r8, %r0, 48; add.u32 %r9, %r1, 960; sub.u32 %r9, %r9, %r8; setp.lt.u32 %p0, %r0, 8;"
    found = load("m8n8.x1.shared.b16", 1, data, "%r2", before=before + "selp.b32 %r2, %r9, 1, %p0;")
    for lane in range(32):
        at = 960 - 48 * (lane // 4) + 4 * (lane % 4)
        assert found[0, lane] == data[at : at + 4].view(np.uint32)[0]


def test_generic_addresses():
    data = image(3)
    before = "cvt.u64.u32 %rd5, %r2; cvta.shared.u64 %rd6, %rd5;"
    found = load("m8n8.x1.b16", 1, data, "%rd6", before=before)
    assert found[0, 5] == data[20:24].view(np.uint32)[0]


@pytest.mark.parametrize("count", [1, 2])
def test_m16n16(count):
    data = image(4)
    found = load(f"m16n16.x{count}.trans.shared.b8", 2 * count, data, target="sm_120a").view(np.uint8)
    found = found.reshape(count, 2, 32, 4)
    for matrix in range(count):
        for lane in range(32):  # columns l / 4 and + 8 of memory, its rows 4 (l % 4) to + 3
            for half in range(2):
                rows = 16 * matrix + 4 * (lane % 4) + np.arange(4)
                np.testing.assert_array_equal(found[matrix, half, lane], data[16 * rows + lane // 4 + 8 * half])


@pytest.mark.parametrize(("source", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_packed_sources(source, bits):
    data = image(5)
    rows = [int.from_bytes(data[16 * r :][:16].tobytes(), "little") for r in range(32)]
    codes = np.array([[row >> bits * i & (1 << bits) - 1 for i in range(16)] for row in rows], np.uint8)
    found = load(f"m8n16.x4.shared.b8x16.{source}", 4, data, target="sm_120a").view(np.uint8).reshape(4, 32, 4)
    for i in range(4):
        for lane in range(32):
            np.testing.assert_array_equal(found[i, lane], codes[8 * i + lane // 4, 4 * (lane % 4) :][:4])
    found = load(f"m16n16.x1.trans.shared.b8x16.{source}", 2, data, target="sm_100a").view(np.uint8).reshape(2, 32, 4)
    np.testing.assert_array_equal(found[1, 6], codes[8:12, 9])


def test_padding_is_not_read():
    # only the elements of each row were written
    text = module(
        SHARED + "mov.u32 %r0, %laneid; mov.u32 %r1, window; mad.lo.u32 %r2, %r0, 16, %r1;"
        "mov.b64 %rd4, 0x7766554433221100; st.shared.b64 [%r2], %rd4; bar.warp.sync 0xffffffff;"
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r4}, [%r2];"
        "ld.param.u64 %rd2, [p1]; mad.wide.u32 %rd3, %r0, 4, %rd2; st.global.b32 [%rd3], %r4;",
        target="sm_120a",
    )
    out = Out(128)
    run_ptx(text, [np.zeros(4, np.uint8), out])
    assert out.view(np.uint32)[1] == 0x03030202


# -- stmatrix ----------------------------------------------------------------------------------------------------------


def store(name, registers, target="sm_90a"):
    """512 bytes of shared memory after an stmatrix of registers (count, 32); 0xEE where it wrote nothing."""
    count = len(registers)
    loads = "".join(f"ld.global.b32 %r{10 + i}, [%rd3+{128 * i}];" for i in range(count))
    text = module(
        SHARED + "mov.u32 %r0, %laneid; mov.u32 %r1, window; mad.lo.u32 %r2, %r0, 16, %r1;"
        "mov.b32 %r4, 0xEEEEEEEE; st.shared.v4.b32 [%r2], {%r4, %r4, %r4, %r4}; bar.warp.sync 0xffffffff;"
        f"ld.param.u64 %rd2, [p0]; mad.wide.u32 %rd3, %r0, 4, %rd2; {loads}"
        f"stmatrix.sync.aligned.{name} [%r2], {names(count)}; bar.warp.sync 0xffffffff;"
        "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2]; ld.param.u64 %rd2, [p1]; mad.wide.u32 %rd3, %r0, 16, %rd2;"
        "st.global.v4.b32 [%rd3], {%r4, %r5, %r6, %r7};",
        target=target,
    )
    out = Out(512)
    run_ptx(text, [np.ascontiguousarray(registers, np.uint32), out])
    return out.view(np.uint8).reshape(32, 16)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_m8n8(count):
    registers = np.random.default_rng(6).integers(0, 1 << 32, (count, 32), dtype=np.uint32)
    stored = store(f"m8n8.x{count}.shared.b16", registers)
    for i in range(count):
        for lane in range(32):
            row = stored[8 * i + lane // 4].view(np.uint32)
            assert row[lane % 4] == registers[i, lane]
    assert (stored[8 * count :] == 0xEE).all()
    turned = store(f"m8n8.x{count}.trans.shared.b16", registers)
    for i in range(count):  # the halves go to rows 2 (l % 4) and + 1, column l / 4
        for lane in range(32):
            for half in range(2):
                row = turned[8 * i + 2 * (lane % 4) + half].view(np.uint16)
                assert row[lane // 4] == registers[i, lane] >> 16 * half & 0xFFFF


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_m16n8(count):
    registers = np.random.default_rng(7).integers(0, 1 << 32, (count, 32), dtype=np.uint32)
    stored = store(f"m16n8.x{count}.trans.shared.b8", registers, "sm_100a")
    for i in range(count):
        for lane in range(32):
            for byte in range(4):
                row, column = accumulator_formula(byte, lane >> 2, lane % 4)
                assert stored[8 * i + column, row] == registers[i, lane] >> 8 * byte & 0xFF
    assert (stored[8 * count :] == 0xEE).all()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count", "target", "error", "match"),
    [
        ("m16n16.x4.trans.shared.b8", 8, "sm_120a", Finding, "no such combination"),
        ("m8n8.x1.shared.b8", 1, "sm_120a", Finding, "no such combination"),
        ("m8n16.x1.shared.b8", 1, "sm_120a", Finding, "no such combination"),
        ("m16n16.x1.shared.b8", 2, "sm_120a", Finding, "without .trans"),
        ("m8n16.x1.trans.shared.b8x16.b4x16_p64", 1, "sm_120a", Finding, "with .trans"),
        ("m16n16.x1.trans.shared.b8", 2, "sm_90a", Finding, "needs sm_100a"),
        ("m8n16.x1.shared.b4x16_p64", 1, "sm_120a", NotModelled, "b4x16_p64"),
        ("m8n8.x2.shared.b16", 1, "sm_90a", PtxSyntaxError, "1 registers, expected 2"),
        ("m16n16.x1.trans.shared.b8", 1, "sm_120a", PtxSyntaxError, "1 registers, expected 2"),
    ],
)
def test_combinations_that_are_refused(name, count, target, error, match):
    with pytest.raises(error, match=match):
        load(name, count, image(), target=target)


def test_stmatrix_that_is_refused():
    with pytest.raises(Finding, match="no such combination"):
        store("m16n16.x1.trans.shared.b8", np.zeros((2, 32)), "sm_120a")
    with pytest.raises(Finding, match=r"m16n8 without .trans"):
        store("m16n8.x1.shared.b8", np.zeros((1, 32)), "sm_120a")


@pytest.mark.parametrize(
    ("address", "before", "kind", "match"),
    [
        ("%r2+8", "", "alignment", "lane 0 names a row at"),
        ("%r2+4096", "", "bounds", "shared address"),
        ("%r2+1024", "", "uninitialised", "never written"),
        ("%rd0", "", "illegal", "not in shared memory"),
    ],
)
def test_rows_that_are_refused(address, before, kind, match):
    name = "m8n8.x1.b16" if address == "%rd0" else "m8n8.x1.shared.b16"
    with pytest.raises(Finding, match=match) as caught:
        load(name, 1, image(), address, before=before)
    assert caught.value.kind == kind


def test_all_lanes_must_take_part():
    text = "setp.lt.u32 %p1, %r0, 8; @%p1"
    with pytest.raises(Finding, match="lanes 0-7 only") as caught:
        load("m8n8.x1.shared.b16", 1, image(), before=text)
    assert caught.value.kind == "divergence"


def test_a_transposed_fragment():
    """movmatrix: lane i holds elements 2 * (i % 4) and the next of row i // 4, before and afterwards."""
    out = Out(128)
    body = """
        mov.u32 %r0, %laneid; shl.b32 %r1, %r0, 1; add.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 16; or.b32 %r1, %r1, %r2;
        movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;
        ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd0, %r0, 4, %rd0; st.global.b32 [%rd0], %r3;
    """
    run_ptx(module(body), [out, 0])
    np.testing.assert_array_equal(out.view("u2").reshape(8, 8), np.arange(64).reshape(8, 8).T)
    with pytest.raises(Finding, match="lanes 0-15 only"):
        run_ptx(module(body), [out, 0], block=(16, 1, 1))
