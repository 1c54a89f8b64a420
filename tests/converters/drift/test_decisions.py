"""Decisions: what changes, what is a tie, and which classes the changes belong to."""

import numpy as np
import pytest
from class_tables import gained, lost

from tfmp.converters.drift.classes import ClassTable
from tfmp.converters.drift.decisions import by_argmax, by_equality, by_threshold
from tfmp.converters.drift.exact import merge
from tfmp.converters.shared.errors import InputError


class TestArgmax:
    REFERENCE = np.array([[0.0, 5, 1], [4, 0, 0], [2.01, 2, 0]])
    CANDIDATE = np.array([[0.0, 5, 1], [0, 4, 0], [2, 2.01, 0]])

    def test_changes_and_ties(self):
        found = by_argmax(self.REFERENCE, self.CANDIDATE, -1)
        assert (found.samples, found.decisions, found.changed, found.firm) == (3, 3, 2, 1)

    def test_classes_count_what_they_lose_and_gain(self):
        table = by_argmax(self.REFERENCE, self.CANDIDATE, -1).classes
        assert lost(table, "0") == (2, 1)  # the tie is nobody's loss
        assert lost(table, "1") == (1, 0)
        assert gained(table, "1") == (3, 1)
        assert list(table.rows) == ["0", "1"]

    @pytest.mark.parametrize(("ratio", "firm"), [(1.01, 0), (1.04, 1)])
    def test_probabilities_are_told_apart_by_their_ratio(self, ratio, firm):
        small = 0.3 / ratio
        rest = 1 - 0.3 - small
        reference = np.array([[0.3, small, rest / 2, rest / 2]])
        candidate = np.array([[small, 0.3, rest / 2, rest / 2]])
        assert by_argmax(reference, candidate, -1).firm == firm

    def test_pixels_belong_to_their_sample(self):
        reference = np.zeros((2, 3, 5, 4))
        reference[..., 2] = 9
        candidate = reference.copy()
        candidate[1, 0, :, 1] = 20
        found = by_argmax(reference, candidate, -1)
        assert (found.decisions, found.changed, found.changed_samples) == (30, 5, 1)
        assert (found.changed_sq, found.decisions_sq, found.share) == (
            25,
            450,
            pytest.approx(1 / 3),
        )
        first, other = (np.moveaxis(values, -1, 1) for values in (reference, candidate))
        assert by_argmax(first, other, 1) == found

    def test_many_changes_are_told_from_ties_one_by_one(self):
        generator = np.random.default_rng(0)
        reference, candidate = generator.standard_normal((2, 3, 9000, 20))
        found = by_argmax(reference, candidate, -1)
        best, chosen = reference.argmax(axis=2), candidate.argmax(axis=2)
        margin = np.take_along_axis(reference, np.stack([best, chosen], axis=2), axis=2)
        firm = margin[..., 0] - margin[..., 1] > 0.02
        assert found.firm == np.count_nonzero(firm) < found.changed
        held, changed = chosen == 7, (chosen == 7) & firm
        count, share = gained(found.classes, "7")
        assert count == np.count_nonzero(held)
        assert share == pytest.approx((changed.sum(axis=1) / held.sum(axis=1)).sum(), abs=1e-5)

    def test_of_unknown_numbers_what_is_small_beside_the_sample_is_a_tie(self):
        reference, candidate = np.zeros((2, 2, 3, 5))
        candidate[:, 1, 2], reference[1, 0, 1] = 9, 1000
        reference[:, 1, 3] = 1
        assert by_argmax(reference, candidate, -1).firm == 3
        assert by_argmax(reference, candidate, -1, guess=True).firm == 2

    def test_any_split_gives_the_same(self):
        generator = np.random.default_rng(0)
        reference = generator.standard_normal((40, 6, 9))
        candidate = reference + 0.3 * generator.standard_normal(reference.shape)
        whole = by_argmax(reference, candidate, -1)
        parts = [by_argmax(reference[i : i + 7], candidate[i : i + 7], -1) for i in range(0, 40, 7)]
        merged = parts[-1]
        for part in parts[:-1]:
            merged = merge(merged, part)
        assert merged == whole
        assert whole.changed > 20
        assert ClassTable.from_json(whole.classes.to_json()) == whole.classes

    def test_a_table_of_classes_that_was_cut_is_refused(self):
        document = by_argmax(self.REFERENCE, self.CANDIDATE, -1).classes.to_json()
        for change in ({"columns": 7}, {"columns": -1}, {"counts": "AA"}, {"classes": None}):
            with pytest.raises(InputError, match="a table of classes in the report cannot be read"):
                ClassTable.from_json(document | change)


class TestThreshold:
    def test_probabilities_and_logits(self):
        reference = np.array([[0.9, 0.501, 0.1], [0.2, 0.7, 0.3]])
        candidate = np.array([[0.9, 0.499, 0.1], [0.2, 0.3, 0.3]])
        found = by_threshold(reference, candidate, 0.5)
        assert (found.decisions, found.changed, found.firm) == (6, 2, 1)
        assert lost(found.classes, "1") == (2, 1)
        logits = by_threshold(reference - 0.5, candidate - 0.5, 0.0)
        assert (logits.changed, logits.firm) == (2, 1)

    def test_labels_of_many_pixels(self):
        generator = np.random.default_rng(0)
        reference, candidate = generator.random((2, 3, 40, 70, 2))
        found = by_threshold(reference, candidate, 0.5)
        yes, firm = reference >= 0.5, np.abs(reference - 0.5) > 0.005
        lost_ones = yes & firm & (candidate < 0.5)
        for label in range(2):
            held, changed = (
                np.count_nonzero(flags[..., label], axis=(1, 2)) for flags in (yes, lost_ones)
            )
            count, share = lost(found.classes, str(label))
            assert count == held.sum()
            assert share == pytest.approx((changed / held).sum(), abs=1e-5)

    def test_one_value_a_sample(self):
        found = by_threshold(np.array([0.9, 0.1]), np.array([0.1, 0.1]), 0.5)
        assert (found.samples, found.decisions, found.firm) == (2, 2, 1)


class TestEquality:
    def test_texts_and_floats_that_are_ids(self):
        found = by_equality(np.array(["cat", "wolf"]), np.array(["cat", "dog"]))
        assert lost(found.classes, "wolf") == (1, 1)
        assert gained(found.classes, "dog") == (1, 1)
        ids = by_equality(np.array([[2049.0], [7.0]]), np.array([[2048.0], [7.0001]]))
        assert (ids.changed, lost(ids.classes, "2049")) == (1, (1, 1))

    def test_integers_that_go_to_a_neighbour(self):
        reference = np.array([[7], [7], [40_000], [40_000]])
        found = by_equality(reference, reference + np.array([[1], [2], [40], [90]]))
        assert (found.changed, found.near) == (4, 2)

    def test_more_values_than_classes_have_no_table(self):
        many = np.arange(5000)[:, None]
        found = by_equality(many, many)
        assert found.classes.rows == {}
        assert ClassTable.from_json(found.classes.to_json()) == found.classes
        few = by_equality(many[:5], many[:5])
        assert merge(found, few).classes.overfull
