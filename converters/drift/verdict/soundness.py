"""Faults that no budget allows: values that are not finite, clamped, or zero throughout."""

from tfmp.converters.drift import OutputDrift
from tfmp.converters.drift.verdict.check import Check, doubt, fault


def soundness_checks(output: OutputDrift, nonfinite_inputs: int) -> list[Check]:
    """The faults of one output; they are looked at before any average."""
    name, values = output.name, output.totals.values
    given = f"; the data itself holds {nonfinite_inputs:,} such values" if nonfinite_inputs else ""
    where, masks = f"output {name!r}", output.is_unknown
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
            "largest FP16 value, where the reference lies beyond it"
            + (f". If they mask scores, declare --task {name}=classification" if masks else ""),
        ),
        "collapsed": (
            int(output.collapsed),
            f"{where}: the candidate answers 0 to every sample, the reference does not",
        ),
    }
    checks = [
        fault(kind, name, text, float(count)) for kind, (count, text) in findings.items() if count
    ]
    empty = [part.empty for part in output.totals.evidence.parts]
    never = sorted(set.intersection(*empty)) if empty else []
    found = values + output.totals.both_nan
    way = "Fix the model or its input first" if found else "Give samples that fill it"
    nothing = f"so nothing was compared{given}. {way}"
    compared = bool(found) and (output.rel_l2 is None or output.totals.measured)
    none = "no value is finite on both sides" if found else "it is empty in each sample"
    doubts = {
        "reference_nan": (
            output.reference_nan,
            f"{where}: the reference itself gives NaN for {output.reference_nan:,} of {values:,} "
            "values, which nothing can be compared with; fix the model or its input first",
        ),
        "nothing_finite": (
            0 if checks or output.reference_nan or compared else max(1, found),
            f"{where}: {none}, {nothing}",
        ),
    }
    if values and never:
        few = ", ".join(map(str, never[:5]))
        doubts["nan_columns"] = (
            len(never),
            f"{where}: {len(never):,} of its columns, such as {few}, are NaN on both sides in each "
            f"sample, {nothing}; or let the model answer without them",
        )
    checks += [
        doubt(kind, name, text, float(count)) for kind, (count, text) in doubts.items() if count
    ]
    return checks
