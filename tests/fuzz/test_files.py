"""Damaged files end as errors of scalec.errors, or as if they were not there."""

from __future__ import annotations

import pytest

from tests.fuzz.files import check_file_seed


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_damaged_files(first: int) -> None:
    for seed in range(first, first + 50):
        check_file_seed(seed)
