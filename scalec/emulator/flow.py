"""The control flow of a function: where diverged paths join again, and calls put in line."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from scalec.emulator.findings import NotModelled
from scalec.emulator.program import Function, Group, Instruction, Label, Module, Operand, Reg, Symbol, Vector

END = -1
_LEAVES = ("exit", "ret")
# what a thread may do by itself on its way to the end
_ALONE = {
    "abs", "add", "and", "cvt", "cvta", "fma", "ld", "lop3", "mad", "max", "min", "mov", "mul", "neg", "not", "or",
    "red", "selp", "setp", "shf", "shl", "shr", "st", "sub", "xor",
}  # fmt: skip
_ELSEWHERE = {"exit", "ret", "trap", "call", "bra", "brx"}  # what may be followed by another than the next one
_NEVER_BACK = ("trap", "__assertfail")  # what stops the launch: no path goes on behind it


def successors_of(function: Function) -> list[list[int]]:
    """For each instruction where control may go after it; END for the end of the function."""
    return [_successors(function, pc) for pc in range(len(function.code))]


def _successors(function: Function, pc: int) -> list[int]:
    """Where control may go after an instruction; END for the end of the function.

    A path that traps comes to no end, and joins no other: where the others meet does not depend on it.
    """
    instruction = function.code[pc]
    after = pc + 1 if pc + 1 < len(function.code) else END
    if instruction.opcode not in _ELSEWHERE:
        return [after]
    if instruction.opcode in _LEAVES:
        return [END, after] if instruction.guard else [END]
    if _stops(instruction):
        return [after] if instruction.guard else []
    if instruction.opcode == "bra":
        target = instruction.operands[0]
        assert isinstance(target, Label)
        there = target.target if target.target < len(function.code) else END
        return [there, after] if instruction.guard else [there]
    if instruction.opcode == "brx":
        table = instruction.operands[-1]
        assert isinstance(table, Symbol)
        targets = [label.target for label in function.tables[table.name]]
        return [*targets, after] if instruction.guard else targets
    return [after]


def _stops(instruction: Instruction) -> bool:
    if instruction.opcode == "call":
        return any(isinstance(o, Symbol) and o.name in _NEVER_BACK for o in instruction.operands)
    return instruction.opcode in _NEVER_BACK


def leaving(function: Function, between: Set[str] = _ALONE) -> list[bool]:
    """Of every instruction, whether control goes from there to the end of the thread in a straight line, past nothing
    but jumps and the opcodes `between`: by default what waits for no other thread.

    `if (i >= n) return;` is a branch to such a place. Barriers wait for "all non-exited threads" (PTX ISA, barrier), so
    the lanes that take it are out of the way of the others' next barrier, as those of a guarded ret are.
    """
    code = function.code
    found: list[bool | None] = [None] * len(code)
    for start in range(len(code)):
        trail, pc, known = [], start, False
        while pc < len(code) and found[pc] is None:
            found[pc] = False  # in a circle, nothing ends
            trail.append(pc)
            instruction = code[pc]
            if instruction.opcode in _LEAVES and not instruction.guard:
                known = True
                break
            if instruction.opcode == "bra" and not instruction.guard:
                label = instruction.operands[0]
                assert isinstance(label, Label)
                pc = label.target
            elif instruction.opcode in between and not instruction.guard:
                pc += 1
            else:
                break
        else:
            known = pc < len(code) and bool(found[pc])
        for pc in trail:
            found[pc] = known
    return [bool(f) for f in found]


def joins(function: Function) -> list[int]:
    """The immediate post-dominator of every instruction: where the paths that part there meet again; END, too, where
    all that they have in common is the ret.

    The iterative algorithm of Cooper, Harvey and Kennedy ("A simple, fast dominance algorithm", 2001) on the reversed
    graph.
    """
    count = len(function.code)
    following = successors_of(function)
    before: list[list[int]] = [[] for _ in range(count + 1)]  # the last is END, which is index -1
    for pc in range(count):
        for to in following[pc]:
            before[to].append(pc)
    order: list[int] = []  # reversed graph, post-order from END
    seen = [False] * (count + 1)
    stack: list[tuple[int, int]] = [(END, 0)]
    seen[END] = True
    while stack:
        node, i = stack.pop()
        if i < len(before[node]):
            stack.append((node, i + 1))
            child = before[node][i]
            if not seen[child]:
                seen[child] = True
                stack.append((child, 0))
        else:
            order.append(node)
    rank = {node: i for i, node in enumerate(order)}
    parent: dict[int, int] = {END: END}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = parent[a]
            while rank[b] < rank[a]:
                b = parent[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [s for s in following[node] if s in parent]
            new = known[0]
            for other in known[1:]:
                new = meet(new, other)
            if parent.get(node) != new:
                parent[node] = new
                changed = True
    # an endless loop has no way to the end
    gone = leaving(function, frozenset())
    return [END if (join := parent.get(pc, END)) != END and gone[join] else join for pc in range(count)]


def inline_calls(module: Module, function: Function, known: frozenset[str], depth: int = 0) -> Function:
    """The function with the bodies of the .func that it calls in place of the calls.

    Device functions in PTX that compilers emit are few and small; without calls, a warp needs no frames. Calls of the
    functions in `known`, which have no body but a meaning (vprintf, __assertfail), stay; so do calls through pointers
    and of functions without a body, which are refused when they are reached.

    Raises:
        NotModelled: recursion.
    """
    bodies = {i.where: _body(module, i, known) for i in function.code if i.opcode == "call"}
    if not any(bodies.values()):
        return function
    if depth > 16:
        raise NotModelled("recursive calls", function.code[0].where)
    out = replace(function, registers=list(function.registers), variables=list(function.variables), code=[], tables={})
    moved: list[int] = []  # old index -> new index
    serial = 0
    calls: list[tuple[int, int, Function, Instruction, str]] = []
    for instruction in function.code:
        moved.append(len(out.code))
        called = bodies.get(instruction.where)
        if called is None:
            out.code.append(instruction)
            continue
        name = called.name
        body = inline_calls(module, called, known, depth + 1)
        serial += 1
        begin = len(out.code)
        _splice(out, body, instruction, f"{name}#{serial}")
        calls.append((begin, len(out.code), body, instruction, name))
    moved.append(len(out.code))
    spliced = {pc for begin, end, *_ in calls for pc in range(begin, end)}
    for pc, instruction in enumerate(out.code):
        if pc not in spliced and instruction.opcode == "bra":
            label = instruction.operands[0]
            assert isinstance(label, Label)
            out.code[pc] = replace(instruction, operands=(replace(label, target=moved[label.target]),))
    out.tables |= {
        name: tuple(replace(label, target=moved[label.target]) for label in labels)
        for name, labels in function.tables.items()
    }
    return out


def _body(module: Module, call: Instruction, known: frozenset[str]) -> Function | None:
    """The function that takes the place of a call, if any does."""
    name = callee(call)
    function = module.function(name) if name is not None and name not in known else None
    return function if function is not None and function.code else None


def callee(call: Instruction) -> str | None:
    """The name of the function that an instruction calls; None: it does so through a pointer."""
    target = next((o for o in call.operands if not isinstance(o, Group)), None)
    return target.name if isinstance(target, Symbol) else None


def _splice(out: Function, body: Function, call: Instruction, prefix: str) -> None:
    """Appends the body of a callee: its registers and variables under new names, parameters bound, ret as a jump."""
    base = len(out.registers)
    out.registers += body.registers
    groups = [o for o in call.operands if isinstance(o, Group)]
    names = [o for o in call.operands if isinstance(o, Symbol)]
    at = call.operands.index(names[0])
    results = groups[0].elements if groups and call.operands.index(groups[0]) < at else ()
    arguments = groups[-1].elements if groups and call.operands.index(groups[-1]) > at else ()
    bound: dict[str, Operand] = {}
    # parameters in registers are the callee's first registers, and are moved in and out
    before, behind = [], []
    serial = 0
    pairs = [*zip(body.params, arguments, strict=True), *zip(body.returns, results, strict=True)]
    for number, (formal, actual) in enumerate(pairs):
        if formal.space != "reg":
            bound[formal.name] = actual
            continue
        own = Reg(base + serial, *body.registers[serial])
        serial += 1
        moved, operands = (before, (own, actual)) if number < len(body.params) else (behind, (actual, own))
        moved.append(replace(call, opcode="mov", modifiers=(own.type,), guard=None, operands=operands))
    renamed = {name: f"{prefix}:{name}" for name in body.tables}
    for v in body.variables:
        # a shared variable is the same one in every call
        renamed[v.name] = f"{body.name}:{v.name}" if v.space == "shared" else f"{prefix}:{v.name}"
        if renamed[v.name] not in {known.name for known in out.variables}:
            out.variables.append(replace(v, name=renamed[v.name]))
    # a guarded call jumps over all of it
    begin = len(out.code) + len(before) + (1 if call.guard else 0)
    returned = begin + len(body.code)
    end = returned + len(behind)

    def place(operand: Operand | None) -> Operand | None:
        if isinstance(operand, Reg):
            return replace(operand, index=operand.index + base)
        if isinstance(operand, Symbol):
            actual = bound.get(operand.name)
            if isinstance(actual, Symbol):
                return Symbol(actual.name, actual.offset + operand.offset)
            return replace(operand, name=renamed.get(operand.name, operand.name))
        if isinstance(operand, Label):
            return replace(operand, target=operand.target + begin)
        if isinstance(operand, Vector | Group):
            return replace(operand, elements=tuple(place(e) for e in operand.elements))  # type: ignore[arg-type]
        if operand is not None and hasattr(operand, "base"):
            base_operand = place(operand.base)  # type: ignore[union-attr]
            parts = tuple(place(p) for p in operand.parts)  # type: ignore[union-attr]
            return replace(operand, base=base_operand, parts=parts)  # type: ignore[type-var]
        if operand is not None and hasattr(operand, "first"):
            return replace(operand, first=place(operand.first), second=place(operand.second))  # type: ignore
        return operand

    done = Label("after the call", returned)
    if call.guard:
        flipped = replace(call.guard, negated=not call.guard.negated)
        skip = Label("after the call", end)
        out.code.append(replace(call, opcode="bra", modifiers=(), guard=flipped, operands=(skip,)))
    out.code += before
    for instruction in body.code:
        guard = place(instruction.guard)
        assert guard is None or isinstance(guard, Reg)
        new = replace(instruction, guard=guard, operands=tuple(place(o) for o in instruction.operands))
        if new.opcode == "ret":
            new = replace(new, opcode="bra", modifiers=(), operands=(done,))
        out.code.append(new)
    out.code += behind
    for name, labels in body.tables.items():
        out.tables[renamed[name]] = tuple(replace(label, target=label.target + begin) for label in labels)
