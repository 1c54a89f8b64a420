"""Each view from both sides: what FP16 arithmetic loses, and the same model with its end in FP32.

Harm is made by the operations of NumPy's float16. The twin has the same FP16 hidden values.
"""

import numpy as np
import pytest

from tfmp.converters.drift.views.evidence import Evidence
from tfmp.converters.drift.views.tables import tables_of
from tfmp.converters.drift.views.view import (
    CONSTANT,
    View,
    near_end,
    place_view,
    views_of,
    without_ends,
)

GENERATOR = np.random.default_rng(0)
F16, F32 = np.float16, np.float32

# The limits of the budget: of a loss, and of a share of samples.
LIMIT, SHARE = 0.1, 0.01


def evidence(reference: np.ndarray, candidate: np.ndarray) -> Evidence:
    keys = np.arange(len(reference), dtype=np.uint64)
    return Evidence.of(keys, reference.astype(F32), candidate.astype(F32), -1)


def views(reference: np.ndarray, candidate: np.ndarray) -> list[View]:
    tables = tables_of(evidence(reference, candidate))
    return [*views_of(tables), *filter(None, [place_view(tables)])]


def losses(reference: np.ndarray, candidate: np.ndarray) -> dict[str, float]:
    found: dict[str, float] = {}
    for view in views(reference, candidate):
        found[view.view] = max(view.loss, found.get(view.view, 0.0))
    return found


def worst(name: str, reference: np.ndarray, candidate: np.ndarray) -> View:
    found = [each for each in views(reference, candidate) if each.view == name]
    return max(found, key=lambda view: view.loss)


def normal(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(F32)


def is_sound(found: dict[str, float]) -> bool:
    return all(
        loss <= (SHARE if name == "wrong_samples" else LIMIT) for name, loss in found.items()
    )


# Models of hidden values: each computes its end in the dtype that it is given.


def offset(mean: float, deviation: float):
    """An output that is scaled back to its unit: air pressure, a latitude, an energy."""
    return lambda hidden, dtype: hidden.astype(dtype) * dtype(deviation) + dtype(mean)


def scales(hidden: np.ndarray, dtype: type) -> np.ndarray:
    """Columns in other units: the last one is below FP16's smallest number."""
    units = np.array([1e3, 1.0, 2e-8]).astype(dtype)
    return (hidden.astype(dtype) + dtype(4)) * units


def test_which_column_is_lost_and_why():
    hidden = normal(600, 3).astype(F16)
    found = worst("between_samples", scales(hidden, np.float64), scales(hidden, F16))
    assert found.unit == "column 2 of 3"
    assert (found.samples, found.units) == (600, 3)
    hidden = normal(300, 6, 40, 2).astype(F16)
    exact = hidden.astype(F32)
    exact[:, 4] = 700 + 0.1 * exact[:, 4]
    found = worst("between_samples", exact, exact.astype(F16))
    place = int(found.unit.removeprefix("place ").removesuffix(" of 480"))
    assert (place // 80, found.units) == (4, 480)


def test_an_error_of_sums_is_no_rounding_of_the_output():
    terms = (0.01 * normal(400, 2000) + 0.5).astype(F16)
    exact = terms.astype(np.float64).sum(axis=1, keepdims=True)
    summed = np.cumsum(terms, axis=1, dtype=F16)[:, -1:]
    assert not worst("between_samples", exact, summed).is_rounding
    assert worst("between_samples", exact, exact.astype(F16)).is_rounding


def quiet_columns(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """A vector with noise, a little less of it in the columns that vary by a thousandth."""
    vector = normal(300, 64) * ([1] * 60 + [1e-3] * 4)
    return vector, vector + 5e-4 * normal(300, 64) * ([1] * 60 + [noise] * 4)


def test_columns_of_a_vector_may_be_as_wrong_as_most():
    vector, noisy = quiet_columns(0.7)
    assert is_sound(losses(vector, noisy))
    few = slice(56, None)  # of few columns, each is a number of its own
    assert losses(vector[:, few], noisy[:, few])["between_samples"] > LIMIT
    vector, noisy = quiet_columns(3.0)
    assert losses(vector, noisy)["between_samples"] > LIMIT


def test_float32_s_own_rounding_is_no_variation():
    for deviation in (0.3 * CONSTANT, 0.0):
        constant = 5 * (1 + deviation * normal(300, 1).astype(np.float64))
        assert losses(constant, np.full((300, 1), 5.0)).get("between_samples", 0.0) == 0.0
    frozen = 5 * (1 + 8 * CONSTANT * normal(300, 1))
    assert losses(frozen, np.full((300, 1), 5.0))["between_samples"] > LIMIT


def test_samples_that_are_wrong_and_unlike_the_others():
    exact = normal(600, 3)
    few = exact.astype(F16).astype(F32)
    few[:12, 1] += 5
    found = worst("wrong_samples", exact, few)
    assert (found.wrong, found.samples, found.unit) == (12, 600, "column 1 of 3")
    assert losses(exact, exact + F32(0.1) * normal(600, 3)).get("wrong_samples", 0) < SHARE


def test_samples_of_other_lengths_count_together():
    kept, twin = Evidence(), Evidence()
    for number, length in enumerate(GENERATOR.integers(20, 60, 300)):
        hidden = normal(1, length, 2).astype(F16)
        exact = offset(1013, 0.6)(hidden, np.float64)
        key = np.full(1, number, np.uint64)
        sides = (offset(1013, 0.6)(hidden, dtype) for dtype in (F16, F32))
        lost, right = (Evidence.of(key, exact, side.astype(F32), -1) for side in sides)
        kept, twin = kept.merged(lost), twin.merged(right)
    found = {view.view: view.loss for view in views_of(tables_of(kept))}
    assert min(found["between_samples"], found["between_places"]) > LIMIT
    assert all(view.loss <= LIMIT for view in views_of(tables_of(twin)))


def test_shares_near_one_are_compared_where_all_of_them_are():
    exact = 1 / (1 + np.exp(-normal(300, 10, 10, 2)))
    exact[:, 2] = 1 - 1e-4 * np.exp(0.3 * normal(300, 10, 2))  # always sure
    tables = tables_of(evidence(exact, exact.astype(F16)))
    assert place_view(tables).loss > LIMIT
    assert place_view(without_ends(tables)).loss < LIMIT
    sure = exact[:, 2:3].repeat(10, axis=1)
    tables = tables_of(evidence(sure, sure.astype(F16)))
    assert without_ends(tables) is tables


def test_few_samples_say_nothing():
    exact = 1013 + 0.6 * normal(9, 1)
    assert views_of(tables_of(evidence(exact, exact.astype(F16)))) == []
    assert views_of([]) == []


def test_places_at_the_end_of_a_row_have_no_next_one():
    """Rows of pictures differ by much, places within a row by little."""
    rows = F32(40) * normal(100, 12, 1, 1)
    exact = rows + F32(0.05) * normal(100, 12, 12, 1)
    candidate = rows + F32(0.05) * normal(100, 12, 12, 1)
    assert losses(exact, candidate)["between_places"] > 1


class TestNearEnd:
    """Probabilities that are nearly certain, by what lacks to certainty."""

    RISK = (1e-4 * GENERATOR.lognormal(0, 1, (500, 4))).astype(F32)

    @pytest.mark.parametrize(
        "values", [RISK + 0.5, RISK - 1e-3, RISK + 1, np.where(RISK > 3e-4, 500 * RISK, RISK)]
    )
    def test_others_have_no_end(self, values):
        assert near_end(tables_of(evidence(values, values))) is None
        assert near_end([]) is None
