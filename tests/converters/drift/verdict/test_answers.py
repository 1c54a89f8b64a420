"""Checks of answers against labels: limits, floors, and the sentences."""

import pytest

from tfmp.converters.drift import DriftBudget, LabelDrift, LabelTotals
from tfmp.converters.drift.labels.metric import Metric, metric
from tfmp.converters.drift.verdict.answers import label_checks
from tfmp.converters.drift.verdict.check import Check


def label(*metrics: Metric, samples: int = 450, output: str = "y") -> LabelDrift:
    first = metrics[0]
    values = first.name, samples, first.reference, first.candidate
    return LabelDrift(output, "class ids", *values, 3, 1, LabelTotals(samples), metrics)


def accuracy(lost: int, gained: int = 0, samples: int = 450, primary: bool = True) -> Metric:
    right = 0.9 * samples
    return metric(
        "accuracy",
        right / samples,
        (right - lost + gained) / samples,
        primary=primary,
        samples=samples,
        lost=lost,
        gained=gained,
        standard_error=(((lost + gained) / samples - ((lost - gained) / samples) ** 2) / samples)
        ** 0.5,
    )


def score(reference: float, candidate: float, spread: float | None = 0.001, **facts) -> Metric:
    given = {"primary": True, "samples": 450, "reach": 0.0, "standard_error": spread}
    return metric(facts.pop("name", "macro F1"), reference, candidate, **{**given, **facts})


def growth(reference: float, candidate: float, deviation: float | None = 1.0, **facts) -> Metric:
    facts = {"lower_is_better": True, "deviation": deviation, **facts}
    return score(reference, candidate, name="mean absolute error", **facts)


def check(found: Metric, budget: DriftBudget | None = None, samples: int = 450) -> Check:
    (only,) = label_checks(label(found, samples=samples), budget or DriftBudget())
    return only


def test_a_primary_metric_that_is_open_says_what_would_decide() -> None:
    for each in (accuracy(3, 1), score(0.9, 0.895, 0.01)):
        found = check(each)
        assert found.verdict == "INCONCLUSIVE"
        assert " samples: at this drop they decide" in found.text
    found = check(score(0.9, 0.9, None))
    assert found.verdict == "INCONCLUSIVE"
    assert "; these samples do not bound the true drop, budget 1.00%" in found.text
    assert found.text.endswith("It takes more samples to say how certain this is")


def test_a_secondary_metric_fails_beyond_doubt_and_is_never_open() -> None:
    checks = label_checks(
        label(
            accuracy(0),
            score(0.9, 0.895, 0.01, primary=False),
            score(0.9, 0.7, 0.01, primary=False, name="mean IoU"),
        ),
        DriftBudget(),
    )
    assert [(each.name, each.verdict.value) for each in checks] == [
        ("accuracy_drop", "PASS"),
        ("macro_f1_drop", "PASS"),
        ("mean_iou_drop", "FAIL"),
    ]
    assert checks[1].text == (
        "output 'y': macro F1 90.00% -> 89.50%; the true drop is not proven to be over the budget "
        "1.00%"
    )
    assert checks[2].text == (
        "output 'y': mean IoU 90.00% -> 70.00%; the true drop is at least 18.36% (95% "
        "confidence), budget 1.00%"
    )


def test_a_ratio_takes_the_place_of_the_drop() -> None:
    budget = DriftBudget(accuracy_ratio=0.99)
    good, bad = score(0.5, 0.497, 0.0005), score(0.5, 0.4935, 0.0005)
    assert check(bad).verdict == "PASS"  # 0.65 points
    found = check(bad, budget)
    assert (found.name, found.verdict) == ("macro_f1_ratio", "FAIL")
    assert found.limit == pytest.approx(0.01)
    assert found.measured == pytest.approx(0.013)
    assert found.text.endswith("(95% confidence), budget 1.00% of the reference")
    assert check(good, budget).verdict == "PASS"
    assert check(accuracy(0), DriftBudget(accuracy_ratio=0.99)).name == "accuracy_ratio"


def test_the_floor_is_told_and_can_be_set() -> None:
    found = growth(1e-6, 2e-4, 0.5, standard_error=1e-6)
    assert check(found).text == (
        "output 'y': mean absolute error 1e-06 -> 0.0002; the true increase is at most 0.0002006 "
        "(95% confidence), budget 0.002499, from an added error of 0.50% of the labels' standard "
        "deviation (0.5)"
    )
    for floor in (None, 1e-5):
        assert check(found, DriftBudget(error_floor=floor)).verdict == "FAIL"


def own(reference: float, candidate: float, **facts) -> Metric:
    facts = {"own": True, "lower_is_better": True, **facts}
    return score(reference, candidate, name="word error rate", **facts)


def test_an_error_may_be_limited_in_its_own_unit() -> None:
    perfect = own(0.0, 0.001, spread=0.0002)
    assert check(perfect).verdict == "FAIL"
    assert check(perfect).text.endswith(". For a limit in its own unit, set error_added")
    found = check(perfect, DriftBudget(error_added=0.005))
    assert (found.name, found.verdict, found.limit) == ("word_error_rate_added", "PASS", 0.005)
    assert found.text == (
        "output 'y': word error rate 0 -> 0.001; the true increase is at most 0.001329 "
        "(95% confidence), budget 0.005"
    )
    assert check(growth(1.0, 1.5), DriftBudget(error_added=0.1)).verdict == "FAIL"


@pytest.mark.parametrize(
    ("found", "last"),
    [
        (own(0.01, 0.01), "For a limit in its own unit, set error_added"),
        (
            own(98.8, 98.8, spread=0.1, lower_is_better=False),
            "This limit is in its own unit; for one relative to its value, set accuracy_ratio",
        ),
    ],
)
def test_a_limit_that_does_not_fit_the_metric_names_the_other_one(found, last) -> None:
    assert check(found).verdict == "INCONCLUSIVE"
    assert check(found).text.split(". ")[-1] == last


def test_limits_can_be_off() -> None:
    off = DriftBudget(accuracy_drop=None, error_increase=None)
    assert label_checks(label(accuracy(30)), off) == []
    assert label_checks(label(growth(1.0, 2.0)), off) == []
    assert label_checks(label(accuracy(0), samples=0), DriftBudget()) == []


def test_an_own_metric_is_told_in_its_unit() -> None:
    found = score(31.2, 31.1, 0.01, name="bleu", own=True, resamples=1000)
    budget = DriftBudget(accuracy_drop=0.2)
    assert check(found, budget).text == (
        "output 'y': bleu 31.2 -> 31.1 (1,000 resamples); the true drop is at most 0.1164 (95% "
        "confidence), budget 0.2"
    )
    error = score(0.1, 0.2, 0.001, name="wer", own=True, lower_is_better=True)
    assert (check(error).name, check(error).verdict) == ("wer_increase", "FAIL")


def test_copies_are_told() -> None:
    found = score(0.9, 0.9, reach=1.0, samples=10)
    assert "(10 distinct samples)" in check(found).text
