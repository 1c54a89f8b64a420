"""Merges the reports of shards into one: the same models on different samples."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from tfmp.converters.drift import (
    CUSTOM,
    LabelDrift,
    LabelTotals,
    OutputDrift,
    Task,
    Totals,
    add_labels,
    drift_of,
    kinds_of,
    label_drift,
    merge,
)
from tfmp.converters.report.model import (
    CandidateEvidence,
    DriftReport,
    Evidence,
    ReferenceReport,
    Stage,
)
from tfmp.converters.samples import DataReport, add_hashes, merged_sizes
from tfmp.converters.shared.errors import InputError

AnyEvidence = TypeVar("AnyEvidence", bound=Evidence)


def merge_reports(reports: Sequence[DriftReport]) -> DriftReport:
    """Judges the samples of all reports together.

    The result equals the report of one run over all samples: totals merge exactly.

    Raises:
        InputError: there is no report, the reports are of different models, runners or budgets, or
            two are of the same samples.
    """
    if not reports:
        raise InputError("there is no report to merge. Name at least one report.")
    first = reports[0]
    if len(reports) == 1:
        return first
    for report in reports:
        report.check_judgeable()
    for number, report in enumerate(reports[1:], start=2):
        check_same_run(first, report, f"report {number}")
        _check_same(first.budget, report.budget, "budget", f"report {number}")
    _check_no_shard_twice(reports)
    data = _merge_data([report.data for report in reports])
    return DriftReport.judged(join(reports, data), first.budget)


def join(shards: Sequence[AnyEvidence], data: DataReport) -> AnyEvidence:
    """The evidence of all shards together, without a check that they belong together.

    Verdicts of shards that have some stay as those of the first.

    Args:
        shards: one shard or more.
        data: all of the samples.
    """
    rows = zip(*(shard.candidates for shard in shards), strict=True)
    return replace(
        shards[0],
        reference=_merge_noise(shards),
        candidates=tuple(_merge_candidates(row) for row in rows),
        data=data,
    )


def recomputed(report: DriftReport) -> DriftReport:
    """The report with every number that follows from its totals taken from these again.

    The verdicts stay as they are: an older version may have judged in another way.
    """
    return join([report], report.data)


def check_same_run(first: Evidence, other: Evidence, name: str) -> None:
    """Raises `InputError` unless two shards are of the same models and runners.

    Args:
        first: one shard.
        other: another one.
        name: name of the other shard, for the message.
    """
    for what, of in _SAME.items():
        _check_same(of(first), of(other), what, name)


def _check_same(one: object, two: object, what: str, name: str) -> None:
    if one != two:
        raise InputError(
            f"{name} is of another run: its {what} is {two}, the first report's is {one}. Merge "
            "reports of the same models, runners and budget."
        )


def _kind(data: DataReport) -> str:
    made = "synthetic" if data.synthetic else "real"
    return f"{made}, {'with' if data.labelled else 'without'} labels"


def _run(candidate: CandidateEvidence) -> str:
    runner = candidate.runner
    on = f"{runner.name} on {runner.device}, FP16: {runner.fp16}"
    return f"{candidate.name} (sha256 {candidate.sha256}) by {on}"


_SAME: dict[str, Callable[[Evidence], object]] = {
    "reference": lambda shard: f"{shard.reference.name} (sha256 {shard.reference.sha256})",
    "candidates": lambda shard: "; ".join(map(_run, shard.candidates)),
    "kind of data": lambda shard: _kind(shard.data),
}


def _check_no_shard_twice(reports: Sequence[DriftReport]) -> None:
    seen: dict[str, int] = {}
    for number, report in enumerate(reports, start=1):
        before = seen.setdefault(report.data.sha256, number)
        if before != number:
            raise InputError(
                f"reports {before} and {number} are of the same samples (sha256 "
                f"{report.data.sha256[:12]}): they would count twice. Leave one out."
            )


def _merge_data(shards: Sequence[DataReport]) -> DataReport:
    nonfinite: dict[str, int] = {}
    for shard in shards:
        for name, count in shard.nonfinite.items():
            nonfinite[name] = nonfinite.get(name, 0) + count
    sizes = reduce(merged_sizes, (shard.sizes for shard in shards))
    return replace(
        shards[0],
        sizes=sizes,
        source=", ".join(dict.fromkeys(shard.source for shard in shards)),
        samples=sum(shard.samples for shard in shards),
        sha256=f"{add_hashes(*(int(shard.sha256, 16) for shard in shards)):064x}",
        nonfinite=nonfinite,
        notes=tuple(dict.fromkeys(note for shard in shards for note in shard.notes)),
    )


def _merge_noise(shards: Sequence[Evidence]) -> ReferenceReport:
    """Left out unless every shard has it: it must be of all samples."""
    floors = [shard.reference.noise_floor for shard in shards]
    notes = dict.fromkeys(note for shard in shards for note in shard.reference.notes)
    return replace(
        shards[0].reference,
        notes=tuple(notes),
        noise_floor=_merge_outputs(floors) if all(floors) else (),
    )


def _merge_candidates(shards: Sequence[CandidateEvidence]) -> CandidateEvidence:
    errors = [shard.error for shard in shards if shard.error is not None]
    notes = dict.fromkeys(note for shard in shards for note in shard.notes)
    if len(shards) > 1 and any(shard.explanation is not None for shard in shards):
        # Layers were measured on a few samples of each shard, chosen there.
        notes["explanations are not merged: see the report of each shard"] = None
    told = next((shard for shard in shards if shard.remedy), shards[0])
    labels = () if errors else _merge_labels([shard.labels for shard in shards])
    return replace(
        shards[0],
        outputs=() if errors else _merge_outputs([shard.outputs for shard in shards], labels),
        labels=labels,
        notes=tuple(notes),
        overflows=tuple(dict.fromkeys(found for shard in shards for found in shard.overflows)),
        remedy=told.remedy,
        remedy_flags=told.remedy_flags,
        error=errors[0] if errors else None,
        stages=() if errors else _merge_stages([shard.stages for shard in shards]),
        explanation=shards[0].explanation if len(shards) == 1 else None,
    )


def _merge_stages(shards: Sequence[tuple[Stage, ...]]) -> tuple[Stage, ...]:
    """Likewise: a stage that some shard lacks is left out."""
    merged = []
    for stage in shards[0]:
        same = [item for shard in shards for item in shard if item.name == stage.name]
        errors = [item.error for item in same if item.error is not None]
        if errors:
            merged.append(Stage(stage.name, (), errors[0]))
        elif len(same) == len(shards):
            merged.append(Stage(stage.name, _merge_outputs([item.outputs for item in same])))
    return tuple(merged)


def _merge_outputs(
    shards: Sequence[tuple[OutputDrift, ...]], labels: Sequence[LabelDrift] = ()
) -> tuple[OutputDrift, ...]:
    totals: dict[str, Totals] = {}
    known: dict[str, Task | None] = {}
    for shard in shards:
        for output in shard:
            totals[output.name] = merge(totals.get(output.name, Totals()), output.totals)
            known[output.name] = known.get(output.name) or output.known
    kinds = kinds_of(labels)
    return tuple(
        drift_of(name, found, known[name], kinds.get(name)) for name, found in totals.items()
    )


def _merge_labels(shards: Sequence[tuple[LabelDrift, ...]]) -> tuple[LabelDrift, ...]:
    """The metrics are left to the verdict on all samples; those of one shard stay as they are."""
    if len(shards) == 1:
        return shards[0]
    totals: dict[tuple[str, str], LabelTotals] = {}
    kinds: dict[tuple[str, str], str] = {}
    for shard in shards:
        for label in shard:
            # One output has one kind of labels, or any number of metrics of the user's own.
            own = label.totals.reading if label.kind == CUSTOM else ""
            key = (label.output, own or "")
            kinds.setdefault(key, label.kind)
            totals[key] = add_labels(totals.get(key, LabelTotals()), label.totals)
    return tuple(label_drift(key[0], kinds[key], found) for key, found in totals.items())
