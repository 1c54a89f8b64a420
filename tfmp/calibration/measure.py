"""calibrate: measures a model's gradients and recommends a static loss scale from them."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import keras
import numpy as np
from keras import tree

from tfmp.calibration.report import (
    ExponentHistogram,
    GradientReport,
    LayerGradients,
    histogram_of,
)
from tfmp.nonfinite import Call, CallKey, Gradients, ReplayedStep, replay
from tfmp.precision import LayerNode, describe, policy as policies
from tfmp.precision.measuring import in_float32
from tfmp.shared.arguments import check_count, check_number
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.batches import TrainingData, labelled_batches, readable
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.progress import OnCount, Progress


class NoFloat16GradientsError(ValueError):
    """No gradient of a model passes through FP16."""


def calibrate(
    model: keras.Model,
    data: TrainingData,
    batches: int = 16,
    batch_size: int = 32,
    margin: float = 8.0,
    *,
    count: OnCount = None,
) -> GradientReport:
    """Measures the gradients of some training steps, without taking them.

    The gradients of the unscaled loss are measured in float32, for all trainable weights and for
    the results of all layers from the first that trains: both pass through FP16 in a layer that
    computes in it. A model
    without FP16 layers is measured under `tfmp.plan(model, "mixed_float16")`. The model is not
    changed.

    Args:
        model: compiled and built, best after some training: gradients shrink with the loss.
        data: a tuple `(x, y)` or `(x, y, sample_weight)` of arrays, or an iterable of batches with
            this form.
        batches: the largest number of batches to measure.
        batch_size: samples in a batch that is cut from arrays.
        margin: how many times larger than the largest measured one a gradient may get before it
            overflows at the recommended scale.
        count: called with the number of batches measured, and to measure.

    Returns:
        The report; its `recommended_scale` is for `tfmp.StaticLossScale`.

    Raises:
        TypeError: the model is not a Keras model, or the data has neither of the two forms.
        ValueError: there is no batch, the model cannot train on one, or there is no gradient that
            a loss scale could help.
    """
    check_count("batches", batches)
    check_count("batch_size", batch_size)
    check_number("margin", margin, least=1)
    rows: dict[str, ExponentHistogram] = {}
    dtypes: dict[str, str] = {}
    measured = samples = 0
    told = Progress(counted=count)
    for x, y, weight in readable(islice(labelled_batches(data, batch_size), batches)):
        step = replay.make_step(model, x, y, weight)
        dtypes = dtypes or _dtypes(step)
        for path, histogram in _measure(step).items():
            rows[path] = rows[path] + histogram if path in rows else histogram
        measured += 1
        told.count(measured, batches)
        samples += int(tree.flatten(step.x)[0].shape[0])
    if not measured:
        raise ValueError("data expects at least one batch; received an empty iterable.")
    layers = tuple(LayerGradients(path, dtypes[path], rows[path]) for path in rows)
    return GradientReport(_scale_for(layers, margin), float(margin), measured, samples, layers)


def _scale_for(layers: Sequence[LayerGradients], margin: float) -> float:
    narrow = [row for row in layers if row.narrow]
    if not narrow:
        raise NoFloat16GradientsError(
            "calibrate expects layers that get gradients in float16, as they are or under "
            'tfmp.plan(model, "mixed_float16"); this model has none, so it needs no loss scale.'
        )
    largest = max(row.histogram.largest for row in narrow)
    if largest == 0:
        raise ValueError(
            "calibrate expects gradients, but every measured gradient of a float16 layer is "
            "exactly zero. Check that the loss depends on these layers, and that the model does "
            "not return y already."
        )
    return 2.0 ** math.floor(math.log2(FLOAT16.max / (margin * largest)))


def _dtypes(step: ReplayedStep) -> dict[str, str]:
    """The dtype that each layer computes in, or would compute in under the plan."""
    current = {node.path: node.layer.compute_dtype for node in step.root.within()}
    if "float16" in current.values():
        return current
    plan = policies.plan(step.model, "mixed_float16")
    return {row.path: row.compute_dtype for row in plan.rows}


def _measure(step: ReplayedStep) -> dict[str, ExponentHistogram]:
    """One histogram per layer, in the order in which layers return."""
    calls: list[Call] = []

    def record(call: Call) -> TensorTree:
        # A layer that contains others returns the result of one of them.
        if call.inner == 0 and all(map(current_backend().is_concrete, call.float_outputs())):
            calls.append(call)
        return call.outputs

    with in_float32(step.root.within()):
        with replay.mistakes_of_batch(step.model):
            replay.run(step, record)
        calls = _from_the_first_that_trains(step, calls)
        probed = {call.key: call.float_outputs() for call in calls}
        found = replay.gradients(step, probed, scale=1.0)
    rows: dict[str, ExponentHistogram] = {}
    for path, gradient in _by_layer(step, calls, found):
        values = np.asarray(keras.ops.convert_to_numpy(gradient))
        if not np.isfinite(values).all():
            raise ValueError(
                f"calibrate expects finite gradients in float32; the gradients of {describe(path)} "
                "are not finite. tfmp.locate_nonfinite(model, x, y) says why."
            )
        histogram = histogram_of(values)
        rows[path] = rows[path] + histogram if path in rows else histogram
    return rows


def _from_the_first_that_trains(step: ReplayedStep, calls: list[Call]) -> list[Call]:
    """The calls whose results have a gradient in training: none before the first trained weight."""
    owners = replay.owners(step.root)
    training = {id(owners.get(id(one))) for one in step.model.trainable_variables}
    if not training or not training <= {id(call.node) for call in calls}:
        return calls  # a container may use a weight of its own at any place
    first = next(place for place, call in enumerate(calls) if id(call.node) in training)
    return calls[first:]


def _by_layer(
    step: ReplayedStep, calls: list[Call], found: Gradients
) -> Iterator[tuple[str, Tensor]]:
    owners = replay.owners(step.root)
    place: dict[CallKey, LayerNode] = {call.key: call.node for call in calls}
    for key, gradients in found.outputs.items():
        yield from ((place[key].path, gradient) for gradient in gradients)
    for variable, gradient in zip(step.model.trainable_variables, found.weights, strict=True):
        yield owners.get(id(variable), step.root).path, gradient
