"""cuBLASLt called as a C library: C[m,n] += A[m,k]@B[n,k] in one kernel, which torch's functions cannot ask for.

The library is the one that torch has loaded, so that both are measured with the same kernels. What it is given follows
cublasLt.h of nvidia-cublas 13.10.0.20 (line numbers below are of that file); these values and structures are part of
its binary interface, the same since 12.9, which brought the scale modes of blocks.

cuBLASLt's matrices are column-major. A row-major C[m,n] is its D of n rows and m columns, hence its A is our B, its B
our A, each a matrix whose columns are the contiguous rows along K: its A is transposed, its B is not.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from ctypes import byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from typing import TYPE_CHECKING

from scalec.errors import ScalecError

if TYPE_CHECKING:
    import torch

OLDEST = 120900
"""cublasLtGetVersion() of 12.9."""
WORKSPACE_BYTES = 64 << 20  # 32 MB are what NVIDIA recommends on Hopper (cuBLAS documentation, cublasSetWorkspace)
ALGORITHMS = 8
"""How many algorithms the heuristic is asked for."""

TYPES = {"float8_e4m3fn": 28, "float8_e5m2": 29, "bfloat16": 14, "float16": 2, "float32": 0}
"""cudaDataType (library_types.h) of torch's types."""
COMPUTE_32F = 68  # cublasComputeType_t, cublas_api.h:208
OPERATION_N, OPERATION_T = 0, 1  # cublasOperation_t

# cublasLtMatmulDescAttributes_t, cublasLt.h:1378 on
TRANSA, TRANSB, A_SCALE_POINTER, B_SCALE_POINTER, FAST_ACCUM, A_SCALE_MODE, B_SCALE_MODE = 3, 4, 17, 18, 25, 31, 32
MAX_WORKSPACE_BYTES = 1  # cublasLtMatmulPreferenceAttributes_t, cublasLt.h:2238

SCALE_MODES = {"1x128": 4, "128x128": 5}
"""cublasLtMatmulMatrixScale_t (cublasLt.h:947, 950): VEC128_32F, BLK128x128_32F."""


class Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t, cublasLt.h:113."""

    _fields_ = (("data", c_uint64 * 8),)


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t, cublasLt.h:2390."""

    _fields_ = (
        ("algorithm", Algorithm),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "cublasLtGetVersion": (c_size_t, ()),
    "cublasLtGetStatusString": (c_char_p, (c_int,)),
    "cublasLtCreate": (c_int, (c_void_p,)),
    "cublasLtMatmulDescCreate": (c_int, (c_void_p, c_int, c_int)),
    "cublasLtMatmulDescDestroy": (c_int, (c_void_p,)),
    "cublasLtMatmulDescSetAttribute": (c_int, (c_void_p, c_int, c_void_p, c_size_t)),
    "cublasLtMatrixLayoutCreate": (c_int, (c_void_p, c_int, c_uint64, c_uint64, c_int64)),
    "cublasLtMatrixLayoutDestroy": (c_int, (c_void_p,)),
    "cublasLtMatmulPreferenceCreate": (c_int, (c_void_p,)),
    "cublasLtMatmulPreferenceDestroy": (c_int, (c_void_p,)),
    "cublasLtMatmulPreferenceSetAttribute": (c_int, (c_void_p, c_int, c_void_p, c_size_t)),
    "cublasLtMatmulAlgoGetHeuristic": (c_int, (*(c_void_p,) * 7, c_int, c_void_p, c_void_p)),
    "cublasLtMatmul": (c_int, (*(c_void_p,) * 14, c_size_t, c_void_p)),
}
"""Of each function that is called: what it returns and takes. Pointers to anything are c_void_p."""


class Library:
    """The functions of a cuBLASLt, and objects of it that are destroyed with those that hold them.

    Args:
        library: with the functions of `SIGNATURES`.

    Raises:
        ScalecError: it lacks one of them, or is older than 12.9.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, name, None)
            if function is None:
                raise ScalecError(f"this cuBLASLt has no {name}", expected="cuBLASLt 12.9 or later")
            function.restype, function.argtypes = result, arguments
        self.library = library
        if self.version < OLDEST:
            raise ScalecError(
                "this cuBLASLt has no scales of blocks", got=f"version {self.version}", expected=f"{OLDEST} or later"
            )

    @property
    def version(self) -> int:
        """cublasLtGetVersion(), 130100 for 13.1."""
        return self.library.cublasLtGetVersion()

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function.

        Raises:
            ScalecError: its status is not success.
        """
        status = getattr(self.library, name)(*arguments)
        if status:
            text = self.library.cublasLtGetStatusString(status).decode()
            raise ScalecError(f"{name} failed", got=f"status {status}: {text}")

    def made(self, owner: object, kind: str, *arguments: object) -> c_void_p:
        """A new object of cuBLASLt, `cublasLt<kind>`, destroyed when `owner` is."""
        handle = c_void_p()
        self.call(f"cublasLt{kind}Create", byref(handle), *arguments)
        weakref.finalize(owner, getattr(self.library, f"cublasLt{kind}Destroy"), handle)
        return handle

    def set(self, kind: str, handle: c_void_p, attribute: int, value: ctypes._SimpleCData) -> None:
        """Sets an attribute of an object; the type of `value` is the attribute's, which cuBLASLt checks by its size."""
        self.call(f"cublasLt{kind}SetAttribute", handle, attribute, byref(value), ctypes.sizeof(value))


@cache
def loaded() -> Library:
    """The cuBLASLt that torch has loaded: a name that a process has already loaded is found without a search.

    Raises:
        ScalecError: torch has none, or an old one.
    """
    import torch

    name = f"libcublasLt.so.{str(torch.version.cuda).split('.')[0]}"
    try:
        return Library(ctypes.CDLL(name))
    except OSError as error:
        raise ScalecError(f"torch's {name} cannot be called", got=str(error)) from None


@cache
def _handle(device: int) -> c_void_p:
    """A handle of cuBLASLt for the current device. Never destroyed: that would wait for the device."""
    handle = c_void_p()
    loaded().call("cublasLtCreate", byref(handle))
    return handle


@cache
def _workspace(device: int) -> torch.Tensor:
    """One for all launches: those of a contender follow one another."""
    import torch

    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=torch.device("cuda", device))


class Problem:
    """C[m,n] += A[m,k]@B[n,k] as cuBLASLt's descriptors.

    Args:
        library: a cuBLASLt.
        a, b: [m, k] and [n, k], rows contiguous.
        c: [m, n], rows contiguous.
        scales: for A and B their mode (of `SCALE_MODES`) and their scales, f32: of `1x128` [m or n, ceil(k/128)] with
            rows adjacent (stride 1) and no gaps; of `128x128` the columns of a row adjacent, and between rows a
            multiple of four of them. None where there are none.

    Raises:
        ScalecError: a layout or a type that cuBLASLt has not, or what it says itself.
    """

    def __init__(
        self,
        library: Library,
        a: torch.Tensor,
        b: torch.Tensor,
        c: torch.Tensor,
        scales: tuple[tuple[str, torch.Tensor], tuple[str, torch.Tensor]] | None,
    ) -> None:
        self.library, self.tensors = library, (a, b, c, scales)
        for name, t in (("A", a), ("B", b), ("C", c)):
            if t.stride(1) != 1:
                raise ScalecError(f"{name} is not row-major", got=f"strides {tuple(t.stride())}")
        (m, k), n = a.shape, b.shape[0]
        self.operation = library.made(self, "MatmulDesc", COMPUTE_32F, TYPES["float32"])
        self._set(TRANSA, c_int32(OPERATION_T))
        self._set(TRANSB, c_int32(OPERATION_N))
        if scales is not None:
            (a_mode, a_scale), (b_mode, b_scale) = scales
            self._set(A_SCALE_MODE, c_int32(SCALE_MODES[b_mode]))
            self._set(B_SCALE_MODE, c_int32(SCALE_MODES[a_mode]))
            self._set(A_SCALE_POINTER, c_void_p(b_scale.data_ptr()))
            self._set(B_SCALE_POINTER, c_void_p(a_scale.data_ptr()))
            self._set(FAST_ACCUM, ctypes.c_int8(0))  # torch refuses it with scales of blocks
        self.a = library.made(self, "MatrixLayout", _type(b), k, n, b.stride(0))
        self.b = library.made(self, "MatrixLayout", _type(a), k, m, a.stride(0))
        self.c = library.made(self, "MatrixLayout", _type(c), n, m, c.stride(0))

    def _set(self, attribute: int, value: ctypes._SimpleCData) -> None:
        self.library.set("MatmulDesc", self.operation, attribute, value)

    def algorithms(self, handle: c_void_p) -> list[Algorithm]:
        """What the heuristic offers, what it takes for the fastest first; at most `ALGORITHMS`.

        Raises:
            ScalecError: nothing.
        """
        preference = self.library.made(self, "MatmulPreference")
        self.library.set("MatmulPreference", preference, MAX_WORKSPACE_BYTES, c_uint64(WORKSPACE_BYTES))
        found, count = (HeuristicResult * ALGORITHMS)(), c_int()
        matrices = (self.a, self.b, self.c, self.c)
        self.library.call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(handle, self.operation, *matrices, preference, ALGORITHMS, byref(found), byref(count)),
        )
        usable = [r.algorithm for r in found[: count.value] if not r.state and r.workspace <= WORKSPACE_BYTES]
        if not usable:
            raise ScalecError(
                "cuBLASLt has no algorithm for this", got=f"{count.value} results, version {self.library.version}"
            )
        return usable

    def launch(self, handle: c_void_p, algorithm: Algorithm, workspace: torch.Tensor) -> Callable[[], torch.Tensor]:
        """A launch on torch's current stream: alpha and beta are 1, C is D. It returns C."""
        import torch

        a, b, c, _ = self.tensors
        one = c_float(1)  # read by the call itself: the default pointer mode is the host's
        places = (b.data_ptr(), self.a, a.data_ptr(), self.b)
        result = (c.data_ptr(), self.c)
        arguments = (handle, self.operation, byref(one), *places, byref(one), *result, *result, byref(algorithm))
        space = (workspace.data_ptr(), workspace.numel())

        def run() -> torch.Tensor:
            self.library.call("cublasLtMatmul", *arguments, *space, torch.cuda.current_stream().cuda_stream)
            return c

        return run


def _type(t: torch.Tensor) -> int:
    name = str(t.dtype).removeprefix("torch.")
    if name not in TYPES:
        raise ScalecError("cuBLASLt is not called with this type", got=name, expected=", ".join(TYPES))
    return TYPES[name]


def adding(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scales: tuple[tuple[str, torch.Tensor], tuple[str, torch.Tensor]] | None,
    rank: int,
) -> Callable[[], torch.Tensor] | None:
    """A launch that adds to `c` by the heuristic's algorithm `rank`, from 0; None if it offers fewer, but some.

    Args:
        a, b, c, scales: as `Problem` takes them, on one GPU.

    Raises:
        ScalecError: there is no such library or no algorithm at all.
    """
    import torch

    device = torch.cuda.current_device()
    problem, handle = Problem(loaded(), a, b, c, scales), _handle(device)
    algorithms = problem.algorithms(handle)
    return problem.launch(handle, algorithms[rank], _workspace(device)) if rank < len(algorithms) else None
