"""Every kernel there is, by its serial number, as what serves torch sees it (scalec.runtime.custom_op, traced)."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from scalec.abi import KernelSpec
from scalec.runtime.device import Device
from scalec.runtime.signature import Signature


class Registered(Protocol):
    """A kernel of this process; its attributes are scalec.runtime.kernel.Kernel's."""

    spec: KernelSpec
    cubin: bytes
    ptx: str
    serial: str
    signature: Signature

    @property
    def fixed(self) -> Device | None:
        """The device that it always runs on."""
        ...

    @property
    def op(self) -> Any:
        """The kernel as an op of torch's."""
        ...

    def _run(self, operands: tuple[Any, ...], outs: tuple[Any, ...] | None) -> Any:
        """The call behind torch's dispatcher, with operands, and results (None: allocates them), in order."""
        ...


kernels: weakref.WeakValueDictionary[str, Registered] = weakref.WeakValueDictionary()
"""All of them; a kernel that nobody holds is gone."""
