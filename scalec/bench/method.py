"""How measurements are made: the numbers."""

from __future__ import annotations

ROTATION_BYTES = 256 << 20  # inputs in rotation: four times the 60 MB of L2 that torch reports on an H200
MOST_SETS = 1024  # of tiny inputs, which then do not leave L2: their times are launch times anyway
GRAPH_SECONDS = 2e-3  # one replay, so that the microseconds around it do not count
PAUSE_SECONDS = 0.02  # before each replay: every contender starts from the same clocks
SPIN_CYCLES = 200_000  # keeps the GPU busy while the graph is enqueued, so that the start event does not wait for it

SUMMARY = (
    f"CUDA graphs of launches rotating over >= {ROTATION_BYTES >> 20} MB of inputs, contenders interleaved in shuffled "
    f"rounds, {PAUSE_SECONDS * 1e3:.0f} ms pause before each replay"
)


def sets_in_rotation(input_bytes: int) -> int:
    """How many input sets exceed ROTATION_BYTES together: at least two, at most MOST_SETS."""
    return min(max(2, -(-ROTATION_BYTES // input_bytes)), MOST_SETS)
