"""`scalec emulate`: any PTX, run and judged on this machine's processor."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalec.commands.output import note, plain_table, print_table, write_result
from scalec.errors import ScalecError
from scalec.suggestions import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scalec.emulator.machine.memory import GlobalMemory, Segment

ARGUMENTS = "NUMBER, in:FILE.npy, inout:FILE.npy, out:TYPE[SHAPE], zeros:, iota: or random:TYPE[SHAPE], map:N/box=..."

_SHAPED = re.compile(r"(out|zeros|iota|random):(\w+)\[([\d,x ]*)\]$")
_SEEDS = re.compile(r"(\d+)(?::(\d+))?$")
_NUMPY = {
    **{f"{k}{b}": f"{'i' if k == 's' else 'u'}{b // 8}" for k in "bus" for b in (8, 16, 32, 64)},
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}


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

    text = Path(request.source).read_text() if request.source != "-" else _stdin()
    seeds, counted, kernel, buffers = _seeds(request.seeds), None, None, {}
    try:
        for seed in seeds:
            memory = GlobalMemory()
            loaded = load(text, memory)
            entry = request.entry or _only_entry(loaded.module)
            block = request.block or _block(loaded.module, entry)
            buffers, values = _arguments(request.arguments, memory, seed)
            options = Options(
                seed=seed, ignore=frozenset(request.ignore), tensor_core=request.tensor_core, sms=request.sms
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


def _stdin() -> str:
    import sys

    return sys.stdin.read()


def _seeds(text: str) -> range:
    found = _SEEDS.match(text)
    if found is None:
        raise ScalecError(f"seeds {text!r}", expected="N, or FIRST:END")
    first = int(found[1])
    return range(first, int(found[2]) if found[2] else first + 1)


def _only_entry(module: Any) -> str:
    entries = [f.name for f in module.functions.values() if f.entry]
    if len(entries) != 1:
        raise ScalecError(
            f"the text has {len(entries)} entries", got=", ".join(entries) or "none", fix="name one with --entry"
        )
    return entries[0]


def _block(module: Any, entry: str) -> tuple[int, int, int]:
    function = module.functions.get(entry)
    required = function.directives.get("reqntid") if function else None
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
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ScalecError(f"argument {text!r}", expected=ARGUMENTS) from None


def _buffer(text: str, number: int, memory: GlobalMemory, seed: int) -> _Buffer | None:
    import numpy as np

    kind, _, rest = text.partition(":")
    if kind in ("in", "inout"):
        data = np.ascontiguousarray(np.load(rest))
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
    shape = tuple(int(e) for e in re.split(r"[,x ]+", shaped[3]) if e)
    size = int(np.prod(shape)) * dtype.itemsize
    made = _Buffer(memory.allocate(size, f"argument {number} ({text})"), dtype, shape)
    if shaped[1] == "out":
        return made
    count = int(np.prod(shape))
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


def _tensor_map(text: str, buffers: dict[int, _Buffer]) -> bytes:
    """map:N/box=64x64[/swizzle=128][/atom=32][/element=u8]: a tensor map over all of buffer N, sizes innermost last."""
    from scalec.emulator.layouts.tensor_map import TensorMap, encode

    which, *settings = text.removeprefix("map:").split("/")
    fields: dict[str, str] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        fields[name] = value
    if (
        not which.isdigit()
        or int(which) not in buffers
        or "box" not in fields
        or set(fields) - {"box", "swizzle", "atom", "element"}
    ):
        raise ScalecError(
            f"argument {text!r}",
            expected="map:N/box=ROWSxCOLUMNS[/swizzle=128][/atom=32][/element=TYPE], N an earlier buffer",
        )
    buffer = buffers[int(which)]
    item = buffer.dtype.itemsize
    names = {1: "u8", 2: "bf16" if "bfloat" in buffer.dtype.name else "f16", 4: "f32", 8: "f64"}
    extents = tuple(reversed(buffer.shape))
    strides, step = [], item
    for extent in extents[:-1]:
        step *= extent
        strides.append(step)
    return encode(
        TensorMap(
            fields.get("element", names[item]),
            buffer.segment.base,
            extents,
            tuple(strides),
            tuple(int(b) for b in reversed(fields["box"].split("x"))),
            (1,) * len(extents),
            swizzle=int(fields.get("swizzle", 0)),
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
