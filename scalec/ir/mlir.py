"""The single door to the MLIR Python bindings.

Every other module imports `ir`, dialects and the pass manager from here. The bindings come from `mlir` where that
package is the real one, else from `torch_mlir`, whose wheel carries the complete upstream bindings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # native modules without types: typings/mlir/ stands for them, untyped
    from mlir import ir, passmanager
    from mlir.dialects import arith, ext, func, llvm, math, nvvm, scf
else:
    try:
        from mlir import ir, passmanager
        from mlir.dialects import arith, ext, func, llvm, math, nvvm, scf
    except ImportError:
        from torch_mlir import ir, passmanager
        from torch_mlir.dialects import arith, ext, func, llvm, math, nvvm, scf

__all__ = ["arith", "ext", "func", "ir", "llvm", "math", "nvvm", "passmanager", "scf"]
