"""What follows from a kernel's spec alone, and specs that no launch could be made of."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.abi import (
    PADDED,
    PADDED_ALIGN,
    PADDED_BOX,
    PADDED_SWIZZLES,
    TILES,
    Argument,
    KernelSpec,
    TensorSpec,
    permuted_rows,
)
from scalec.errors import UnsupportedError
from scalec.formats import WORDS
from scalec.runtime import stored
from scalec.runtime.slots import NEWER, PADDED_ELEMENTS, SLOTS
from scalec.runtime.views import spec_of


@dataclass(frozen=True)
class Use:
    """How a kernel reaches a tensor: through tensor maps alone, whether one pads, and which strides it is told."""

    mapped: bool
    padded: bool
    strides: frozenset[int]

    @staticmethod
    def of(spec: KernelSpec, name: str) -> Use:
        """How a tensor, or a part of one, is reached."""
        mine = [a for a in spec.arguments if a.tensor == name]
        kinds, axes = {a.kind for a in mine}, frozenset(a.axis for a in mine if a.kind == "stride")
        padded = any(a.element == PADDED for a in mine)
        return Use("tensor_map" in kinds and "pointer" not in kinds, padded, axes)


@dataclass(frozen=True)
class Signature:
    """What follows from the spec alone, made once for a kernel."""

    spec: KernelSpec
    tensors: tuple[TensorSpec, ...]  # tensor operands, then results: the order of addresses in a plan
    scalars: tuple[str, ...]  # names of the numbers, in order
    uses: dict[str, Use]  # how each tensor, and each part of one, is reached
    indices: tuple[int, ...] = ()  # places among `tensors` of those that say what is computed (KernelSpec.reads)
    unread: frozenset[str] = frozenset()  # dimensions without whose points nobody reads the results (a Sequence's)

    @staticmethod
    def of(spec: KernelSpec) -> Signature:
        """The signature of a spec.

        Raises:
            UnsupportedError: a scale layout, or a kind of argument, that this runtime does not know.
        """
        for t in (*spec.operands, *spec.results):
            if t.layout not in stored.LAYOUTS:
                expected = ", ".join(stored.LAYOUTS)
                raise UnsupportedError(f"{t.name} has layout {t.layout!r}", expected=expected, fix=NEWER)
        for a in spec.arguments:
            if a.kind not in SLOTS:
                raise UnsupportedError(f"a kernel argument of kind {a.kind!r}", expected=", ".join(SLOTS), fix=NEWER)
            if a.kind == "tensor_map":
                _check_map(spec, a)
        tensors = (*(t for t in spec.operands if not t.scalar), *spec.results)
        uses = {name: Use.of(spec, name) for name in (*(t.name for t in tensors), *(v.name for v in spec.views))}
        for view in spec.views:  # each part says itself which strides it can have
            own, part = uses[view.tensor], uses[view.name]
            mapped = part.mapped and not any(a.tensor == view.tensor and a.kind == "pointer" for a in spec.arguments)
            uses[view.tensor] = Use(mapped, own.padded or part.padded, frozenset(range(len(view.shape))))
        read = {entry.tensor for reads in spec.reads for entry in reads.entries}
        indices = tuple(i for i, t in enumerate(tensors) if t.name in read)
        return Signature(spec, tensors, tuple(t.name for t in spec.operands if t.scalar), uses, indices)


def _check_map(spec: KernelSpec, a: Argument) -> None:
    """Refuses a tensor map that no driver would make, of what the spec alone says (see abi.PADDED)."""
    tensors = {t.name: t for t in (*spec.operands, *spec.results)}
    tensors |= {v.name: spec_of(v, tensors[v.tensor]) for v in spec.views}
    t = tensors.get(a.tensor)
    if t is None:
        known = ", ".join(tensors)
        raise UnsupportedError(
            f"a tensor map over {a.tensor!r}, which is no tensor of the kernel", expected=known, fix=NEWER
        )
    what = f"the tensor map of {t.name}"
    if a.element not in (known := ("", PADDED, TILES, WORDS)):
        raise UnsupportedError(f"{what} has elements {a.element!r}", expected=", ".join(map(repr, known)), fix=NEWER)
    for layout, element in (("blocked", TILES), (WORDS, WORDS)):
        if (t.layout == layout) != (a.element == element):
            raise UnsupportedError(
                f"{what} has elements {a.element!r} and layout {t.layout}",
                expected=f"elements {element!r} with layout {layout}, and only there",
                fix=NEWER,
            )
    if a.element == WORDS and a.axes[:2] != (len(t.shape) - 2, len(t.shape) - 3):
        raise UnsupportedError(
            f"{what} is over words",
            got=f"axes {a.axes} of {len(t.shape)} indices",
            expected="the two before the last first",
            fix=NEWER,
        )
    if not a.permuted and len(a.box) != len(a.axes or t.shape):
        raise UnsupportedError(
            f"{what} has a box {a.box}",
            got=f"axes {a.axes} of {len(t.shape)} indices",
            expected="an extent for each axis",
            fix=NEWER,
        )
    last = (len(t.shape) - 1, len(t.shape) - 2)
    if a.element == TILES and (a.swizzle or (a.axes[:2] or (1, 0)) != last):
        raise UnsupportedError(
            f"{what} is over tiles (layout blocked)",
            got=f"axes {a.axes} of {len(t.shape)} indices, a swizzle of {a.swizzle} bytes",
            expected="the last two indices first, no swizzle",
            fix=NEWER,
        )
    if a.permuted:
        _check_permuted(spec, a, t)
    if a.atom != 16 and (a.swizzle, a.atom) != (128, 32):
        raise UnsupportedError(
            f"{what} has a swizzle of {a.swizzle} bytes that keeps {a.atom} together",
            expected="16, or of 128 bytes 32",
            fix=NEWER,
        )
    swizzles = " or ".join(map(str, PADDED_SWIZZLES))
    for fits, got, expected in (
        (t.dtype in PADDED_ELEMENTS, f"elements of {t.dtype}", ", ".join(PADDED_ELEMENTS)),
        (t not in spec.results, "a result", "an operand: such copies are loads"),
        (a.box[:1] == (PADDED_BOX,), f"a box {a.box}", f"{PADDED_BOX} elements along the contiguous index"),
        (a.swizzle in PADDED_SWIZZLES, f"a swizzle of {a.swizzle} bytes", f"{swizzles}"),
        (t.align % PADDED_ALIGN == 0, f"an alignment of {t.align} bytes", f"a multiple of {PADDED_ALIGN}"),
    ):
        if a.element == PADDED and not fits:
            raise UnsupportedError(f"{what} pads elements", got=got, expected=expected, fix=NEWER)


def _check_permuted(spec: KernelSpec, a: Argument, t: TensorSpec) -> None:
    """Refuses a map whose copies would permute what are no rows, or other ones than those of the tensor."""
    what = f"the tensor map of {t.name} permutes rows within {a.permuted}"
    inner = tuple(extent for extent, _ in permuted_rows(a.permuted, 0)[:-1])
    if a.element or t.layout != "row" or len(t.shape) != 2 or len(a.box) != 5 or a.box[1:-1] != inner:
        got = f"elements {a.element!r}, layout {t.layout}, {len(t.shape)} indices, a box {a.box}"
        expected = f"its own elements, rows, two indices, a box of five extents, {inner} in the middle"
        raise UnsupportedError(what, got=got, expected=expected, fix=NEWER)
    dim = t.shape[0].dim
    rows = spec.dims.get(dim) if dim and t.shape[0].divisor == 1 else None
    if a.permuted < 8 or a.permuted % 8 or rows is None or rows % a.permuted:
        got, expected = f"{t.shape[0]} = {rows} rows", "a multiple of 8, and a size of which it is a divisor"
        raise UnsupportedError(what, got=got, expected=expected, fix=NEWER)
