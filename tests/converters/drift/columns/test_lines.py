"""Lines through samples: which ones, and sums that do not depend on batches."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.lines import POINTS, LineGroup, beside_means, lines_of
from tfmp.converters.drift.columns.places import Places, measure_places
from tfmp.converters.drift.exact import merge

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ((30, 16), [LineGroup(0, None, 8), LineGroup(1, None, 8)]),
        ((24, 2), [LineGroup(0, 0, 1), LineGroup(0, 1, 1), LineGroup(1, None, 8)]),
        ((1, 5, 1, 24), [LineGroup(1, None, 8), LineGroup(3, None, 5)]),
        ((288,), [LineGroup(None, None, 8)]),
        ((1, 40, 1), [LineGroup(None, None, 8)]),
    ],
)
def test_lines_along_each_axis(sizes, groups):
    found = lines_of(sizes)
    assert list(found.groups) == groups
    assert found.index.shape == (POINTS, sum(each.lines for each in groups))
    first = 0
    for each in groups:
        lines = found.index[:, first : first + each.lines]
        first += each.lines
        places = np.unravel_index(lines, sizes)
        if each.axis is None:
            assert (np.diff(lines, axis=0) == 1).all()
            continue
        others = [place for axis, place in enumerate(places) if axis != each.axis]
        assert all((np.ptp(place, axis=0) == 0).all() for place in others)
        assert (np.ptp(places[each.axis], axis=0) > sizes[each.axis] / 2 - 1).all()
        assert each.channel is None or (places[-1] == each.channel).all()


@pytest.mark.parametrize("sizes", [(), (1,), (24,), (1, 24, 1), (1000,)])
def test_samples_of_one_axis_have_none_but_of_many_neighbours(sizes):
    assert lines_of(sizes) is None
    values = np.ones((3, *sizes))
    assert beside_means(values, values).shape == (2, 3, 0)


def test_what_points_differ_from_the_mean_of_their_line():
    values = GENERATOR.standard_normal((5, 16, 9))
    (first, _), lines = lines_of((16, 9)).groups, lines_of((16, 9))
    found, _ = beside_means(values, values).reshape(2, 5, POINTS + 1, -1)
    chosen = values.reshape(5, -1)[:, lines.index]
    np.testing.assert_allclose(found[:, POINTS], chosen.mean(axis=1))
    np.testing.assert_allclose(found[:, :POINTS] + found[:, POINTS:], chosen)
    levels = values + np.arange(9)  # what lies between lines is in their means alone
    moved, _ = beside_means(levels, levels).reshape(2, 5, POINTS + 1, -1)
    part = np.s_[:, :POINTS, : first.lines]
    np.testing.assert_allclose(moved[part], found[part], atol=1e-14)


@pytest.mark.parametrize("shape", [(40, 300), (40, 30, 16, 2), (40, 24, 12), (40, 3, 8, 8)])
def test_any_split_gives_the_same_sums(shape):
    reference = GENERATOR.standard_normal(shape).astype(np.float32)
    candidate = reference.astype(np.float16).astype(np.float32)
    whole = measure_places(reference, candidate, -1)
    assert whole.lines.count
    assert whole.lines.error_sq.all()
    for step in (1, 7, 16):
        merged = Places()
        for start in range(0, 40, step):
            part = slice(start, start + step)
            merged = merge(measure_places(reference[part], candidate[part], -1), merged)
        assert merged.lines == whole.lines
        assert merged.spread == whole.spread
    few = measure_places(reference[:7], candidate[:7], -1)
    rest = measure_places(reference[7:], candidate[7:], -1)
    np.testing.assert_array_equal(whole.without(few).lines.error_sq, rest.lines.error_sq)


def test_lines_with_a_value_that_is_not_finite_are_left_out():
    reference = np.ones((3, 8, 2)) * np.arange(8)[:, None]
    candidate = reference.copy()
    candidate[1, 2, 0] = np.nan
    found = measure_places(reference, candidate, -1)
    assert np.isfinite(found.spread.error_sq).all()
    assert not found.lines.error_sq.any()
    whole = measure_places(reference, reference, -1).lines.reference_sq
    assert set((found.lines.reference_sq / np.where(whole, whole, 1)).round(3)) == {0, 0.667, 1}
