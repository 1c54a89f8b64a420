"""Which parameters of a test run with the quick tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Parameters: the chosen ones run with the quick tests, all others with the slow ones."""
    values = list(values)
    assert not (lost := [value for value in chosen if value not in values]), lost
    return [
        value if value in chosen else pytest.param(value, marks=pytest.mark.slow)
        for value in values
    ]
