"""Verdicts on pairs that FP16 arithmetic makes: harm is seen, and its benign twin passes."""

from dataclasses import replace

import numpy as np
import pytest
from fp16_pairs import PAIRS, Pair

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.verdict import Verdict

LIMITS = (
    *("rel_l2", "sample_rel_l2", "between_samples", "between_columns", "between_places"),
    *("between_outputs", "wrong_samples", "near_end", "flip_rate", "class_flip_rate"),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
class TestPairs:
    def test_harm_is_seen_by_its_check(self, pair: Pair):
        judged = pair.judged(pair.harmful)
        broken = {check.name for check in judged.checks if check.verdict is not Verdict.PASS}
        assert judged.verdict is not Verdict.PASS
        assert pair.check in broken

    def test_the_same_model_with_a_tail_in_float32_passes(self, pair: Pair):
        judged = pair.judged(pair.benign)
        assert judged.verdict is Verdict.PASS, judged.reasons


@pytest.mark.parametrize("limit", LIMITS)
def test_no_limit_is_there_in_vain(limit: str):
    without = DriftBudget(**{limit: None})
    alone = [
        pair.name
        for pair in PAIRS
        if pair.check in (limit, "sample_share")
        and pair.judged(pair.harmful, without).verdict is Verdict.PASS
    ]
    assert alone


@pytest.mark.parametrize(
    "name",
    [
        "a quantile beside the median",
        "ramps of small steps",
        "some samples beside an offset",
        "chances near one",
        "an embedding beside its mean",
    ],
)
def test_numbers_in_place_of_missing_ones_hide_no_harm(name: str):
    pair = next(pair for pair in PAIRS if pair.name == name)

    def with_gaps(product: type, rest: type) -> dict[str, np.ndarray]:
        (found,) = pair.model(product, rest).values()
        missing = np.random.default_rng(7).random(found.shape) < 0.1
        return {"y": np.where(missing, found.dtype.type(-999), found)}

    gaps = replace(pair, model=with_gaps)
    assert gaps.judged(gaps.harmful).verdict is not Verdict.PASS
    assert gaps.judged(gaps.benign).verdict is Verdict.PASS
