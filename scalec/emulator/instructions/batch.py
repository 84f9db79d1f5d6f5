"""Instructions of a run that do the same with other registers, as one step on stacked operands.

Unrolled code is mostly that: 24 fma, one for each accumulator. An array of (24, warps, 32) costs numpy little more than
one of (warps, 32). `batches` orders the instructions of a run by how many others they wait for, one after the other;
those of a depth that look alike are one batch. The functions of the table decode the first of them, with a Decoder
that gives them the operands of all.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.instructions.table import Decoder, Merging, Sink, Source, Step, decode
from scalec.emulator.program import TYPE_BITS, Address, Imm, Instruction, Operand, Pair, Reg, Vector

if TYPE_CHECKING:
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.machine.warp import Warp

_BY_THEMSELVES = {"tcgen05"}  # whose functions do not take stacked operands
_CONSTANTS_COUNT = {"lop3", "prmt", "shf", "shfl", "shl", "shr"}  # whose constants say what they do


def batches(kernel: Kernel, start: int, end: int) -> list[tuple[int, Step]]:
    """The instructions from start to end in few steps, each with the first of the instructions that it executes."""
    found: dict[tuple[int, Hashable], list[int]] = {}
    written, used = dict[int, int](), dict[int, int]()  # register -> depth of its last write, and of its last use
    for at in range(start, end):
        code, writes = kernel.code[at], kernel.writes[at]
        reads = kernel.reads[at] | writes if code.guard else kernel.reads[at]
        before = [written[r] for r in reads | writes if r in written] + [used[r] for r in writes if r in used]
        depth = 1 + max(before, default=0)
        used.update((r, max(depth, used.get(r, 0))) for r in reads)
        written.update((r, depth) for r in writes)
        look = at if code.opcode in _BY_THEMSELVES else _look(code, kernel.plain[at])
        found.setdefault((depth, look), []).append(at)
    ordered = sorted(found.items(), key=lambda item: item[0][0])
    return [(places[0], _step(kernel, places)) for _, places in ordered]


def _look(code: Instruction, step: Step) -> Hashable:
    """What instructions have in common that can be one batch."""
    if isinstance(step, Merging):
        return step.form
    leaves = _leaves((code.guard, *code.operands))
    kinds = tuple(_kind(leaf, constants_count=code.opcode in _CONSTANTS_COUNT) for leaf in leaves)
    return code.name, kinds, tuple(map(leaves.index, leaves))


def _kind(leaf: Operand | None, *, constants_count: bool) -> Hashable:
    match leaf:
        case Reg():
            return leaf.type, leaf.negated
        case Imm() if not constants_count:
            return leaf.float_bits
        case Address(Reg() as base, _, ()):
            return Address, base.type
    return leaf


def _leaves(operands: tuple[Operand | None, ...]) -> list[Operand | None]:
    """The parts of operands that are decoded one by one."""
    found: list[Operand | None] = []
    for operand in operands:
        match operand:
            case Vector(elements):
                found += [len(elements), *_leaves(elements)]  # type: ignore[list-item]
            case Pair(first, second):
                found += _leaves((first, second))
            case _:
                found.append(operand)
    return found


def _step(kernel: Kernel, places: list[int]) -> Step:
    first = kernel.plain[places[0]]
    if isinstance(first, Merging):
        return first.merged([kernel.plain[at] for at in places])
    if len(places) == 1:
        return first
    return decode(kernel.code[places[0]], _Stacking(kernel, [kernel.code[at] for at in places]))


class _Registers:
    """What the source of an operand takes for a warp."""

    def __init__(self, registers: dict[int, np.ndarray]) -> None:
        self.registers = registers


class _Stacking(Decoder):
    """Decodes the first of several instructions that look alike; operands in which they differ are those of all.

    Sources then return (instructions, warps or 1, 32), and so do the step's functions, whose result sinks take apart.
    """

    def __init__(self, kernel: Kernel, code: list[Instruction]) -> None:
        super().__init__(kernel)
        leaves = [_leaves((i.guard, *i.operands)) for i in code]
        self.every = {same[0]: same for same in zip(*leaves, strict=True) if any(x != same[0] for x in same)}
        self.count = len(code)

    def source(self, operand: Operand | None, kind: str) -> Source:
        get = super().source(operand, kind)
        every = self.every.get(operand)
        if every is None or not isinstance(operand, Reg):
            return get
        first, indices = operand.index, [r.index for r in every if isinstance(r, Reg)]

        def stacked(warp: Warp) -> np.ndarray:
            registers = warp.registers
            return get(_Registers({first: _stack([registers[i] for i in indices])}))  # type: ignore[arg-type]

        return stacked

    def constant(self, operand: Imm, kind: str) -> np.ndarray:
        every = self.every.get(operand, (operand,))
        each = [super(_Stacking, self).constant(x, kind) for x in every if isinstance(x, Imm)]
        return each[0] if len(each) == 1 else _stack(each)

    def address(self, operand: Operand | None) -> Source:
        every = [x for x in self.every.get(operand, ()) if isinstance(x, Address)]
        bases = [x.base for x in every if isinstance(x.base, Reg)]
        if not bases:
            return super().address(operand)
        first, indices = bases[0].index, [r.index for r in bases]
        get = super().address(Address(bases[0]))
        offsets = np.array([x.offset for x in every])[:, None, None]
        narrow = TYPE_BITS[bases[0].type] == 32  # such addresses wrap round

        def stacked(warp: Warp) -> np.ndarray:
            registers = warp.registers
            same = indices.count(first) == len(indices)
            base = registers[first] if same else _stack([registers[i] for i in indices])
            found = get(_Registers({first: base})) + offsets  # type: ignore[arg-type]
            return found & 0xFFFFFFFF if narrow else found

        return stacked

    def sink(self, operand: Operand | None, kind: str) -> Sink:
        each = [super(_Stacking, self).sink(x, kind) for x in self.every.get(operand, (operand,) * self.count)]
        if operand is None:
            return each[0]

        def put(warp: Warp, value: np.ndarray) -> None:
            values, mask = self._apart(value), warp.mask
            try:
                for own, lanes, one in zip(each, self._apart(mask), values, strict=True):
                    warp.mask = lanes
                    own(warp, one)
            finally:
                warp.mask = mask

        return put

    def _apart(self, value: np.ndarray) -> list[np.ndarray] | np.ndarray:
        """Of each instruction its part, of the shape that registers have."""
        if value.ndim < 3:
            return [value] * self.count
        return value[:, 0] if value.shape[1] == 1 else value


def _stack(values: list[np.ndarray]) -> np.ndarray:
    """(values, warps, 32) of (warps, 32), and of (32,) what all warps hold; of these alone (values, 1, 32)."""
    if all(value.ndim == 1 for value in values):
        return np.concatenate(values).reshape(len(values), 1, 32)
    shape = next(value.shape for value in values if value.ndim > 1)
    out = np.empty((len(values), *shape), values[0].dtype)
    for i, value in enumerate(values):
        out[i] = value
    return out
