"""How measurements are made: the numbers."""

from __future__ import annotations

ROTATION_BYTES = 256 << 20  # inputs in rotation: four times the 60 MB of L2 that torch reports on an H200
MOST_SETS = 1024  # of tiny inputs, which then do not leave L2: their times are launch times anyway
GRAPH_SECONDS = 2e-3  # one replay, so that the microseconds around it do not count
PAUSE_SECONDS = 0.02  # before each replay: every contender starts from the same clocks
SPIN_CYCLES = 200_000  # keeps the GPU busy while the graph is enqueued, so that the start event does not wait for it
ROUNDS = 31  # of replays after a pause
SUSTAINED_ROUNDS = 5  # of blocks of replays without a pause; 0 measures none
BLOCK_SECONDS = 0.12  # one block: replays of one contender, back to back
SETTLE = 1 / 3  # of a block, before its time counts: the clocks are then its own and not those of the block before
PICK_ROUNDS = 5  # walks over the inputs by each variant of a contender, after which the fastest variant goes on

SUMMARY = (
    f"CUDA graphs of launches rotating over >= {ROTATION_BYTES >> 20} MB of inputs, contenders interleaved in shuffled "
    f"rounds, {PAUSE_SECONDS * 1e3:.0f} ms pause before each replay"
)


def sets_in_rotation(input_bytes: int) -> int:
    """How many input sets exceed ROTATION_BYTES together: at least two, at most MOST_SETS."""
    return min(max(2, -(-ROTATION_BYTES // input_bytes)), MOST_SETS)


def summary(rounds: int, sustained_rounds: int, block_seconds: float) -> str:
    text = f"{SUMMARY}; median and quartiles of {rounds}"
    if sustained_rounds:
        text += (
            f"; sustained: shuffled blocks of {block_seconds * 1e3:.0f} ms of replays without any pause, "
            f"of which the first {SETTLE * block_seconds * 1e3:.0f} ms do not count; "
            f"nor does the first round; median and quartiles of {sustained_rounds}"
        )
    return text


def replays(graph_seconds: float, block_seconds: float) -> tuple[int, int]:
    """How many replays of a graph settle a block, and how many are then timed; at least one of each.

    Args:
        graph_seconds: one replay.
        block_seconds: the whole block.
    """
    settle = max(1, round(SETTLE * block_seconds / graph_seconds))
    return settle, max(1, round(block_seconds / graph_seconds) - settle)
