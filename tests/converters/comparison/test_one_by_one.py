"""Models whose answers have any length run one sample at a time, and only these."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from onnx_graphs import parse
from own_layer import Own

from tfmp.converters import convert, open_source, validate
from tfmp.converters.comparison.one_by_one import needs_one_by_one
from tfmp.converters.intake import AnySource
from tfmp.converters.samples.data import open_data
from tfmp.converters.shared.errors import InputError

X = np.random.default_rng(0).standard_normal((40, 12)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).standard_normal((12, 40)).astype(np.float32)

Traced = Callable[..., Any]


def boxes_and_scores(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Eight boxes for each sample."""
    found = tf.reshape(tf.matmul(x, tf.constant(WEIGHTS)), [-1, 8, 5])
    centre, size = tf.sigmoid(found[..., :2]), 0.1 + tf.sigmoid(found[..., 2:4])
    return tf.concat([centre - size / 2, centre + size / 2], -1), tf.sigmoid(found[..., 4])


def function(body: Traced, batch: int | None = None) -> Any:
    return tf.function(body, input_signature=[tf.TensorSpec([batch, 12], tf.float32, name="x")])


def suppressed(x: tf.Tensor) -> dict[str, tf.Tensor]:
    boxes, scores = boxes_and_scores(x)
    kept = tf.image.non_max_suppression(boxes[0], scores[0], 8, 0.3, 0.4)
    return {"boxes": tf.gather(boxes[0], kept)[None], "scores": tf.gather(scores[0], kept)[None]}


def masked(x: tf.Tensor) -> dict[str, tf.Tensor]:
    boxes, scores = boxes_and_scores(x)
    return {"picked": tf.boolean_mask(boxes, scores > 0.6)}


def ragged(x: tf.Tensor) -> dict[str, tf.RaggedTensor]:
    boxes, scores = boxes_and_scores(x)
    return {"picked": tf.ragged.boolean_mask(boxes, scores > 0.2)}


def plain(x: tf.Tensor) -> dict[str, tf.Tensor]:
    boxes, scores = boxes_and_scores(x)
    return {"boxes": boxes, "scores": scores}


def with_anchors(x: tf.Tensor) -> dict[str, tf.Tensor]:
    return {**plain(x), "anchors": tf.constant(np.ones((100, 4), np.float32))}


def asks(source: AnySource, x: np.ndarray = X) -> bool:
    samples = open_data(x, source.inputs)
    return needs_one_by_one(source, samples, samples.first())


@pytest.mark.parametrize("body", [suppressed, masked, ragged, with_anchors])
def test_models_that_need_it(body: Traced) -> None:
    assert asks(open_source(function(body)))


def test_models_that_do_not() -> None:
    assert not asks(open_source(function(plain)))
    x = keras.Input((12,), name="x")
    # Its sizes are fixed, though TensorFlow does not see it while the batch is open.
    regrouped = Own(lambda x: tf.reshape(x, [tf.shape(x)[0], -1, 4]), name="y")
    source = open_source(keras.Model(x, regrouped(x)))
    assert source.outputs[0].shape == (None, None, 4)
    assert not asks(source)
    tokens = keras.Input((None, 3), name="x")
    source = open_source(keras.Model(tokens, keras.layers.Dense(2, name="y")(tokens)))
    assert source.outputs[0].shape == (None, None, 2)
    assert not asks(source, np.ones((7, 5, 3), np.float32))
    assert not asks(open_source(function(suppressed, batch=1)))


def test_data_that_is_read_once_is_judged_by_shapes() -> None:
    source = open_source(function(suppressed))
    samples = open_data(iter([X]), source.inputs)
    assert needs_one_by_one(source, samples, None)


@pytest.mark.parametrize(
    ("body", "to"),
    [(suppressed, "onnx"), pytest.param(masked, "tflite", marks=pytest.mark.slow)],
)
def test_every_sample_is_compared_by_itself(body: Traced, to: str, tmp_path: Path) -> None:
    model = function(body)
    artifact = convert(model, to=to, output=tmp_path / f"model.{to}")
    report = validate(model, artifact, [X[:16], X[16:]])
    (candidate,) = report.candidates
    assert candidate.error is None
    assert {output.samples for output in candidate.outputs} == {40}
    assert all(output.rel_l2 < 1e-3 for output in candidate.outputs)
    whole = validate(model, artifact, X).data
    assert (report.data.samples, report.data.sha256) == (40, whole.sha256)


def test_labels_go_with_their_samples(tmp_path: Path) -> None:
    def classified(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**masked(x), "classes": tf.nn.softmax(tf.matmul(x, tf.constant(WEIGHTS[:, :3])))}

    model = function(classified)
    labels = np.argmax(X @ WEIGHTS[:, :3], axis=1)
    report = validate(
        model, convert(model, output=tmp_path / "m.onnx"), X, {"classes": labels}, split=True
    )
    (found,) = report.candidates[0].labels
    assert (found.samples, found.reference) == (40, 1.0)
    assert all(stage.error is None for stage in report.candidates[0].stages)


def test_samples_that_drift_most_and_answers_that_lose_their_axis(tmp_path: Path) -> None:
    model = function(masked)
    artifact = convert(model, output=tmp_path / "m.onnx")
    explanation = validate(model, artifact, X, explain=True).candidates[0].explanation
    assert explanation is not None
    assert explanation.error is None
    assert len(explanation.worst) == 10
    with pytest.raises(InputError, match=r"answers 16 samples with an output 'picked' of shape"):
        validate(model, artifact, iter([X[:16], X[16:]]))


def listed(rows: list[np.ndarray], batched: bool, path: Path) -> Path:
    """A file that answers a sample with its rows, of which each has its own number."""
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    shape, last = ("1, M, 6", "Unsqueeze(some, axis)") if batched else ("M, 6", "Identity(some)")
    text = f"""agraph (int32[1] sample) => (float[{shape}] found) <int64[1] axis = {{0}}> {{
        start = Gather(starts, sample)
        end = Gather(ends, sample)
        some = Slice(flat, start, end, axis)
        found = {last}
    }}"""
    starts = ends - [len(row) for row in rows]
    onnx.save(parse(text, flat=np.concatenate(rows), starts=starts, ends=ends), path)
    return path


@pytest.mark.parametrize("batched", [True, False])
def test_candidates_of_tables_run_one_by_one(batched: bool, tmp_path: Path) -> None:
    """A candidate that gives a row more for one sample is compared, not refused."""
    rng = np.random.default_rng(3)
    rows = [rng.standard_normal((1 + index % 4, 6)).astype(np.float32) for index in range(64)]
    changed = [*rows[:-1], np.concatenate([rows[-1], rows[-1][:1]])]
    report = validate(
        listed(rows, batched, tmp_path / "reference.onnx"),
        listed(changed, batched, tmp_path / "candidate.onnx"),
        np.arange(64, dtype=np.int32),
    )
    (candidate,) = report.candidates
    assert candidate.error is None
    assert candidate.outputs[0].samples == 64
