"""scalec.arguments: annotations as they are on other Pythons than the one that runs the tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from scalec.arguments import _expectation


class Alias(SimpleNamespace):
    """What `type Name = ...` makes from Python 3.12 on, and numpy 2.5 of NDArray."""

    def __hash__(self) -> int:
        return id(self)


def test_an_alias_of_a_type_is_looked_through() -> None:
    expected = _expectation(Alias(__value__=np.ndarray[Any, np.dtype[np.float64]]))
    assert expected(np.ones(3)) == ""
    assert expected([1.0]) == "an array of numpy's"
