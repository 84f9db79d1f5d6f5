"""What conversion alone takes of machine code for sm_90a: the instructions that what is multiplied follows from.

Counted back from the registers that wgmma takes A out of, or that a warp stores for it, to loads: shifts, logic,
`prmt`, products by scales and constants that are moved in the loop, but no load, address, wait or promotion.

    python -m tests.lowering.conversions
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import product

from benchmarks.sass_flow import Function, Instruction, natural_loops, parse, successors
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.formats import FRAGMENTS_TEXT
from tests.lowering.under_way import Products, states

_NAME = re.compile(r"(?<![\w.])(U?[RP]\d+)\b")
_PRODUCT = re.compile(r"^R\d+, R(\d+), gdesc")
_LOADS = ("LDS", "LDSM", "LDG", "LD", "LDC", "ULDC", "LDL", "S2R", "S2UR")
_OF_PREDICATES = ("ISETP", "FSETP", "HSETP2", "PLOP3", "UISETP", "UPLOP3", "VOTE", "VOTEU", "LOP3", "R2P", "DSETP")
_WORDS = {"64": 2, "128": 4}


@dataclass(frozen=True)
class Conversion:
    """Of a loop the instructions that make `elements` of what is multiplied, by their opcodes, and how many of them are
    issued while a product is under way."""

    elements: int
    opcodes: Counter[str]
    beside: int

    @property
    def each(self) -> float:
        return self.opcodes.total() / self.elements

    @property
    def share(self) -> float:
        return self.beside / max(1, self.opcodes.total())


def written(x: Instruction) -> list[str]:
    """The registers and predicates that an instruction writes."""
    if x.stem in ("STS", "STG", "ST", "BAR", "SYNCS", "BRA", "EXIT", "WARPSYNC", "NOP"):
        return []
    fields = [field.strip() for field in x.operands.split(",")]
    found = _NAME.findall(fields[0])
    if x.stem in _OF_PREDICATES and fields[0].lstrip("!").startswith(("P", "UP")):
        found += _NAME.findall(fields[1])
    if found and found[0].startswith(("R", "UR")):
        prefix, number = re.match(r"(U?R)(\d+)", found[0]).groups()  # pyright: ignore[reportOptionalMemberAccess]
        parts = x.opcode.split(".")
        count = next((n for name, n in _WORDS.items() if name in parts and x.stem in _LOADS), 1)
        count = 2 if "WIDE" in parts else count
        if shape := re.match(r"[HQI]GMMA\.64x(\d+)", x.opcode):
            count = int(shape[1]) // 2
        found += [f"{prefix}{int(number) + i}" for i in range(1, count)]
    return found


def read(x: Instruction) -> set[str]:
    """Those that it reads, its guard too."""
    _, _, rest = x.operands.partition(",")
    return set(_NAME.findall(rest)) | set(_NAME.findall(x.guard))


class Loop:
    """A natural loop: which of its instructions registers come from."""

    def __init__(self, function: Function, body: set[int]) -> None:
        self.code, self.body = function.instructions, body
        self.before: dict[int, list[int]] = {i: [] for i in body}
        for i, following in enumerate(successors(function)):
            for j in following:
                if i in body and j in body:
                    self.before[j].append(i)
        self.written = {i: set(written(self.code[i])) for i in body}

    def sources(self, at: int, name: str) -> set[int]:
        """The instructions that may have written what one at `at` reads."""
        found, seen, work = set[int](), set[int](), list(self.before[at])
        while work:
            i = work.pop()
            if i in seen:
                continue
            seen.add(i)
            if name in self.written[i]:
                found.add(i)
                if not self.code[i].guard:
                    continue
            work += self.before[i]
        return found

    def behind(self, at: int, names: set[str]) -> tuple[set[int], bool]:
        """All that these follow from, and whether a load from shared memory is what they begin with."""
        made, loaded, work = set[int](), False, [(at, name) for name in names]
        while work:
            i, name = work.pop()
            for source in self.sources(i, name):
                x = self.code[source]
                if x.stem in _LOADS:
                    loaded |= x.stem in ("LDS", "LDSM")
                elif source not in made and x.kind not in ("tensor", "mbarrier"):
                    made.add(source)
                    work += [(source, name) for name in read(x)]
        return made, loaded


def _of_products(loop: Loop) -> tuple[int, set[int]]:
    """Registers of A, and what makes them."""
    distinct, made = set[frozenset[int]](), set[int]()
    for i in loop.body:
        if loop.code[i].kind == "tensor" and (a := _PRODUCT.match(loop.code[i].operands)):
            names = {f"R{int(a[1]) + j}" for j in range(4)}
            distinct.add(frozenset((j, name) for name in names for j in loop.sources(i, name)))  # pyright: ignore
            made |= loop.behind(i, names)[0]
    return 4 * len(distinct), made


def _of_stores(loop: Loop) -> tuple[int, set[int]]:
    """Registers that are stored to shared memory of what was loaded from there, and what makes them."""
    count, made = 0, set[int]()
    for i in loop.body:
        x = loop.code[i]
        if x.stem == "STS" and (words := next((n for name, n in _WORDS.items() if name in x.opcode), 1)) > 1:
            first = re.search(r"R(\d+)$", x.operands)
            names = {f"R{int(first[1]) + j}" for j in range(words)} if first else set[str]()
            some, loaded = loop.behind(i, names)
            if loaded:
                count += words
                made |= some
    return count, made


def conversion(function: Function, bits: int, where: str) -> Conversion:
    """Of elements of so many bits that consumers convert in `registers`, or warps of their own in `shared` memory."""
    code = function.instructions
    loops = [Loop(function, body) for body in natural_loops(successors(function)).values()]
    multiplies = [any(code[i].kind == "tensor" for i in loop.body) for loop in loops]
    if where == "registers":
        some = [loop for loop, yes in zip(loops, multiplies, strict=True) if yes]
        counts = [_of_products(min(some, key=lambda loop: len(loop.body)))]
    else:
        some = [loop for loop, yes in zip(loops, multiplies, strict=True) if not yes]
        counts = sorted((_of_stores(loop) for loop in sorted(some, key=lambda x: -len(x.body))), key=lambda x: -x[0])
    registers, made = counts[0]
    products = states(function, Products())
    beside = sum(bool((p := products[i]) and (p.open or p.closed)) for i in made)
    return Conversion(registers * 32 // bits, Counter(code[i].stem for i in made), beside)


@dataclass(frozen=True)
class Case:
    """A program, with `{k}` for the order of B's rows; `order`: of those that are reordered; bits of what is made."""

    source: str
    order: str
    bits: int


CASES = {
    "e2m1 to e4m3": Case("C[m,n] = A[m,k]:e4m3 @ B[n,{k}]:e2m1 scale(1x128, 1x128)", "halves", 8),
    "i4 to e4m3": Case("C[m,n] = A[m,k]:e4m3 @ B[n,{k}]:i4 scale(1x128, 1x128)", "bytes", 8),
    "u4 less 8 to e4m3": Case("C[m,n] = A[m,k]:e4m3 @ (B[n,{k}]:u4 - 8) scale(1x128, 1x128)", "bytes", 8),
    "e2m1 to bf16": Case("C[m,n] = A[m,k]:bf16 @ B[n,{k}]:e2m1", "pairs", 16),
    "e2m1, ue4m3 for each 16, to bf16": Case(
        "C[m,n] = A[m,k]:bf16 @ B[n,{k}]:e2m1 scale(none, 1x16:ue4m3)", "pairs", 16
    ),
    "e2m1, ue8m0 for each 32, to bf16": Case(
        "C[m,n] = A[m,k]:bf16 @ B[n,{k}]:e2m1 scale(none, 1x32:ue8m0)", "pairs", 16
    ),
    "i4 to bf16": Case("C[m,n] = A[m,k]:bf16 @ B[n,{k}]:i4 scale(none, 1x128:bf16)", "pairs", 16),
    "i4, bf16 for each 128, to bf16": Case(
        "C[m,n] = A[m,k]:bf16 @ (B[n,{k}]:i4):bf16 scale(none, 1x128:bf16)", "pairs", 16
    ),
    "e4m3 to bf16": Case("C[m,n] = A[m,k]:bf16 @ B[n,{k}]:e4m3 scale(none, 128x128)", "", 16),
}


def count(case: Case, rows: int, how: str) -> tuple[Conversion, str]:
    """Of a kernel for so many rows, n = k = 8192: `how` is "reordered", or where conversion is; and its schedule."""
    order = FRAGMENTS_TEXT[case.order].format("k") if how == "reordered" else "k"
    schedule = {} if how == "reordered" else {"convert": how}
    dims = {"m": rows, "n": 8192, "k": 8192}
    made = compile_source(case.source.replace("{k}", order), "sm_90a", dims, schedule, tuned=False)
    assert made.cubin is not None
    assert made.schedule is not None
    (function,) = parse(disassemble(made.cubin, encoding=True))
    found = conversion(function, case.bits, "registers" if made.schedule.convert != "shared" else "shared")
    return found, "x".join(map(str, made.schedule.tile))


if __name__ == "__main__":
    for (name, case), rows in product(CASES.items(), (16, 4096)):
        for how in ("registers", "reordered", "shared"):
            if case.order or how != "reordered":
                found, tile = count(case, rows, how)
                print(f"{name} | {rows} | {how} | {tile} | {found.each:.2f} | {found.share:.2f} | {found.opcodes}")
