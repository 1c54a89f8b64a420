"""Faults that no budget allows: values that are not finite, clamped, or the same throughout."""

from tfmp.converters.drift import OutputDrift
from tfmp.converters.drift.verdict.check import Check, doubt, fault

# Columns that one sentence names.
_MOST_NAMED = 5


def soundness_checks(output: OutputDrift, nonfinite_inputs: int) -> list[Check]:
    """The faults of one output; they are looked at before any average."""
    name, values = output.name, output.totals.values
    given = f"; the data itself holds {nonfinite_inputs:,} such values" if nonfinite_inputs else ""
    where = f"output {name!r}"
    findings = {
        "nonfinite": (
            output.nonfinite,
            f"{where}: {output.nonfinite:,} of {values:,} values are NaN or infinite where the "
            f"reference has a number{given}",
        ),
        "infinite_lost": (
            output.infinite_lost,
            f"{where}: {output.infinite_lost:,} of {values:,} values are infinite in the "
            "reference and not, or with the other sign, in the candidate",
        ),
        "saturated": (
            output.saturated,
            f"{where}: {output.saturated:,} of {values:,} values are clamped at 65504, the "
            "largest FP16 value, where the reference lies beyond it",
        ),
        "collapsed": (
            int(output.collapsed),
            f"{where}: the candidate answers "
            + ("0 " if output.totals.candidate_sq == () else "the same ")
            + "to every sample, the reference does not",
        ),
    }
    checks = [
        fault(kind, name, text, float(count)) for kind, (count, text) in findings.items() if count
    ]
    if output.reference_nan:
        text = (
            f"{where}: the reference itself gives NaN for {output.reference_nan:,} of {values:,} "
            "values, which nothing can be compared with; fix the model or its input first"
        )
        checks.append(doubt("reference_nan", name, text, float(output.reference_nan)))
    both = output.totals.both_nan
    # Reports of before count such values among all, too.
    if both and (not values or (both == values and not any(output.totals.reference_sq))):
        text = (
            f"{where}: each value is NaN on both sides, so nothing was compared{given}. Fix the "
            "model or its input first"
        )
        checks.append(doubt("both_nan", name, text, float(both)))
    infinite = output.totals.reference_infinite
    if infinite and not checks and not output.totals.measured:
        text = (
            f"{where}: no value is finite on either side, {infinite:,} of {values:,} are infinite, "
            f"so nothing was compared{given}. Fix the model or its input first"
        )
        checks.append(doubt("both_infinite", name, text, float(infinite)))
    counts = output.totals.nan_columns
    never = [str(column) for column, count in enumerate(counts) if count * len(counts) == values]
    if never and values:
        few = ", ".join(never[:_MOST_NAMED]) + (", ..." if len(never) > _MOST_NAMED else "")
        text = (
            f"{where}: NaN on both sides in each sample in {len(never):,} of {len(counts):,} "
            f"columns ({few}), so nothing was compared there{given}. Fix the model or its input "
            "first; if nobody reads such a column, let the model answer without it"
        )
        checks.append(doubt("nan_columns", name, text, float(len(never))))
    return checks
