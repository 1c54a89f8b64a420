"""Masks that FP16 cannot hold, in the files that come of them."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from tfmp.converters import open_source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.tflite.rewriting.gaps import without_gaps


def masked(*masks: Callable) -> keras.Model:
    """Softmax over logits of which some are masked, in each of these ways."""
    logits = keras.Input((2, 5), name="logits")
    keep = keras.Input((5,), name="keep", dtype="bool")
    outputs = {mask.__name__: keras.ops.softmax(mask(logits, keep)) for mask in masks}
    return keras.Model([logits, keep], outputs, name="masked")


def added(logits, keep):
    return logits + (1.0 - keras.ops.cast(keep, "float32"))[:, None, :] * -1e9


def subtracted(logits, keep):
    return logits - keras.ops.where(keep, 0.0, 1e9)[:, None, :]


def multiplied(logits, keep):
    return logits - 1e30 * (1.0 - keras.ops.cast(keep, "float32"))[:, None, :]


def turned(logits, keep):
    return logits + ((keras.ops.cast(keep, "float32") - 1.0) * 1e9)[:, None, :]


def twice(logits, keep):
    return added(added(logits, keep), keep)


def chosen(logits, keep):
    return keras.ops.where(keep[:, None, :], logits, -1e9)


# The second sample is masked throughout: all of its classes are equally likely.
BATCH = {
    "logits": np.random.default_rng(0).normal(0, 3, size=(2, 2, 5)).astype(np.float32),
    "keep": np.array([[True, False, True, True, False], [False] * 5]),
}


def test_masked_rows_come_out_as_in_float32(export: Callable, tmp_path: Path) -> None:
    source = open_source(masked(added, multiplied, chosen))
    exact = source.forward(BATCH)
    file = export(source, tmp_path / "masked.tflite")
    assert not any("clamp" in note for note in file.notes)
    assert file.notes[-1].startswith("masks became finite numbers that FP16 holds: ")
    for force_fp16 in (False, True):
        with LiteRTRunner(file.path, force_fp16) as runner:
            outputs = runner.run(BATCH)
        for name, expected in exact.items():
            np.testing.assert_allclose(expected[1], 0.2)
            assert (outputs[name][0][expected[0] == 0] == 0).all()
            np.testing.assert_allclose(outputs[name], expected, atol=2e-3)


def test_float32_stays_as_it_was() -> None:
    for mask in (added, subtracted, multiplied, turned, twice, chosen):
        source = open_source(masked(mask))
        finite, notes = without_gaps(source)
        assert len(notes) == 1
        (received,), (expected,) = (one.forward(BATCH).values() for one in (finite, source))
        np.testing.assert_array_equal(received, expected)


def test_a_mask_that_is_also_an_output_is_left_alone() -> None:
    logits = keras.Input((5,), name="logits")
    low = keras.ops.where(logits > 0, logits, -1e9)
    model = keras.Model(logits, {"low": low, "y": keras.ops.softmax(low)}, name="both")
    source = open_source(model)
    assert without_gaps(source) == (source, ())
