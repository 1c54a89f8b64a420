"""Causes and remedies of a file that fails; each way to convert again is tried first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from tfmp.converters.comparison import Plan, candidate_files
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.explain import harm_of
from tfmp.converters.formats import Target
from tfmp.converters.intake import AnySource
from tfmp.converters.report import DriftReport
from tfmp.converters.samples import SEARCH_SAMPLES, RawBatch, Samples
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.validation import comparing
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
    if samples.labels is None:  # else each sample has its own
        stream = samples.stream

        def first(size: int) -> Iterator[RawBatch]:
            return islice(stream.batches(size), max(1, SEARCH_SAMPLES // size))

        samples = replace(samples, stream=replace(stream, batches=first, samples=None))
    found: dict[str, dict[str, Any]] = {}
    for target in targets:
        own = [one for one in report.candidates if one.path == str(target.path)]
        worst = max((one.verdict for one in own), key=_BEST_FIRST.index)
        if worst is Verdict.PASS or samples.stream.once or any(one.error for one in own):
            continue
        fail = [one for one in own if one.verdict is Verdict.FAIL and not plan.explain]
        lost = any((output.worst_rel_l2 or 0) >= 1 for one in fail for output in one.outputs)
        if lost and target.format.emulated:
            progress("looking for the layer that FP16 harms")
            with comparing(replace(plain, explain=True), {target.format}) as compare:
                seen = compare(source, candidate_files(target.path), samples, SILENT).candidates
            harms = {one.name: {"overflows": harm_of(one.explanation)} for one in seen}
            found |= {one.name: harms.get(one.name, {}) for one in fail}
        for way in target.format.ways(source, target, samples, worst is Verdict.FAIL, progress):
            if way.target is None or _helps(way.target, worst, source, samples, plain, progress):
                told = {"remedy": way.told, "remedy_flags": way.flags}
                found |= {one.name: {**found.get(one.name, {}), **told} for one in own}
                break
    candidates = tuple(replace(one, **found.get(one.name, {})) for one in report.candidates)
    return DriftReport.judged(replace(report, candidates=candidates), report.budget)


def _helps(
    target: Target,
    worst: Verdict,
    source: AnySource,
    samples: Samples,
    plan: Plan,
    progress: Progress,
) -> bool:
    """Whether another file of the model gets a better verdict on the first samples."""
    progress(f"trying {target.format.title} in another way")
    try:
        with temporary_folder() as folder, comparing(plan, {target.format}) as compare:
            tried = replace(target, path=folder / f"tried{target.format.suffix}")
            known = tried.format.write(source, tried, samples, None, SILENT)
            files = [replace(file, known=known) for file in candidate_files(tried.path)]
            evidence = compare(source, files, samples, SILENT)
    except (InputError, RunnerError):  # this way is closed
        return False
    judged = DriftReport.judged(evidence, plan.budget)
    return _BEST_FIRST.index(judged.verdict) < _BEST_FIRST.index(worst)
