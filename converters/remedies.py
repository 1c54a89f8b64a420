"""Causes and remedies of a file that fails; each way to convert again is tried first."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from tfmp.converters.comparison import CandidateFile, Plan, candidate_files
from tfmp.converters.distributed import comparing
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.explain import harm_of
from tfmp.converters.formats import Format, Target
from tfmp.converters.intake import AnySource
from tfmp.converters.report import CandidateReport, DriftReport, cause
from tfmp.converters.samples import SEARCH_SAMPLES, Samples
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.progress import SILENT, Progress

_BEST_FIRST = (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL)


def with_remedies(
    report: DriftReport,
    source: AnySource,
    targets: Sequence[Target],
    samples: Samples,
    plan: Plan,
    progress: Progress,
) -> DriftReport:
    """The report, with the layer to blame, and a remedy that was seen to help, of each file.

    Args:
        report: of the files.
        source: the model.
        targets: the files that were written.
        samples: that they were compared on.
        plan: of the comparison.
        progress: told of the ways that are tried.
    """
    plain = replace(plan, split=False, explain=False, latency=False, latency_batches=(), sizes=())
    plain = replace(plain, ray=None, workers=None)
    stream = samples.stream
    few = replace(
        stream,
        batches=lambda size: islice(stream.batches(size), max(1, SEARCH_SAMPLES // size)),
        samples=None,
    )
    first = replace(samples, stream=few) if samples.labels is None else samples
    found: dict[str, dict[str, Any]] = {}
    for target in targets:
        untried = target.format.remedy(target.path)
        own = [
            one
            for one in report.candidates
            if one.path == str(target.path) and (one.remedy, one.remedy_flags) == untried
        ]
        worst = max((one.verdict for one in own), key=_BEST_FIRST.index, default=Verdict.PASS)
        if samples.stream.once or not any(map(_to_mend, own)):
            continue
        fail = [one for one in own if one.verdict is Verdict.FAIL and not plan.explain]
        lost = any((output.worst_rel_l2 or 0) >= 1 for one in fail for output in one.outputs)
        explain = lost and target.format.emulated
        progress("looking for what FP16 loses")
        files, looking = candidate_files(target.path), replace(plain, explain=explain)
        seen = _judged(target.format, files, source, first, looking)
        if explain:
            harms = {one.name: {"overflows": harm_of(one.explanation)} for one in seen.candidates}
            found |= {one.name: harms.get(one.name, {}) for one in fail}
        on = first if seen.verdict is worst else samples  # the harm may come late
        progress(f"trying {target.format.title} in other ways")
        for way in target.format.ways(source, target, on, worst is Verdict.FAIL):
            run = _helpful(way.target, worst, source, on, plain) if way.target else ""
            if run is not None:
                flags = None if run else way.flags  # no command runs the file so
                told = {"remedy": way.told + run, "remedy_flags": flags}
                found |= {one.name: {**found.get(one.name, {}), **told} for one in own}
                break
    candidates = tuple(replace(one, **found.get(one.name, {})) for one in report.candidates)
    return DriftReport.judged(replace(report, candidates=candidates), report.budget)


def _to_mend(candidate: CandidateReport) -> bool:
    """Whether a file runs in FP16 and fails, or more of its digits may settle an open verdict."""
    if candidate.error or candidate.runner.fp16 is None or candidate.verdict is Verdict.PASS:
        return False
    check = cause(candidate)
    number = check and check.output and check.limit and check.measured
    return bool(number) or candidate.verdict is Verdict.FAIL


def _helpful(
    target: Target, worst: Verdict, source: AnySource, samples: Samples, plan: Plan
) -> str | None:
    """How to run another file of the model that gets a better verdict; None if it gets none."""
    try:
        with temporary_folder() as folder:
            tried = replace(target, path=folder / f"tried{target.format.suffix}")
            known = tried.format.write(source, tried, samples, None, SILENT)
            files = [replace(file, known=known) for file in candidate_files(tried.path)]
            mended = target.format.mended(tried.path, target.profile)
            runs = [((profile, *plan.profiles[1:]), f". {told}") for profile, told in mended]
            for profiles, told in [(plan.profiles, ""), *runs]:
                judged = replace(plan, profiles=profiles)
                verdict = _judged(target.format, files, source, samples, judged).verdict
                if _BEST_FIRST.index(verdict) < _BEST_FIRST.index(worst):
                    return told
    except (InputError, RunnerError):  # this way is closed
        pass
    return None


def _judged(
    format: Format, files: Sequence[CandidateFile], source: AnySource, samples: Samples, plan: Plan
) -> DriftReport:
    with comparing(plan, {format}) as compare:
        return DriftReport.judged(compare(source, files, samples, SILENT), plan.budget)
