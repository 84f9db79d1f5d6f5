"""Every example builds, verifies, prints and parses back; and says what its text says."""

from __future__ import annotations

import re

import pytest

from scalec.frontend import build
from scalec.ir.context import context, parse
from tests.frontend.frontend_modules import EXAMPLES, arguments, dims, elements, maps, ops, results

# program | dims | arguments | results | maps of the first contraction, or where there is none of the first reduction
_TABLE = """
dense_fp8 | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32 | C bf16 | (m, k) (n, k) (m, n)
fp8_weight_gradient | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32, C f32 | C f32 | (m, k) (n, k) (m, n)
mxfp8 | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f8E8M0FNU, B_scale f8E8M0FNU | C bf16 | (m, k) (n, k) (m, n)
mxfp4 | m n k | A f4E2M1FN, B f4E2M1FN, A_scale f8E8M0FNU, B_scale f8E8M0FNU | C bf16 | (m, k) (n, k) (m, n)
nvfp4 | m n k | A f4E2M1FN, B f4E2M1FN, A_scale f8E4M3FN, A_scale2 f32, B_scale f8E4M3FN, B_scale2 f32
    | C bf16 | (m, k) (n, k) (m, n)
fp8_fp4 | m n k | A f8E4M3FN, B f4E2M1FN, A_scale f8E8M0FNU, B_scale f8E8M0FNU | C bf16 | (m, k) (n, k) (m, n)
w4a8_grouped | m n k B_0 | A f8E4M3FN, B f4E2M1FN, e i32, A_scale f32, B_scale f8E4M3FN, B_scale2 f32
    | C bf16 | (m, k) (s0, n, k) (m, n)
w8a8_int8 | m n k | A i8, B i8, A_scale f32, B_scale f32 | C bf16 | (m, k) (n, k) (m, n)
w4a16_int4 | m n k | A f16, B i4, B_scale f16 | C bf16 | (m, k) (n, k) (m, n)
w4a16_zero_points | m n k | A bf16, B ui4, Z ui4, B_scale f16 | C bf16 | (m, k) (n, k) (m, n)
bf16 | m n k | A bf16, B bf16 | C bf16 | (m, k) (n, k) (m, n)
tf32 | m n k | A tf32, B tf32 | C f32 | (m, k) (n, k) (m, n)
mn_major | m n k | A bf16, B bf16 | C bf16 | (m, k) (k, n) (m, n)
mn_major_fp8 | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32 | C bf16 | (m, k) (k, n) (m, n)
grouped_contiguous | m n k B_0 | A f8E4M3FN, B f8E4M3FN, e i32, A_scale f32, B_scale f32
    | C bf16 | (m, k) (s0, n, k) (m, n)
grouped_masked | g m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32, rows i32
    | C bf16 | (g, m, k) (g, n, k) (g, m, n)
grouped_k | g m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32, off i32, C f32 | C f32 | (m, k) (n, k) (g, m, n)
grouped_ragged | m n A_0 k g | A f8E4M3FN, idx i32, B f8E4M3FN, A_scale f32, B_scale f32, off i32
    | C bf16 | (s0, k) (g, n, k) (m, n)
ragged_quantised | m n k g | A f8E4M3FN, B f8E4M3FN, A_scale f8E8M0FNU, B_scale f8E8M0FNU, b bf16, off i32
    | D f8E4M3FN, D_scale f8E8M0FNU | (m, k) (g, n, k) (m, n)
quantise | m k | X bf16 | Q f8E4M3FN, Q_scale f8E8M0FNU, P f8E4M3FN, P_scale f32 |
quantise_hadamard | m k | X bf16, seed i32, s bf16 | Q f4E2M1FN, Q_scale f8E8M0FNU, T f4E2M1FN, T_scale f8E8M0FNU |
quantise_stochastic | m k | X bf16, seed i32 | Q f4E2M1FN, Q_scale f8E8M0FNU |
quantise_turned | m k | X bf16 | Q f8E4M3FN, Q_scale f8E8M0FNU, T f8E4M3FN, T_scale f8E8M0FNU |
gate_quantise | m j | G bf16, U bf16 | Q f8E4M3FN, Q_scale f32 |
norm_quantise | m k | X bf16, w bf16, n f32, e f32 | Y f8E4M3FN, Y_scale f8E8M0FNU | (m, k) (m)
dequantise | m k | X f4E2M1FN, X_scale f8E4M3FN, X_scale2 f32 | Y bf16 |
masked_quantise | g m k | X bf16, rows i32 | Q f8E4M3FN, Q_scale i32 |
softmax | m k | X bf16 | Y bf16 | (m, k) (m)
combine | t n j D_0 | w f32, D bf16, inv i32 | Y bf16 | (t, n, j) (t, n)
scatter | C_0 m n k B_0 | idx i32, A f8E4M3FN, B f8E4M3FN, e i32, A_scale f32, B_scale f32
    | C bf16 | (m, k) (s0, n, k) (m, n)
einsum_bhr_hdr_bhd | b h d r | X f8E4M3FN, Y f8E4M3FN, X_scale f32, Y_scale f32 | Z bf16 | (b, h, r) (h, d, r) (b, h, d)
einsum_bhd_hdr_bhr | b h r d | X f8E4M3FN, Y f8E4M3FN, X_scale f32, Y_scale f32 | Z bf16 | (b, h, d) (h, d, r) (b, h, r)
einsum_bhd_bhr_hdr | h d r b | X f8E4M3FN, Y f8E4M3FN, X_scale f32, Y_scale f32 | Z bf16 | (b, h, d) (b, h, r) (h, d, r)
lora | m n k r | A bf16, B bf16, D bf16, E bf16 | C bf16 | (m, k) (n, k) (m, n)
lora_scaled | m n k r | A bf16, B bf16, alpha f32, D bf16, E bf16 | C bf16 | (m, k) (n, k) (m, n)
qlora | m n k r | A bf16, B f4E2M1FN, B_scale f8E4M3FN, B_scale2 f32, D bf16, E bf16 | C bf16 | (m, k) (n, k) (m, n)
split_reduction | m n b k | A bf16, B bf16, D f32 | D f32 | (b, m, k) (b, n, k) (m, n)
quantised_result | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f8E8M0FNU, B_scale f8E8M0FNU
    | D f8E4M3FN, D_scale f8E8M0FNU | (m, k) (n, k) (m, n)
quantised_rows | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32
    | D f8E4M3FN, D_scale f32 | (m, k) (n, k) (m, n)
quantised_grouped | m n k B_0 | A f8E4M3FN, B f8E4M3FN, e i32, A_scale f8E8M0FNU, B_scale f8E8M0FNU
    | D f8E4M3FN, D_scale f8E8M0FNU | (m, k) (s0, n, k) (m, n)
quantised_fp8 | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32, bias bf16
    | D f8E4M3FN, D_scale f32 | (m, k) (n, k) (m, n)
head_splits | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32 | D bf16 | (m, k) (n, k) (m, n)
head_splits_end | m n k | A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32 | D bf16 | (m, k) (n, k) (m, n)
gated_mlp | m n k | X f8E4M3FN, Wg f8E4M3FN, X_scale f32, Wg_scale f32, Wu f8E4M3FN, Wu_scale f32
    | H f8E4M3FN, H_scale f8E8M0FNU | (m, k) (n, k) (m, n)
prenorm | m n k | A bf16, B tf32 | D f32, S f32 | (m, k) (n, k) (m, n)
mqa_logits | q t h d | Q f8E4M3FN, K f8E4M3FN, K_scale f32, W f32, lo i32, hi i32 | L f32 | (q, h, d) (t, d) (q, t, h)
mqa_logits_bf16_q | q t h d | Q bf16, K f8E4M3FN, K_scale f32, W bf16, lo i32, hi i32
    | L f32 | (q, h, d) (t, d) (q, t, h)
mqa_logits_fp4 | q t h d | Q f4E2M1FN, K f4E2M1FN, Q_scale f8E8M0FNU, K_scale f8E8M0FNU, W f32, lo i32, hi i32
    | L f32 | (q, h, d) (t, d) (q, t, h)
mqa_logits_paged | s t h d K_0 | Q f8E4M3FN, K f8E4M3FN, table i32, K_scale f32, W f32, len i32
    | L f32 | (s, h, d) (s0, t mod 64, d) (s, t, h)
mqa_logits_paged_fp4 | s t h d K_0 | Q f4E2M1FN, K f4E2M1FN, table i32, Q_scale f8E8M0FNU, K_scale f8E8M0FNU,
    W f32, len i32 | L f32 | (s, h, d) (s0, t mod 64, d) (s, t, h)
epilogue | m n k | alpha f32, A f8E4M3FN, B f8E4M3FN, A_scale f32, B_scale f32, bias bf16
    | C bf16 | (m, k) (n, k) (m, n)
"""
FACTS = {
    name: facts
    for name, *facts in ([" ".join(x.split()) for x in row.split("|")] for row in re.split(r"\n(?! )", _TABLE.strip()))
}


@pytest.mark.parametrize("stem", EXAMPLES)
def test_example_round_trips(stem: str) -> None:
    with context():
        module = build(EXAMPLES[stem], None, stem)
        assert module.operation.verify()
        assert str(parse(str(module))) == str(module)


@pytest.mark.parametrize("stem", EXAMPLES)
def test_example_says_what_its_text_says(stem: str) -> None:
    want_dims, want_arguments, want_results, want_maps = FACTS[stem]
    with context():
        module = build(EXAMPLES[stem])
        assert dims(module) == want_dims
        assert elements(arguments(module)) == want_arguments
        assert elements(results(module)) == want_results
        first = [*ops(module, "scale.contract"), *ops(module, "scale.reduce")][:1]
        assert " ".join(x for op in first for x in maps(op)) == want_maps


def test_every_example_has_facts() -> None:
    assert sorted(FACTS) == sorted(EXAMPLES)
