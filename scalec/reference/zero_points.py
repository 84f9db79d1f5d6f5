"""Operands that are less zero points. `run` is the evaluation (evaluate.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalec.errors import ScalecError
from scalec.ir.mlir import ir
from scalec.ir.scale import map_of
from scalec.reference.space import Space, Tensor, evaluate


def subtract_op(run: Any, op: ir.OpView) -> None:
    """Integers less a number, or less a tensor's."""
    values, attributes = run.values[op.values], op.operation.attributes
    data = values.data.astype(np.float64)
    if "number" in attributes:
        data = data - ir.IntegerAttr(attributes["number"]).value
    else:
        zeros, m = run.values[op.zeros[0]], map_of(attributes["map"])
        points = Space(tuple(np.arange(n) for n in data.shape))
        at = [evaluate(e, points, ()) for e in m.results]
        if any(i.size and i.max() >= n for i, n in zip(at, zeros.data.shape, strict=True)):
            raise ScalecError(f"{values.name} is larger than its zero points", got=f"{zeros.data.shape}")
        plus = ir.IntegerAttr(attributes["plus"]).value if "plus" in attributes else 0
        data = data - (zeros.data.astype(np.float64)[tuple(at)] + plus)
    run.values[op.result] = Tensor(data, (), values.written, values.name)


OPS = {"scale.subtract": subtract_op}
