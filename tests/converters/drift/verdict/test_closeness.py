"""Distances by sample and by column: what is small beside the others is judged by its own size."""

from dataclasses import replace

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputAccumulator, OutputDrift
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.closeness import closeness_checks

GENERATOR = np.random.default_rng(0)


def check(name: str, found: OutputDrift, budget: DriftBudget | None = None) -> Check | None:
    checks = closeness_checks(found, budget or DriftBudget())
    return next((each for each in checks if each.name == name), None)


class TestSamples:
    """Vectors of very different lengths."""

    REFERENCE = GENERATOR.standard_normal((400, 6)) * 10.0 ** GENERATOR.uniform(-2, 3, (400, 1))

    def test_all_right(self):
        found = check("sample_rel_l2", drift(self.REFERENCE, half(self.REFERENCE)))
        assert found.verdict is Verdict.PASS
        assert found.text.endswith(
            "budget 0.1; at most 0.75% of all samples are off by more (95% confidence)"
        )

    @pytest.mark.parametrize(
        ("bad", "verdict"),
        [(1, Verdict.INCONCLUSIVE), (12, Verdict.FAIL)],
    )
    def test_small_ones_that_are_lost(self, bad, verdict):
        candidate = half(self.REFERENCE)
        smallest = np.argsort(np.linalg.norm(self.REFERENCE, axis=1))[-200 - bad : -200]
        candidate[smallest] = 0
        found = drift(self.REFERENCE, candidate)
        assert found.rel_l2 < 0.01
        share = check("sample_share", found)
        assert share.verdict is verdict
        assert f"{bad} of 400 samples are off by more than 0.1 of their own size" in share.text

    def test_scalars_cross_zero_by_chance(self):
        reference = GENERATOR.standard_normal((400, 1))
        candidate = reference + 0.003 * GENERATOR.standard_normal((400, 1))
        assert check("sample_rel_l2", drift(reference, candidate)).verdict is Verdict.PASS
        prices = np.abs(reference) + 0.01  # what is never negative is small for a reason
        candidate = np.where(prices < 0.05, 0, prices)
        assert check("sample_share", drift(prices, candidate)).verdict is Verdict.FAIL
        rain = np.maximum(reference, 0)
        noisy = np.maximum(rain + 0.003 * GENERATOR.standard_normal(rain.shape), 0)
        assert check("sample_rel_l2", drift(rain, noisy)).verdict is Verdict.PASS

    def test_noise_that_all_samples_have_is_not_their_loss(self):
        still = self.REFERENCE / np.linalg.norm(self.REFERENCE, axis=1, keepdims=True)
        still[:40] *= 1e-2
        noisy = still + 4e-3 * GENERATOR.standard_normal(still.shape)
        found = check("sample_share", drift(still, noisy))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "no larger than those of the other samples" in found.text

    STEERING = np.where(np.arange(1500) % 5 < 4, 0.002, 0.3) * GENERATOR.standard_normal(1500)

    def test_all_of_one_size_that_are_lost_are_more_than_noise(self):
        straight = np.arange(1500) % 5 < 4
        exact = np.where(straight, 3e-4, self.STEERING)[:, None]
        noisy = exact + 1e-4 * GENERATOR.standard_normal(exact.shape)
        lost = np.where(straight[:, None], 0, noisy)
        assert check("sample_share", drift(exact, lost)).verdict is Verdict.FAIL

    def test_some_of_them_that_are_lost_beside_right_ones_are_no_tail_of_noise(self):
        amounts = np.where(np.arange(3000) % 30 == 0, 1e4, 1.0) * GENERATOR.uniform(1, 2, 3000)
        lost = half(np.where(np.arange(3000) % 10 == 1, -amounts, amounts))
        found = check("sample_share", drift(amounts[:, None], lost[:, None]))
        assert found.verdict is Verdict.FAIL

    def test_ids_are_not_read_by_size(self):
        accumulator = OutputAccumulator("y")
        accumulator.update(GENERATOR.integers(0, 9, (400, 6)), GENERATOR.integers(0, 9, (400, 6)))
        assert closeness_checks(accumulator.result(), DriftBudget()) == []

    def test_logits_are_read_without_their_offset(self):
        logits = 300 + GENERATOR.standard_normal((400, 6))
        noisy = logits + 0.3 * GENERATOR.standard_normal((400, 6))
        found = drift(logits, noisy, "classification")
        assert found.rel_l2 < 0.01
        assert check("sample_share", found).verdict is not Verdict.PASS

    @pytest.mark.parametrize(("noise", "verdict"), [(0.14, "FAIL"), (0.03, "INCONCLUSIVE")])
    def test_noise_of_logits_that_changes_probabilities_is_no_excuse(self, noise, verdict):
        logits = GENERATOR.standard_normal((600, 6))
        logits[::5] *= noise * 4
        noisy = logits + noise * GENERATOR.standard_normal(logits.shape)
        found = check("sample_share", drift(1000 + logits, 1000 + noisy, "classification"))
        assert found.verdict == verdict

    def test_evidence_without_rows_has_the_worst_sample(self):
        accumulator = OutputAccumulator("y")
        accumulator.update(self.REFERENCE, half(self.REFERENCE))
        assert check("sample_rel_l2", accumulator.result()).verdict is Verdict.PASS
        accumulator.update(self.REFERENCE, self.REFERENCE * 1.2)
        assert check("sample_rel_l2", accumulator.result()).verdict is Verdict.INCONCLUSIVE

    def test_switched_off(self):
        assert (
            check("sample_rel_l2", drift(np.eye(3), np.eye(3)), DriftBudget(sample_rel_l2=None))
            is None
        )


class TestSlices:
    """Price, rooms and yield of houses."""

    REFERENCE = np.stack(
        [
            GENERATOR.normal(3e5, 1e5, 500),
            GENERATOR.normal(4, 1.5, 500),
            GENERATOR.normal(0.05, 0.01, 500),
        ],
        axis=1,
    )

    def verdict(self, candidate: np.ndarray) -> Verdict:
        return check("slice_rel_l2", drift(self.REFERENCE, candidate)).verdict

    def test_all_right(self):
        assert self.verdict(self.REFERENCE * (1 + 1e-3)) is Verdict.PASS

    @pytest.mark.parametrize("lost", [0.0, 0.05])
    def test_the_smallest_is_lost_or_the_same_for_all(self, lost):
        candidate = self.REFERENCE.copy()
        candidate[:, 2] = lost
        found = drift(self.REFERENCE, candidate)
        assert found.rel_l2 < 1e-6
        failed = check("slice_rel_l2", found)
        assert failed.verdict is Verdict.FAIL
        assert failed.text.startswith("output 'y': column 2 of 3 is off by")

    def test_noise_of_float32_is_nobody_s_column(self):
        reference = self.REFERENCE.copy()
        reference[:, 2] = 1e-9 * GENERATOR.standard_normal(500)
        candidate = reference.copy()
        candidate[:, 2] = 0
        assert check("slice_rel_l2", drift(reference, candidate)).verdict is Verdict.PASS

    def test_a_channel_that_rounds_but_speaks_and_one_that_is_dead(self):
        reference = GENERATOR.standard_normal((50, 4, 4, 3)) * [1, 1, 2e-3]
        noisy = reference + 5e-4 * GENERATOR.standard_normal(reference.shape)
        assert check("slice_rel_l2", drift(reference, noisy)).verdict is Verdict.PASS
        dead = reference * [1, 1, 0]
        assert check("slice_rel_l2", drift(reference, dead)).verdict is Verdict.FAIL

    def test_an_offset_hides_no_variation(self):
        reference = 100 + 0.05 * GENERATOR.standard_normal((300, 1))
        found = check("slice_rel_l2", drift(reference, np.full((300, 1), 100.0)))
        assert found.verdict is Verdict.FAIL
        constant = 5 + 1e-6 * GENERATOR.standard_normal((300, 1))
        found = check("slice_rel_l2", drift(constant, np.full((300, 1), 5.0)))
        assert found.verdict is Verdict.PASS

    def test_vectors_are_read_as_a_whole(self):
        vectors = GENERATOR.standard_normal((300, 8))
        lost = vectors * ([1] * 7 + [0])
        assert check("slice_rel_l2", drift(vectors, lost)).verdict is Verdict.FAIL
        nearly = drift(vectors * ([1] * 7 + [1e-3]), lost, "embedding")
        assert check("slice_rel_l2", nearly).verdict is Verdict.PASS
        found = drift(100 + vectors * 0.01, np.full((300, 8), 100.0), "embedding")
        assert found.rel_l2 < 0.01
        assert check("slice_rel_l2", found).verdict is Verdict.FAIL

    @pytest.mark.parametrize(
        ("variation", "verdict"),
        [(1.0, Verdict.PASS), (0.05, Verdict.FAIL), (0.01, Verdict.INCONCLUSIVE)],
    )
    def test_correct_rounding_beside_an_offset(self, variation, verdict):
        reference = 100 + variation * GENERATOR.standard_normal((300, 1))
        found = check("slice_rel_l2", drift(reference, half(reference)))
        assert found.verdict is verdict
        assert ("Leave the offset out" in found.text) == (verdict is not Verdict.PASS)

    @pytest.mark.parametrize("task", [None, "regression"])
    def test_a_tenth_of_the_variation_is_told_unless_it_is_declared(self, task):
        places = GENERATOR.uniform([52.4, 113.3], [52.65, 113.55], (600, 2))
        found = check("slice_rel_l2", drift(places, half(places), task))
        assert found.measured < 0.1
        assert ("declare --task y=regression" in found.text) == (task is None)
        wide = GENERATOR.uniform([47, 108], [55, 115], (600, 2))
        assert check("slice_rel_l2", drift(wide, half(wide))).verdict is Verdict.PASS
        shrunk = wide + 0.2 * (wide.mean(axis=0) - wide)
        found = check("slice_rel_l2", drift(wide, shrunk, task))
        assert ("a tenth of what tells samples apart" in found.text) == (task is None)

    def test_samples_of_zeros_say_nothing_of_the_variation(self):
        reference = 100 + 0.02 * GENERATOR.standard_normal((500, 3))
        reference[::50] = 0
        found = check("slice_rel_l2", drift(reference, half(reference)))
        assert found.verdict is Verdict.FAIL

    def test_neighbours_that_share_a_slice(self):
        reference = 40 + 0.3 * GENERATOR.standard_normal((60, 5000))
        noisy = reference + 0.03 * GENERATOR.standard_normal(reference.shape)
        found = check("slice_rel_l2", drift(reference, noisy, "regression"))
        assert 0.03 < found.measured < 0.06

    def test_noise_of_most_columns_is_no_excuse(self):
        reference = GENERATOR.standard_normal((300, 64)) * ([2000] + [1] * 63)
        noisy = reference + 0.4 * GENERATOR.standard_normal(reference.shape)
        assert check("slice_rel_l2", drift(reference, noisy)).verdict is Verdict.FAIL
        reference[:, 1:32] *= 2000
        noisy = reference + 0.4 * GENERATOR.standard_normal(reference.shape)
        assert check("slice_rel_l2", drift(reference, noisy)).verdict is Verdict.INCONCLUSIVE

    def test_boxes_of_a_few_pixels_have_a_size(self):
        corner = GENERATOR.uniform(200, 1800, (300, 2))
        boxes = np.concatenate([corner, corner + GENERATOR.uniform(6, 30, corner.shape)], axis=1)
        average = half(np.concatenate([corner, corner + 18], axis=1))
        name = "what lies between columns"

        def about_sizes(reference, candidate):
            checks = closeness_checks(drift(reference, candidate), DriftBudget())
            return next((each for each in checks if name in each.text), None)

        assert about_sizes(boxes, half(boxes)).verdict is Verdict.PASS
        found = about_sizes(boxes, average)
        assert found.verdict is Verdict.FAIL
        assert "such as the size of a box, is off by 1" in found.text
        tiny = np.concatenate([corner, corner + GENERATOR.uniform(2, 5, corner.shape)], axis=1)
        rounded = about_sizes(tiny, half(tiny))
        assert rounded.verdict is Verdict.INCONCLUSIVE
        assert "FP16 has no numbers between" in rounded.text
        assert about_sizes(boxes[:5], average[:5]) is None
        found = about_sizes(boxes[:, [0, 2]], average[:, [0, 2]])
        assert found.verdict is Verdict.FAIL
        assert "what lies between columns 0 and 1, such as" in found.text
        boxes[7] = boxes[7, ::-1]
        assert (boxes[7, 2:] < boxes[7, :2]).any()
        assert about_sizes(boxes, average) is None

    def test_features_that_are_silent_have_no_noise(self):
        features = np.maximum(GENERATOR.standard_normal((20, 300)), 0)
        features[:, 100:] = 0
        features[0, :4] = 0.02
        features[1:, :4] = 0
        noisy = features + 3e-3 * (features > 0) * GENERATOR.choice([-1, 1], features.shape)
        assert check("slice_rel_l2", drift(features, noisy)).verdict is Verdict.PASS

    def test_scores_that_all_became_smaller_are_no_noise(self):
        boxes = GENERATOR.uniform(1, 640, (200, 50, 4))
        scores = 0.9 * (GENERATOR.random((200, 50, 12)) < 0.005)
        reference = np.concatenate([boxes, scores], axis=2)
        noisy, halved = half(reference), half(reference)
        noisy[..., 4:] += 0.03 * GENERATOR.standard_normal(scores.shape)
        halved[..., 4:] /= 2
        assert check("slice_rel_l2", drift(reference, noisy)).verdict is Verdict.INCONCLUSIVE
        found = check("slice_rel_l2", drift(reference, halved))
        assert found.verdict is Verdict.FAIL
        assert found.text.endswith("12 such columns are over it")

    def test_places_on_the_first_axis(self):
        reference = GENERATOR.standard_normal((100, 6, 4, 4))
        dead = reference.copy()
        dead[:, 3] = 0
        checks = closeness_checks(drift(reference, dead), DriftBudget(rel_l2=None))
        assert any("place 3 of 6 on axis 1 is off by 1" in each.text for each in checks)


def test_flips_are_judged_as_flips():
    codes = np.eye(8, dtype=np.float32)[GENERATOR.integers(0, 8, 1000)]
    candidate = codes.copy()
    candidate[:2] = np.roll(candidate[:2], 1, axis=1)
    found = check("rel_l2", drift(codes, candidate))
    assert found.measured > 0.01
    assert found.verdict is Verdict.PASS
    assert "and 0 without the few samples over sample_rel_l2" in found.text
    assert check("rel_l2", drift(codes, codes * 1.1)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("measured", "limit", "told"),
    [
        (0.010000001, 0.01, "0.010000001 is over the budget of 0.01"),
        (0.0100049, 0.01, "0.010005 is over the budget of 0.01"),
        (0.00999999, 0.01, "0.00999999 is within the budget of 0.01"),
        (0.012346, 0.012345, "0.01235 is over the budget of 0.012345"),
        (0.012346, 0.0123465, "0.0123 is within the budget of 0.0123465"),
        (0.05, 0.01, "0.05 is over the budget of 0.01"),
    ],
)
def test_a_number_shows_on_which_side_of_the_budget_it_is(measured, limit, told):
    values = np.ones((60, 1))
    output = replace(drift(values, values * 1.1), rel_l2=measured)
    found = closeness_checks(output, DriftBudget(rel_l2=limit, sample_rel_l2=None))
    assert f"rel_l2 {told}" in found[0].text


@pytest.mark.parametrize(
    ("task", "verdict"), [("binary", Verdict.PASS), (None, Verdict.INCONCLUSIVE)]
)
def test_probabilities_that_are_nearly_1_are_as_good_as_1(task, verdict):
    sure = 1 - 3e-4 * GENERATOR.lognormal(0, 0.3, (500, 1))
    assert check("slice_rel_l2", drift(sure, half(sure), task)).verdict is verdict
    beside = np.concatenate([sure, GENERATOR.uniform(0, 1, (500, 1))], axis=1)
    assert check("slice_rel_l2", drift(beside, half(beside), task)).verdict is Verdict.PASS
    vague = 0.5 + 0.003 * GENERATOR.standard_normal((500, 1))
    other = 0.5 + 0.003 * GENERATOR.standard_normal((500, 1))
    assert check("slice_rel_l2", drift(vague, other, task)).verdict is Verdict.FAIL


def test_few_numbers_near_zero_are_no_lost_samples():
    scores = np.abs(GENERATOR.standard_normal((300, 1))) + 0.02
    scores[:3] = 0.004
    noisy = scores + 1e-3 * GENERATOR.standard_normal(scores.shape)
    noisy[:3] = 0.0028
    found = check("sample_share", drift(scores, noisy))
    assert found.verdict is Verdict.PASS
    assert "3 of them are noise beside larger samples" in found.text
    noisy[:20] = 3 * scores[:20] + 1
    assert check("sample_share", drift(scores, noisy)).verdict is Verdict.FAIL


@pytest.mark.parametrize("task", [None, "regression"])
def test_the_next_step_for_a_place_that_may_be_noise_leads_on(task):
    generator = np.random.default_rng(3)
    flow = generator.standard_normal((300, 16, 16, 2))
    flow[:, 15] *= 1e-3
    found = drift(flow, flow + 1e-3 * generator.standard_normal(flow.shape), task)
    (text,) = [
        check.text
        for check in closeness_checks(found, DriftBudget())
        if check.verdict is Verdict.INCONCLUSIVE
    ]
    assert text.endswith("as an output of its own, or set y.slice_rel_l2 to more than that")
    taken = DriftBudget(slice_rel_l2=1.1)
    assert all(check.verdict is Verdict.PASS for check in closeness_checks(found, taken))


def test_only_few_samples_are_left_out_whatever_the_budget_of_one_sample_is():
    """A column that is dead on a third of all samples does not hide behind one broken sample."""
    reference = GENERATOR.standard_normal((4000, 6)) * [10, 10, 10, 10, 10, 0]
    reference[:1500, 5] = GENERATOR.choice([-6, 6], 1500)
    candidate = reference.copy()
    candidate[:1500, 5] = 0
    candidate[-1] *= -1
    found = drift(reference, candidate, "regression")
    checks = closeness_checks(found, DriftBudget(sample_rel_l2=1.5))
    assert any("column 5 of 6 is off by 1" in each.text for each in checks)
