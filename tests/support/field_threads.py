"""All field cases, in the order of the page; `benchmarks/field_cases.py` runs them."""

import field_graphs
import field_keras
import field_overflows
from field_case import FieldCase


def field_cases(slow: bool = True) -> list[FieldCase]:
    """The cases.

    Args:
        slow: also cases that take more than a few seconds.
    """
    cases = [*field_overflows.CASES, *field_graphs.CASES, *field_keras.CASES]
    return [case for case in cases if slow or not case.slow]
