"""The `tile` dialect: how to compute it, on any target."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext


class Tile(ext.Dialect, name="tile"):
    """Tiles, roles, rings of stages, copies, tensor-core products."""
