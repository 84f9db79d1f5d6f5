"""The single door to the MLIR Python bindings.

Every other module imports `ir`, dialects and the pass manager from here. The bindings come from `mlir` where that
package is the real one, else from `torch_mlir`, whose wheel carries the complete upstream bindings.
"""

# The bindings are native and ship no types: a name that no type checker resolves makes them unknown, not wrong.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from untyped_mlir import arith, ext, func, ir, llvm, math, nvvm, passmanager, scf
else:
    try:
        from mlir import ir, passmanager
        from mlir.dialects import arith, ext, func, llvm, math, nvvm, scf
    except ImportError:
        from torch_mlir import ir, passmanager
        from torch_mlir.dialects import arith, ext, func, llvm, math, nvvm, scf

__all__ = ["arith", "ext", "func", "ir", "llvm", "math", "nvvm", "passmanager", "scf"]
