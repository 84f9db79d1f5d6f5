"""Conversion takes no more instructions than docs/notes/converted.md says, and products are under way meanwhile."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.sass_flow import Function, Instruction
from tests.lowering.conversions import CASES, conversion, count

COUNTED = {
    "e2m1 to e4m3": (1.25, 0.75, 1.02),
    "i4 to e4m3": (1.5, 1.38, 1.44),
    "u4 less 8 to e4m3": (1.5, 1.38, 1.44),
    "e2m1 to bf16": (2.13, 2.13, 2.07),
    "e2m1, ue4m3 for each 16, to bf16": (2.63, 2.63, 2.69),
    "e2m1, ue8m0 for each 32, to bf16": (2.63, 2.63, 2.69),
    "i4 to bf16": (1.39, 1.39, 2.13),
    "i4, bf16 for each 128, to bf16": (1.89, 1.89, 2.75),
    "e4m3 to bf16": (2.25, 0, 2.25),
}
"""Instructions an element with 16 rows: in registers, of weights that are reordered, in shared memory."""

BESIDE = {8: 0.5, 16: 0.49}
"""By bits of what is made, the least share that is issued while a product is under way: of two slices of a K block one,
of four three, where sums are promoted; all where they are not."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_conversion_takes_no_more(name: str) -> None:
    ways = [how for how, most in zip(("registers", "reordered", "shared"), COUNTED[name], strict=True) if most]
    for how, most in zip(ways, filter(None, COUNTED[name]), strict=True):
        found, _ = count(CASES[name], 16, how)
        assert 0 < found.each <= most, (how, found)
        assert how == "shared" or found.share >= BESIDE[CASES[name].bits], (how, found)


def test_what_counts() -> None:
    """What A follows from, back to loads, in the loop; constants that are moved there, but no address or promotion."""

    def x(opcode: str, operands: str) -> Instruction:
        return Instruction(0, "", opcode, operands, 0)

    code = (
        x("MOV", "R20, 0x80808080"),
        x("LDS.64", "R2, [R30+0x10]"),  # the loop's first
        x("IADD3", "R30, R30, 0x10, RZ"),
        x("MOV", "R9, 0x1c1c1c1c"),
        x("SHF.R.U32.HI", "R8, RZ, 0x2, R3"),
        x("LOP3.LUT", "R8, R8, R9, RZ, 0xc0, !PT"),
        x("LOP3.LUT", "R4, R2, R20, R8, 0xf8, !PT"),
        *(x("LOP3.LUT", f"R{i}, R3, R20, RZ, 0xc0, !PT") for i in (5, 6, 7)),
        x("QGMMA.64x8x32.F32.E4M3.E4M3", "R24, R4, gdesc[UR8], R24, gsb0"),
        x("PRMT", "R4, R2, 0x5140, R3"),  # of no product
        x("WARPGROUP.DEPBAR.LE", "gsb0, 0x0"),
        x("FADD", "R40, R40, R24"),
        x("BRA", "`(.L_x_1)"),
    )
    found = conversion(Function("f", code, {".L_x_1": 1}), 8, "registers")
    assert found.elements == 16
    assert found.opcodes == Counter(LOP3=5, SHF=1, MOV=1)
    assert found.beside == 0
