"""Strategies: their transitions, their bounds, their errors, and their round trip through Keras."""

import json

import keras
import numpy as np
import pytest

from tfmp.loss_scaling.strategies import (
    DynamicLossScale,
    LossScale,
    ScaleState,
    ScheduledLossScale,
    StaticLossScale,
    as_loss_scale,
)


def run(strategy: LossScale, verdicts: str) -> list[float]:
    """Scales after each step of a history such as "++-": + finite, - skipped."""
    scale, streak, strikes = strategy.initial, 0, 0
    scales = []
    for index, verdict in enumerate(verdicts):
        finite = verdict == "+"
        state = ScaleState(
            keras.ops.convert_to_tensor(scale, dtype="float32"),
            keras.ops.convert_to_tensor(streak + 1 if finite else 0),
            keras.ops.convert_to_tensor(strikes if finite else strikes + 1),
            keras.ops.convert_to_tensor(index + 1),
        )
        if finite:
            due = strategy.moves_after_finite(state)
            state = strategy.after_finite(state) if due is not False and bool(due) else state
        else:
            state = strategy.after_skip(state)
        scale, streak, strikes = float(state.scale), int(state.streak), int(state.strikes)
        scales.append(scale)
    return scales


@pytest.mark.parametrize(
    ("options", "verdicts", "scales"),
    [
        ({"growth_interval": 3}, "+++++++", [8, 8, 16, 16, 16, 32, 32]),
        ({"growth_factor": 4.0, "growth_interval": 1}, "++", [32, 128]),
        ({"backoff_factor": 0.25}, "--", [2, 0.5]),
        ({"hysteresis": 3}, "-+-+-", [8, 8, 8, 8, 4]),
        ({"min_scale": 4.0}, "-----", [4, 4, 4, 4, 4]),
        ({"max_scale": 16.0, "growth_interval": 1}, "+++", [16, 16, 16]),
        ({"max_scale": 16.0, "growth_interval": 1, "growth_factor": 1e30}, "++", [16, 16]),
    ],
)
def test_dynamic_scale_follows_its_history(options, verdicts, scales):
    options = {"initial": 8.0, "min_scale": 0.125, **options}
    assert run(DynamicLossScale(**options), verdicts) == scales


@pytest.mark.parametrize(
    ("options", "verdicts", "powers"),
    [
        ({}, "-----", [14, 12, 8, 4, 0]),  # one after another, that would be 15 halvings
        ({}, "+---", [15, 14, 13, 12]),
        ({"hysteresis": 2}, "---", [15, 14, 12]),
    ],
)
def test_the_usual_scale_falls_faster_before_the_first_applied_step(options, verdicts, powers):
    assert run(DynamicLossScale(**options), verdicts) == [2.0**power for power in powers]


def test_static_scale_never_moves():
    assert run(StaticLossScale(1000.0), "+-+--+") == [1000.0] * 6


def test_schedule_holds_each_scale_from_its_step_on_and_counts_skipped_steps():
    strategy = ScheduledLossScale({3: 32.0, 0: 8.0, 5: 16.0})
    assert run(strategy, "+-+---") == [8, 8, 32, 32, 16, 16]


@pytest.mark.parametrize(
    ("strategy", "floor"),
    [
        (DynamicLossScale(min_scale=0.25), 0.25),
        (ScheduledLossScale({0: 8.0, 2: 0.5}), 0.5),
        (LossScale(), 0.0),
    ],
)
def test_floor_bounds_every_scale(strategy, floor):
    assert strategy.floor == floor


@pytest.mark.parametrize(
    "strategy",
    [
        DynamicLossScale(initial=4.0, growth_interval=5, hysteresis=3, max_scale=64.0),
        StaticLossScale(1024.0),
        ScheduledLossScale({0: 1024.0, 1000: 4096.0}),
    ],
)
def test_round_trips_through_keras_serialization_and_json(strategy):
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(strategy)))
    assert config["registered_name"] == f"tfmp>{type(strategy).__name__}"
    assert keras.saving.deserialize_keras_object(config) == strategy


@pytest.mark.parametrize(
    ("strategy", "saved", "expected"),
    [
        (DynamicLossScale(), 0.0, 1.0),
        (DynamicLossScale(), float("inf"), 2.0**24),
        (DynamicLossScale(), float("nan"), 2.0**15),
        (ScheduledLossScale({0: 8.0}), 512.0, 512.0),
    ],
)
def test_restore_fixes_a_scale_that_no_step_could(strategy, saved, expected):
    assert strategy.restore(saved) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("dynamic", DynamicLossScale()),
        (1024, StaticLossScale(1024.0)),
        (np.float32(8), StaticLossScale(8.0)),
    ],
)
def test_as_loss_scale_accepts(value, expected):
    assert as_loss_scale(value) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("dynamc", r"received 'dynamc' of type str\.$"),
        (None, r"received None of type NoneType\.$"),
        (StaticLossScale, r"received <class .*StaticLossScale'> of type type\.$"),
    ],
)
def test_as_loss_scale_refuses(value, shown):
    with pytest.raises(
        ValueError, match='loss_scale expects "dynamic", a positive number.*' + shown
    ):
        as_loss_scale(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: as_loss_scale(0),
            r"StaticLossScale\(scale\) expects a finite number above 0; received 0\.0 of type fl",
        ),
        (lambda: StaticLossScale(1e40), r"below 1\.70141e\+38; received 1e\+40 of .* in float32"),
        (lambda: StaticLossScale(1e-42), r"at least 1\.17549e-38 .* received 1e-42 of type float"),
        (lambda: DynamicLossScale(initial=-1), r"DynamicLossScale\(initial=\.\.\.\) expects"),
        (
            lambda: DynamicLossScale(initial=2.0, min_scale=4.0),
            r"min_scale <= initial <= max_scale, received min_scale=4\.0, initial=2\.0",
        ),
        (lambda: DynamicLossScale(growth_factor=0.5), r"at least 1; received 0\.5"),
        (lambda: DynamicLossScale(backoff_factor=1.0), r"above 0 and below 1; received 1\.0"),
        (
            lambda: ScheduledLossScale({5: 1.0}),
            r"expects an entry for step 0, received steps \[5\]",
        ),
        (
            lambda: ScheduledLossScale({0: 1.0, -3: 2.0}),
            r"A step of .* a whole number, 0 or more; received -3",
        ),
        (lambda: ScheduledLossScale([1.0]), r"expects a mapping from first step to scale"),
    ],
)
def test_impossible_values_are_refused_with_the_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
