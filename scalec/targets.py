"""The targets: one row of facts each. Passes know a target only through its row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import NUMBERS, WHOLE_SUMS, ElementType
from scalec.rates import B200, B300, H200, RTX_PRO_6000, Rates
from scalec.suggestions import did_you_mean

WARPGROUP = 128
"""Threads of a warpgroup (PTX ISA 9.7.15: four contiguous warps)."""

WAVES = {"registers": 64, "warp": 16, "lane": 32, "tensor": 128}
"""Rows that one instruction adds to an accumulator, by where that lies: in the registers of a warpgroup (m64nNkK of
wgmma, PTX ISA 9.7.15.2) or of a warp (m16n8kK of mma.sync, 9.7.14.5), in tensor memory (M = 128 of tcgen05.mma,
9.7.16.2)."""

MAX_BOX = 256
"""Elements of a bulk copy's box along one dimension (CUDA driver API, cuTensorMapEncodeTiled: boxDim)."""


ATOM = 16
"""Bytes that a swizzle keeps together (PTX ISA 5.5.7), unless an instruction asks for more."""

ATOMIC_SPAN = 128
"""The one span, in bytes, of which a swizzle may keep more than ATOM together (PTX ISA 5.5.7, table 14)."""

MOST_INDICES = 5
"""Of a tensor that copies move (PTX ISA 5.5.1: tensors have one to five dimensions)."""

PADDED_ROW = 128
"""Elements of 4 or 6 bits that a padding copy moves of a row, and that the rows of its tensor are multiples of (CUDA
driver API, cuTensorMapEncodeTiled: boxDim and globalDim of 16U4_ALIGN16B and 16U6_ALIGN16B)."""

PADDED_ALIGN = 32
"""Bytes that the address and the outer strides of such a tensor are multiples of (ibid., globalAddress and
globalStrides)."""


@dataclass(frozen=True)
class BlockScale:
    """Scales that an instruction applies itself: one of element type `type` for each `block` elements of K."""

    type: str
    block: int


@dataclass(frozen=True)
class Kind:
    """A kind of kernel: what an instruction asks of the warps around it. All families of an instruction have one row;
    passes ask for its facts, and have what is theirs (tiles to try, how warps share one) in tables by its name.

    Attributes:
        name: the PTX instruction.
        warps: the warps that execute one instruction together: a warpgroup's four, or one.
        fragment: in whose registers a wave of sums is when its results are computed: "registers" of a warpgroup, or
            "warp" (WAVES).
        tensor_memory: whether it leaves its sums in tensor memory, where warps come for them; else in registers of the
            warps that execute it.
        loads_operands: whether those warps bring A and B to registers; else it reads both from shared memory.
        takes_registers: whether A may also come from registers while B is in shared memory.
        promotes_slices: whether sums of parts of a K tile may be promoted, down to what one instruction sums; else
            those of whole tiles.
        promotes: element types of the scales that sums are promoted by.
        words: the layout of block scales that copies bring as they lie.
        meets: whether all consumer warps reach the epilogue together, and may meet there.
        lean: whether a launch takes no more registers than its roles share out, so that the next finds some beside them
            (`dependent`). wgmma's were timed with all that an SM has.
        runs: whether tiles of the same columns may go in a run, one overlapping the next, while B's stays.
        permutes: whether copies may permute the rows of B, so that a thread's sums are of adjacent columns.
        turns: whether results computed by columns may be turned in shared memory; elsewhere nobody has measured it.
        rows: whether threads may store rows of results out of shared memory; elsewhere nobody has measured it.
        unswizzled: whether staged rows may lie there without a swizzle; elsewhere nobody has measured it, and 4-bit
            results spilled on sm_120a (ptxas 13.0).
    """

    name: str
    warps: int
    fragment: str
    tensor_memory: bool = False
    loads_operands: bool = False
    takes_registers: bool = False
    promotes_slices: bool = False
    promotes: tuple[str, ...] = NUMBERS
    words: str = "packed"
    meets: bool = False
    lean: bool = True
    runs: bool = False
    permutes: bool = False
    turns: bool = False
    rows: bool = False
    unswizzled: bool = False

    @property
    def warpgroup_sums(self) -> bool:
        """Whether sums of one instruction lie in the registers of a warpgroup, which may do other things meanwhile."""
        return self.warps > 1 and not self.tensor_memory


WGMMA = Kind(
    "wgmma",
    warps=4,
    fragment="registers",
    takes_registers=True,
    promotes_slices=True,
    promotes=(*NUMBERS, "ue8m0"),
    meets=True,
    lean=False,
    runs=True,
    permutes=True,
    turns=True,
    rows=True,
    unswizzled=True,
)
MMA = Kind("mma", warps=1, fragment="warp", loads_operands=True, runs=True)
TCGEN05 = Kind("tcgen05", warps=4, fragment="warp", tensor_memory=True, words="blocked")


@dataclass(frozen=True)
class MmaShape:
    """One family of tensor-core instructions."""

    m: int  # rows of one instruction
    n: Sequence[int]  # the column counts it may have (facts of the ISA)
    k: int  # K extent of one instruction, in elements
    operands: frozenset[str]  # the element types that A and B may have, freely mixed within the family
    reads_mn_major: bool  # whether A and B may be stored with M or N contiguous in shared memory; K must be where not
    kind: Kind = WGMMA  # the kind of kernel that it is for
    # the block scales that it applies itself, of one type for both sides. It then always applies some: ones where the
    # program has none.
    scales: tuple[BlockScale, ...] = ()
    short_sums: bool = False  # whether it sums in fewer bits than FP32 has, so that sums must leave it every so often
    container_bits: int = 0  # bits that an element takes in shared memory, whatever its type; 0: as many as its type
    transposed_bits: int = 0  # likewise of an operand stored with M or N contiguous; 0: as many as otherwise
    transposed_atom: int = ATOM  # bytes that the swizzle of such an operand keeps together
    # those of `operands` that must be contiguous along K even where others need not.
    k_major: frozenset[str] = frozenset()
    # the column counts it may have where a pair of CTAs executes it together, each with `m` rows of its own and half of
    # B's rows; empty where none can.
    pair_n: range = range(0)

    @property
    def columns_step(self) -> int:
        """Of which a tile's columns are multiples: whole instructions, of warps that multiply alone two."""
        return 2 * self.n[0] if self.kind.warps == 1 else gcd(*self.n)

    def columns(self, ctas: int) -> Sequence[int]:
        """The column counts it may have where so many CTAs execute it together."""
        return self.n if ctas == 1 else self.pair_n

    def columns_said(self, ctas: int) -> str:
        """Those, as a message has them."""
        widths = self.columns(ctas)
        step = widths[-1] - widths[-2] if len(widths) > 1 else widths[0]
        odd = "".join(f"{n}, or " for n in widths if n % step)
        return f"{odd}a multiple of {step} from {next(n for n in widths if n % step == 0)} to {widths[-1]}"

    @property
    def whole_sums(self) -> bool:
        """Whether its sums are i32, and not f32."""
        return bool(self.operands & WHOLE_SUMS)

    @property
    def most_products(self) -> int | None:
        """The most products whose sum is surely right; None where sums have an exponent."""
        return (2**31 - 1) // 128**2 if self.whole_sums else None

    def reads_transposed(self, element: str) -> bool:
        """Whether an operand of that type may be stored with M or N contiguous in shared memory."""
        return self.reads_mn_major and element not in self.k_major

    @property
    def adjacent_rows(self) -> int:
        """Adjacent rows that each warp has of the sums, whatever the tile; of its own sums two waves, as most tiles
        give it."""
        return 2 * self.m if self.kind.warps == 1 else self.m // self.kind.warps

    @property
    def wave(self) -> int:
        """Rows of a wave of sums in registers, of the warpgroup or warp that has them."""
        return WAVES[self.kind.fragment]

    def shared_bits(self, element: ElementType, mn_major: bool) -> int:
        """Bits that an element takes in shared memory."""
        return max(element.bits, self.container_bits, self.transposed_bits if mn_major else 0)

    def scale_block(self, type: str) -> int:
        """Elements of K that one scale of element type `type` covers, 0 where the instruction applies none of it."""
        return next((s.block for s in self.scales if s.type == type), 0)


@dataclass(frozen=True)
class Target:
    """What passes may know of a GPU.

    Attributes:
        name: the ptxas architecture, also how users name it.
        capability: (major, minor) compute capability.
        ptx_version: the PTX ISA version emitted, e.g. 87 for 8.7.
        shared_bytes: dynamic shared memory one CTA may have (CUDA guide, compute-capability table).
        registers: 32-bit registers of one SM.
        max_registers: registers one thread may have.
        mma: the tensor-core families that there are kernels for.
        sms: SMs of the part the schedules are tuned for (the launch reads the real count).
        max_cluster: CTAs of one portable cluster.
        clusters: by size, clusters that run at once, where these are fewer than the SMs have room for: the CTAs of a
            cluster lie in one GPC.
        rates: peak rates of that part; passes decide without them.
        swizzles: byte widths of shared-memory swizzle that copies and MMA agree on, widest first.
        tma_align: bytes that a tensor's base address and outer strides must be multiples of.
        launch_control: whether a running cluster can take over one that has not begun (clusterlaunchcontrol, PTX ISA
            9.7.13.18: sm_100 and later; .multicast::cluster::all, which clusters need: sm_100a and sm_120a).
        gathers: rows that one tensor copy brings whose coordinates are any: four where .tile::gather4 is (PTX ISA
            9.7.9.27.5.2: sm_100 and later), else one, and threads copy rows themselves.
        setmaxnreg: register counts that a warpgroup may give its threads (PTX ISA 9.7.20, setmaxnreg).
        converts: element types of 8 bits and less that instructions round f32 to (PTX ISA 9.7.9.21, cvt).
    """

    name: str
    capability: tuple[int, int]
    ptx_version: int
    shared_bytes: int
    registers: int
    max_registers: int
    mma: tuple[MmaShape, ...]
    sms: int
    max_cluster: int
    rates: Rates
    swizzles: tuple[int, ...] = (128, 64, 32, 0)
    tma_align: int = 16
    devices: tuple[str, ...] = field(default=())
    setmaxnreg: range = range(24, 257, 8)
    converts: frozenset[str] = frozenset({"e4m3", "e5m2", "i8"})
    launch_control: bool = False
    gathers: int = 1
    clusters: Mapping[int, int] = field(default_factory=dict)

    def at_once(self, ctas: int) -> int:
        """Clusters of so many CTAs, one to an SM, that run at once."""
        return self.clusters.get(ctas, max(1, self.sms // ctas))

    def entry_registers(self, threads: int) -> int:
        """Registers of a thread at entry, before setmaxnreg: the register file shared out, in steps of 8."""
        return shared_out(min(self.registers, self.max_registers * threads), threads)

    def mma_for(self, a: str, b: str, scales: Collection[str] = ()) -> MmaShape | None:
        """The tensor-core family that multiplies element types `a` and `b`, the first of several, or None.

        With types of block scales, one that applies all of them comes first, then one that applies some.
        """
        found = [f for f in self.mma if a in f.operands and b in f.operands]
        able = [f for f in found if all(f.scale_block(s) for s in scales)] or [f for f in found if f.scales] or found
        return able[0] if able else None

    def operand_sets(self) -> list[frozenset[str]]:
        """The element types that mix, in sets of which none is part of another."""
        sets = dict.fromkeys(f.operands for f in self.mma)
        return [x for x in sets if not any(x < other for other in sets)]

    def scale_types(self) -> frozenset[str]:
        """The types of block scales that some family applies itself."""
        return frozenset(s.type for f in self.mma for s in f.scales)


# wgmma: PTX ISA 9.7.15 "Asynchronous warpgroup level matrix instructions": m64nNkK, N in 8..256 by 8; K is 32 bytes.
# Of integers N is 8, 24 or a multiple of 16 (9.7.15.2, table of shapes).
# Transposed operands (imm-trans-a, imm-trans-b) are for .f16 and .bf16 alone (ibid., wgmma.mma_async).
# Shared memory 227 KB (sm_120a: 99 KB) and 64 K registers: CUDA programming guide, "Technical Specifications per
# Compute Capability".
_WGMMA = WAVES["registers"]
_SM90_MMA = (
    MmaShape(
        WAVES["registers"], range(8, 257, 8), 32, frozenset({"e4m3", "e5m2"}), reads_mn_major=False, short_sums=True
    ),
    MmaShape(_WGMMA, range(8, 257, 8), 16, frozenset({"bf16"}), reads_mn_major=True),
    MmaShape(_WGMMA, range(8, 257, 8), 16, frozenset({"f16"}), reads_mn_major=True),
    MmaShape(_WGMMA, range(8, 257, 8), 8, frozenset({"tf32"}), reads_mn_major=False),
    MmaShape(_WGMMA, (8, 16, 24, *range(32, 257, 16)), 32, frozenset({"i8"}), reads_mn_major=False),
)


def _warp_mma(k: int, *operands: str, **more: Any) -> MmaShape:
    shape = MmaShape(WAVES["warp"], range(8, 9, 8), k, frozenset(operands), True, MMA)
    return replace(shape, **more)


# mma.sync: PTX ISA 9.7.14.5.14: m16n8kK, K is 32 bytes of registers. Block scales: 9.7.14.3, tables 36 and 37; with
# .kind::mxf4 and mxf4nvf4 (e2m1 packed) and .kind::mxf8f6f4 (a byte an element: ibid. and 9.7.14.5.15, ldmatrix
# b4x16_p64 and b6x16_p32). .kind::f8f6f4 has no scales: FP8 without scales takes .kind::mxf8f6f4 with
# ones, which has twice the rate on this chip. Registers hold the operands, so they may be transposed on
# the way there: ldmatrix .trans is for elements of 16 bits and of a byte, tf32 is loaded word by word, and packed 4-bit
# elements come a byte each and are packed after.
_SM120_MMA = (
    _warp_mma(64, "e2m1", scales=(BlockScale("ue8m0", 32), BlockScale("ue4m3", 16)), transposed_bits=8),
    _warp_mma(32, "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", scales=(BlockScale("ue8m0", 32),), container_bits=8),
    _warp_mma(16, "bf16"),
    _warp_mma(16, "f16"),
    _warp_mma(8, "tf32"),
    _warp_mma(32, "i8"),
)


def _tensor_mma(k: int, *operands: str, **more: Any) -> MmaShape:
    shape = MmaShape(WAVES["tensor"], range(16, 257, 16), k, frozenset(operands), True, TCGEN05)
    return replace(shape, pair_n=range(32, 257, 32), **more)


# tcgen05.mma of one CTA, M = 128: N in 16..256 by 16, K is 32 bytes (PTX ISA 9.7.16.2, table of shapes). Of a pair of
# CTAs (.cta_group::2), M = 256: N by 32, so that each CTA's half of B is as many rows as one CTA's B may be, and as
# transposed B of 8 bits asks for (9.7.16.10.1, table of N). The kinds of 8 bits take 4 and 6 padded to a byte
# (9.7.16.10.4); those with block scales, mxf8f6f4 and mxf4nvf4, have rows of their own: without scales there are no
# scale factors to bring. mxf4nvf4 comes first: it has twice the rate, so 4 bits by 4 take it without scales too, with
# ones.
# Transposed operands (9.7.16.10.1, 9.7.16.10.3): of all kinds but mxf4 and mxf4nvf4, in the kinds of 8 bits those of 8
# bits alone (CUTLASS transposes padded ones too; the table of 9.7.16.10.3 has no such row). tf32 only in the 128-byte
# swizzle of 32-byte atoms, which is for nothing else (9.7.16.10.1).
_NARROW = frozenset({"e3m2", "e2m3", "e2m1"})
_SM100_MMA = (
    _tensor_mma(64, "e2m1", scales=(BlockScale("ue8m0", 32), BlockScale("ue4m3", 16)), reads_mn_major=False),
    _tensor_mma(32, "e4m3", "e5m2"),
    _tensor_mma(32, "e4m3", "e5m2", *_NARROW, container_bits=8, k_major=_NARROW),
    _tensor_mma(
        32,
        "e4m3",
        "e5m2",
        *_NARROW,
        container_bits=8,
        scales=(BlockScale("ue8m0", 32),),
        k_major=_NARROW,
    ),
    _tensor_mma(16, "bf16"),
    _tensor_mma(16, "f16"),
    _tensor_mma(8, "tf32", transposed_atom=32),
    _tensor_mma(32, "i8"),
)

_CONVERTS = frozenset({"e4m3", "e5m2", "i8", *_NARROW})

_SM100 = Target(
    "sm_100a",
    (10, 0),
    88,
    232448,
    65536,
    255,
    _SM100_MMA,
    sms=B200.sms,
    max_cluster=8,
    rates=B200,
    devices=("B200", "GB200"),
    converts=_CONVERTS,
    launch_control=True,
    gathers=4,
)

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target(
            "sm_90a",
            (9, 0),
            87,
            232448,
            65536,
            255,
            _SM90_MMA,
            sms=H200.sms,
            max_cluster=8,
            rates=H200,
            devices=("H100", "H200", "GH200"),
            clusters={3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15},  # H200, 2026-11-22, cuOccupancyMaxActiveClusters
        ),
        _SM100,
        # the same, but .kind::i8 is not there (PTX ISA 9.7.16.10.9, target notes), and K = 96 of 4-bit operands is
        # (9.7.16.2), which has no kernel; the launch reads the real count of SMs
        replace(
            _SM100,
            name="sm_103a",
            capability=(10, 3),
            rates=B300,
            devices=("B300", "GB300"),
            mma=tuple(x for x in _SM100_MMA if not x.whole_sums),
        ),
        Target(
            "sm_120a",
            (12, 0),
            88,
            101376,
            65536,
            255,
            _SM120_MMA,
            sms=RTX_PRO_6000.sms,
            max_cluster=1,
            rates=RTX_PRO_6000,
            devices=("RTX PRO 6000", "RTX 5090", "RTX 5080"),
            converts=_CONVERTS,
            launch_control=True,
            gathers=4,
        ),
    )
}

DEFAULT_TARGET = "sm_90a"


def shared_out(registers: int, owners: int) -> int:
    """Registers of each owner, where so many share `registers`: a multiple of 8, the step of setmaxnreg."""
    return registers // owners // 8 * 8


def get_target(name: str) -> Target:
    """The row of `name`.

    Raises:
        UnsupportedError: no such row.
    """
    try:
        return TARGETS[name]
    except KeyError:
        raise UnsupportedError(
            f"unknown target {name!r:.80}",
            expected=", ".join(TARGETS),
            fix=did_you_mean(name, TARGETS) or "see `scalec targets`",
        ) from None
