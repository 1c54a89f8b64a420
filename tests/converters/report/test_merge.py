"""Shards merge to the report of the whole, and what does not belong together is refused."""

from dataclasses import replace

import pytest

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.report.merge import merge_reports
from tfmp.converters.report.model import DriftReport
from tfmp.converters.shared.errors import InputError

PARTS = (slice(0, 100), slice(100, 107), slice(107, 450))


def unexplained(report):
    """What merged shards can say: which layers a shard's drift is from was seen there alone."""
    note = "explanations are not merged: see the report of each shard"
    return replace(
        report,
        candidates=tuple(
            replace(candidate, explanation=None, notes=(*candidate.notes, note))
            if candidate.explanation is not None
            else candidate
            for candidate in report.candidates
        ),
    )


def test_shards_in_any_order_give_the_report_of_the_whole(make_report, report) -> None:
    shards, whole = [make_report(part) for part in PARTS], repr(unexplained(report))
    assert repr(merge_reports(shards)) == whole
    assert repr(merge_reports(shards[::-1])) == whole
    assert repr(merge_reports([merge_reports(shards[:2]), shards[2]])) == whole
    assert repr(merge_reports([report])) == repr(report)


def test_an_error_in_one_shard_fails_the_candidate(make_report) -> None:
    one, two = make_report(PARTS[0]), make_report(PARTS[1])
    crashed = replace(two.candidates[0], outputs=(), labels=(), error="it crashed")
    two = replace(two, candidates=(crashed, *two.candidates[1:]))
    found = merge_reports([one, two]).candidates[0]
    assert (found.verdict, found.reasons, found.outputs) == ("FAIL", ("it crashed",), ())


def test_layers_past_fp16_fail_the_whole_and_any_budget(make_report) -> None:
    one, two = make_report(slice(0, 150)), make_report(slice(150, None))
    told = "overflows in FP16: layer norm"
    one = replace(one, candidates=(replace(one.candidates[0], overflows=(told,)),))
    two = replace(two, candidates=two.candidates[:1])
    merged = merge_reports([one, two]).judged_by(DriftBudget(rel_l2=None, flip_rate=1))
    assert (merged.verdict, merged.candidates[0].reasons) == ("FAIL", (told,))
    assert DriftReport.from_dict(merged.to_dict()) == merged


def test_sources_are_listed_and_the_same_samples_refused(make_report) -> None:
    shards = [
        replace(report, data=replace(report.data, source=f"{index}.npz"))
        for index, report in enumerate(map(make_report, PARTS))
    ]
    assert merge_reports(shards).data.source == "0.npz, 1.npz, 2.npz"
    shards = [make_report(PARTS[0]), make_report(PARTS[1]), make_report(PARTS[0])]
    with pytest.raises(InputError) as caught:
        merge_reports(shards)
    assert str(caught.value) == (
        f"reports 1 and 3 are of the same samples (sha256 {shards[0].data.sha256[:12]}): they "
        "would count twice. Leave one out."
    )


def test_other_runs_are_refused(make_report) -> None:
    one, two = make_report(PARTS[0]), make_report(PARTS[1])
    with pytest.raises(InputError, match="report 2 is of another run: its budget is "):
        merge_reports([one, two.judged_by(DriftBudget(rel_l2=0.5))])
    with pytest.raises(InputError, match="report 2 is of another run: its candidates is "):
        merge_reports([one, replace(two, candidates=two.candidates[:1])])
    with pytest.raises(InputError, match="report 2 is of another run: its reference is "):
        merge_reports([one, replace(two, reference=replace(two.reference, sha256="other"))])
    with pytest.raises(InputError, match="its kind of data is synthetic, with labels, the first"):
        merge_reports([one, replace(two, data=replace(two.data, synthetic=True))])
    with pytest.raises(InputError, match="there is no report to merge"):
        merge_reports([])
