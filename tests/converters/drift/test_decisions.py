"""Decisions: what changes, what is a tie, and which classes the changes belong to."""

import numpy as np
import pytest

from tfmp.converters.drift.classes import ClassTable
from tfmp.converters.drift.decisions import by_argmax, by_equality, by_threshold
from tfmp.converters.drift.exact import merge
from tfmp.converters.shared.errors import InputError


class TestArgmax:
    REFERENCE = np.array([[0.0, 5, 1], [4, 0, 0], [2.01, 2, 0]])
    CANDIDATE = np.array([[0.0, 5, 1], [0, 4, 0], [2, 2.01, 0]])

    @pytest.mark.parametrize(("ratio", "firm"), [(1.01, 0), (1.04, 1)])
    def test_probabilities_are_told_apart_by_their_ratio(self, ratio, firm):
        small = 0.3 / ratio
        rest = 1 - 0.3 - small
        reference = np.array([[0.3, small, rest / 2, rest / 2]])
        candidate = np.array([[small, 0.3, rest / 2, rest / 2]])
        assert by_argmax(reference, candidate, -1).firm == firm

    def test_a_table_of_classes_that_was_cut_is_refused(self):
        document = by_argmax(self.REFERENCE, self.CANDIDATE, -1).classes.to_json()
        for change in ({"columns": 7}, {"columns": -1}, {"counts": "AA"}, {"classes": None}):
            with pytest.raises(InputError, match="a table of classes in the report cannot be read"):
                ClassTable.from_json(document | change)


class TestThreshold:
    def test_one_value_a_sample(self):
        found = by_threshold(np.array([0.9, 0.1]), np.array([0.1, 0.1]), 0.5)
        assert (found.samples, found.decisions, found.firm) == (2, 2, 1)


class TestEquality:
    def test_more_values_than_classes_have_no_table(self):
        many = np.arange(5000)[:, None]
        found = by_equality(many, many)
        assert found.classes.rows == {}
        assert ClassTable.from_json(found.classes.to_json()) == found.classes
        few = by_equality(many[:5], many[:5])
        assert merge(found, few).classes.overfull
