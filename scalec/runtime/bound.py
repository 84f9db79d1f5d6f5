"""A kernel bound to its arguments: `bound = kernel.bind(A, B, A_scale, B_scale, out=C)`, and then `bound()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scalec.runtime.tensors import stream_handle

if TYPE_CHECKING:
    from scalec.runtime.ready import Ready


class Bound:
    """A call whose arguments are always the same objects, as an engine's static buffers are: `bound()` launches it.

    Arguments were checked when they were bound, and are kept alive. Tensors of torch's are followed: a call looks where
    their memory is now, so that after `set_`, or a resize, it reads and writes what a call of the kernel with the same
    tensors would, or is refused as that would be. Numbers stay what they were.

    It runs on the stream it was bound with, else on torch's current stream at each call. A CUDA graph may capture it;
    the graph keeps the addresses of that moment, so keep the Bound, or the tensors, as long as the graph.

    Attributes:
        out: the result that each call writes; a tuple of several.
    """

    __slots__ = ("_call", "_handle", "_operands", "_outs", "_ready", "_scalars", "_stream", "_tensors", "out")

    def __init__(
        self,
        call: Callable[..., Any],
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        stream: Any,
        tensors: tuple[Any, ...],
        scalars: tuple[float, ...],
        ready: Ready | None,
    ) -> None:
        self._call, self._operands, self._outs, self._stream = call, operands, outs, stream
        self._tensors, self._scalars, self._ready = tensors, scalars, ready
        self._handle = None if stream is None else stream_handle(stream)
        self.out = outs[0] if len(outs) == 1 else outs

    def __call__(self) -> Any:
        """Launches, and returns `out`.

        Raises:
            ArgumentError: a tensor was changed in place to what the kernel does not take; nothing was launched.
            DeviceError: the driver refused the launch.
        """
        ready = self._ready
        if ready is None:
            return self._call(*self._operands, out=self._outs, stream=self._stream)
        # as Ready.call does, written out: a function called would cost a twentieth of it, and a slot called as a method
        # nearly as much (CPython 3.11 has short cuts for methods and for slots, not for that)
        tracing = ready.tracing
        if tracing() or ready.duals._current_level >= 0:
            return self._call(*self._operands, out=self._outs, stream=self._stream)
        trampoline = ready.trampoline
        if trampoline is not None:
            made = trampoline(self._tensors, self._outs, self._scalars, self._handle)
            if made:
                return self.out
            if made is None:
                ready.call_otherwise(self._tensors, self._outs, self._scalars, self._handle)
                return self.out
        elif ready.call(self._tensors, self._outs, self._scalars, self._handle) is not None:
            return self.out
        return self._call(*self._operands, out=self._outs, stream=self._stream)

    def __repr__(self) -> str:
        return f"Bound({self._call!r})"
