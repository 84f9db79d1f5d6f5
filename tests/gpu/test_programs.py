"""Every combination that sm_90a takes, against the numpy reference, with tails in every dimension."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.frontend import build
from scalec.ir import context
from tests.gpu.programs import PROGRAMS

pytestmark = pytest.mark.gpu

SIZES = [(1, 16, 16), (7, 77, 144), (64, 64, 128), (65, 130, 640), (129, 250, 1040), (200, 512, 1536), (300, 392, 2064)]


def to_torch(torch, value):
    """A numpy argument on the GPU, in the dtype that torch has for it; numbers as they are."""
    if np.ndim(value) == 0:
        return float(value)
    names = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2, "bfloat16": torch.bfloat16}
    name = value.dtype.name
    if name not in names:
        return torch.from_numpy(np.array(value)).cuda()
    raw = torch.from_numpy(
        np.array(value).view(f"uint{8 * value.dtype.itemsize}").view(f"int{8 * value.dtype.itemsize}")
    )
    return raw.cuda().view(names[name])


def as_stored(torch, spec, tensor):
    """The tensor with the strides its layout says: block-column major ones are stored as their transpose.

    Rows of the transpose are padded to 16 bytes, as the kernel's bulk copies need.
    """
    if spec.layout != "col":
        return tensor
    rows, columns = tensor.shape
    store = torch.empty(columns, -(-rows // 4) * 4, device="cuda", dtype=tensor.dtype)
    store[:, :rows] = tensor.t()
    return store.t()[:rows]


@pytest.mark.parametrize("given", ["nothing", "n and k", "all"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(torch, guarded, name: str, given: str) -> None:
    source, limit = PROGRAMS[name]
    for m, n, k in SIZES:
        dims = {"m": m, "n": n, "k": k}
        fixed = {"nothing": {}, "n and k": {"n": n, "k": k}, "all": dims}[given]
        if given == "nothing" and (m, n, k) not in (SIZES[0], SIZES[4]):
            continue
        kernel = scalec.compile(source, dims=fixed)
        with context.context():
            module = build(source, dims)
            values = reference.make(module, dims, seed=m)
            (expected,) = reference.run(module, values, dims=dims, exact=True).values()
        operands = [
            as_stored(torch, s, to_torch(torch, values[s.name])) if not s.scalar else float(values[s.name])
            for s in kernel.spec.operands
        ]
        (result,) = kernel.spec.results
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[result.dtype]
        runs = []
        for _ in range(2):
            out, intact = guarded((m, n), dtype)
            if result.inout:
                out.copy_(to_torch(torch, values[result.name]))
            kernel(*operands, out=out)
            torch.cuda.synchronize()
            assert intact(), f"{dims}: bytes outside the result were written"
            runs.append(out.clone())
        assert torch.equal(runs[0].view(torch.uint8), runs[1].view(torch.uint8)), f"{dims}: two runs differ"
        got = runs[0].double().cpu().numpy()
        found = reference.diff(got, expected)
        assert found < limit, f"{dims}, {kernel.spec.schedule}: diff {found:.2e}"


def test_exact_integers(torch, guarded) -> None:
    """Small integers and power-of-two scales: every sum is exact, so every bit must match."""
    source = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,128x128)"
    dims = {"m": 200, "n": 264, "k": 1024}
    with context.context():
        module = build(source, dims)
        values = reference.make(module, dims, seed=1, exact=True)
        (expected,) = reference.run(module, values, dims=dims, exact=True).values()
    kernel = scalec.compile(source, dims=dims)
    out, _ = guarded((200, 264), torch.float32)
    kernel(*(to_torch(torch, values[s.name]) for s in kernel.spec.operands), out=out)
    assert np.array_equal(out.double().cpu().numpy(), expected)


def test_graph_capture_and_streams(torch) -> None:
    kernel = scalec.compile("C[m,n] = A[m,k] @ B[n,k]", dims={"n": 256, "k": 256})
    a, b = (torch.randn(256, 256, device="cuda").bfloat16() for _ in range(2))
    expected = kernel(a, b)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        on_stream = kernel(a, b)
    stream.synchronize()
    out = torch.full_like(expected, float("nan"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, out=out)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(on_stream, expected)
    assert torch.equal(out, expected)
