"""The instruction descriptor of tcgen05.mma: fields, reserved bits, legal shapes (PTX ISA, Tables 39 to 54)."""

from __future__ import annotations

import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.layouts.instruction_descriptor import InstructionDescriptor, decode


def found(kind: str, *arguments) -> Finding:
    with pytest.raises(Finding) as caught:
        decode(*arguments)
    assert caught.value.kind == kind
    return caught.value


def plain(m: int, n: int, **fields: int) -> int:
    """Table 42."""
    starts = {"selector": 0, "sparse": 2, "saturate": 3, "dtype": 4, "atype": 7, "btype": 10, "negate_a": 13}
    starts |= {"negate_b": 14, "transpose_a": 15, "transpose_b": 16, "shift": 30}
    return (m // 16 << 24) | (n // 8 << 17) | sum(value << starts[name] for name, value in fields.items())


def scaled(m: int, n: int, **fields: int) -> int:
    """Tables 43 and 44."""
    starts = {"sparse": 2, "b_id": 4, "atype": 7, "btype": 10, "negate_a": 13, "negate_b": 14, "transpose_a": 15}
    starts |= {"transpose_b": 16, "scale": 23, "a_id": 29, "k96": 31}
    return (m // 128 << 27) | (n // 8 << 17) | sum(value << starts[name] for name, value in fields.items())


F16 = plain(128, 256, dtype=1)
FP8 = plain(128, 256, dtype=1)
TF32 = plain(128, 256, dtype=1, atype=2, btype=2)
MXFP8 = scaled(128, 256, scale=1)
FP4 = scaled(128, 256, scale=1, atype=1, btype=1)
NVFP4 = scaled(128, 256, atype=1, btype=1)


def test_descriptors_worked_by_hand():
    """F32 is bit 4, two BF16 are bits 7 and 10; N = 128 is 16 << 17 = 0x200000, M = 128 is 8 << 24 = 0x8000000."""
    bf16 = InstructionDescriptor("f16", 128, 128, 16, "bf16", "bf16", "f32")
    assert decode(0x0800_0000 + 0x20_0000 + 0x400 + 0x80 + 0x10, "f16", 1) == bf16
    assert decode(0x1000_0000 + 0x40_0000 + 0x10, "f8f6f4", 2) == InstructionDescriptor(
        "f8f6f4", 256, 256, 32, "e4m3", "e4m3", "f32"
    )


def test_every_field_of_table_42():
    value = plain(64, 48, dtype=0, atype=1, btype=0, negate_a=1, transpose_b=1)
    assert decode(value, "f16", 1) == InstructionDescriptor(
        "f16", 64, 48, 16, "bf16", "f16", "f16", negate_a=True, transpose_b=True
    )
    value = plain(64, 48, dtype=1, atype=0, btype=1, negate_b=1, transpose_a=1)
    assert decode(value, "f16", 1) == InstructionDescriptor(
        "f16", 64, 48, 16, "f16", "bf16", "f32", negate_b=True, transpose_a=True
    )
    assert decode(TF32, "tf32", 1) == InstructionDescriptor("tf32", 128, 256, 8, "tf32", "tf32")
    for code, name in {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}.items():
        found_descriptor = decode(plain(128, 64, dtype=1, atype=code, btype=0), "f8f6f4", 1)
        assert (found_descriptor.a_type, found_descriptor.b_type, found_descriptor.k) == (name, "e4m3", 32)
        assert decode(plain(128, 64, dtype=0, atype=0, btype=code), "f8f6f4", 1).b_type == name
    assert decode(plain(64, 128, dtype=1, shift=2), "f16", 1, "", True).max_shift == 16


def test_every_field_of_table_43():
    value = scaled(128, 64, scale=1, atype=1, btype=5, a_id=3, b_id=1, negate_b=1, transpose_a=1)
    assert decode(value, "mxf8f6f4", 1, "block32") == InstructionDescriptor(
        "mxf8f6f4", 128, 64, 32, "e5m2", "e2m1", "f32",
        negate_b=True, transpose_a=True, factors=1, scale_type="ue8m0", scale_a_id=3, scale_b_id=1,
    )  # fmt: skip
    assert decode(scaled(256, 64, scale=1), "mxf8f6f4", 2).m == 256


def test_every_field_of_table_44():
    assert decode(FP4 | 2 << 29, "mxf4", 1) == InstructionDescriptor(
        "mxf4", 128, 256, 64, "e2m1", "e2m1", factors=2, scale_type="ue8m0", scale_a_id=2
    )
    assert decode(NVFP4 | 1 << 13, "mxf4nvf4", 1, "block16") == InstructionDescriptor(
        "mxf4nvf4", 128, 256, 64, "e2m1", "e2m1", negate_a=True, factors=4, scale_type="ue4m3"
    )
    assert decode(FP4, "mxf4nvf4", 1, "scale_vec::4X").scale_type == "ue8m0"
    assert decode(FP4 | 2 << 4, "mxf4nvf4", 1, "scale_vec::2X").scale_b_id == 2


RESERVED = {  # bits that must be zero, or have no meaning without .sp, .ws or integers
    ("f16", F16): [0, 1, 2, 3, 6, 23, 29, 30, 31],
    ("tf32", TF32): [0, 1, 2, 3, 6, 23, 29, 30, 31],
    ("f8f6f4", FP8): [0, 1, 2, 3, 6, 23, 29, 30, 31],
    ("mxf8f6f4", MXFP8): [0, 1, 2, 3, 6, 24, 25, 26, 31],
    ("mxf4", FP4): [0, 1, 2, 3, 6, 12, 15, 16, 24, 25, 26, 31],
}


@pytest.mark.parametrize(
    ("kind", "value", "bit"), [(kind, value, bit) for (kind, value), bits in RESERVED.items() for bit in bits]
)
def test_reserved_bits(kind, value, bit):
    assert decode(value, kind, 1).n == 256
    found("descriptor", value | 1 << bit, kind, 1)


@pytest.mark.parametrize(
    ("kind", "value", "qualifier", "name"),
    [
        ("f16", plain(128, 64, dtype=2), "", "dtype"),
        ("tf32", plain(128, 64, dtype=0, atype=2, btype=2), "", "dtype"),
        ("tf32", plain(128, 64, dtype=1, atype=2, btype=1), "", "btype"),
        ("f16", plain(128, 64, dtype=1, atype=2), "", "atype"),
        ("f8f6f4", plain(128, 64, dtype=1, btype=2), "", "btype"),
        ("mxf8f6f4", scaled(128, 64, scale=1, atype=6), "", "atype"),
        ("mxf8f6f4", scaled(128, 64), "", "scale matrix type"),
        ("mxf4", scaled(128, 64, scale=1, atype=5, btype=1), "", "atype"),
        ("mxf4", scaled(128, 64, scale=1, atype=1, btype=0), "", "btype"),
        ("mxf4", NVFP4, "", "scale matrix type"),
        ("mxf4nvf4", NVFP4, "block32", "scale matrix type"),
        ("mxf4", FP4 | 1 << 29, "", "scale factor A ID"),
        ("mxf4", FP4 | 3 << 4, "", "scale factor B ID"),
        ("mxf4nvf4", NVFP4 | 2 << 29, "block16", "scale factor A ID"),
    ],
)
def test_values_that_a_kind_does_not_have(kind, value, qualifier, name):
    assert name in found("descriptor", value, kind, 1, qualifier).message


def test_96_along_k_belongs_to_another_target():
    assert "sm_103a" in found("descriptor", FP4 | 1 << 31, "mxf4", 1).message


@pytest.mark.parametrize(
    ("kind", "cta_group", "value", "legal"),
    [
        ("f16", 1, plain(64, 8, dtype=1), True),
        ("f16", 1, plain(128, 24, dtype=1), True),
        ("f16", 1, plain(128, 0, dtype=1), False),
        ("f16", 1, plain(128, 264, dtype=1), False),
        ("f16", 1, plain(256, 64, dtype=1), False),
        ("f16", 1, plain(32, 64, dtype=1), False),
        ("f16", 1, plain(96, 64, dtype=1), False),
        ("f16", 2, plain(256, 256, dtype=1), True),
        ("f16", 2, plain(128, 16, dtype=1), True),
        ("f16", 2, plain(128, 24, dtype=1), False),
        ("f16", 2, plain(64, 64, dtype=1), False),
        ("mxf8f6f4", 1, scaled(128, 8, scale=1), True),
        ("mxf8f6f4", 1, scaled(256, 8, scale=1), False),
        ("mxf8f6f4", 1, scaled(0, 64, scale=1), False),
        ("mxf8f6f4", 1, scaled(0, 64, scale=1) | 64 // 16 << 24, False),  # M = 64 where Table 42 would have it
        ("mxf8f6f4", 2, scaled(256, 240, scale=1), True),
        ("mxf8f6f4", 2, scaled(256, 248, scale=1), False),
    ],
)
def test_shapes_of_table_39(kind, cta_group, value, legal):
    if legal:
        assert decode(value, kind, cta_group).kind == kind
    else:
        found("descriptor", value, kind, cta_group)


def test_shapes_of_weight_stationary():
    for m in (32, 64, 128):
        assert decode(plain(m, 64, dtype=1), "f16", 1, "", True).m == m
    found("descriptor", plain(256, 64, dtype=1), "f16", 1, "", True)
    found("descriptor", plain(64, 96, dtype=1), "f16", 1, "", True)
    found("illegal", plain(128, 64, dtype=1), "f16", 2, "", True)
    found("illegal", MXFP8, "mxf8f6f4", 1, "", True)


def test_transposes():
    both = plain(128, 48, dtype=1, transpose_a=1, transpose_b=1)
    assert decode(both, "f8f6f4", 1).transpose_b
    found("descriptor", plain(128, 24, dtype=1, transpose_b=1), "f8f6f4", 1)  # Table 52: N in steps of 16
    found("descriptor", plain(256, 48, dtype=1, transpose_b=1), "f8f6f4", 2)  # 32 for a pair
    assert decode(plain(128, 24, dtype=1, transpose_a=1), "f8f6f4", 1).n == 24
    assert decode(plain(128, 24, dtype=1, transpose_b=1), "f16", 1).n == 24
    # elements of 4 and 6 bits have a byte each with these kinds, and go by the rules of 8 bits
    assert decode(plain(128, 64, dtype=1, atype=5, transpose_a=1), "f8f6f4", 1).transpose_a
    assert decode(scaled(128, 64, scale=1, btype=3, transpose_b=1), "mxf8f6f4", 1).transpose_b
    found("descriptor", scaled(128, 72, scale=1, btype=3, transpose_b=1), "mxf8f6f4", 1)


def test_qualifiers_and_kinds():
    found("illegal", NVFP4, "mxf4nvf4", 1, "")
    found("illegal", MXFP8, "mxf8f6f4", 1, "scale_vec::4X")


def test_integers():
    word = plain(128, 64, dtype=2, atype=1, saturate=1)
    found_ = decode(word, "i8", 1)
    assert (found_.a_type, found_.b_type, found_.d_type, found_.k, found_.saturate) == ("s8", "u8", "s32", 32, True)
    assert decode(plain(64, 24, dtype=2), "i8", 1).n == 24
    assert decode(plain(256, 96, dtype=2), "i8", 2).m == 256
    for wrong in (plain(128, 24, dtype=2), plain(64, 40, dtype=2), plain(128, 64, dtype=1)):
        found("descriptor", wrong, "i8", 1)
    found("descriptor", plain(256, 48, dtype=2), "i8", 2)
    found("descriptor", plain(128, 64, dtype=2, negate_a=1), "i8", 1)
    found("descriptor", plain(128, 64, dtype=1, saturate=1), "f16", 1)
