"""A kernel on made-up data: the tensors on its device, what the reference makes of them, the time of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scalec.abi import KernelSpec, TensorSpec
from scalec.operations import multiplications

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scalec.reference import Results
    from scalec.runtime.array import DeviceArray
    from scalec.runtime.kernel import Kernel
    from scalec.runtime.sequence import Sequence

LAUNCHES = 20
"""Timed launches, one after another, on the same inputs."""


def made_up(source: str, sizes: Mapping[str, int], seed: int) -> tuple[Mapping[str, Any], Results]:
    """(arguments, results) by name: data that shows a wrong scale index, and what the reference makes of it.

    Args:
        source: the program's text.
        sizes: of every dimension.
        seed: of the data.
    """
    from scalec import frontend, reference
    from scalec.ir import context as contexts

    with contexts.context():
        module = frontend.build(source, {d: n for d, n in sizes.items() if n})
        values = reference.make(module, sizes, seed)
        return values, reference.run(module, values, dims=sizes, exact=True)


def upload(
    device: Any, spec: KernelSpec, values: Mapping[str, Any], dims: Mapping[str, int]
) -> tuple[list[Any], list[DeviceArray]]:
    """(arguments, outputs) on the device. An output that is an input too starts as that, any other as NaN bytes."""
    import numpy as np

    from scalec.reference import storage
    from scalec.runtime.stored import itemsize, stored_shape

    def given(t: TensorSpec) -> DeviceArray:
        return placed(device, t, storage(values[t.name]))

    def fresh(t: TensorSpec) -> DeviceArray:
        return placed(device, t, np.empty(stored_shape(t, dims), f"u{itemsize(t.dtype)}"), unset=True)

    arguments = [float(values[t.name]) if t.scalar else given(t) for t in spec.operands]
    return arguments, [given(r) if r.inout else fresh(r) for r in spec.results]


def placed(device: Any, t: TensorSpec, data: NDArray[Any], *, unset: bool = False) -> DeviceArray:
    """`data`, as stored, on the device in the layout of `t`; `unset` fills with 0xff."""
    from scalec.runtime.array import DeviceArray
    from scalec.runtime.stored import itemsize, laid_out

    stored, strides = laid_out(t, data)
    if unset:
        stored[:] = 0xFF
    made = DeviceArray(device, data.shape, t.dtype, strides)
    span = (sum((e - 1) * s for e, s in zip(data.shape, strides, strict=True)) + 1) * itemsize(t.dtype)
    device.upload(made.pointer, stored.tobytes()[:span], made.stream)
    return made


def values_of(t: TensorSpec, made: DeviceArray) -> NDArray[Any]:
    """A result on the host, one element an entry."""
    from scalec.formats import ELEMENT_TYPES
    from scalec.reference import decode

    return decode(made.numpy(), t.dtype) if ELEMENT_TYPES[t.dtype].bits < 8 else made.numpy()


def touched(
    t: TensorSpec, made: DeviceArray, points: NDArray[Any], values: Mapping[str, Any] = MappingProxyType({})
) -> int:
    """How many elements, as stored, of a result that `upload` made of `values` have changed of those that the program
    does not reach: all but `points`."""
    import numpy as np

    from scalec.checking.guarded import stored_bits, stored_points
    from scalec.formats import ELEMENT_TYPES
    from scalec.reference import storage

    if not t.given or not points.size:  # all of it is written
        return 0
    stored, narrow = stored_points(t, points), ELEMENT_TYPES[t.dtype].bits < 8
    kept = ~stored_bits(t, points) if narrow else np.where(stored, 0, 0xFF).astype(np.uint8)

    def raw(data: NDArray[Any]) -> NDArray[np.uint8]:
        return np.ascontiguousarray(data).view(np.uint8).reshape(*stored.shape, -1)

    before = raw(storage(values[t.name])) if t.inout else 0xFF
    return int(((raw(made.numpy()) ^ before) & kept[..., None] != 0).any(axis=-1).sum())


def time_launches(kernel: Kernel | Sequence, device: Any, arguments: list[Any], outputs: list[DeviceArray]) -> float:
    """Seconds of one launch, or of those of one program, the mean of LAUNCHES in a row. The inputs stay in L2 where
    they fit: see `bench`."""
    from scalec.runtime.sequence import Sequence

    calls: list[tuple[Any, Any, Any]] = [(kernel, arguments, outputs)]
    if isinstance(kernel, Sequence):
        calls = kernel.calls(tuple(arguments), tuple(outputs))
    launchers = [_launcher(*call) for call in calls]

    def launch(stream: int) -> None:
        for one in launchers:
            one(stream)

    launch(0)
    start = device.record(0)
    for _ in range(LAUNCHES):
        launch(0)
    return device.elapsed(start, device.record(0)) / LAUNCHES


def _launcher(kernel: Any, arguments: Any, outputs: Any) -> Any:
    """What launches a kernel with these arguments again, after a call with them."""
    kernel(*arguments, out=outputs[0] if len(outputs) == 1 else tuple(outputs))
    loaded = kernel.load()
    plan = next(reversed(loaded.plans.values()))  # that of the call just made
    addresses = tuple(t.pointer for t in [*arguments, *outputs] if not isinstance(t, float))
    scalars = tuple(a for a in arguments if isinstance(a, float))
    return plan.launcher(addresses, scalars, loaded.workspaces.of(0, plan.workspace) if plan.workspace[0] else None)


def moved_bytes(spec: KernelSpec, arguments: list[Any], outputs: list[DeviceArray]) -> int:
    """What one launch must move: operands, and results that are added to, read once, and all results written once."""
    read = [o for r, o in zip(spec.results, outputs, strict=True) if r.inout]
    return sum(t.nbytes for t in [*arguments, *read, *outputs] if hasattr(t, "nbytes"))


def tensor_operations(spec: KernelSpec, dims: Mapping[str, int]) -> int:
    """Multiply-adds of a launch's tensor instructions: of whole tiles along M and N, and of K as it is."""
    extents = {dim: -(-dims[dim] // tile) * tile for dim, tile, _ in spec.launch.tiles}
    return multiplications(spec, {**dims, **extents})
