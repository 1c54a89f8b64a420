"""The check of columns that say something on a few samples alone, such as hail and floods.

Samples that are off by themselves are left aside where they are few. If all that a column says lies
on them, nothing else shows that it is dead.
"""

import numpy as np

from tfmp.converters.drift import OutputDrift
from tfmp.converters.drift.verdict import DECIDING, Check, fault, number_beside

# A column that varies by less than this share of what it did is dead.
_DEAD = 0.05

# So many samples at least that are off by the whole range: fewer may be broken ones.
_FEWEST = 4


def rare_column_checks(output: OutputDrift, limit: float) -> list[Check]:
    """The check of one output of which samples are left aside; none where no column is lost."""
    totals = output.totals
    slices, off = totals.slices, totals.off.slices
    decides = totals.unit and output.task.kind in DECIDING
    if decides or not slices.count or off.count != slices.count:
        return []
    low, high, least, most = slices.edges
    before, after = high - low, most - least
    lost = (after < _DEAD * before) & (off.error_sq >= _FEWEST * before**2)
    if not lost.any():
        return []
    worst = int(np.where(lost, before, 0.0).argmax())
    share = float(1 - after[worst] / before[worst])
    where = f"column {worst} of {slices.count:,}" if slices.count > 1 else "the value"
    text = (
        f"output {output.name!r}: {where} varies by {before[worst]:.3g} in the reference, on a few "
        f"of {output.samples:,} samples, and by {after[worst]:.3g} in the candidate: it is off by "
        f"{number_beside(share, limit)} of what it says, budget {limit:.10g}"
    )
    return [fault("slice_rel_l2", output.name, text, share)] if share > limit else []
