"""Untyped: what scalec/ir/mlir.py takes from the native bindings, for the type checker alone."""

from typing import Any

def __getattr__(name: str) -> Any: ...
