"""Probes of asynchronous copies without tensor maps, and of shared memory across a cluster.

PTX ISA 9.7.9.25.3 (cp.async), 9.7.9.25.4 (cp.async.bulk, cp.reduce.async.bulk), 9.7.9.12 (st.async), 9.7.9.22 (mapa),
9.7.9.26 (tensormap.replace).
"""

from __future__ import annotations

import numpy as np

from .probe import FILL, Buffer, Probe, module, output
from .tensor_copies import LANES, START, WAIT, barrier, copy_window, counting, fill_window, plain, show_window
from .values import pairs


def cp_async() -> Probe:
    """All sizes, source sizes shorter than the copy, and ignore-src: what is not read becomes zero."""
    (source,) = (Buffer("source", counting(512)),)
    lengths = np.resize(np.array([0, 1, 3, 4, 7, 8, 11, 12, 15, 16], np.uint32), LANES)
    size = 32 * 16 * 5
    out = output("d", (size // 4,), np.uint32)
    arguments = (source, Buffer("lengths", lengths), out)
    body = f"""{START}
    {fill_window(size // 4)}
    bar.warp.sync 0xffffffff;
    ld.param.u64 %base, [lengths];
    mad.wide.u32 %at, %t, 4, %base;
    ld.global.b32 %q0, [%at];
    min.u32 %q1, %q0, 4;
    and.b32 %q2, %q0, 1;
    setp.ne.u32 %p, %q2, 0;
    ld.param.u64 %base, [source];
    mad.wide.u32 %at, %t, 16, %base;
    mad.lo.u32 %to, %t, 16, %window;
    cp.async.ca.shared.global [%to], [%at], 4;
    cp.async.ca.shared.global [%to+512], [%at+8], 8;
    cp.async.cg.shared.global [%to+1024], [%at], 16, %q0;
    cp.async.ca.shared.global [%to+1536], [%at], 4, %q1;
    cp.async.ca.shared.global [%to+2048], [%at], 16, %p;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.warp.sync 0xffffffff;
    ld.param.u64 %base, [d];
    {show_window(size // 4)}
    """
    return Probe(
        "cp_async", module("probe", arguments, body, block=LANES), "probe", arguments, block=(LANES, 1, 1), shared=size
    )


def bulk_load() -> Probe:
    """Two bulk copies to one barrier."""
    size = 1024
    arguments = (Buffer("source", counting(256)), output("d", (size // 4,), np.uint32))
    body = f"""{START}
    add.u32 %bar, %window, {size};
    {fill_window(size // 4)}
    {barrier()}
    ld.param.u64 %base, [source];
    add.u64 %at, %base, 48;
    add.u32 %place, %window, 16;
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 544;
    @%leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%at], 528, [%bar];
    add.u32 %place, %window, 800;
    @%leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%base], 16, [%bar];
    {WAIT}
    ld.param.u64 %base, [d];
    {show_window(size // 4)}
    """
    text = module("probe", arguments, body, block=LANES)
    return Probe("bulk_load", text, "probe", arguments, block=(LANES, 1, 1), shared=size + 16)


def bulk_put(name: str, opcode: str, data: np.ndarray, target: np.ndarray) -> Probe:
    """One bulk copy or reduction to global memory, 32 bytes into the target."""
    size = data.nbytes
    arguments = (Buffer("data", data), Buffer("target", target, result=True))
    body = f"""{START}
    ld.param.u64 %base, [data];
    {copy_window(size // 4)}
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    ld.param.u64 %base, [target];
    add.u64 %at, %base, 32;
    @%leader {opcode} [%at], [%window], {size - 64};
    @%leader cp.async.bulk.commit_group;
    @%leader cp.async.bulk.wait_group 0;
    """
    text = module("probe", arguments, body, block=LANES)
    return Probe(name, text, "probe", arguments, block=(LANES, 1, 1), shared=size)


def bulk_puts() -> list[Probe]:
    store = "cp.async.bulk.global.shared::cta.bulk_group"
    result = [bulk_put("bulk_store", store, counting(128), np.full(128, FILL * 0x01010101, np.uint32))]
    for kind, operations in {
        "u32": ("add", "min", "max", "inc", "dec"),
        "s32": ("add", "min", "max"),
        "u64": ("add", "min", "max"),
        "s64": ("min", "max"),
        "b32": ("and", "or", "xor"),
        "b64": ("and",),
        "f16": ("add", "min", "max"),
        "bf16": ("add", "min", "max"),
        "f32": ("add",),
        "f64": ("add",),
    }.items():
        bits = int(kind.lstrip("busf"))
        form = "bf16" if kind == "bf16" else bits
        old, new = pairs(form, 8192 // bits, 970)
        if kind[0] in "us":
            few = np.random.default_rng(971).integers(0, 5, old.size).astype(old.dtype)
            old, new = np.where(few < 2, few, old), np.where(few > 2, few, new)
        for operation in operations:
            ftz = ".noftz" if kind in ("f16", "bf16") and operation == "add" else ""
            opcode = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{ftz}.{kind}"
            target = np.concatenate([old[: 256 // bits], old])[: old.size].copy()
            result.append(bulk_put(f"bulk_reduce_{operation}_{kind}", opcode, new, target))
    return result


def cluster() -> Probe:
    """A cluster of two: bulk copy, st.async and stores into the other CTA, atomics on it, reads of it."""
    size = 640
    out = output("d", (2, size // 4 + LANES), np.uint32)
    arguments = (Buffer("source", counting(2 * 64)), out)
    body = f"""{START}
    .reg .b32 %peer, %other, %theirs;
    add.u32 %bar, %window, {size};
    {fill_window(size // 4)}
    ld.param.u64 %base, [source];
    mul.wide.u32 %row, %cta, 256;
    add.u64 %base, %base, %row;
    {copy_window(64)}
    mov.u32 %q3, 0;
    @%leader st.shared.b32 [%window+512], %q3;
    {barrier()}
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {64 + 4 * LANES};
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mov.u32 %peer, %cluster_ctarank;
    xor.b32 %peer, %peer, 1;
    add.u32 %place, %window, 256;
    mapa.shared::cluster.u32 %other, %place, %peer;
    mapa.shared::cluster.u32 %theirs, %bar, %peer;
    @%leader cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%other], [%window], 64, [%theirs];
    mad.lo.u32 %q0, %peer, 1000, %t;
    mad.lo.u32 %place, %t, 4, %window;
    add.u32 %place, %place, 320;
    mapa.shared::cluster.u32 %other, %place, %peer;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%other], %q0, [%theirs];
    add.u32 %place, %window, 512;
    mapa.shared::cluster.u32 %other, %place, %peer;
    atom.shared::cluster.add.u32 %q2, [%other], %t;
    {WAIT}
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mad.lo.u32 %place, %t, 4, %window;
    mapa.shared::cluster.u32 %other, %place, %peer;
    ld.shared::cluster.b32 %q1, [%other];
    ld.param.u64 %base, [d];
    mul.wide.u32 %row, %cta, {size + 4 * LANES};
    add.u64 %base, %base, %row;
    mad.wide.u32 %at, %t, 4, %base;
    st.global.b32 [%at+{size}], %q1;
    {show_window(size // 4)}
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    """
    text = module("probe", arguments, body, block=LANES)
    return Probe("cluster", text, "probe", arguments, (2, 1, 1), (LANES, 1, 1), (2, 1, 1), shared=size + 16)


def replaced() -> Probe:
    """A tensor map copied to shared memory, changed there, published, and used by a load."""
    case = plain("tensormap_replace", "u16", (64, 16), (16, 8), [(0, 0)])
    scratch = Buffer("scratch", np.full(128, FILL, np.uint8))
    size = 1024
    out = output("d", (size // 4,), np.uint32)
    other = Buffer("other", counting(2048)[::-1].copy())
    arguments = (case.spec, other, scratch, out)
    body = f"""{START}
    .reg .b64 %new, %target, %smem;
    add.u32 %bar, %window, {size};
    {fill_window(size // 4)}
    mov.b64 %map, source_map;
    cvta.param.u64 %map, %map;
    mad.wide.u32 %at, %t, 4, %map;
    ld.b32 %q0, [%at];
    mad.lo.u32 %to, %t, 4, %window;
    st.shared.b32 [%to+{size + 128}], %q0;
    bar.warp.sync 0xffffffff;
    add.u32 %place, %window, {size + 128};
    ld.param.u64 %new, [other];
    cvt.u64.u32 %smem, %place;
    @%leader tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%smem], %new;
    @%leader tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%smem], 0, 40;
    @%leader tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%smem], 1, 12;
    @%leader tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%smem], 0, 96;
    @%leader tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%smem], 1, 6;
    @%leader tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%smem], 1, 2;
    @%leader tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%smem], 6;
    @%leader tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%smem], 1;
    bar.warp.sync 0xffffffff;
    ld.param.u64 %target, [scratch];
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%target], [%smem], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%target], 128;
    {barrier()}
    mov.u32 %c0, 32;
    mov.u32 %c1, 8;
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 96;
    @%leader cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%window], \
[%target, {{%c0, %c1}}], [%bar];
    {WAIT}
    ld.param.u64 %base, [d];
    {show_window(size // 4)}
    """
    text = module("probe", arguments, body, block=LANES)
    return Probe("tensormap_replace", text, "probe", arguments, block=(LANES, 1, 1), shared=size + 256)


def probes() -> list[Probe]:
    return [cp_async(), bulk_load(), *bulk_puts(), cluster(), replaced()]
