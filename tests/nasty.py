"""Values that nobody should give to a function, and what may come of them: scalec.errors, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scalec.errors import ScalecError

MANY = "9" * 100_000
HUGE = 10**6000
"""Python refuses to write so many digits."""
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**40, 10**400, HUGE, 1.5, float("nan"), "", "x", MANY, "\0", "\ud800", "1:2:3", b"x"),
    *([], [1], (5, 2), (1, HUGE), (1, 2, 3), {}, {"m": 1}, object(), Path("x"), np.zeros(3), np.int64(0), len),
)


def only_ours(call: Callable[[], object], what: object) -> None:
    try:
        call()
    except ScalecError as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"{str(what)[:300]}: {error!r:.300}") from error
    else:
        return
    assert said
    assert len(said.replace(MANY, "").replace(str(10**400), "")) < 5000
