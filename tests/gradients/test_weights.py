"""Gradients beside weights of 4 bits, as they are stored: in words, in another order, less zero points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import scalec
from scalec import compiler
from tests.gradients.running import backward, drawn, forward
from tests.gradients.test_texts import lines

AWQ = "n/8*8 + n%2*4 + n%8/2"

WEIGHTS = {  # of 4 bits, and what the product of the gradient reads of them
    "(B[n,k]:u4 - 8)": "(B[n,k]:u4 - 8)",
    "(B[n,k]:u4 - Z[n/128,k/128]) scale(none, 128x128)": "(B[n,k]:u4 - Z[n/128,k/128]:u4)",
    "(B[k,n]:u4 - Z[k/16])": "(B[k,n]:u4 - Z[k/16]:u4)",
    "B[n/8,k,n%8]:i4": "B[n/8,k,n%8]:i4",
    "B[n,k]:u4": "B[n,k]:u4",
    "B[n,k]:u4 scale(none, 128x128)": "B[n,k]:u4",
    "B[n,k]:i4 scale(none, 1x128)": "B_bf16[n,k]",  # what a step dequantises: scales of no use along n
    "B[n,k]:u4 scale(none, 1x128)": "B_bf16[n,k]",
    "(B[n,k]:u4 - 8) scale(none, 1x128)": "B_bf16[n,k]",
    "(B[n,k]:u4 - Z[n,k/128])": "B_bf16[n,k]",
    "B[k/8,n,k%8]:i4": "B_bf16[n,k]",
    "B[n/8,k,n%8]:i4 scale(none, 128x1)": "B_bf16[k,n]",
    "(B[k/8,n,k%8]:u4 - (Z[k/128,n] + 1)) scale(none, 1x128:f16@col)": "B_bf16[n,k]",  # GPTQ
    f"(B[k,{AWQ}]:u4 - Z[k/128,{AWQ}]) scale(none, 128x1:f16)": "B_bf16[k,n]",
    f"B[k,{AWQ}]:u4": "B_bf16[k,n]",
    "B[n, k/8*8 + k%2*4 + k%8/2]:i4": "B_bf16[n,k]",
    "(B[n,k]:u4 - 8):bf16 scale(none, 1x32:bf16)": "B_bf16[n,k]",
    "(B[e[m/128],n,k]:u4 - Z[e[m/128],n,k/128]) scale(none, 1x64)": "B_bf16[e[m/128],n,k]",
}


@pytest.mark.parametrize("operand", WEIGHTS)
def test_weights_of_4_bits_have_gradients_with_kernels(operand: str):
    g = scalec.grad(f"C[m,n] = A[m,k] @ {operand}", wrt="A")
    assert g.steps[-1].text.startswith(f"dA[m,k] = dC[m,n] @ {WEIGHTS[operand]}")
    for step in g.steps:
        for target in ("sm_90a", "sm_100a", "sm_120a"):
            compiler.compile_source(step.text, target, until="tile")


def test_weights_beside_f16_are_dequantised_to_it():
    assert "B_f16[n,k]:f16 = (B[n,k]:u4 - 8) scale(1x64:f16)" in lines(
        "C[m,n] = A[m,k]:f16 @ (B[n,k]:u4 - 8) scale(none, 1x64:f16)"
    )
    assert "B_f16[n,k]:f16 = B[n,k]:nvfp4" in lines("C[m,n] = A[m,k]:f16 @ B[n,k]:nvfp4", wrt="A")


def test_a_recipe_quantises_what_weights_stand_for():
    """Once, and not what is rounded to bf16 before."""
    for operand in ("(B[n,k]:u4 - 8) scale(none, 1x64)", "B[k/8,n,k%8]:i4 scale(none, 1x64)"):
        made = lines(f"C[m,n] = A[m,k] @ {operand}", quantize="deepseek_v3")
        assert f"B_n[k,n]:e4m3 scale(1x128@col) = {operand.replace('none, ', '')}" in made


@pytest.mark.parametrize("operand", [x for x in WEIGHTS if "e[m" not in x])
def test_gradients_are_of_what_the_forward_program_multiplies(operand: str):
    """Which its product with the unit matrix says."""
    n, k = 48, 256
    source = f"C[m,n]:f32 = A[m,k] @ {operand}"
    g = scalec.grad(source, wrt="A", types={"dA": "f32"})
    dims = {"m": k, "n": n, "k": k}
    values = drawn(g.forward, dims)
    values["A"] = np.eye(k, dtype=values["A"].dtype)
    weights = np.asarray(forward(g, values, dims)["C"], np.float64)
    given = np.random.default_rng(1).integers(-4, 5, (k, n)).astype(np.float32)
    found = np.asarray(backward(g, values, {"dC": given}, dims, {})["A"], np.float64)
    wanted = given.astype(np.float64) @ weights.T
    assert np.abs(found - wanted).max() <= 2**-7 * np.abs(wanted).max()


def unpacked(words: torch.Tensor) -> torch.Tensor:
    """The eight elements of each int32, the lowest bits first."""
    return torch.stack([words >> 4 * i & 15 for i in range(8)], -1)


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("name", ["GPTQ", "AWQ"])
def test_a_layer_of_a_checkpoint_trains_what_is_below_it(name: str, as_bytes: bool, monkeypatch: pytest.MonkeyPatch):
    """Of weights as they are stored, as int32 or its bytes."""
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    n, k, m = 64, 256, 16
    torch.manual_seed(0)
    x, scales = torch.randn(m, k, dtype=torch.float16), (torch.rand(k // 128, n) / 8).half()
    low, high = -(2**31), 2**31 - 1
    zeros = torch.randint(low, high, (k // 128, n // 8), dtype=torch.int32)
    if name == "GPTQ":
        words = torch.randint(low, high, (k // 8, n), dtype=torch.int32)
        operand, scale = "B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1)", "1x128:f16@col"
        values, less = unpacked(words).movedim(1, 0).reshape(n, k).T, unpacked(zeros).reshape(-1, n) + 1
    else:
        words = torch.randint(low, high, (k, n // 8), dtype=torch.int32)
        operand, scale = f"B[k,{AWQ}]:u4 - Z[k/128,{AWQ}]", "128x1:f16"
        order = [j % 2 * 4 + j // 2 for j in range(8)]
        values, less = (unpacked(y)[..., order].reshape(-1, n) for y in (words, zeros))
    weights = (values - less.repeat_interleave(128, 0)) * scales.float().repeat_interleave(128, 0)
    layer = scalec.differentiable(
        f"C[m,n]:f16 = A[m,k]:f16 @ ({operand}) scale(none, {scale})", dims={"n": n, "k": k}, target="sm_90a"
    )
    if as_bytes:
        words, zeros = (y.view(torch.uint8) for y in (words, zeros))
        words = words.reshape(k // 8, n, 4) if name == "GPTQ" else words
    a, b = x.clone().requires_grad_(), x.float().requires_grad_()
    (layer(a, words, zeros, scales.T if name == "GPTQ" else scales).float() ** 2).sum().backward()
    ((b @ weights) ** 2).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.float() - b.grad).norm() < 2e-3 * b.grad.norm()


@pytest.mark.parametrize("operand", ["(B[n,k]:u4 - 8)", "(B[n,k]:u4 - Z[n,k/128])", "B[k/8,n,k%8]:i4"])
def test_no_quantiser_makes_weights_of_4_bits_that_are_integers(operand: str):
    source = f"C[m,n] = A[m,k] @ {operand} scale(none, 1x128)"
    with pytest.raises(scalec.ArgumentError, match="to which no program quantises"):
        scalec.grad(source, quantize="deepseek_v3", quantized_from={"B": "bf16"})
    assert scalec.grad(source, quantize="deepseek_v3").steps
