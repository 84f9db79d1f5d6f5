"""Where operands are converted: what the tensor core takes from registers, and what a tile of it needs."""

from __future__ import annotations

from math import gcd

from scalec.formats import ADDENDS, ELEMENT_TYPES, IN_ORDER, PACKED_BITS, PER_WORD, SMALLER, WHOLE
from scalec.ir.schedule import Schedule
from scalec.ir.tile import CHUNK
from scalec.ir.tile_cut import LINE
from scalec.passes.problem.half_bytes import cut_converted
from scalec.passes.problem.operand import Operand, Scale
from scalec.passes.problem.types import Problem
from scalec.passes.problem.zero_points import ZeroPoints
from scalec.zero_points import MOST_TAKEN, Order, added, subtracts, takes_zeros, words

STEPS = 2
"""Instructions along K whose A consumers convert at a time: it is multiplied while the next is converted, in registers
of its own (PTX ISA 9.7.15.7.1: those of A belong to wgmma until it was waited for). Four bits of a row are 16 bytes."""

PARTS = (8, 16, 32)
"""Bits of stored elements that become a register of A: bytes of a word that others need the rest of, or all of it."""

WORD = 32
"""Bits of a register."""


def part_bits(operand: Operand) -> int:
    """Bits of an operand as it is stored that become a register of what is multiplied."""
    return operand.stored.bits * WORD // operand.element.bits


def no_registers(problem: Problem, schedule: Schedule) -> str:
    """Why A cannot be converted in the registers out of which it is multiplied, "" where it can."""
    a, b = problem.lhs, problem.rhs
    if not problem.kind.takes_registers:
        return f"{problem.target.name} has no instruction that takes one operand from registers, one from shared memory"
    if not problem.converts:
        return "no operand is converted"
    if not a.converted:
        return f"{b.name} is converted, and wgmma takes its left operand alone from registers: {a.name}"
    if cut_converted(problem):
        return f"rows of {problem.k.name} = {problem.k.size} end in half a byte, which warps make 0 in shared memory"
    if a.turned:
        return f"{a.name} is contiguous along {a.rows}: a thread has elements that are adjacent along {problem.k.name}"
    if a.in_words and (schedule.tile[2] % (LINE // 2) or schedule.tile[0] % (LINE // 4)):
        return f"{a.name} is in words, of which consumers take {LINE // 2} of {problem.k.name} and {LINE // 4} rows"
    if a.shifted:
        return f"groups of {problem.k.name} begin at any element of rows of {a.name}, which warps shift"
    if a.zeros is not None and (reason := _no_zeros(problem, a, a.zeros)):
        return reason
    if a.transformed and (reason := _no_bodies(a, schedule)):
        return reason
    if part_bits(a) not in PARTS:
        return (
            f"{WORD // a.element.bits} elements of {a.stored.name} ({a.name}) are {part_bits(a)} bits, not whole bytes"
        )
    if a.addends and (reason := _no_addends(a, schedule)):
        return reason
    if problem.added:
        return f"products are added up, and rows of {a.name} may be followed by some of {problem.added[0].lhs.name}"
    if a.gathered or a.pages:
        return f"rows of {a.name} are named by {a.gathered or a.pages}"
    group = elements_interleaved(a)
    if a.in_fragments and schedule.tile[2] % group:
        return f"{a.name} is reordered within each {group} of {problem.k.name}, not of a K tile of {schedule.tile[2]}"
    some = schedule.tile[2] // slices_of(problem, schedule)
    if some * a.stored.bits % (8 * CHUNK):
        return f"threads load {CHUNK} bytes of a row of {a.name}, and {some} of {problem.k.name} are promoted together"
    return ""


def _no_bodies(a: Operand, schedule: Schedule) -> str:
    """Why consumers cannot compute what is multiplied of A, or reduce it."""
    if a.made is not None or a.zeros is not None or schedule.promote:
        return f"{a.name} is computed or reduced on the way, and has scales or zero points"
    return ""


def _no_zeros(problem: Problem, a: Operand, zeros: ZeroPoints) -> str:
    """Why consumers cannot make differences from A's zero points."""
    made, k = a.element.name, problem.k.name
    if not zeros.name:
        able = subtracts(a.stored.name, made, zeros.number)
        return "" if able else f"{a.name} is less {zeros.number}, and becomes {made} in shared memory alone"
    if not takes_zeros(a.stored.name, made):
        return f"{a.name} is less {zeros.name}, and becomes {made} in shared memory alone"
    if problem.range_of_k is not None:
        return f"groups of {k} begin anywhere in a block of {k} that has one zero point of {zeros.name}"
    return ""


def brings_zeros(problem: Problem, schedule: Schedule, operand: Operand) -> bool:
    """Whether threads bring the zero points of an operand to the stages, where consumers make it of its elements."""
    return operand.zeros is not None and bool(operand.zeros.name) and registers_make(problem, schedule, operand)


def zero_planes(schedule: Schedule, operand: Operand) -> int:
    """Zero points that a row of a tile has in shared memory."""
    zeros, depth = operand.zeros, schedule.tile[2]
    return 1 if zeros is None or zeros.k == WHOLE else depth // gcd(zeros.k, depth)


def zero_words(operand: Operand, rows: int) -> int:
    """Words that those of so many rows and a block of K take there."""
    return rows * words(operand.element.name)


def zeros_in_words(problem: Problem, operand: Operand) -> bool:
    """Whether each eight zero points of an operand that warps turn are a word, in the order of its own words."""
    zeros, n = operand.zeros, next((x for x in (problem.m, problem.n) if x.name == operand.rows), None)
    if zeros is None or zeros.contiguous != "rows" or zeros.rows != 1 or ELEMENT_TYPES[zeros.type].bits != PACKED_BITS:
        return False
    order, (low, high) = zeros.orders[0] or Order(((1, 1, 0),)), zeros.bounds
    alike = [order.place(x) for x in range(PER_WORD)] == [operand.order.index(x) for x in range(PER_WORD)]
    if not alike or order.step(PER_WORD) != PER_WORD or max(-low, high) > MOST_TAKEN:
        return False
    return operand.order != IN_ORDER or (n is not None and n.size is not None and n.size % PER_WORD == 0)


def added_to_zeros(operand: Operand) -> int:
    """What they are stored with there (`scalec.zero_points.added`)."""
    assert operand.zeros is not None
    return added(operand.stored.name, operand.element.name, *operand.zeros.bounds)


WORD_OF_SCALES = 4
"""Scale bytes of a word, of which threads find those of a chunk of a row."""


def _no_addends(a: Operand, schedule: Schedule) -> str:
    """Why consumers cannot make addends of A."""
    scale, depth = a.folded, schedule.tile[2]
    assert scale is not None
    if schedule.invariant:
        return f"scales of other rows of {a.name} decide how a row's products are added up, and invariant was asked for"
    if not schedule.promote:
        return "sums are not promoted, and the tensor core adds products of 8 bits in fewer than f32 has"
    if scale.within(depth) % WORD_OF_SCALES:
        return f"a K tile of {depth} has {scale.within(depth)} scales of a row, not whole words of {WORD_OF_SCALES}"
    return ""


def no_addends(problem: Problem) -> str:
    """Why no operand is multiplied as a sum of addends, "" where one is."""
    if problem.lhs.addends or problem.rhs.addends:
        return ""
    kinds = " or ".join(f"{stored} with {scale}" for stored, scale in ADDENDS)
    made, _ = next(iter(ADDENDS.values()))
    return (
        f"no product of {problem.target.name} of {kinds} scales of whole {CHUNK} of {problem.k.name} by "
        f"{made}, alone, each as it lies in memory, contiguous along {problem.k.name}, without a body, reductions or "
        "finer scales"
    )


def scale_planes(schedule: Schedule, operand: Operand, scale: Scale) -> int:
    """Words that the scales of a row of a tile take in shared memory: one each, or of addends one for each four, behind
    which one of all rows' is what warps have seen of these."""
    count = scale.within(schedule.tile[2])
    return -(-count // WORD_OF_SCALES) + 1 if scale.folded and operand.addends else count


def in_registers(schedule: Schedule) -> bool:
    """Whether A is converted there."""
    return schedule.convert in ("registers", "addends")


MOST_INTERLEAVED = 8192
"""Bytes of B's rows of a K block that a warp interleaves. Times of that over those of none, n = k = 8192: of e4m3 by
mxfp4 and by nvfp4, m = 1, 16 and 64, 0.92, 0.91, 0.97 and 0.93, 0.96, 0.92, with 128 rows 1.18, 1.10; of bf16 by mxfp4
and by i4, m = 1, 16, 32, 48, 64, 0.94, 0.91, 0.97, 1.07, 1.18 and 0.87, 0.83, 0.94, 1.04, 1.20 (H100, 2026-11-28)."""


def interleaves(problem: Problem, schedule: Schedule) -> bool:
    """Whether a warp interleaves B's rows (`tile.interleave_k`), so that a thread has adjacent elements of A."""
    return schedule.swizzle_b in (None, LINE) and could_interleave(problem, schedule)


def could_interleave(problem: Problem, schedule: Schedule) -> bool:
    """Likewise, whatever the swizzle."""
    a, b, (_, rows, depth) = problem.lhs, problem.rhs, schedule.tile
    if not in_registers(schedule) or a.transformed or not (a.addends or a.element.bits == 16):
        return False
    if a.in_fragments:
        return False  # they are adjacent as they lie
    if b.converted or b.mn_major or b.gathered or problem.range_of_k is not None or schedule.invariant:
        return False  # sums in the order of another tile's rows, if that is asked for
    if rows * depth * b.element.bits > 8 * MOST_INTERLEAVED or schedule.consumers != "cooperative":
        return False  # others have rings by turns
    group = elements_interleaved(a)
    return depth % group == 0 and schedule.promote % group == 0


def takes_adjacent(problem: Problem, schedule: Schedule) -> bool:
    """Whether a thread has adjacent elements of A: the rows of B are interleaved, or those of A are reordered."""
    return interleaves(problem, schedule) or (in_registers(schedule) and problem.lhs.in_fragments)


def interleaves_ahead(problem: Problem, schedule: Schedule) -> bool:
    """Whether the warp loads rows while others before them are on their way, where it has registers for both: 0.92 and
    0.94 of the time for 32 rows of bf16, no different for 16, nor for 64 of e4m3 (H100, 2026-11-28)."""
    return schedule.warpgroups <= 2 and not problem.lhs.addends


def elements_interleaved(operand: Operand) -> int:
    """Elements of a row of what is made of an operand within which those of B's are interleaved, or its own are
    reordered."""
    return len(operand.order) if operand.in_fragments else 8 * LINE // operand.element.bits


def registers_make(problem: Problem, schedule: Schedule, operand: Operand) -> bool:
    """Whether it is this operand that consumers make in registers."""
    return in_registers(schedule) and operand is problem.lhs


def warps_make(problem: Problem, schedule: Schedule) -> bool:
    """Whether warps of their own convert an operand, in shared memory: beside A in registers that is B."""
    return problem.rhs.converted if in_registers(schedule) else problem.converts


def stored_swizzle(problem: Problem, schedule: Schedule, operand: Operand) -> int:
    """Bytes of the swizzle of a tile that is converted: where registers are loaded of it, whose threads have the same
    chunks of eight rows, a row of it, if there is such a swizzle; else 0. Of words in lines, where threads have other
    lines of eight rows: interleaved."""
    if operand.in_words:
        return LINE if registers_make(problem, schedule, operand) and interleaves(problem, schedule) else 0
    row = operand.copied_bytes(schedule.tile[2])
    return row if registers_make(problem, schedule, operand) and row in problem.target.swizzles else 0


def slices_of(problem: Problem, schedule: Schedule) -> int:
    """Slices of a K block whose A is converted at a time: within what is promoted together, if sums are."""
    depth = schedule.tile[2]
    steps = 1 if problem.lhs.addends else STEPS
    return depth // gcd(steps * problem.family.k, depth, schedule.promote)


def made_smaller(problem: Problem, schedule: Schedule, operand: Operand) -> int:
    """The power of two by which an operand's elements are made smaller, that sums are multiplied by behind the last K
    block: where that takes fewer instructions (scalec.formats.SMALLER), and wgmma's sums are promoted; 0 elsewhere."""
    several = problem.terms or problem.added or problem.panes > 1
    if several or not problem.kind.takes_registers or not schedule.promote or operand.addends or operand.transformed:
        return 0
    own = operand.folded or operand.zeros is not None or operand.shifted or operand.turned
    if own or (operand.in_words and not registers_make(problem, schedule, operand)):
        return 0
    return SMALLER.get((operand.stored.name, operand.element.name), 0)


MOST_AHEAD = 2
"""Slices of a K block of which the first is made ahead of it: times of that over those of none 0.94, 0.92, 0.95 and
0.96 with two (e4m3 by i4, m = 16, 64, 256 and 4096, 8192x8192), 0.98, 1.01, 1.01 and 1.02 with four (bf16 by i4); of
addends, up to 256 rows, 0.97 to 1.06 (H100, 2026-11-28)."""


def makes_ahead(problem: Problem, schedule: Schedule) -> bool:
    """Whether consumers make the first slice of a K block while they multiply the one before it."""
    if not in_registers(schedule) or problem.lhs.addends or not schedule.promote or problem.range_of_k is not None:
        return False
    return schedule.consumers == "cooperative" and slices_of(problem, schedule) <= MOST_AHEAD


def pairs_of(problem: Problem, schedule: Schedule, operand: Operand) -> str:
    """The type of 16 bits of the two equal numbers that threads find in shared memory for each folded scale; "" where
    they find an f32."""
    pairs = registers_make(problem, schedule, operand) and operand.folded and operand.element.bits == 16
    return operand.element.name if pairs else ""


def holds_words(problem: Problem, schedule: Schedule, operand: Operand) -> bool:
    """Whether threads find folded scales as words, of pairs (`pairs_of`) or of bytes; else as f32."""
    return bool(pairs_of(problem, schedule, operand) or operand.addends)
