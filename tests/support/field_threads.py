"""All field cases, in the order of the page; `benchmarks/field_cases.py` runs them."""

import field_graphs
import field_keras
import field_layers
import field_overflows
from field_case import FieldCase


def field_cases(slow: bool = True) -> list[FieldCase]:
    """The cases.

    Args:
        slow: also cases that take more than a few seconds.
    """
    modules = (field_overflows, field_layers, field_graphs, field_keras)
    cases = [case for module in modules for case in module.CASES]
    return [case for case in cases if slow or not case.slow]
