"""What the emulator's tests run PTX with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalec.emulator.findings import SILENT
from scalec.emulator.launch import launch, load
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.machine.options import Options
from scalec.emulator.stats import Stats

# %r0: lane or thread, %rd0, %rd1: the arguments, %rd2: %rd0 + 4 * thread, %rd3: %rd1 + 4 * thread
START = """
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [p0];
    ld.param.u64 %rd1, [p1];
    mad.wide.u32 %rd2, %r0, 4, %rd0;
    mad.wide.u32 %rd3, %r0, 4, %rd1;
"""


@dataclass
class Out:
    """An output of so many bytes, unwritten at first; `data` afterwards, `written` says which bytes were."""

    size: int
    data: np.ndarray | None = None
    written: np.ndarray | None = None

    def view(self, dtype: object) -> np.ndarray:
        assert self.data is not None
        return self.data.view(dtype)


def run_ptx(
    text: str,
    arguments: Sequence[object],
    *,
    entry: str | None = None,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    cluster: tuple[int, int, int] | None = None,
    shared: int = 0,
    seed: int = 0,
    **options: object,
) -> Stats:
    """Launches a PTX text, and looks for all kinds of findings. Arrays become allocations whose address is passed; they
    and Outs are updated in place."""
    options.setdefault("check", frozenset(SILENT))
    memory = GlobalMemory()
    loaded = load(text, memory)
    values: list = []
    back: list = []
    for number, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            segment = memory.allocate(argument.nbytes, f"argument {number}")
            segment.data[:] = np.frombuffer(argument.tobytes(), np.uint8)
            segment.written[:] = True
            back.append((argument, segment))
            values.append(segment.base)
        elif isinstance(argument, Out):
            segment = memory.allocate(argument.size, f"argument {number}")
            back.append((argument, segment))
            values.append(segment.base)
        else:
            values.append(argument)
    name = entry or next(f.name for f in loaded.module.functions.values() if f.entry)
    stats = launch(
        loaded, name, grid, block, values, cluster=cluster, shared_bytes=shared, options=Options(seed=seed, **options)
    )
    for argument, segment in back:
        if isinstance(argument, Out):
            argument.data, argument.written = segment.data.copy(), segment.written.copy()
        else:
            argument.reshape(-1).view(np.uint8)[:] = segment.data
    return stats


def module(body: str, params: str = ".param .u64 p0, .param .u64 p1", target: str = "sm_90a", head: str = "") -> str:
    """A module with one entry `k`; its body may use %p0-31, %h0-63 (b16), %r0-255, %rd0-127 and %q0-7 (b128)."""
    return f"""
.version 8.8
.target {target}
.address_size 64
{head}
.visible .entry k({params})
{{
    .reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<256>; .reg .b64 %rd<128>; .reg .b128 %q<8>;
    {body}
    ret;
}}
"""
