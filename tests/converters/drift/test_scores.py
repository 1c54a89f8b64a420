"""Scores that nobody can choose: what masks forbid, and NaN on both sides."""

import numpy as np
import pytest

from tfmp.converters.drift.scores import without_masks

SCORES = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)


@pytest.mark.parametrize("gone", [-65504, -np.inf])
@pytest.mark.parametrize("mask", [-1e9, -np.inf])
def test_rows_that_are_forbidden_throughout(mask, gone):
    exact = np.where(np.arange(300)[:, None] % 3 == 0, np.float32(mask), SCORES)
    received = np.where(exact < -1e8, np.float32(gone), SCORES)
    one, other, never = without_masks(exact, received, -1, exact.min())
    assert never is not None
    assert (never == (exact < -1e8)).all()
    assert (one == other).all()
    assert without_masks(exact, np.where(exact < -1e8, 0, SCORES), -1, exact.min())[2] is None
    lost = np.float32(-1e6) + SCORES  # scores that FP16 has one number for
    assert without_masks(lost, np.full_like(lost, -65504), -1, lost.min())[2] is None
