"""Made-up arguments of a kernel are such as it takes, whatever their layout, and of groups that are apart."""

from __future__ import annotations

import pytest

from scalec.compiler import compile_source
from scalec.runtime.kernel import Kernel
from scalec.targets import TARGETS
from tests.runtime.fake import FakeDevice

torch = pytest.importorskip("torch")

from scalec.bench.inputs import make_inputs  # noqa: E402

ROWS, OF_K = "for m in off[g]:off[g+1] apart", "for k in off[g]:off[g+1] by 16 apart"
SIZES = {"m": 150, "n": 64, "k": 160, "g": 3}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("sm_90a", f"C[m,n] = A[m,k] @ B[g,n,k] scale(128x128,1x128x128) {ROWS}"),
        ("sm_90a", f"C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128) {OF_K}"),
        ("sm_90a", f"D[m,n]:e4m3 scale(1x32:ue8m0@blocked) = A[m,k] @ B[g,n,k] {ROWS}"),
        ("sm_90a", "D[m,n]:e4m3 scale(1x32:ue8m0@packed) = A[m,k] @ B[n,k]"),
        ("sm_100a", f"C[m,n] = A[m,k] @ B[g,n,k] scale(1x32:ue8m0@blocked,1x1x32:ue8m0@packed) {ROWS}"),
        ("sm_120a", f"C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@col) {OF_K}"),
    ],
)
def test_a_call_takes_what_is_made_up(target: str, source: str) -> None:
    spec = compile_source(source, target=target, dims={"n": 64, "k": 160}, until="nvvm").spec
    assert spec is not None
    device = FakeDevice(place=("cpu", 0))
    device.capability = TARGETS[target].capability
    made = make_inputs(spec, {d: SIZES[d] for d in spec.dims}, 3, device="cpu")
    outs = tuple(made.outputs[r.name] for r in spec.results)
    Kernel(spec, b"", device=device)(*made.values.values(), out=outs)
    assert len(device.launches) == 1
