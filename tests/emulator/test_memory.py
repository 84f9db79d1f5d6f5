"""Loads and stores: PTX ISA 9.7.9.8 to 9.7.9.11; what is wrong with them; bytes and bank conflicts counted."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.machine.banks import wavefronts
from tests.emulator.harness import START, Out, module, run_ptx

LANE = np.arange(32)
SHARED = ".shared .align 16 .b8 tile[1024];"


def run(body: str, *arguments, head: str = "", target: str = "sm_90a", **options):
    if len(arguments) == 1:
        arguments = (*arguments, words())
    return run_ptx(module(START + body, target=target, head=head), arguments, **options)


def finding(body: str, *arguments, **options) -> Finding:
    with pytest.raises(Finding) as found:
        run(body, *arguments, **options)
    return found.value


def words(count: int = 32) -> np.ndarray:
    return np.arange(count, dtype=np.uint32)


# -- widths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),  # of the bytes 85 ff 7f 80 ff ff ff ff in a 64-bit register
    [
        ("u8", 0x85), ("s8", 0xFFFFFFFFFFFFFF85), ("b8", 0x85), ("u16", 0xFF85), ("s16", 0xFFFFFFFFFFFFFF85),
        ("b16", 0xFF85), ("u32", 0x807FFF85), ("s32", 0xFFFFFFFF807FFF85), ("b32", 0x807FFF85),
        ("u64", 0xFFFFFFFF807FFF85), ("f64", 0xFFFFFFFF807FFF85),
    ],
)  # fmt: skip
def test_narrow_loads_extend_by_their_sign(kind, expected):
    data, out = np.array([0x85, 0xFF, 0x7F, 0x80] + [0xFF] * 4, np.uint8), Out(8)
    run(f"ld.global.{kind} %rd5, [%rd0]; st.global.b64 [%rd1], %rd5;", data, out, block=(1, 1, 1))
    assert out.view(np.uint64).tolist() == [expected]


def test_narrow_stores_keep_the_lowest_bits():
    out = Out(16)
    run(
        """mov.u32 %r1, 0x12345678; mov.u64 %rd5, 0xabcdef0123456789; mov.b16 %h0, 0x4321;
        st.global.u8 [%rd0], %r1; st.global.b8 [%rd0+1], %rd5; st.global.u16 [%rd0+2], %r1; st.global.b16 [%rd0+4], %h0;
        st.global.u8 [%rd0+6], %h0; st.global.s8 [%rd0+7], -2; st.global.b32 [%rd0+8], %rd5;
        st.global.f32 [%rd0+12], 1.0;
        """,
        out, block=(1, 1, 1),
    )  # fmt: skip
    assert out.data is not None
    assert out.data.tobytes().hex() == "78897856" + "214321fe" + "89674523" + "0000803f"


def test_vectors():
    data, out = words(32 * 4), Out(32 * 16)
    run(
        """mad.wide.u32 %rd5, %r0, 16, %rd0; mad.wide.u32 %rd6, %r0, 16, %rd1;
        ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd5]; st.global.v2.u32 [%rd6+8], {%r1, %r2};
        ld.global.v2.b64 {%rd7, %rd8}, [%rd5]; st.global.v4.b16 [%rd6], {%r4, %r3, %r2, %r1};""",
        data, out,
    )  # fmt: skip
    found = out.view(np.uint32).reshape(32, 4)
    assert found[:, 2:].tolist() == [[4 * i, 4 * i + 1] for i in range(32)]
    assert found[:, 0].tolist() == [4 * i + 3 | 4 * i + 2 << 16 for i in range(32)]


def test_256_bits_and_elements_left_out():
    data, out = words(32 * 8), Out(32 * 32)
    run(
        """mad.wide.u32 %rd5, %r0, 32, %rd0; mad.wide.u32 %rd6, %r0, 32, %rd1;
        ld.global.L2::evict_last.v8.b32 {%r1, _, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd5];
        st.global.v8.b32 [%rd6], {%r8, %r7, _, %r5, %r4, %r3, _, %r1};""",
        data, out, target="sm_100a",
    )  # fmt: skip
    assert out.written is not None
    assert out.view(np.uint32).reshape(32, 8)[2].tolist() == [23, 22, 0, 20, 19, 18, 0, 16]
    assert out.written.reshape(32, 8, 4)[:, :, 0].tolist() == [[True, True, False, True, True, True, False, True]] * 32
    # the whole vector's alignment counts
    body = "mad.wide.u32 %rd5, %r0, 16, %rd0; ld.global.v8.b32 {%r1, _, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd5];"
    assert finding(body, data, data.copy(), target="sm_100a").kind == "alignment"


def test_128_bits():
    data, out = words(32 * 4), Out(32 * 16)
    run(
        """mad.wide.u32 %rd5, %r0, 16, %rd0; mad.wide.u32 %rd6, %r0, 16, %rd1;
        ld.global.b128 %q0, [%rd5]; mov.b128 {%rd7, %rd8}, %q0; mov.b128 %q1, {%rd8, %rd7};
        setp.lt.u32 %p0, %r0, 16; @%p0 mov.b128 %q1, %q0; st.global.b128 [%rd6], %q1;""",
        data, out,
    )  # fmt: skip
    found = out.view(np.uint32).reshape(32, 4)
    assert found[3].tolist() == [12, 13, 14, 15]
    assert found[20].tolist() == [82, 83, 80, 81]


def test_modifiers_that_change_nothing():
    policy = "createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;"
    for load in (
        "ld.global.ca.b32 %r1, [%rd2]", "ld.global.cg.b32 %r1, [%rd2]", "ld.global.L1::no_allocate.b32 %r1, [%rd2]",
        "ld.global.nc.L1::no_allocate.L2::128B.b32 %r1, [%rd2]", "ld.weak.global.b32 %r1, [%rd2]",
        "ld.global.L1::evict_last.L2::cache_hint.L2::256B.b32 %r1, [%rd2], %rd9", "ld.b32 %r1, [%rd2].unified",
        "ld.global.L2::cache_hint.b32 %r1, [%rd2], %rd9", "ldu.global.b32 %r1, [%rd2]", "ld.mmio.relaxed.sys.global.b32"
        " %r1, [%rd2]", "ld.relaxed.gpu.global.L1::no_allocate.b32 %r1, [%rd2]", "ld.volatile.global.b32 %r1, [%rd2]",
    ):  # fmt: skip
        for store in (
            "st.global.wb.b32 [%rd3], %r1", "st.global.cs.L2::cache_hint.b32 [%rd3], %r1, %rd9",
            "st.volatile.global.b32 [%rd3], %r1", "st.release.cluster.global.b32 [%rd3], %r1", "st.b32 [%rd3], %r1",
        ):  # fmt: skip
            out = Out(128)
            run(f"{policy} {load}; {store};", words(), out)
            assert out.view(np.uint32).tolist() == words().tolist(), (load, store)
    with pytest.raises(NotModelled):
        run("ld.global.sideways.b32 %r1, [%rd2];", words(), words())


# -- state spaces ------------------------------------------------------------------------------------------------------


def test_shared_through_its_window_and_the_generic_one():
    out = Out(256)
    run(
        """mov.u32 %r1, tile; setp.gt.u32 %p0, %r0, 99; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.b32 [%r2], %r0;
        cvt.u64.u32 %rd5, %r2; cvta.shared.u64 %rd6, %rd5; xor.b64 %rd7, %rd6, 4; bar.warp.sync -1;
        ld.b32 %r3, [%rd7]; st.b32 [%rd6+128], %r3; ld.shared::cta.b32 %r4, [%rd5+128];
        ld.shared::cluster.b32 %r5, [%r2];
        st.global.b32 [%rd2], %r4; st.global.b32 [%rd2+128], %r5; ld.shared.b32 %r6, [tile+8]; add.u32 %r6, %r6, 100;
        @%p0 st.global.b32 [%rd2], %r6;""",
        out, head=SHARED,
    )  # fmt: skip
    assert out.view(np.uint32).tolist() == [i ^ 1 for i in range(32)] + list(range(32))


def test_local_memory_is_each_lanes_own():
    out = Out(128)
    run(
        """.local .align 8 .b8 own[16]; mov.u64 %rd5, own; st.local.b32 [own+4], %r0; cvta.local.u64 %rd6, %rd5;
        ld.b32 %r1, [%rd6+4]; ld.local.b32 %r2, [%rd5+4]; add.u32 %r1, %r1, %r2; st.global.b32 [%rd2], %r1;""",
        out,
    )  # fmt: skip
    assert out.view(np.uint32).tolist() == [2 * i for i in range(32)]
    unwritten = ".local .b8 own[16]; ld.local.b32 %r1, [own]; st.global.b32 [%rd2], %r1;"
    assert finding(unwritten, out).kind == "uninitialised"
    assert finding(".local .align 4 .b8 own[16]; st.local.b32 [own+16], %r0;", out).kind == "bounds"
    assert finding(".local .align 4 .b8 own[16]; st.local.b32 [own+2], %r0;", out).kind == "alignment"


def test_generic_addresses_of_local_and_global_memory_in_one_warp():
    out = Out(128)
    run(
        """.local .align 4 .b8 own[4]; mov.u64 %rd5, own; cvta.local.u64 %rd5, %rd5; st.local.b32 [own], 7;
        setp.lt.u32 %p0, %r0, 8; selp.b64 %rd6, %rd5, %rd2, %p0; ld.b32 %r1, [%rd6]; ld.volatile.b32 %r2, [%rd6];
        st.volatile.b32 [%rd6], 50; ld.b32 %r3, [%rd6]; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
        st.global.b32 [%rd3], %r1;""",
        words(), out,
    )  # fmt: skip
    assert out.view(np.uint32).tolist() == [64] * 8 + [2 * i + 50 for i in range(8, 32)]


def test_constants_globals_and_parameters():
    out = Out(128)
    text = module(
        """ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd3, %r0, 4, %rd1;
        ld.param.v2.u32 {%r1, %r2}, [p0]; ld.param.u8 %r3, [p0+9]; ld.const.b32 %r4, [table+4];
        mov.u64 %rd5, table; cvta.const.u64 %rd5, %rd5; ld.b32 %r5, [%rd5]; ld.global.b32 %r6, [counter];
        mov.u64 %rd6, counter; ld.b32 %r7, [%rd6]; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4;
        add.u32 %r1, %r1, %r5; add.u32 %r1, %r1, %r6; add.u32 %r1, %r1, %r7; st.global.b32 [%rd3], %r1;""",
        params=".param .align 8 .b8 p0[16], .param .u64 p1",
        head=".const .align 4 .u32 table[2] = {1000, 20000}; .visible .global .u32 counter = 500000;",
    )
    struct = np.array([3, 4], np.uint32).tobytes() + bytes([0, 200]) + bytes(6)
    run_ptx(text, [struct, out])
    assert out.view(np.uint32).tolist() == [7 + 200 + 20000 + 1000 + 2 * 500000] * 32
    body = "mov.u64 %rd5, table; cvta.const.u64 %rd5, %rd5; st.b32 [%rd5], %r0;"
    assert finding(body, out, head=".const .u32 table[2] = {1, 2};").kind == "illegal"


def test_shared_memory_of_another_cta():
    out = Out(256)
    body = """mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, 4, %r2;
        mad.lo.u32 %r4, %r1, 100, %r0;
        st.shared.b32 [%r3], %r4; barrier.cluster.arrive; barrier.cluster.wait; xor.b32 %r5, %r1, 1;
        mapa.shared::cluster.u32 %r6, %r3, %r5; ld.shared::cluster.b32 %r7, [%r6]; mul.wide.u32 %rd5, %r1, 128;
        add.u64 %rd2, %rd2, %rd5; st.global.b32 [%rd2], %r7; barrier.cluster.arrive; barrier.cluster.wait;"""
    run(body, out, head=SHARED, grid=(2, 1, 1), cluster=(2, 1, 1))
    assert out.view(np.uint32).tolist() == [100 + i for i in range(32)] + list(range(32))
    wrong = finding(body.replace("ld.shared::cluster", "ld.shared"), out, head=SHARED, grid=(2, 1, 1),
                    cluster=(2, 1, 1))  # fmt: skip
    assert wrong.kind == "bounds"
    assert "own" in wrong.message


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_misaligned():
    found = finding("add.u64 %rd2, %rd2, 2; ld.global.b32 %r1, [%rd2];", words(), words())
    assert found.kind == "alignment"
    assert "lane 0 accesses 4 bytes" in found.message
    assert "ld.global.b32 %r1, [%rd2]" in found.where
    assert finding("ld.global.v2.b32 {%r1, %r2}, [%rd0+4];", words(), words()).kind == "alignment"


def test_out_of_bounds():
    found = finding("ld.global.b32 %r1, [%rd2+4];", words(), words())
    assert found.kind == "bounds"
    assert "lane 31" in found.message
    assert "128 from the start of argument 0, which has 128" in found.message
    assert finding("st.global.b32 [%rd2+-4], %r0;", words(), words()).kind == "bounds"
    assert finding("mov.u64 %rd5, 64; ld.global.b32 %r1, [%rd5];", words(), words()).kind == "bounds"
    body = "mov.u32 %r1, tile; mad.lo.u32 %r1, %r0, 64, %r1; st.shared.b32 [%r1], %r0;"
    found = finding(body, words(), words(), head=SHARED)
    assert found.kind == "bounds"
    assert "lane 16" in found.message  # 16 * 64 = 1024 bytes
    # lanes that do not execute the access may hold anything
    run("setp.lt.u32 %p0, %r0, 31; @%p0 ld.global.b32 %r1, [%rd2+4];", words(), words())


def test_uninitialised():
    found = finding("ld.global.b32 %r1, [%rd2]; st.global.b32 [%rd2], %r1;", Out(128), words())
    assert found.kind == "uninitialised"
    assert "byte 0 of argument 0" in found.message
    body = """mov.u32 %r1, tile; mad.lo.u32 %r1, %r0, 4, %r1; setp.lt.u32 %p0, %r0, 31; @%p0 st.shared.b32 [%r1], %r0;
        bar.warp.sync -1; ld.shared.b32 %r2, [%r1]; st.global.b32 [%rd2], %r2;"""
    assert finding(body, words(), words(), head=SHARED).kind == "uninitialised"
    run("ld.global.b32 %r1, [%rd2];", Out(128), words(), ignore=frozenset({"uninitialised"}))


RACE = """mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.b32 [%r2], %r0; {barrier}
    xor.b32 %r3, %r0, 32; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.b32 %r4, [%r3]; st.global.b32 [%rd2], %r4;"""


def test_race_between_warps():
    out = Out(256)
    for seed in range(4):
        run(RACE.format(barrier="bar.sync 0;"), out, head=SHARED, block=(64, 1, 1), seed=seed)
        assert out.view(np.uint32).tolist() == [i ^ 32 for i in range(64)]
        # without the barrier one warp reads what the other has not written yet, or what nothing orders
        found = finding(RACE.format(barrier=""), out, head=SHARED, block=(64, 1, 1), seed=seed,
                        ignore=frozenset({"uninitialised"}))  # fmt: skip
        assert found.kind == "race"
        assert "warp" in found.message
        run(RACE.format(barrier=""), out, head=SHARED, block=(64, 1, 1), seed=seed,
            ignore=frozenset({"uninitialised", "race"}))  # fmt: skip


def test_race_of_writes():
    same = "st.global.b32 [%rd0], %r0;"
    assert finding(same, words(), words(), block=(64, 1, 1)).kind == "race"
    run(same, words(), words())  # the lanes of one warp may
    # and warps may store the same value: compilers do so where they hold it several times
    run("st.global.b32 [%rd0], 5;", words(), words(), block=(64, 1, 1))
    # strong writes do not race with each other
    run("st.relaxed.gpu.global.b32 [%rd0], %r0;", words(), words(), block=(64, 1, 1))


def test_race_between_clusters():
    """CTAs of no cluster: warp 0 of each has the same number in its own."""
    body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 0; @%p0 {} @!%p0 {}"
    write, read = "st.global.b32 [%rd2], %r0;", "ld.global.b32 %r2, [%rd2];"
    for first, second in ((write, read), (read, write), (write, "st.global.b32 [%rd2], 99;")):
        for seed in range(3):
            found = finding(body.format(first, second), words(), grid=(2, 1, 1), seed=seed)
            assert found.kind == "race", (first, second)
            assert "cluster" in found.message
    run(body.format(read, read), words(), grid=(2, 1, 1))


def test_reads_that_must_not_see_writes():
    body = "st.global.b32 [%rd2], %r0; bar.sync 0; {} %r1, [%rd2];"
    assert finding(body.format("ld.global.nc.b32"), words(), words()).kind == "proxy"
    run(body.format("ld.global.b32"), words(), words())


# -- counters ----------------------------------------------------------------------------------------------------------


def test_bytes_by_path():
    stats = run(
        """ld.global.b32 %r1, [%rd2]; setp.lt.u32 %p0, %r0, 10; mov.u32 %r2, tile; mad.lo.u32 %r2, %r0, 16, %r2;
        @%p0 st.shared.v2.b32 [%r2], {%r0, %r1}; @%p0 ld.shared.b8 %r3, [%r2]; cvta.to.global.u64 %rd3, %rd3;
        st.b32 [%rd3], %r1;""",
        words(), Out(128), head=SHARED,
    )  # fmt: skip
    assert stats.bytes["global -> registers"] == 128
    assert stats.bytes["registers -> shared"] == 80
    assert stats.bytes["shared -> registers"] == 10
    assert stats.bytes["registers -> global"] == 128
    assert stats.bytes["param -> registers"] == 2 * 32 * 8


@pytest.mark.parametrize(
    ("addresses", "size", "expected"),
    [
        (LANE * 4, 4, (1, 1)),  # successive words
        (LANE * 8, 4, (2, 1)),  # every other bank
        (LANE * 128, 4, (32, 1)),  # one bank
        (LANE * 132, 4, (1, 1)),  # padded rows
        (LANE * 0, 4, (1, 1)),  # one word for all
        (LANE // 2 * 128, 4, (16, 1)),  # pairs share their word
        (LANE, 1, (1, 1)),  # bytes of eight words
        (LANE * 2, 2, (1, 1)),
        (LANE * 8, 8, (2, 2)),  # 256 bytes: a half warp at a time
        (LANE * 16, 8, (4, 2)),  # 16 words of 2 in every other pair of banks: two each
        (LANE * 16, 16, (4, 4)),  # 512 bytes: a quarter warp at a time
        (LANE * 128, 16, (32, 4)),  # columns of a matrix with rows of 128 bytes: eight rows meet in four banks
        ((LANE * 128) ^ (LANE % 8 * 16), 16, (4, 4)),  # and swizzled
        (LANE * 128 + 64, 8, (32, 2)),
    ],
)
def test_wavefronts(addresses, size, expected):
    assert wavefronts(addresses + 1024, LANE, size) == expected


def test_wavefronts_of_some_lanes():
    lanes = np.array([0, 1, 17])
    assert wavefronts(np.array([0, 128, 256]), lanes, 4) == (3, 1)
    # lanes 0 and 1 are of one half warp, lane 17 of the other
    assert wavefronts(np.array([0, 128, 256]), lanes, 8) == (3, 2)


def test_bank_conflicts_are_counted():
    body = "mov.u32 %r1, tile; mad.lo.u32 %r1, %r0, {}, %r1; {}; ld.shared.b32 %r2, [%r1];"
    body += "cvt.u64.u32 %rd5, %r1; cvta.shared.u64 %rd5, %rd5; ld.b32 %r2, [%rd5];"
    stats = run(body.format(32, "st.shared.b32 [%r1], %r0"), words(), words(), head=SHARED)
    assert (stats.counts["shared wavefronts"], stats.counts["bank conflicts"]) == (24, 21)
    stats = run(body.format(4, "st.shared.b32 [%r1], %r0"), words(), words(), head=SHARED)
    assert (stats.counts["shared wavefronts"], stats.counts["bank conflicts"]) == (3, 0)


ZEROS = """
    .shared .align 16 .b8 many[40000]; .shared .align 8 .b8 after[8];
    mov.u32 %r0, many; cvt.u64.u32 %rd1, %r0; cvta.shared.u64 %rd2, %rd1; mov.u32 %r9, %tid.x;
    setp.eq.u32 %p0, %r9, 0; mov.u64 %rd3, 39936;
    @%p0 {what};
    bar.sync 0; ld.shared.b64 %rd4, [many+39928]; ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd0, %r9, 8, %rd0;
    st.global.b64 [%rd0], %rd4;
"""


@pytest.mark.parametrize("what", ["st.bulk.weak.shared::cta [%rd1], %rd3, 0", "st.bulk [%rd2], %rd3, 0"])
def test_zeros_in_bulk(what):
    out = Out(32 * 8)
    run_ptx(module(ZEROS.replace("{what}", what), target="sm_100a"), [out, 0])
    assert not out.view("u8").any()


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("st.bulk.weak.shared::cta [%rd1], 39932, 0", "illegal"),
        ("st.bulk.weak.shared::cta [%rd1+4], %rd3, 0", "alignment"),
        ("st.bulk.weak.shared::cta [%rd1], 400000, 0", "bounds"),
        ("st.bulk.weak.shared::cta [%rd1], 39928, 0", "uninitialised"),
        ("st.bulk [%rd1], %rd3, 0", "bounds"),
    ],
)
def test_faults_of_zeros_in_bulk(what, kind):
    with pytest.raises(Finding) as caught:
        run_ptx(module(ZEROS.replace("{what}", what), target="sm_100a"), [Out(256), 0])
    assert caught.value.kind == kind


def test_zeros_in_bulk_race_with_other_warps():
    text = ZEROS.replace("{what}", "st.bulk.weak.shared::cta [%rd1], %rd3, 0").replace("bar.sync 0;", "")
    kinds = set()
    for seed in range(6):
        with pytest.raises(Finding) as caught:
            run_ptx(module(text, target="sm_100a"), [Out(64 * 8), 0], block=(64, 1, 1), seed=seed)
        kinds.add(caught.value.kind)
    assert "race" in kinds
