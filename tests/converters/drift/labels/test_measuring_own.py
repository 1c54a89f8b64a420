"""Metrics of the user's own that have no value for some samples."""

import numpy as np
import pytest
from label_runs import compared

from tfmp.converters.drift import CustomMetric, DriftBudget
from tfmp.converters.drift.verdict.answers import label_checks
from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.shared.errors import InputError

SCORES = np.linspace(0.5, 0.9, 400, dtype=np.float32)[:, None]
LABELS = np.arange(400)
OWN = {"metrics": (CustomMetric.of(lambda predictions, labels: predictions[:, 0]),)}


def with_nan(*rows: int) -> np.ndarray:
    scores = SCORES.copy()
    scores[list(rows)] = np.nan
    return scores


def test_a_reference_without_a_value_is_refused() -> None:
    with pytest.raises(InputError, match=r"gives nan for a sample of the reference.*both models"):
        compared(LABELS, with_nan(3), SCORES, **OWN)


def test_a_candidate_without_a_value_fails() -> None:
    (check,) = label_checks(compared(LABELS, SCORES, with_nan(3), **OWN), DriftBudget())
    assert check.verdict is Verdict.FAIL
    assert "it is NaN or infinite for some samples of the candidate" in check.text
