"""ptxas on kernels whose tiles launch control deals out: no spills, at the tile that the static order has.

The ptxas on PATH is used where there is one, as in test_sm100_ptxas.py.
"""

from __future__ import annotations

import shutil

import pytest

from scalec import env
from scalec.compiler import compile_source

PROGRAMS = [
    ("sm_100a", "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3"),
    ("sm_100a", "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4"),
    ("sm_100a", "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"),
    ("sm_120a", "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"),
    ("sm_120a", "C[m,n] = gelu(A[m,k]:mxfp8 @ B[n,k]:mxfp8 + bias[n])"),
]


@pytest.mark.once("target")
@pytest.mark.parametrize(("target", "source"), PROGRAMS)
def test_no_spills(target: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    dims = {"n": 7168, "k": 2048}
    static, dynamic = (compile_source(source, target, dims, {"scheduler": s}) for s in ("static", "dynamic"))
    assert "clusterlaunchcontrol.try_cancel" in dynamic.ptx
    assert dynamic.dropped == static.dropped == []
    assert str(dynamic.schedule) == str(static.schedule).replace("scheduler=static", "scheduler=dynamic")
