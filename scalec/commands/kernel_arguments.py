"""What a command line gives a kernel: buffers, addresses in them, tensor maps of them, and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scalec.errors import ScalecError
from scalec.sizes import natural
from scalec.suggestions import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scalec.emulator.machine.memory import GlobalMemory, Segment

ARGUMENTS = (
    "NUMBER, in:FILE.npy, inout:FILE.npy, out:TYPE[SHAPE], zeros:, iota: or random:TYPE[SHAPE], at:BUFFER[+BYTES],"
    " map:BUFFER/box=..."
)

_SHAPED = re.compile(r"(out|zeros|iota|random):(\w+)\[((?:\d+(?:[,x ]+\d+)*[, ]*)?)\]$", re.ASCII)
_NUMPY = {
    **{f"{k}{b}": f"{'i' if k == 's' else 'u'}{b // 8}" for k in "bus" for b in (8, 16, 32, 64)},
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}
_MAPPED = {1: "u8", 2: "f16", 4: "f32", 8: "f64"}  # bytes of an element: what a tensor map takes it for
_SETTINGS = (
    *("box", "shape", "strides", "steps", "offset", "element", "swizzle", "atom", "interleave", "fill"),
    *("lower", "upper"),
)

MOST_BYTES, MOST_INDICES = 1 << 32, 32
"""Of all buffers together, and of one: beside each byte the emulator keeps who wrote and read it."""


@dataclass
class Buffer:
    """Memory of a kernel, and the array that it holds or (out) its type and shape."""

    segment: Segment
    dtype: Any
    shape: tuple[int, ...]

    @property
    def array(self) -> NDArray[Any]:
        return self.segment.data.view(self.dtype).reshape(self.shape)


@dataclass
class Arguments:
    """A kernel's arguments."""

    memory: GlobalMemory
    seed: int
    room: int = MOST_BYTES  # bytes that buffers may still take
    buffers: dict[str, Buffer] = field(default_factory=dict)  # by name, those that are arguments by their number
    values: list[Any] = field(default_factory=list)  # for each parameter, as `scalec.emulator.launch.launch` takes them

    def declare(self, name: str, text: str) -> None:
        """A buffer that is no argument by itself: `text` says what it holds.

        Raises:
            ScalecError: it says nothing of the kind, or the name is an argument's number.
        """
        if name.isdigit():
            raise ScalecError(f"buffer {name:.80}: a number names an argument", expected="a word, as in --buffer A=...")
        if name in self.buffers or not (made := self._buffer(text, name)):
            twice = f"; there is a buffer {name} already" if name in self.buffers else ""
            raise ScalecError(f"buffer {name}={text!r:.80}{twice}", expected="in:FILE.npy or random:TYPE[SHAPE], ...")
        self.buffers[name] = made

    def add(self, text: str) -> None:
        """The next argument; one that names a buffer comes after it.

        Raises:
            ScalecError: it is none, or too large.
        """
        number = str(len(self.values))
        buffer = self._buffer(text, number)
        if buffer is not None:
            self.buffers[number] = buffer
            self.values.append(buffer.segment.base)
        elif text.startswith("map:"):
            self.values.append(self._tensor_map(text))
        elif text.startswith("at:"):
            self.values.append(self._address(text))
        else:
            self.values.append(_number(text))

    def _buffer(self, text: str, name: str) -> Buffer | None:
        import numpy as np

        kind, _, rest = text.partition(":")
        if kind in ("in", "inout"):
            data = _loaded(rest)
            made = self._allocated(data.nbytes, f"{name} ({rest})", data.dtype, data.shape)
            made.segment.data[:] = data.view(np.uint8).reshape(-1)
            made.segment.written[:] = True
            return made
        shaped = _SHAPED.match(text)
        if shaped is None:
            return None
        dtype = _dtype(shaped[2], name)
        shape = tuple(natural(e) for e in re.split(r"[,x ]+", shaped[3]) if e)
        count = math.prod(shape)
        if min(shape, default=0) < 0 or len(shape) > MOST_INDICES:
            raise ScalecError(f"argument {name} ({text:.80}) is too large", expected=f"at most {MOST_INDICES} indices")
        made = self._allocated(count * dtype.itemsize, f"{name} ({text})", dtype, shape)
        if shaped[1] != "out":
            made.array.reshape(-1)[:] = _filled(shaped[1], count, dtype, (self.seed, *name.encode()))
            made.segment.written[:] = True
        return made

    def _allocated(self, size: int, name: str, dtype: Any, shape: tuple[int, ...]) -> Buffer:
        if size > self.room:
            raise ScalecError(
                f"argument {name:.80} is too large: {size} bytes",
                expected=f"at most {self.room}",
                fix="raise --max-memory",
            )
        self.room -= size
        return Buffer(self.memory.allocate(size, f"argument {name}"), dtype, shape)

    def _named(self, name: str, text: str) -> Buffer:
        if name not in self.buffers:
            known = ", ".join(self.buffers) or "none: give --buffer NAME=... or an --arg before it"
            raise ScalecError(f"argument {text!r:.80} names no buffer", expected=known)
        return self.buffers[name]

    def _address(self, text: str) -> int:
        """at:N[+BYTES]: an address in a buffer."""
        name, plus, offset = text.removeprefix("at:").partition("+")
        if plus and natural(offset) < 0:
            raise ScalecError(f"argument {text!r:.80}", expected="at:BUFFER or at:BUFFER+BYTES")
        return self._named(name, text).segment.base + (natural(offset) if plus else 0)

    def _tensor_map(self, text: str) -> bytes:
        """map:N/box=64x64[/...]: a tensor map, sizes innermost last; by default over all of buffer N.

        Raises:
            ScalecError: not written so.
            Finding: descriptor: no such map can be.
        """
        from scalec.emulator.layouts.tensor_map import ATOMICITIES, ELEMENTS, FILLS, TensorMap, encode

        name, *settings = text.removeprefix("map:").split("/")
        fields = {given: value for given, _, value in (setting.partition("=") for setting in settings)}
        buffer = self._named(name, text)

        def refused(what: str, expected: str) -> ScalecError:
            return ScalecError(f"{what} of argument {text!r:.120}", expected=expected)

        for given in fields:
            if given not in _SETTINGS:
                raise refused(f"{given!r:.40}", f"/box=ROWSxCOLUMNS and some of {', '.join(_SETTINGS[1:])}")

        def sizes(setting: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
            """Innermost first, the other way round than they are written."""
            if setting not in fields and default is not None:
                return tuple(default)
            found = tuple(natural(size) for size in reversed(fields.get(setting, "").split("x")))
            if min(found) < 0:
                raise refused(setting, f"/{setting}=SIZExSIZE, the innermost last")
            return found

        def corner(setting: str) -> tuple[int, ...]:
            """As `sizes`, but they may be negative; none without it."""
            if setting not in fields:
                return ()
            texts = fields[setting].split("x")[::-1]
            if any(natural(text.removeprefix("-")) < 0 for text in texts):
                raise refused(setting, f"/{setting}=PIXELSxPIXELS, the innermost last")
            return tuple(map(int, texts))

        element = fields.get("element", _element(buffer.dtype))
        if element not in ELEMENTS:
            raise refused(f"element {element!r:.40}", ", ".join(ELEMENTS))
        atom = f"{fields.get('atom', 16)}B".replace("+8B", "B+8B")
        fill = fields.get("fill", "zero")
        for setting, value, known in (("atom", atom, ATOMICITIES), ("fill", fill, FILLS)):
            if value not in known:
                raise refused(setting, ", ".join(k.removesuffix("B").replace("B+", "+") for k in known))
        interleave = natural(fields.get("interleave", "0"))
        if interleave and not {"shape", "strides"} <= fields.keys():
            raise refused("interleave", "/shape=... in slices of channels, and /strides=... in bytes")
        extents = sizes("shape", _row(buffer, ELEMENTS[element].bits))
        same = len(extents) == len(buffer.shape)
        dense = tuple(_strides(_row(buffer, ELEMENTS[element].bits) if same else extents, ELEMENTS[element].bits))
        return encode(
            TensorMap(
                element,
                buffer.segment.base + sizes("offset", (0,))[0],
                extents,
                sizes("strides", dense),
                sizes("box"),
                sizes("steps", (1,) * len(extents)),
                interleave=interleave,
                swizzle=natural(fields.get("swizzle", "0")),
                atomicity=atom,
                fill=fill,
                lower=corner("lower"),
                upper=corner("upper"),
            )
        )


def _element(dtype: Any) -> str:
    return "bf16" if "bfloat" in dtype.name else _MAPPED.get(dtype.itemsize, str(dtype))


def _row(buffer: Buffer, bits: int) -> tuple[int, ...]:
    """The shape of a buffer in elements of so many bits, innermost first."""
    *outer, last = buffer.shape or (1,)
    return (last * buffer.dtype.itemsize * 8 // bits, *reversed(outer))


def _strides(extents: Sequence[int], bits: int) -> Iterator[int]:
    """In bytes, of all dimensions but the innermost, where elements lie one beside the other."""
    step = bits
    for extent in extents[:-1]:
        step *= extent
        yield step // 8


def _dtype(name: str, argument: str) -> Any:
    import ml_dtypes
    import numpy as np

    if name not in _NUMPY:
        raise ScalecError(
            f"type {name!r} of argument {argument}", expected=", ".join(_NUMPY), fix=did_you_mean(name, _NUMPY)
        )
    return np.dtype(getattr(ml_dtypes, _NUMPY[name], None) or _NUMPY[name])


def _filled(kind: str, count: int, dtype: Any, seed: tuple[int, ...]) -> NDArray[Any]:
    """The numbers of zeros:, iota: or random:."""
    import numpy as np

    if kind == "random":
        draw = np.random.default_rng(seed)
        if dtype.kind in "u":
            return draw.integers(0, np.iinfo(dtype).max, count, dtype, endpoint=True)
        return (draw.standard_normal(count) * (64 if dtype.kind == "i" else 1)).astype(dtype)
    return (np.zeros(count) if kind == "zeros" else np.arange(count)).astype(dtype)


def _number(text: str) -> int | float:
    for read in (lambda text: int(text, 0), float):
        try:
            return read(text if len(text) <= 80 else "")
        except ValueError:
            pass
    raise ScalecError(f"argument {text!r:.80}", expected=ARGUMENTS)


def _loaded(path: str) -> NDArray[Any]:
    """The array of numbers in a .npy file."""
    import numpy as np

    try:
        data = np.load(path)
    except (ValueError, EOFError) as error:
        raise ScalecError(f"{path} is no array", got=f"{error!s:.200}", expected="a file of numpy.save") from None
    if not isinstance(data, np.ndarray) or data.dtype.hasobject or data.dtype.names:
        raise ScalecError(f"{path} is no array of numbers", expected="a file of numpy.save")
    return np.ascontiguousarray(data)
