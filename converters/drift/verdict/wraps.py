"""Numbers that went from one end of their range to the other: errors, unless they are angles."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfmp.converters.drift import (
    COMPILED,
    OTHER,
    DriftBudget,
    OutputDrift,
    Table,
    output_views,
    tables_of,
)
from tfmp.converters.drift.verdict.check import Check, Verdict, doubt

# Both sides are within this share of the range of its opposite ends.
_END = 0.1


def unless_angles(output: OutputDrift, budget: DriftBudget, checks: Sequence[Check]) -> list[Check]:
    """The checks of an output's numbers; a question where only numbers that wrap break a limit.

    Args:
        output: the output.
        budget: its limits.
        checks: of its distances and views.
    """
    broken = [check for check in checks if check.verdict is not Verdict.PASS]
    known = output.known
    if not broken or not (output.is_unknown or (known and known.why.startswith(COMPILED))):
        return list(checks)
    tables, count, length = _unwrapped(tables_of(output.totals.evidence))
    if not count or _is_lost(tables, output, budget):
        return list(checks)
    text = (
        f"output {output.name!r}: {count:,} numbers went from one end of their range to the other; "
        "the rest is within the budget. If they are angles, declare the length of a turn: --task "
        f"{output.name}=angle:period={length:.3g}"
    )
    return [doubt("angle", output.name, text, float(count))]


def _unwrapped(tables: Sequence[Table]) -> tuple[list[Table], int, float]:
    """The tables without the errors of such numbers, their count, and the longest range.

    Where most of a column's numbers at an end go to the other one, they are lost: the count is 0.
    """
    found, count, longest, lost = [], 0, 0.0, False
    for table in tables:
        low, high = table.reference.min(axis=(0, 1)), table.reference.max(axis=(0, 1))
        length = high - low
        candidate = table.reference + table.error
        at_low = (table.reference - low < _END * length, candidate - low < _END * length)
        at_high = (high - table.reference < _END * length, high - candidate < _END * length)
        gone = at_low[0] & at_high[1], at_high[0] & at_low[1]
        wrapped = gone[0] | gone[1]
        count += int(np.count_nonzero(wrapped))
        for end, each in zip((at_low, at_high), gone, strict=True):
            lost |= bool((2 * each.sum(axis=(0, 1)) > end[0].sum(axis=(0, 1))).any())
        longest = max(longest, float(np.where(wrapped.any(axis=(0, 1)), length, 0.0).max()))
        found.append(replace(table, error=np.where(wrapped, 0.0, table.error)))
    return found, 0 if lost else count, longest


def _is_lost(tables: Sequence[Table], output: OutputDrift, budget: DriftBudget) -> bool:
    """Whether what is left breaks a limit."""
    error = sum(float(np.square(table.error).sum()) for table in tables)
    size = sum(float(np.square(table.reference).sum()) for table in tables)
    if budget.rel_l2 is not None and error > budget.rel_l2**2 * size:
        return True
    return any(
        limit is not None and view.loss > limit
        for view in output_views(tables, OTHER if output.is_unknown else output.task)
        for limit in [getattr(budget, view.view)]
    )
