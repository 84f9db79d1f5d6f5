"""Linear layers of published models: what block-scaled GEMMs are run at.

n and k follow from each model's configuration (hidden size h, intermediate size i, q query and kv key-value heads of
width d), the layers of one input taken together as serving engines do: qkv is [(q + 2 kv) d, h], o [h, q d], gate_up
[2 i, h], down [h, i].
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Projection:
    """One linear layer: C[m,n] = A[m,k] @ B[n,k] for m tokens.

    Attributes:
        model: its name and size.
        layer: the projection's.
        n, k: features out and in.
    """

    model: str
    layer: str
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.model} {self.layer}"


# h 7168, 128 heads; ranks of the latent query 1536, of the latent key and value 512 (64 more for positions); heads of
# 128, with 64 for positions in q; i 18432 in the dense layers, 2048 in an expert
DEEPSEEK = {
    p.layer: p
    for p in (
        Projection("DeepSeek-V3", "qkv_a", 1536 + 512 + 64, 7168),
        Projection("DeepSeek-V3", "q_b", 128 * (128 + 64), 1536),
        Projection("DeepSeek-V3", "kv_b", 128 * (128 + 128), 512),
        Projection("DeepSeek-V3", "o", 7168, 128 * 128),
        Projection("DeepSeek-V3", "dense gate_up", 2 * 18432, 7168),
        Projection("DeepSeek-V3", "dense down", 7168, 18432),
        Projection("DeepSeek-V3", "expert gate_up", 2 * 2048, 7168),
        Projection("DeepSeek-V3", "expert down", 7168, 2048),
    )
}


def _transformer(model: str, h: int, i: int, q: int, kv: int) -> dict[str, Projection]:
    """The layers of a transformer with grouped-query attention, heads of 128, and a gated MLP."""
    d = 128
    sizes = {"qkv": ((q + 2 * kv) * d, h), "o": (h, q * d), "gate_up": (2 * i, h), "down": (h, i)}
    return {layer: Projection(model, layer, n, k) for layer, (n, k) in sizes.items()}


LLAMA_8B = _transformer("Llama-3.1-8B", h=4096, i=14336, q=32, kv=8)
LLAMA_70B = _transformer("Llama-3.1-70B", h=8192, i=28672, q=64, kv=8)
LLAMA_405B = _transformer("Llama-3.1-405B", h=16384, i=53248, q=128, kv=8)
QWEN2_7B = _transformer("Qwen2.5-7B", h=3584, i=18944, q=28, kv=4)
QWEN3_8B = _transformer("Qwen3-8B", h=4096, i=12288, q=32, kv=8)
QWEN3_32B = _transformer("Qwen3-32B", h=5120, i=25600, q=64, kv=8)
QWEN3_235B = _transformer("Qwen3-235B-A22B", h=4096, i=1536, q=64, kv=4)  # i of an expert
