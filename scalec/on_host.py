"""Programs on tensors in the host's memory, computed by the reference: numpy, and no kernel."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from scalec import frontend, reference
from scalec.formats import ELEMENT_TYPES
from scalec.ir import context as contexts
from scalec.lowering.signature import Interface
from scalec.reference.bind import find_program
from scalec.runtime import checks, devices, extents, indices, plan, stored, torch_calls
from scalec.runtime.array import DeviceArray
from scalec.runtime.tensors import CPU, adopt, is_torch, torch_dtype

_TURNED = ("col", "packed")


def run(text: str, values: tuple[Any, ...]) -> Any:
    """What a kernel of the program would return, for torch tensors on a CPU or numpy arrays: one result, or a tuple.

    What is elementwise is computed in float64, in place of f32. Elements that the program does not reach hold anything.
    Strides may be any.

    Raises:
        ArgumentError: types, shapes, or what index tensors hold are not what a kernel takes.
    """
    with contexts.context(), np.errstate(all="ignore"):
        module = frontend.build(text, {})
        program = Interface.of(find_program(module), text, "")
        dims = _checked(program, values)
        found = reference.run(module, [_array(v) for v in values], dims=dims)
    as_asked = _of_torch if is_torch(values[0]) else _of_numpy
    made = [np.asarray(reference.storage(_nan(x))) for x in found.values()]
    results = [as_asked(x, t.dtype, t.layout) for x, t in zip(made, program.results, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _checked(program: Interface, values: tuple[Any, ...]) -> dict[str, int]:
    """The size of every dimension; refuses what a kernel's call refuses."""
    named = {t.name: (t, v) for t, v in zip(program.operands, values, strict=True)}
    if (torch := sys.modules.get("torch")) is not None:
        torch_calls.refuse_gradients(torch, list(named), values)
    for name, (_, v) in named.items():
        if is_torch(v):
            checks.check_device(name, v, next(iter(named)), values[0])
    views = {name: stored.fitted(t, adopt(name, v, -1, lambda _: CPU)) for name, (t, v) in named.items()}
    for name, (t, _) in named.items():
        checks.check_type(t, views[name])
    dims = extents.bind_dims(program, views)
    indices.check(program, dims, {name: _array(v) for name, (t, v) in named.items() if t.dtype == "i32"})
    return dims


def _nan(x: Any) -> Any:
    """An array with NaN as kernels have it: all bits but the sign."""
    if x.dtype.kind in "fV" and x.dtype != reference.numpy_dtype("ue8m0"):
        unsigned = x.view(f"u{x.itemsize}")
        unsigned[np.isnan(x)] = (1 << (8 * x.itemsize - 1)) - 1
    return x


def unwritten(kernel: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Results of a kernel on the emulator, of the shapes that it would give them for numpy arrays: zeros, as elements
    that share a byte with others are written beside what these hold, and the emulator refuses what nobody wrote."""
    spec, device = kernel.spec, devices.default(kernel.spec.target)
    views = {
        t.name: stored.fitted(t, adopt(t.name, v, -1, lambda _: CPU))
        for t, v in zip(spec.operands, values, strict=True)
    }
    sizes = extents.bind_dims(spec, views)
    forms = [(t, *plan.allocated(t, sizes, kernel.signature.uses[t.name])) for t in spec.results]
    made = tuple([DeviceArray(device, shape, t.dtype, strides) for t, shape, strides in forms])
    for x in made:
        x.clear()
    return made


def _array(x: Any) -> Any:
    """A numpy array of a tensor's elements, of ml_dtypes' types where numpy has none."""
    if not is_torch(x):
        return x
    torch: Any = sys.modules["torch"]
    name, x = torch_dtype(x.dtype), x.detach().contiguous()
    if name in ("f32", "f16", "i32", "uint8"):
        return x.numpy()
    raw = x.view(torch.int16 if x.element_size() == 2 else torch.uint8).numpy()
    return raw if name not in ELEMENT_TYPES or ELEMENT_TYPES[name].bits < 8 else raw.view(reference.numpy_dtype(name))


def _of_numpy(x: Any, element: str, layout: str) -> Any:
    flat = x if _as_stored(x, element) else x.view(reference.numpy_dtype(element))
    return _columns(flat).swapaxes(-1, -2)[..., : x.shape[-2], :] if layout in _TURNED else flat


def _of_torch(x: Any, element: str, layout: str) -> Any:
    torch: Any = sys.modules["torch"]
    flat = torch.from_numpy(_columns(x) if layout in _TURNED else np.ascontiguousarray(x))
    if not _as_stored(x, element):
        flat = flat.view(torch_calls.result_dtype(torch, element))
    return flat.mT[..., : x.shape[-2], :] if layout in _TURNED else flat


def _as_stored(x: Any, element: str) -> bool:
    """Whether elements are bytes of several, or words of four scales."""
    return ELEMENT_TYPES[element].bits < 8 or x.dtype == np.int32


def _columns(x: Any) -> Any:
    """The columns of matrices as rows, which begin where those of a kernel's results do."""
    made = np.zeros((*x.shape[:-2], x.shape[-1], stored.align_up(x.shape[-2], plan.COPIED // x.itemsize)), x.dtype)
    made[..., : x.shape[-2]] = x.swapaxes(-1, -2)
    return made
