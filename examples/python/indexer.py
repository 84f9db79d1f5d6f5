"""The lightning indexer of sparse attention, one scalec program and torch's ops: which tokens a query attends to.

    pip install -e '.[torch,gpu]' && python examples/python/indexer.py    # on a GPU; or else on the emulator, small
    python examples/python/indexer.py --target sm_100a                    # on the emulator, as that GPU

A step of decode: each sequence has a new token, with queries of several heads and one key. The key goes, in FP8 with a
scale of its own, into the page that the sequence's table names. One kernel then computes the logits of all tokens so
far, `sum[h](relu(Q @ K) * W)`, over pages in any order, each sequence as far as it reaches, and torch.topk picks the
largest. Queries have scales too, which the weights of the heads take in: they are positive, so relu lets them through.

Keys and their scales lie in one buffer, as DeepGEMM has them: a page is 64 keys, then their 64 scales. The kernel takes
both as views with strides. Lengths and tables stay on the device: one CUDA graph of a step is captured, then replayed.

What is picked is compared with the float64 logits of the same FP8 values, which know nothing of pages: nothing that is
left out is larger, up to what sums in f32 err. Also printed: how many of the top-k before FP8 are among them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import scalec

SIZES = {
    "sequences": (256, 4),
    "context": (16384, 300),
    "heads": (64, 16),
    "dim": (128, 128),
    "topk": (2048, 32),
}
"""Defaults on a GPU and on the emulator."""

TARGETS = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a", (12, 0): "sm_120a"}
"""The target of a GPU, by its compute capability."""

PAGE = 64  # keys of a page

LOGITS = (
    "L[s,t]:f32 = sum[h](relu(Q[s,h,d]:e4m3 @ K[table[s,t/64],t%64,d]:e4m3 scale(none,1x1xd)) * W[s,h]:f32)"
    " for t < len[s] else -inf"
)

STEPS = 3

NEAR = 1e-3  # of the largest logit: a tie, as tensor cores add FP8 products with fewer bits than f32 has


class Pages:
    """Room for keys: `keys` e4m3 [pages, PAGE, dim] and `scales` f32 [pages, PAGE, 1], views of one buffer."""

    def __init__(self, pages: int, dim: int, device: str) -> None:
        buffer = torch.zeros(pages, PAGE * (dim + 4), dtype=torch.uint8, device=device)
        self.bytes = buffer[:, : PAGE * dim].unflatten(1, (PAGE, dim))
        self.keys = self.bytes.view(torch.float8_e4m3fn)
        self.scales = buffer[:, PAGE * dim :].view(torch.float32).unsqueeze(2)

    def write(self, keys: Tensor, table: Tensor, at: Tensor) -> None:
        """Quantises keys [sequences, n, dim] and puts them at positions [sequences, n] of their sequences."""
        page, row = table.gather(1, at // PAGE), at % PAGE
        fp8, scale = quantise(keys)
        self.bytes[page, row] = fp8.view(torch.uint8)
        self.scales[page, row] = scale


class Indexer:
    """The `topk` tokens of each sequence whose logits are the largest.

    Args:
        heads, dim: of the queries; the keys have one head.
        topk: tokens to pick.
        target: of the kernel.
    """

    def __init__(self, heads: int, dim: int, topk: int, target: str) -> None:
        self.topk = topk
        self.logits = scalec.compile(LOGITS, target, {"h": heads, "d": dim})

    def step(self, q: Tensor, k: Tensor, w: Tensor, pages: Pages, table: Tensor, length: Tensor) -> Tensor:
        """Writes the new tokens' keys, then picks.

        Args:
            q, k, w: of the new tokens: [sequences, heads, dim], [sequences, 1, dim] and [sequences, heads].
            pages: the keys so far.
            table: the pages of each sequence, i32 [sequences, pages of the longest].
            length: tokens of each sequence with the new one, i32 [sequences].

        Returns:
            positions in their sequences, [sequences, topk]; -1 where a sequence has fewer tokens.
        """
        pages.write(k, table, length[:, None].long() - 1)
        fp8, scale = quantise(q)
        logits = torch.empty(len(q), table.shape[1] * PAGE, device=q.device)
        named = {"Q": fp8, "K": pages.keys, "K_scale": pages.scales, "W": w * scale[..., 0]}
        self.logits(**named, table=table, len=length, out=logits)
        largest, at = logits.topk(self.topk)
        return at.where(largest > -torch.inf, -1)


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """FP8 and an f32 scale for each row: [..., d] and [..., 1]."""
    scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448
    return (x / scale).to(torch.float8_e4m3fn), scale


def rounded(x: Tensor) -> Tensor:
    """The float64 values of what `quantise` makes."""
    fp8, scale = quantise(x)
    return fp8.double() * scale


def exact(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    """The float64 logits of one sequence: q [heads, dim], k [tokens, dim], w [heads]."""
    return w.double() @ (q.double() @ k.double().T).relu()


def picked(at: Tensor, logits: Tensor) -> bool:
    """Whether `at` has as many positions as it should, each once, and what it leaves out is no larger but for NEAR."""
    valid = at[at >= 0]
    if len(valid) != min(len(at), len(logits)) or bool((valid >= len(logits)).any()):
        return False
    inside = torch.zeros(len(logits), dtype=torch.bool, device=at.device)
    inside[valid] = True
    if int(inside.sum()) != len(valid):
        return False
    return bool(inside.all()) or bool(logits[~inside].max() - logits[inside].min() <= NEAR * logits.abs().max())


def captured(step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """A CUDA graph of `step` as a function that replays it, and where the replays leave the result."""
    step()  # the first call of a kernel loads it
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        at = step()
    return graph.replay, at


def size(text: str) -> int:
    """A size of the command line: 1 or more."""
    if (value := int(text)) < 1:
        raise ValueError(f"{value} is no size")
    return value


def main(arguments: list[str] | None = None) -> int:
    """Some steps; 1 if a wrong token is picked."""
    parser = argparse.ArgumentParser(description="The lightning indexer of sparse attention.")
    told = "run on the emulator of this GPU; without it on the GPU, if there is one"
    parser.add_argument("--target", choices=TARGETS.values(), help=told)
    for name, defaults in SIZES.items():
        parser.add_argument(f"--{name}", type=size, help="default: {} on a GPU, {} on the emulator".format(*defaults))
    given = parser.parse_args(arguments)
    emulated = os.environ.get("SCALEC_DEVICE") == "emulator"
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() and not emulated else (0, 0)
    cuda = given.target is None and capability in TARGETS
    count, context, heads, dim, topk = (getattr(given, s) or d[0 if cuda else 1] for s, d in SIZES.items())
    if topk > context or heads % 8 or heads > 256:
        parser.error("topk is at most context, and heads are a multiple of 8 up to 256")
    if cuda:
        device, target, where = "cuda", TARGETS[capability], torch.cuda.get_device_name()
    else:
        device, target, where = "cpu", given.target or "sm_90a", "the emulator"
        os.environ["SCALEC_DEVICE"] = "emulator"
    print(f"{where} ({target}): {count} sequences, {heads} heads of {dim}, the largest {topk} logits", flush=True)

    torch.manual_seed(0)
    options = {"dtype": torch.bfloat16, "device": device}
    most = context + STEPS
    width = -(-most // PAGE)  # pages of a sequence
    table = torch.randperm(count * width, device=device).int().view(count, width)
    keys = torch.randn(count, most, dim, **options)
    pages = Pages(count * width, dim, device)
    pages.write(keys, table, torch.arange(most, device=device).expand(count, -1))  # also beyond what the lengths say
    lengths = torch.randint(context, (count,), dtype=torch.int32, device=device)
    lengths[0], lengths[-1] = context, 0

    # What a step reads stays where it is, as a graph wants it. Until the first, one token: its key is written again.
    q, k = torch.zeros(count, heads, dim, **options), keys[:, :1].clone()
    w, length = torch.zeros(count, heads, device=device), torch.ones_like(lengths)
    indexer = Indexer(heads, dim, topk, target)
    step = partial(indexer.step, q, k, w, pages, table, length)
    replay, at = captured(step) if cuda else (None, torch.empty(0))

    passed = True
    for number in range(STEPS):
        length.copy_(lengths + number + 1)
        for t in (q, k, w):
            t.normal_()
        k *= torch.rand(count, 1, 1, device=device) + 0.5  # keys of several magnitudes
        keys[torch.arange(count), length.long() - 1] = k[:, 0]
        if replay is not None:
            replay()
        else:
            at = step()

        right = same = chosen = 0
        for s, n in enumerate(length.tolist()):
            right += picked(at[s], exact(rounded(q[s]), rounded(keys[s, :n]), w[s]))
            before = exact(q[s], keys[s, :n], w[s]).topk(min(topk, n)).indices
            same, chosen = same + int(torch.isin(before, at[s]).sum()), chosen + len(before)
        passed &= right == count
        report = f"step {number}  1 to {int(length.max())} tokens  right for {right} of {count} sequences"
        report += f"  {same / chosen:.1%} of those before FP8  {'PASS' if right == count else 'FAIL'}"
        print(report, flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
