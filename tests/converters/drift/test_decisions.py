"""Decisions: what changes, what is a tie, and which classes the changes belong to."""

import numpy as np
import pytest
from class_tables import gained, lost

from tfmp.converters.drift.classes import SUMS, ClassTable
from tfmp.converters.drift.decisions import by_argmax, by_equality, by_threshold
from tfmp.converters.drift.exact import merge


class TestArgmax:
    REFERENCE = np.array([[0.0, 5, 1], [4, 0, 0], [2.01, 2, 0]])
    CANDIDATE = np.array([[0.0, 5, 1], [0, 4, 0], [2, 2.01, 0]])

    def test_changes_and_ties(self):
        found, shares = by_argmax(self.REFERENCE, self.CANDIDATE, -1)
        assert (found.samples, found.decisions, found.changed, found.firm) == (3, 3, 2, 1)
        assert shares.tolist() == [0, 1, 1]

    def test_classes_count_what_they_lose_and_gain(self):
        table = by_argmax(self.REFERENCE, self.CANDIDATE, -1)[0].classes
        assert lost(table, "0") == (2, 1)  # the tie is nobody's loss
        assert lost(table, "1") == (1, 0)
        assert gained(table, "1") == (3, 1)
        assert list(table.rows) == ["0", "1"]

    @pytest.mark.parametrize(("margin", "firm"), [(1e-5, 0), (1e-3, 1)])
    def test_many_scores_that_lie_close_together_decide_by_less(self, margin, firm):
        reference = 0.9 + np.linspace(0, 2e-3, 20)[None]
        reference[0, -2] = reference[0, -1] - margin
        candidate = reference.copy()
        candidate[0, -2] += 2 * margin
        assert by_argmax(reference, candidate, -1)[0].firm == firm
        assert by_argmax(reference[:, -4:], candidate[:, -4:], -1)[0].firm == 0

    def test_a_class_that_is_gone_from_a_sample(self):
        reference = np.zeros((3, 6, 2))
        reference[:, :4, 0], reference[:, 4:, 1] = 9, 9
        candidate = reference.copy()
        candidate[0, 4:] = [9, 0]
        candidate[1, 4] = [9, 0]
        row = by_argmax(reference, candidate, -1)[0].classes.rows["1"]
        assert dict(zip(SUMS, row.tolist(), strict=False))["vanished"] == 1

    @pytest.mark.parametrize(("ratio", "firm"), [(1.01, 0), (1.04, 1)])
    def test_probabilities_are_told_apart_by_their_ratio(self, ratio, firm):
        small = 0.3 / ratio
        rest = 1 - 0.3 - small
        reference = np.array([[0.3, small, rest / 2, rest / 2]])
        candidate = np.array([[small, 0.3, rest / 2, rest / 2]])
        assert by_argmax(reference, candidate, -1)[0].firm == firm

    @pytest.mark.parametrize(("offset", "firm"), [(0.0, 0), (-0.02, 1), (0.01, 1)])
    def test_scores_that_are_as_good_as_1_are_a_tie(self, offset, firm):
        scores = np.full((1, 40), 0.995) + offset
        scores[0, 7], scores[0, 9] = 0.9995 + offset, 0.9985 + offset
        found, _ = by_argmax(scores, np.eye(40)[[9]], -1)
        assert (found.changed, found.firm) == (1, firm)

    def test_pixels_belong_to_their_sample(self):
        reference = np.zeros((2, 3, 5, 4))
        reference[..., 2] = 9
        candidate = reference.copy()
        candidate[1, 0, :, 1] = 20
        found, shares = by_argmax(reference, candidate, -1)
        assert (found.decisions, found.changed, found.changed_samples) == (30, 5, 1)
        assert (found.changed_sq, found.changed_decisions, found.decisions_sq) == (25, 75, 450)
        np.testing.assert_allclose(shares, [0, 1 / 3])
        first, other = (np.moveaxis(values, -1, 1) for values in (reference, candidate))
        assert by_argmax(first, other, 1)[0] == found

    def test_many_changes_are_told_from_ties_one_by_one(self):
        generator = np.random.default_rng(0)
        reference, candidate = generator.standard_normal((2, 3, 9000, 20))
        found = by_argmax(reference, candidate, -1)[0]
        best, chosen = reference.argmax(axis=2), candidate.argmax(axis=2)
        margin = np.take_along_axis(reference, np.stack([best, chosen], axis=2), axis=2)
        spread = margin[..., 0] - np.median(reference, axis=2)
        firm = margin[..., 0] - margin[..., 1] > 0.02 * np.minimum(1, spread)
        assert found.firm == np.count_nonzero(firm) < found.changed
        assert gained(found.classes, "7") == (
            np.count_nonzero(chosen == 7),
            np.count_nonzero((chosen == 7) & firm),
        )

    def test_a_sample_without_any_number_has_no_range(self):
        reference, candidate = np.zeros((2, 2, 3, 5))
        candidate[:, 1, 2] = reference[1, 0, 1] = 9
        reference[0] = np.nan
        found, _ = by_argmax(reference, candidate, -1, guess=True)
        assert (found.changed, found.firm) == (3, 1)

    def test_any_split_gives_the_same(self):
        generator = np.random.default_rng(0)
        reference = generator.standard_normal((40, 6, 9))
        candidate = reference + 0.3 * generator.standard_normal(reference.shape)
        whole = by_argmax(reference, candidate, -1)[0]
        parts = [
            by_argmax(reference[i : i + 7], candidate[i : i + 7], -1)[0] for i in range(0, 40, 7)
        ]
        merged = parts[-1]
        for part in parts[:-1]:
            merged = merge(merged, part)
        assert merged == whole
        assert whole.changed > 20
        assert ClassTable.from_json(whole.classes.to_json()) == whole.classes


class TestThreshold:
    def test_probabilities_and_logits(self):
        reference = np.array([[0.9, 0.501, 0.1], [0.2, 0.7, 0.3]])
        candidate = np.array([[0.9, 0.499, 0.1], [0.2, 0.3, 0.3]])
        found, _ = by_threshold(reference, candidate, 0.5)
        assert (found.decisions, found.changed, found.firm) == (6, 2, 1)
        assert lost(found.classes, "1") == (2, 1)
        logits, _ = by_threshold(reference - 0.5, candidate - 0.5, 0.0)
        assert (logits.changed, logits.firm) == (2, 1)

    def test_labels_of_many_pixels(self):
        generator = np.random.default_rng(0)
        reference, candidate = generator.random((2, 3, 40, 70, 2))
        found = by_threshold(reference, candidate, 0.5)[0]
        yes, firm = reference >= 0.5, np.abs(reference - 0.5) > 0.005
        lost_ones = yes & firm & (candidate < 0.5)
        for label in range(2):
            held, changed = (
                np.count_nonzero(flags[..., label], axis=(1, 2)) for flags in (yes, lost_ones)
            )
            row = dict(zip(SUMS, found.classes.rows[str(label)].tolist(), strict=False))
            assert row == {
                "samples": 3,
                "decisions": held.sum(),
                "changed": changed.sum(),
                "changed_sq": (changed**2).sum(),
                "changed_decisions": (changed * held).sum(),
                "decisions_sq": (held**2).sum(),
                "vanished": 0,
            }

    def test_more_pixels_than_a_byte_or_two_can_count(self):
        sure = np.ones((1, 2**17, 1), np.float32)
        found, _ = by_threshold(sure, 0 * sure, 0.5)
        assert lost(found.classes, "0") == (2**17, 2**17)

    def test_one_value_a_sample(self):
        found, shares = by_threshold(np.array([0.9, 0.1]), np.array([0.1, 0.1]), 0.5)
        assert (found.samples, found.decisions, found.firm) == (2, 2, 1)
        assert shares.tolist() == [1, 0]


class TestEquality:
    def test_texts_and_floats_that_are_ids(self):
        found, _ = by_equality(np.array(["cat", "wolf"]), np.array(["cat", "dog"]))
        assert lost(found.classes, "wolf") == (1, 1)
        assert gained(found.classes, "dog") == (1, 1)
        ids = by_equality(np.array([[2049.0], [7.0]]), np.array([[2048.0], [7.0001]]))[0]
        assert (ids.changed, lost(ids.classes, "2049")) == (1, (1, 1))

    def test_integers_that_go_to_a_neighbour(self):
        reference = np.array([[7], [7], [40_000], [40_000]])
        found, _ = by_equality(reference, reference + np.array([[1], [2], [40], [90]]))
        assert (found.changed, found.near) == (4, 2)

    def test_padding_counts_once(self):
        padded = np.array([[5, 3, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
        changed = padded.copy()
        changed[0, 0] = 4
        assert by_equality(padded, changed)[0].decisions == 3 + 6
        changed[0, 5] = 9  # no padding: the other side says something there
        assert by_equality(padded, changed)[0].decisions == 6 + 6

    def test_one_hot_rows_are_one_decision_each(self):
        rows = np.eye(50, dtype=np.int64)[np.arange(100) % 50]
        changed = rows.copy()
        changed[:4] = np.roll(rows[:4], 1, axis=1)
        changed[4] = 0
        found, shares = by_equality(rows, changed)
        assert (found.decisions, found.changed, found.changed_samples) == (100, 5, 5)
        assert shares.tolist() == [1.0] * 5 + [0.0] * 95
        assert found.classes.rows["place 4"][:3].tolist() == [2, 2, 1]
        by_token = by_equality(*(each.reshape(10, 10, 50) > 0 for each in (rows, changed)))[0]
        assert (by_token.samples, by_token.decisions, by_token.changed) == (10, 100, 5)

    def test_other_samples_beside_one_hot_rows_keep_all_their_values(self):
        labels = np.array([[0, 1, 0, 0], [1, 1, 0, 1]])
        changed = np.array([[0, 0, 1, 0], [1, 1, 1, 1]])
        found, shares = by_equality(labels, changed)
        assert (found.decisions, found.changed) == (1 + 4, 2)
        assert shares.tolist() == [1.0, 0.25]
        parts = [by_equality(labels[i : i + 1], changed[i : i + 1])[0] for i in range(2)]
        assert merge(*parts) == found

    def test_more_values_than_classes_have_no_table(self):
        many = np.arange(5000)[:, None]
        found, _ = by_equality(many, many)
        assert found.classes.rows == {}
        assert ClassTable.from_json(found.classes.to_json()) == found.classes
        few, _ = by_equality(many[:5], many[:5])
        assert merge(found, few).classes.overfull
