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
        from mlir._mlir_libs import _mlir as bindings
        from mlir.dialects import arith, ext, func, llvm, math, nvvm, scf
    except ImportError:
        from torch_mlir import ir, passmanager
        from torch_mlir._mlir_libs import _mlir as bindings
        from torch_mlir.dialects import arith, ext, func, llvm, math, nvvm, scf

    # The bindings look for a dialect's classes in a module of its name, under each of these packages, and where they
    # find none they look again at the next op: 3200 times, a third of a compilation (mxfp8 on sm_120a, 2026-11-21).
    bindings.globals.append_dialect_search_prefix("scalec.ir")

__all__ = ["arith", "ext", "func", "ir", "llvm", "math", "nvvm", "passmanager", "scf"]
