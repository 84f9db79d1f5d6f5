"""Warps and their registers: how many a kernel has of each kind, and of how many registers."""

from __future__ import annotations

from scalec.ir.schedule import MAX_CONVERTERS, Schedule
from scalec.passes.plan.converted import brings_zeros, interleaves, zero_planes, zero_words
from scalec.passes.plan.joined_folds import joins_folds
from scalec.passes.problem.types import Problem
from scalec.targets import WARPGROUP

MAX_WARPGROUPS = 3


WARPS = 4
"""Warps of a warpgroup."""


REGISTERS = {1: (40, 232), 2: (40, 232), 3: (32, 160)}
"""(producer, consumer) registers by consumer warpgroups. Two and three: no spills at 256x128 and 192x128 with
promotion, and the fastest of the splits tried; H200, 2026-11-21. One takes what two take."""


PASSING = REGISTERS | {2: (32, 232)}
"""Likewise where sums are promoted and warpgroups may pass a tile over: with 40, the loop of 128x256 had 16
instructions and 60 stalls more in two K blocks, those of other tiles the same (ptxas 13.0), and took 1.004 to 1.008 of
the time (32 groups of some 189 rows, H100, 2026-11-28)."""


UNROLL = {1: 2, 2: 2, 3: 4}
"""K blocks in one iteration, by consumer warpgroups: +0.3 to +0.9 % for 2 over 1 at 256x128, +0.5 to +1 % for 4 over 1
at 192x128 (H200, 2026-11-21, six shapes of FP8 1x128 by 128x128, interleaved). With one warpgroup, 2 took 0.96 to 1.00
of the time of 1 at 18 shapes of up to 64 rows, 0.98 to 0.99 with scales of rows, 1.00 of BF16 (H200, 2026-11-22)."""


SCALE_WARPS = {"wgmma": (1, 3), "mma": (1, 3), "tcgen05": (2, 2)}
"""First and number of the producer warpgroup's warps that bring scales, by kind of kernel: all but the one that issues
copies, and where sums are in tensor memory, the one that issues products. Where one more warp copies scales on to
tensor memory, those that bring them are a warpgroup of their own (resources.scale_warps)."""


BYTEWISE = {False: (96, 200), True: (88, 208)}
"""Those of two consumer warpgroups where producer threads bring scale bytes, by whether columns are folded or an
operand lies along M or N: up to 48 bytes are on the way to a producer. Logits spilled 8 bytes with 200, and 56 with 40
and 232, transposed 4-bit operands 76 with 200; the loops of other products ptxas 13.0 spaced worse with 88 and 208
(docs/notes/toolchain.md)."""


WIDENED = {1: (72, 232), 2: (56, 224), 3: REGISTERS[3]}
"""Likewise, of warpgroups that multiply together, where producer threads bring scales of a byte and make f32 of them,
or several f32 of a row for a K tile: with 40, MXFP8 spilled 8 to 32 bytes at 128x112 and wider, with 56 it did not
(ptxas 13.0, 2026-11-25)."""


WRAPPING = WIDENED | {3: (56, 152)}
"""Likewise where a warp wraps K blocks (`Operand.wrapped`): with 32 that spilled 8 bytes (ptxas 13.0, 2026-11-27). Or
where threads bring zero points: with 32, beside a ue4m3 for each 32 of K, that spilled 52 (ptxas 13.0, 2026-11-28)."""


INTERLEAVING = {1: (88, 232), 2: (72, 216), 3: (56, 152)}
"""Likewise where a warp interleaves rows, of two warpgroups 16 of them while others are on their way: with 56 that
spilled 44 bytes (ptxas 13.5, 2026-11-28)."""


TABLES, ONE_TABLE = {1: (88, 232), 2: (88, 208), 3: (56, 152)}, 4
"""Likewise where threads bring more words than one table of zero points for a row and K block: of eight with 72 that
spilled 28 bytes (128x72x128 of e4m3, ptxas 13.0, 2026-11-28). Or where they bring one to a tile of few columns, of
which more are then on their way: e4m3 by u4 - Z[k/128,n] took 18.1 and 18.7 us for 23.4 and 24.2, Z[n,k/128] 17.4 and
17.5 for 18.1 and 18.0 (1 and 16 rows, 8192x8192; H100, 2026-11-28)."""

FEW_COLUMNS = 32
"""Of such a tile."""


ADDENDS = {1: (152, 232), 2: (104, 200), 3: (56, 152)}, 64
"""Likewise where consumers make addends, of at most so many sums a thread: producers then have scales of several K
blocks on their way, beside what they look for in these."""


ADDENDS_APART = {1: (136, 232), 2: (56, 200), 3: (48, 136)}
"""Likewise where those who bring their scales are a warpgroup of their own (`scales_apart`)."""


CONVERTING: dict[str, dict[tuple[int, int], tuple[tuple[int, int], ...]]] = {
    "wgmma": {
        (1, 2): ((88, 232),),
        (1, 1): ((88, 232),),
        (2, 2): ((80, 120), (56, 152), (48, 168)),
        (2, 1): ((72, 184),),
        (3, 1): ((48, 112),),
    },
    "mma": {(1, 1): ((88, 232),), (2, 1): ((72, 184),)},
    "tcgen05": {(1, 1): ((72, 240),), (2, 1): ((48, 208),)},
}
"""Likewise where operands are converted, by kind of kernel, and by the warpgroups of consumers and of those who
convert, which have a producer's: as many as the file holds, of several pairs the first that leaves consumers enough.
Two convert where that was measured."""


def most_converters(problem: Problem) -> int:
    """Warpgroups that convert operands: where these are reduced on the way, one, which sees all of a row."""
    return 1 if problem.folds else MAX_CONVERTERS


TENSOR = {1: (56, 184), 2: (56, 184)}
"""Those where sums are in tensor memory: two parts of 64 columns and what becomes of them. Of 57 programs none spills
with 176 for consumers; producers need 40 where two of their warps bring scale bytes (ptxas 13.0, 2026-11-23). What a
launch has of the register file is their mean, so that the next one finds room beside it."""


TENSOR_COPIER = {1: (80, 184), 2: (80, 176)}
"""Likewise where a warp copies scales to tensor memory: there may be two producer warpgroups, and four warps bring the
scale bytes, which takes 72 (ibid.)."""


TENSOR_WIDE = {1: (56, 240), 2: (40, 232)}
"""Likewise where consumer threads hold more: all their sums, as they add K blocks up, or those of a block of the result
that is longer than a part."""


TENSOR_COPIER_WIDE = {1: (80, 240), 2: (80, 176)}
"""Likewise where they do and a warp copies scales."""


PART = 64
"""Columns of a part of a tile's sums."""


PROMOTED_COLUMNS = 144
"""Of a tile whose sums a thread then has registers for, beside those of two parts on their way."""


INSTRUCTION = 26
"""Registers that an instruction's thread needs beside its sums, of those it has at entry: what ptxas 13.0 asks for at
256 columns and 128 registers (C7602), whatever setmaxnreg gives later."""


LEAST_COLUMNS = 16
"""Of a warp that takes sums out of tensor memory: those of one stmatrix."""


def too_wide(problem: Problem, columns: int, threads: int) -> str:
    """Why a warpgroup of so many `threads` cannot issue an instruction of so many columns, "" where it can: ptxas gives
    its sums, and what it needs beside them, the registers that threads enter with."""
    entry = problem.target.entry_registers(threads)
    if not problem.kind.warpgroup_sums or columns * problem.family.m // WARPGROUP + INSTRUCTION <= entry:
        return ""
    return f"sums of an instruction for more than the {entry} registers of a thread at entry"


def scales_apart(problem: Problem, schedule: Schedule) -> bool:
    """Whether the warps that bring scales are a warpgroup of their own, where consumers make addends by these.

    One or two of the other warpgroup's take as long for a K block of 128 rows as consumers do beside few columns: ncu
    had the one of a queue at work all the time, and consumers waiting for two stages of three. Eight groups of 16 rows
    took 0.94 and 0.89 of the time with four (4096x7168, 7168x2048), tiles of 256 rows 0.88 and 0.85, m = 1 and 16 at
    8192x8192 0.96; beside 64 and 80 columns 0.99 to 1.03 (H200, 2026-11-29)."""
    return problem.lhs.addends > 0 and problem.kind.warpgroup_sums and schedule.tile[1] <= FEW_COLUMNS


def registers_for(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """The `registers` of a schedule that leaves them undecided."""
    warpgroups = schedule.warpgroups
    bytewise = problem.lhs.scale_in_mma or problem.rhs.scale_in_mma
    crowded = problem.column_fold is not None or problem.lhs.mn_major or problem.rhs.mn_major
    usual = PASSING if schedule.promote and problem.passed_over else REGISTERS
    registers = BYTEWISE[crowded] if bytewise and warpgroups == 2 else usual[warpgroups]
    if schedule.scale_path == "thread" and problem.kind.promotes_slices:
        rows = (s for x in (problem.lhs, problem.rhs) if (s := x.by_row) is not None)
        if any(s.type != "f32" or s.within(schedule.tile[2]) > 1 for s in rows):
            registers = WIDENED[warpgroups]
        if scales_apart(problem, schedule):
            registers = ADDENDS_APART[warpgroups]
        elif problem.lhs.addends and schedule.tile[0] * schedule.tile[1] // (WARPGROUP * warpgroups) <= ADDENDS[1]:
            registers = ADDENDS[0][warpgroups]
    if interleaves(problem, schedule) and not problem.lhs.addends:
        registers = INTERLEAVING[warpgroups]
    elif brings_zeros(problem, schedule, problem.lhs):
        tables = zero_words(problem.lhs, zero_planes(schedule, problem.lhs))
        more = tables > ONE_TABLE or (tables == ONE_TABLE and schedule.tile[1] <= FEW_COLUMNS)
        registers = (TABLES if more else WRAPPING)[warpgroups]
    elif problem.wraps:
        registers = WRAPPING[warpgroups]
    elif warpgroups == 2 and problem.kind.warpgroup_sums and any(map(problem.off_lines, (problem.lhs, problem.rhs))):
        registers = WIDENED[2]  # a warp cuts K blocks: with 40, 256x128 spilled
    if not problem.kind.tensor_memory:
        return registers
    two = schedule.scale_copier or problem.range_of_k is not None  # producer warpgroups, there may be
    tables = (TENSOR_COPIER, TENSOR_COPIER_WIDE) if two else (TENSOR, TENSOR_WIDE)
    wide = schedule.promote > 0 or problem.block > PART or joins_folds(problem, schedule)
    return tables[wide].get(warpgroups, registers)
