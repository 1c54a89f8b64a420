"""Axes of a sample: each index of those between against larger ones, and lines along each."""

from dataclasses import replace

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift.tasks import COMPILED, Kind, Task
from tfmp.converters.drift.verdict.check import Check
from tfmp.converters.drift.verdict.hidden.inner_axes import inner_axis_checks

GENERATOR = np.random.default_rng(0)

# Four numbers of eight assets on twelve days.
SIZES = np.array([300, 120, 80, 45, 200, 0.5, 33, 150])[:, None]
ASSETS = SIZES * (1 + 0.1 * GENERATOR.standard_normal((100, 12, 8, 4)))
CHEAP = (np.arange(8) == 5)[:, None]


def checks(candidate: np.ndarray, reference: np.ndarray = ASSETS) -> list[Check]:
    return inner_axis_checks(drift(reference, candidate), 0.1)


@pytest.mark.parametrize(
    "lost",
    [0 * ASSETS, 0 * ASSETS + 0.5, -ASSETS],
    ids=["zero", "the same for all", "of the other sign"],
)
def test_a_small_asset_that_is_wrong(lost):
    (found,) = checks(np.where(CHEAP, lost, half(ASSETS)))
    assert found.verdict == "FAIL"
    assert "place 5 of 8 on axis 2 in channel" in found.text


def test_rounding_and_noise_are_no_fault():
    assert checks(half(ASSETS)) == []
    assert checks(half(ASSETS + 0.1 * GENERATOR.standard_normal(ASSETS.shape))) == []
    assert checks(ASSETS * (1 + 2e-3 * GENERATOR.standard_normal(ASSETS.shape))) == []


def test_what_fp16_has_no_numbers_for_or_is_silent_may_be_the_same():
    still = np.where(CHEAP, 0.5 + 1e-4 * (ASSETS - 0.5), ASSETS)
    assert checks(half(still), still) == []
    silent = np.where(CHEAP, ASSETS * 1e-3, ASSETS)
    assert checks(np.where(CHEAP, 0, silent), silent) == []


def test_wide_outputs_and_single_rows_have_indices_too():
    wide = np.broadcast_to(ASSETS[..., :1], (100, 12, 8, 20)) * (
        1 + 0.1 * GENERATOR.standard_normal((100, 12, 8, 20))
    )
    (found,) = checks(np.where(CHEAP, 0, wide), wide)
    assert "place 5 of 8 on axis 2 is off" in found.text
    texts = [check.text for check in checks(0 * ASSETS[:, 0], ASSETS[:, 0])]
    assert not any("place" in text for text in texts)  # slices follow both of its axes


# The load of twelve towns by hour: a level of each town and day, and a wave of 0.8 %.
LEVELS = GENERATOR.uniform(300, 1200, (200, 12, 1))
LOADS = LEVELS * (1 + 0.008 * np.sin(np.arange(24) / 4 + GENERATOR.uniform(0, 6, LEVELS.shape)))
FLAT = np.broadcast_to(LOADS.mean(axis=2, keepdims=True), LOADS.shape)


def along(candidate: np.ndarray, reference: np.ndarray, why: str = "") -> list[tuple[str, str]]:
    """Verdict and text of what differs along axes; for outputs that are known if `why` is told."""
    output = drift(reference, candidate)
    if why:
        task = Task(Kind.REGRESSION, why=why)
        output = replace(output, known=task, task=task)
    return [(check.verdict, check.text) for check in inner_axis_checks(output, 0.1)]


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("why", ["", "declared"])
def test_curves_of_towns_that_are_flat(axis, why):
    loads, flat = (np.swapaxes(values, 2, axis) for values in (LOADS, FLAT))
    ((verdict, text),) = along(half(flat), loads, why)
    assert verdict == "FAIL"
    assert text.startswith(f"output 'y': what differs along axis {axis}, of 24, is off by 1")
    assert along(half(loads), loads, why) == []


def test_channels_that_are_declared_to_be_first_keep_their_axis():
    output = drift(np.swapaxes(LOADS, 1, 2), half(np.swapaxes(FLAT, 1, 2)), "regression:axis=1")
    (found,) = inner_axis_checks(output, 0.1)
    assert "along axis 1, of 24," in found.text


def test_waves_that_fp16_has_no_numbers_for_are_a_question():
    low = FLAT + 0.02 * (LOADS - FLAT)
    ((verdict, text),) = along(half(low), low)
    assert verdict == "INCONCLUSIVE"
    assert "FP16 has no numbers between those that it gives" in text


def test_noise_as_large_as_what_differs_is_a_question():
    noisy = LOADS + 1.5 * GENERATOR.standard_normal(LOADS.shape)
    ((verdict, _),) = along(noisy, LOADS)
    assert verdict == "INCONCLUSIVE"
    other = LOADS[::-1] - FLAT[::-1] + FLAT
    assert along(other * 1.0, LOADS)[0][0] == "INCONCLUSIVE"  # as large as eight spacings
    steep = FLAT + 3 * (LOADS - FLAT)
    assert along(3 * (other - FLAT) + FLAT, steep)[0][0] == "FAIL"


STEREO = GENERATOR.standard_normal((200, 300, 1)) + 0.01 * GENERATOR.standard_normal((200, 300, 2))
MONO = STEREO.mean(axis=2, keepdims=True).repeat(2, axis=2)


@pytest.mark.parametrize("why", ["", f"{COMPILED} mse"])
@pytest.mark.parametrize("axis", [1, 2])
def test_channels_that_are_all_alike_are_a_question(axis, why):
    stereo, mono = (np.swapaxes(values, 2, axis) for values in (STEREO, MONO))
    ((verdict, text),) = along(mono, stereo, why)
    assert verdict == "INCONCLUSIVE"
    assert f"along axis {axis}, of 2" in text
    assert text.endswith("If nobody compares them, declare --task y=regression")
    assert along(half(stereo), stereo, why) == []


def test_channels_that_are_alike_pass_if_that_is_declared_or_no_number_tells_them_apart():
    assert along(MONO, STEREO, "declared") == []
    grey = 5 + MONO + 1e-2 * (STEREO - MONO)
    assert along(half(grey), grey) == []


def test_places_where_nothing_is_are_not_typical():
    rare = np.where(np.arange(40) < 4, 1.0, 1e-3)[:, None] * GENERATOR.standard_normal((200, 40, 9))
    # Axis 1 is followed where values are large, axis 2 mostly where they are small.
    noisy = rare + 1e-3 * GENERATOR.standard_normal(rare.shape)
    assert along(noisy, rare) == []


def test_series_one_after_the_other_that_are_flat():
    row, flat = LOADS.reshape(200, -1), FLAT.reshape(200, -1)
    ((verdict, text),) = along(half(flat), row)
    assert verdict == "FAIL"
    assert "what differs between neighbours, 6 times of 8 that are followed, is off by 1" in text
    assert along(half(row), row) == []
    smooth = np.sin(GENERATOR.uniform(0, 6, (200, 1)) + np.arange(288) / 100)
    assert along(half(smooth + 2e-3 * GENERATOR.standard_normal(smooth.shape)), smooth) == []


def test_a_few_samples_do_not_tell_what_differs():
    assert along(half(FLAT[:9]), LOADS[:9]) == []
    assert along(half(FLAT[:10]), LOADS[:10])
