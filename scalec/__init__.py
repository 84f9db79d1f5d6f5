"""scalec: one line of scaled einsum in, the kernel an expert would have written by hand out.

    kernel = scalec.compile("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", dims={"n": 7168, "k": 2048})
    C = kernel(A, B, A_scale, B_scale)

Importing it costs nothing: each name below is imported when it is first used, and nothing by this module, so that the
command line is interrupted as it should be from its first milliseconds on (scalec.__main__).
"""

TYPE_CHECKING = False  # typing's own took 27 ms to import (2026-11-23)
if TYPE_CHECKING:
    from typing import Any

    from scalec import env, errors, reference
    from scalec.api import Bundle, Kernel, Program, compile, load
    from scalec.autograd import differentiable
    from scalec.errors import (
        ArgumentError,
        DeviceError,
        ScalecError,
        ScheduleError,
        SourceError,
        ToolchainError,
        UnsupportedError,
    )
    from scalec.gradients import grad
    from scalec.quantizers import dequantize, quantize, silu_mul_quantize
    from scalec.version import __version__

__all__ = [
    "ArgumentError",
    "Bundle",
    "DeviceError",
    "Kernel",
    "Program",
    "ScalecError",
    "ScheduleError",
    "SourceError",
    "ToolchainError",
    "UnsupportedError",
    "__version__",
    "compile",
    "dequantize",
    "differentiable",
    "env",
    "errors",
    "grad",
    "load",
    "quantize",
    "reference",
    "silu_mul_quantize",
]

_MODULES = ("env", "errors", "reference")
_FROM: "dict[str, str]" = {
    **dict.fromkeys(("Bundle", "Kernel", "Program", "compile", "load"), "api"),
    "__version__": "version",
    "grad": "gradients",
    "differentiable": "autograd",
    **dict.fromkeys(("dequantize", "quantize", "silu_mul_quantize"), "quantizers"),
}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"scalec.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'scalec' has no attribute {name!r}")
    value = getattr(import_module(f"scalec.{_FROM.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
