"""`scalec emulate`: any PTX, run and judged on this machine's processor."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalec.commands.output import note, plain_table, print_table, write_result
from scalec.commands.program import read_text
from scalec.errors import ScalecError
from scalec.sizes import natural
from scalec.suggestions import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scalec.emulator.machine.memory import GlobalMemory, Segment

ARGUMENTS = "NUMBER, in:FILE.npy, inout:FILE.npy, out:TYPE[SHAPE], zeros:, iota: or random:TYPE[SHAPE], map:N/box=..."

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

MOST_BYTES, MOST_INDICES = 1 << 32, 32
"""Of an argument's buffer: beside its bytes the emulator keeps as many again."""


@dataclass(frozen=True)
class Launch:
    """What the command line says.

    Attributes:
        arguments: one text for each parameter of the kernel: see ARGUMENTS.
        seeds: e.g. "0" or "0:8".
        save: (number of an argument, file to write it to).
    """

    source: str
    entry: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    shared: int
    arguments: Sequence[str]
    seeds: str
    ignore: Sequence[str]
    check: Sequence[str]
    tensor_core: str
    sms: int
    save: Sequence[tuple[int, str]]


@dataclass
class _Buffer:
    """A pointer argument: its memory, and the array that it holds or (out) its type and shape."""

    segment: Segment
    dtype: Any
    shape: tuple[int, ...]

    @property
    def array(self) -> NDArray[Any]:
        return self.segment.data.view(self.dtype).reshape(self.shape)


def emulate(request: Launch, *, stats: bool, stats_json: str | None) -> None:
    """Runs the kernel once for each seed, and prints what was found, or that nothing was.

    Raises:
        ScalecError: the text, the launch or an argument is wrong; a finding.
        OSError: a file.
    """
    from scalec.emulator.findings import EmulatorError
    from scalec.emulator.launch import launch, load
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.machine.machine import Options
    from scalec.emulator.machine.memory import GlobalMemory

    text = read_text(request.source)
    seeds, counted, kernel, buffers = _seeds(request.seeds), None, None, {}
    try:
        for seed in seeds:
            memory = GlobalMemory()
            loaded = load(text, memory)
            entry = request.entry or _only_entry(loaded.module)
            block = request.block or _block(loaded.module, entry)
            buffers, values = _arguments(request.arguments, memory, seed)
            options = Options(
                seed=seed,
                ignore=frozenset(request.ignore),
                check=frozenset(request.check),
                tensor_core=request.tensor_core,
                sms=request.sms,
            )
            counted = launch(
                loaded,
                entry,
                request.grid,
                block,
                values,
                cluster=request.cluster,
                shared_bytes=request.shared,
                options=options,
            )
            kernel = next(iter(loaded.kernels.values()))
    except EmulatorError as error:
        raise ScalecError(f"{request.source}: {error}") from error
    note(f"no findings in {len(seeds)} run{'s' if len(seeds) > 1 else ''}, seeds {request.seeds}")
    for number, path in request.save:
        if number not in buffers:
            raise ScalecError(f"argument {number} is no buffer", expected=", ".join(map(str, buffers)))
        import numpy as np

        np.save(path, buffers[number].array)
    assert counted is not None
    assert isinstance(kernel, Kernel)
    report = counted.report(kernel)
    if stats:
        _print(report)
    if stats_json:
        write_result(json.dumps(report, indent=1) + "\n", stats_json)


def _seeds(text: str) -> range:
    first, colon, end = text.partition(":")
    seeds = range(natural(first), natural(end) if colon else natural(first) + 1)
    if natural(first) < 0 or not seeds:
        raise ScalecError(f"seeds {text!r:.80}", expected="N, or FIRST:END with END above FIRST")
    return seeds


def _only_entry(module: Any) -> str:
    entries = [f.name for f in module.functions.values() if f.entry]
    if len(entries) != 1:
        raise ScalecError(
            f"the text has {len(entries)} entries", got=", ".join(entries) or "none", fix="name one with --entry"
        )
    return entries[0]


def _block(module: Any, entry: str) -> tuple[int, int, int]:
    function = module.functions.get(entry)
    if function is None:
        names = [f.name for f in module.functions.values() if f.entry]
        near = did_you_mean(entry, names)
        raise ScalecError(f"the text has no entry {entry!r:.80}", expected=", ".join(names) or "none", fix=near)
    required = function.directives.get("reqntid")
    if not required:
        raise ScalecError(f"{entry} has no .reqntid", fix="give --block X[,Y[,Z]]")
    x, y, z = (*required, 1, 1)[:3]
    return x, y, z


def _arguments(texts: Sequence[str], memory: GlobalMemory, seed: int) -> tuple[dict[int, _Buffer], list[Any]]:
    buffers: dict[int, _Buffer] = {}
    values: list[Any] = []
    for number, text in enumerate(texts):
        buffer = _buffer(text, number, memory, seed)
        if buffer is not None:
            buffers[number] = buffer
            values.append(buffer.segment.base)
        elif text.startswith("map:"):
            values.append(_tensor_map(text, buffers))
        else:
            values.append(_number(text))
    return buffers, values


def _number(text: str) -> int | float:
    for read in (lambda text: int(text, 0), float):
        try:
            return read(text if len(text) <= 80 else "")
        except ValueError:
            pass
    raise ScalecError(f"argument {text!r:.80}", expected=ARGUMENTS)


def _buffer(text: str, number: int, memory: GlobalMemory, seed: int) -> _Buffer | None:
    import numpy as np

    kind, _, rest = text.partition(":")
    if kind in ("in", "inout"):
        data = _loaded(rest)
        made = _Buffer(memory.allocate(data.nbytes, f"argument {number} ({rest})"), data.dtype, data.shape)
        made.segment.data[:] = data.view(np.uint8).reshape(-1)
        made.segment.written[:] = True
        return made
    shaped = _SHAPED.match(text)
    if shaped is None:
        return None
    import ml_dtypes

    name = shaped[2]
    if name not in _NUMPY:
        raise ScalecError(
            f"type {name!r} of argument {number}", expected=", ".join(_NUMPY), fix=did_you_mean(name, _NUMPY)
        )
    dtype = np.dtype(getattr(ml_dtypes, _NUMPY[name], None) or _NUMPY[name])
    shape = tuple(natural(e) for e in re.split(r"[,x ]+", shaped[3]) if e)
    count = math.prod(shape)
    size = count * dtype.itemsize
    if min(shape, default=0) < 0 or size > MOST_BYTES or len(shape) > MOST_INDICES:
        most = f"at most {MOST_BYTES} bytes, {MOST_INDICES} indices"
        raise ScalecError(f"argument {number} ({text:.80}) is too large", expected=most)
    made = _Buffer(memory.allocate(size, f"argument {number} ({text})"), dtype, shape)
    if shaped[1] == "out":
        return made
    data = {
        "zeros": lambda: np.zeros(count),
        "iota": lambda: np.arange(count),
        "random": lambda: (
            np.random.default_rng((seed, number)).standard_normal(count) * (64 if dtype.kind in "iu" else 1)
        ),
    }[shaped[1]]()
    made.array.reshape(-1)[:] = data.astype(dtype)
    made.segment.written[:] = True
    return made


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


def _tensor_map(text: str, buffers: dict[int, _Buffer]) -> bytes:
    """map:N/box=64x64[/swizzle=128][/atom=32][/element=u8]: a tensor map over all of buffer N, sizes innermost last."""
    from scalec.emulator.layouts.tensor_map import ELEMENTS, TensorMap, encode

    which, *settings = text.removeprefix("map:").split("/")
    fields: dict[str, str] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        fields[name] = value
    if (
        natural(which) not in buffers
        or "box" not in fields
        or set(fields) - {"box", "swizzle", "atom", "element"}
        or buffers[natural(which)].dtype.itemsize not in _MAPPED
        or fields.get("element", "u8") not in ELEMENTS
    ):
        raise ScalecError(
            f"argument {text!r}",
            expected="map:N/box=ROWSxCOLUMNS[/swizzle=128][/atom=32][/element=TYPE], N an earlier buffer",
        )
    buffer = buffers[natural(which)]
    item = buffer.dtype.itemsize
    name = "bf16" if "bfloat" in buffer.dtype.name else _MAPPED[item]
    extents = tuple(reversed(buffer.shape))
    strides, step = [], item
    for extent in extents[:-1]:
        step *= extent
        strides.append(step)
    return encode(
        TensorMap(
            fields.get("element", name),
            buffer.segment.base,
            extents,
            tuple(strides),
            tuple(natural(b) for b in reversed(fields["box"].split("x"))),
            (1,) * len(extents),
            swizzle=natural(fields.get("swizzle", "0")),
            atomicity=f"{fields.get('atom', 16)}B",
        )
    )


def _print(report: dict[str, Any]) -> None:
    """The counters as tables, on stdout."""
    for title in ("by class", "bytes", "counts", "waits"):
        if report[title]:
            table = plain_table(title, "", right=("",))
            for name, value in report[title].items():
                table.add_row(name, f"{value:,}")
            print_table(table)
            print()
    for loop in report["tensor loops"]:
        first, last = loop["lines"]
        table = plain_table(f"a pass of the loop at lines {first}-{last} ({loop['passes']:,} passes)", "", right=("",))
        for name, value in loop["instructions in a pass"].items():
            table.add_row(name, f"{value:,}")
        print_table(table)
        print()
    print(f"{report['warp instructions']:,} warp instructions")
