"""Scales that a program copies from one layout to another, on a GPU: bit for bit what the reference gives."""

from __future__ import annotations

import re
from typing import Any

import pytest

import scalec
from tests.emulator.test_copied_scales import FORMS, launched

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("m", [1, 1003])
@pytest.mark.parametrize("name", FORMS)
def test_forms(here: Any, name: str, m: int) -> None:
    source = FORMS[name]
    dims = {d: n for d, n in {"g": 2, "h": 3, "m": m, "j": 55 + m % 2}.items() if re.search(rf"[\[,]{d}\b", source)}
    kernel = scalec.compile(source, "sm_90a", {d: n for d, n in dims.items() if d in "mj"})
    launched(kernel, here, source, dims, m)
