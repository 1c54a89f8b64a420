"""Why a candidate has its verdict: the check that decides, and what to do about it."""

import shlex

from tfmp.converters.drift import DECLARED
from tfmp.converters.drift.verdict import Check, Verdict
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.report.summary import culprit_text, meaning_text, number, percent, printable

_NAMES = {
    "run": "Did not run",
    "nonfinite": "Non-finite values",
    "infinite_lost": "Infinities lost",
    "saturated": "Saturated values",
    "collapsed": "Collapsed",
    "overflow": "Overflow",
    "reference_nan": "NaN in the reference",
    "rel_l2": "Relative L2 error",
    "max_abs": "Largest error",
    "sample_rel_l2": "Worst sample",
    "sample_share": "Samples over the limit",
    "wrong_samples": "Samples with a wrong value",
    "near_end": "Samples with a wrong distance from the end",
    "class_flip_rate": "Most changed class",
    "row_rate": "Rows on one side only",
    "meaning": "Change under another meaning",
    "min_samples": "Distinct samples",
    "synthetic": "Synthetic inputs",
    "arithmetic": "FP16 arithmetic not run",
}

# Words of metrics that are not written in small letters.
_SPELLED = {"iou": "IoU", "f1": "F1", "roc": "ROC", "auc": "AUC"}


def name_of(check: Check) -> str:
    """A check's name for people: "mean_iou_drop" is "Mean IoU drop"."""
    if check.name in _NAMES:
        return _NAMES[check.name]
    first, *words = (_SPELLED.get(word, word) for word in check.name.split("_"))
    return printable(" ".join([first[:1].upper() + first[1:], *words]))


def share_of_limit(check: Check) -> float:
    """Share of the limit used; with a bound, of the bound, for it decides."""
    if check.limit is None or check.measured is None:
        return float("inf")
    value = check.measured if check.upper is None else max(check.measured, check.upper)
    if value <= 0:
        return 0.0
    return value / check.limit if value == value and check.limit > 0 else float("inf")


def limited(candidate: CandidateReport) -> list[Check]:
    """The checks with a limit for a number, the one that uses most of it first."""
    found = [
        check
        for check in candidate.checks
        if check.limit is not None and check.measured is not None and check.name != "min_samples"
    ]
    return sorted(found, key=share_of_limit, reverse=True)


def cause(candidate: CandidateReport) -> Check | None:
    """The check that decides a verdict; None where nothing was checked.

    Checks stand in the order of what follows from what: values that are not finite before the
    answers that they flip. A doubt about the whole run, such as synthetic inputs, comes before
    doubts that more samples settle. A PASS is decided by the check that is nearest to its limit.
    """
    if candidate.verdict is Verdict.PASS:
        return next(iter(limited(candidate)), None)
    found = [check for check in candidate.checks if check.verdict is candidate.verdict]
    if candidate.verdict is Verdict.INCONCLUSIVE:
        found.sort(key=lambda check: bool(check.output) or check.measured is not None)
    return next(iter(found), None)


def decided_by(candidate: CandidateReport) -> str:
    """The check that decides, with its number and its limit."""
    check = cause(candidate)
    if check is None:
        return ""
    return f"{name_of(check)} {value_of(check)}".rstrip()


def value_of(check: Check) -> str:
    """The number of a check and its limit: the bound that decides, where there is one."""
    if check.measured is None or check.name in ("run", "collapsed"):
        return ""
    if check.limit is None:
        return f"{check.measured:,.0f}" if check.measured >= 1 else number(check.measured)
    if check.upper is None:
        return f"{number(check.measured)} (limit {number(check.limit)})"
    side, bound = ("≥", check.lower) if check.verdict is Verdict.FAIL else ("≤", check.upper)
    return f"{side} {percent(bound)} (limit {number(100 * check.limit)}%)"


def findings(report: DriftReport) -> list[tuple[str, list[tuple[str, str]]]]:
    """What is wrong, where, what to do and what would change it, by the candidates it is about.

    At most a line each, with its name. Candidates that pass have no lines, and those with the same
    lines stand together. Checks that fail because of the first one are not named again.
    """
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for candidate in report.candidates:
        lines, name = _lines(report, candidate), printable(candidate.name)
        if found and lines == found[-1][1]:
            found[-1] = (f"{found[-1][0]}, {name}", lines)
        elif lines:
            found.append((name, lines))
    return found


def _lines(report: DriftReport, candidate: CandidateReport) -> list[tuple[str, str]]:
    check = cause(candidate)
    if candidate.verdict is Verdict.PASS or check is None:
        return []
    fact, advice = check.text.removeprefix(f"output {check.output!r}: "), ""
    if candidate.error is None:
        fact, _, advice = fact.partition(". ")
    if len(candidate.outputs) > 1 and check.output:
        fact = f"{check.output}: {fact}"
    lines = [("what", fact), ("do", advice)]
    if candidate.verdict is Verdict.FAIL:
        step = _step(report, candidate) or advice
        lines = [("what", fact), ("where", _place(report, candidate)), ("do", step)]
        lines.append(("meaning", _meaning(candidate, check)))
    return [(label, printable(text.rstrip("."))) for label, text in lines if text]


def _place(report: DriftReport, candidate: CandidateReport) -> str:
    """The layer that the drift is from; "" where no run can tell."""
    if candidate.error is not None:
        return ""
    if text := culprit_text(candidate):
        return text
    # The same model overflows in the same layer, whatever the format.
    overflows = [found for one in (candidate, *report.candidates) for found in one.overflows]
    return overflows[0] if overflows else "--explain finds the layer"


def _step(report: DriftReport, candidate: CandidateReport) -> str:
    """The command that converts again in another way; without a file to name, the way in words."""
    flags, model, data = candidate.remedy_flags, report.reference.path, report.data.source
    if candidate.error is not None:
        return ""
    named = model is not None and any(sign in data for sign in "./:") and not report.data.synthetic
    if flags is None or not named:
        return candidate.remedy
    words = ["tfmp-convert", candidate.format, str(model), *flags.split(), "--data", data]
    words += ["-o", candidate.path] if candidate.path else []
    return shlex.join([*words, "--force"])


def _meaning(candidate: CandidateReport, check: Check) -> str:
    """The declaration that would change a decision that rests on what an output means."""
    output = next((one for one in candidate.outputs if one.name == check.output), None)
    if output is None or check.limit is None or output.task.why == DECLARED:
        return ""
    return f"{meaning_text(output)}; declare another with --task {shlex.quote(output.name)}=KIND"
