"""Repairs: values that overflow fit afterwards, and float32 computes as before."""

from collections.abc import Callable
from types import ModuleType

import keras
import numpy as np
import pytest
from keras import layers
from quick import quick

from tfmp.converters import open_source
from tfmp.converters.intake import Edits, Graph
from tfmp.converters.intake.source import Source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.rewriting.ranges import measure
from tfmp.converters.tflite.rewriting.repair import Repaired, first_vanishing, repair_model

FP16_MAX = 65504


def on(shape: tuple[int, ...], *stack: Callable) -> keras.Model:
    x = inputs = keras.Input(shape, name="x")
    for layer in stack:
        x = layer(x)
    return keras.Model(inputs, {"y": x}, name="m")


def samples(source: Source, rows: int = 4) -> Batch:
    rng = np.random.default_rng(2)
    return {
        spec.name: rng.normal(size=(rows, *spec.shape[1:])).astype(spec.dtype)
        for spec in source.inputs
    }


def repaired(model: keras.Model, batch: Batch | None = None) -> tuple[Source, Batch, Repaired]:
    source = open_source(model)
    batch = batch or samples(source)
    return source, batch, repair_model(source, lambda: [batch])


def computed_peak(source: Source, batch: Batch) -> float:
    """The largest value or sum that is computed from the input."""
    graph, seen = Graph(source.graph, len(source.inputs)), measure(source, [batch])
    names = [name for name in seen if name not in graph.constants]
    return max(max(seen[name].peak, seen[name].hidden) for name in names)


# Each overflows FP16, and has an output that FP16 holds.
def constant(value: float) -> keras.initializers.Initializer:
    return keras.initializers.Constant(value)


def scale(factor: float) -> keras.layers.Layer:
    return layers.Rescaling(factor)


def shares(x, epsilon=0.0):
    return keras.ops.exp(x) / (keras.ops.sum(keras.ops.exp(x), -1, keepdims=True) + epsilon)


MODELS: dict[str, Callable[[], keras.Model]] = {
    "layer norm": lambda: on((64,), scale(1e3), layers.LayerNormalization()),
    "rms norm": lambda: on((64,), scale(1e3), layers.RMSNormalization()),
    "dense after dense": lambda: on(
        (16,),
        layers.Dense(16, kernel_initializer=constant(3e4)),
        layers.Dense(4, kernel_initializer=constant(1e-5)),
    ),
    "conv, relu, pool": lambda: on(
        (9, 9, 2),
        scale(1e6),
        layers.Conv2D(4, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        scale(1e-6),
    ),
    "sum over a count": lambda: on(
        (64, 64, 2), scale(50.0), keras.ops.abs, lambda x: keras.ops.sum(x, axis=(1, 2)) / 4096.0
    ),
    "sum over data": lambda: on(
        (64, 64, 2),
        scale(50.0),
        keras.ops.abs,
        lambda x: keras.ops.sum(x, axis=(1, 2)) / (1.0 + keras.ops.max(x, axis=(1, 2))),
    ),
    "powers": lambda: on(
        (16,), scale(500.0), lambda x: keras.ops.mean(abs(x) ** 3, -1, keepdims=True) ** (1 / 3)
    ),
    "residual": lambda: on((16,), scale(1e5), lambda x: x + layers.Dense(16)(x), scale(1e-5)),
    "batch norm": lambda: on(
        (8, 8, 2), scale(1e6), layers.Conv2D(3, 3), layers.BatchNormalization(), scale(1e-6)
    ),
    "concatenate": lambda: on(
        (8,), lambda x: keras.ops.concatenate([x * 1e6, x], axis=-1), scale(1e-3)
    ),
    "log of a sum": lambda: on(
        (4, 8), scale(10.0), lambda x: keras.ops.log(keras.ops.sum(keras.ops.exp(x), axis=(1, 2)))
    ),
    "softplus by hand": lambda: on(
        (8,), scale(20.0), lambda x: keras.ops.log(1 + keras.ops.exp(x))
    ),
    "softmax by hand": lambda: on((8,), scale(20.0), shares),
    "softmax and epsilon": lambda: on((8,), scale(20.0), lambda x: shares(x - 5, 1e-3)),
    "exponentials": lambda: on((8,), scale(2.0), lambda x: keras.ops.exp(x + 9), scale(1e-3)),
    "product of data": lambda: on((8,), lambda x: (x * 500) * (x * 400), scale(1e-3)),
}


@pytest.mark.parametrize("name", quick(MODELS, *list(MODELS)[::2]))
def test_what_overflows_fits_afterwards_and_float32_does_not_change(name: str) -> None:
    keras.utils.set_random_seed(5)
    source, batch, result = repaired(MODELS[name]())
    assert computed_peak(source, batch) > FP16_MAX, "the example does not overflow"
    assert result.left == ()
    assert result.changes or result.notes
    assert computed_peak(result.source, batch) <= FP16_MAX
    # Powers of two are exact; an epsilon beside them and an exponent may round differently.
    np.testing.assert_allclose(
        result.source.forward(batch)["y"], source.forward(batch)["y"], rtol=3e-6, atol=1e-9
    )


def squares(x):
    return keras.ops.mean(keras.ops.square(x), -1, keepdims=True)


# Each makes numbers that FP16 makes zero, to the harm of its output.
SMALL: dict[str, Callable[[], keras.Model]] = {
    "norm": lambda: on((8,), scale(1e-5), layers.LayerNormalization(epsilon=1e-15)),
    "power": lambda: on((8,), scale(1e-5), lambda x: keras.ops.sqrt(squares(x)) * 1e5),
    "decibels": lambda: on((8,), scale(1e-5), lambda x: keras.ops.log(squares(x))),
    "ratio": lambda: on((8,), lambda x: (lambda e: e / (e + e[:, ::-1]))(keras.ops.exp(x - 19))),
    "share": lambda: on((8,), lambda x: squares(x * 1e-5) / squares(x[:, ::-1] * 2e-5 + 1e-6)),
    "small unit": lambda: on((8,), scale(1e-9), layers.Dense(8), scale(1e9), layers.Dense(2)),
}


@pytest.mark.parametrize("name", quick(SMALL, *list(SMALL)[::2]))
def test_what_vanishes_becomes_larger_and_float32_does_not_change(name: str) -> None:
    keras.utils.set_random_seed(5)
    source, batch, result = repaired(SMALL[name]())
    assert repair_model(source, lambda: [batch], overflow=False).vanishing
    assert result.changes
    assert result.vanishing == result.left == ()
    received, expected = (one.forward(batch)["y"] for one in (result.source, source))
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-6)


def test_the_repaired_model_is_right_in_fp16_arithmetic(
    models: ModuleType, convert: Callable, export: Callable, tmp_path
) -> None:
    source, file = convert(models.variance_overflow)
    batch = samples(source)
    result = repair_model(source, lambda: [batch])
    expected = source.forward(batch)["head"].astype(np.float64)
    drifts = []
    for path in (file.path, export(result.source, tmp_path / "model.tflite").path):
        with LiteRTRunner(path, force_fp16=True) as runner:
            error = runner.run(batch)["head"] - expected
            in_fp32 = "held in FP32" in runner.info.details["arithmetic"]
        drifts.append(np.linalg.norm(error) / np.linalg.norm(expected))
    assert drifts[0] > 0.9
    assert drifts[1] < (2e-3 if in_fp32 else 8e-3)  # a CPU with AVX512-FP16 drifts by 4e-3
    (change,) = result.changes
    assert change.layer == "layer norm"
    assert change.before > 1e7
    assert change.after < FP16_MAX
    assert str(result.changes[0]).startswith("repaired layer norm: scaled by powers of two, ")


def test_scales_are_absorbed_by_weights_without_new_operations() -> None:
    model = MODELS["dense after dense"]()
    source, _, result = repaired(model)
    added = {node.name for node in Graph(result.source.graph, 1).nodes if "/tfmp/" in node.name}
    constants = Graph(result.source.graph, 1).constants
    assert added
    assert all(f"{name}:0" in constants for name in added)
    assert source.outputs == result.source.outputs


def test_a_model_that_fits_is_left_alone(models: ModuleType) -> None:
    source, _, result = repaired(models.recurrent())
    assert result.source is source
    assert (result.changes, result.left) == ((), ())


def around_a_loop() -> keras.Model:
    inputs = keras.Input((5, 4), name="x")
    x = layers.LayerNormalization(name="norm")(inputs * 1e4)
    return keras.Model(inputs, {"y": layers.LSTM(3, name="lstm")(x)})


def behind_swish() -> keras.Model:
    """Keras's swish has a gradient of its own, which TensorFlow cannot save."""
    image = keras.Input((6, 6, 2), name="x")
    x = layers.Conv2D(3, 1, activation="swish")(layers.GlobalAveragePooling2D(keepdims=True)(image))
    return keras.Model(image, {"y": layers.LayerNormalization()(x * 1e4)})


@pytest.mark.parametrize("make", [around_a_loop, behind_swish])
def test_loops_and_gradients_survive_a_repair(make: Callable, export: Callable, tmp_path) -> None:
    source, batch, result = repaired(make())
    assert result.changes[0].layer.startswith("layer ")
    export(result.source, tmp_path / "model.tflite")
    with LiteRTRunner(tmp_path / "model.tflite", force_fp16=False) as runner:
        received = runner.run(batch)["y"]
    np.testing.assert_allclose(received, source.forward(batch)["y"], atol=2e-3)


def test_what_cannot_be_repaired_is_named_with_its_layer() -> None:
    def grow(x):
        return keras.ops.floor(keras.ops.exp(keras.ops.minimum(keras.ops.abs(x) * 20, 12.0)))

    model = on((16,), layers.Lambda(grow, name="grow"), layers.Rescaling(1e-3))
    _, _, result = repaired(model)
    (left,) = result.left
    assert (left.layer, left.op) == ("layer grow", "Mul")  # what gives the true value back
    assert left.value == pytest.approx(np.exp(12), rel=1e-3)
    assert str(left) == "layer grow (Mul) reaches 1.63e+05, FP16 ends at 65504"


def test_outputs_and_inputs_past_fp16_are_named() -> None:
    model = on((4,), layers.Rescaling(1e6))
    _, _, result = repaired(model)
    assert "output y" in [left.layer for left in result.left]
    source = open_source(on((4,), layers.Rescaling(1e-6)))
    huge = {"x": np.full((2, 4), 1e6, np.float32)}
    assert [left.layer for left in repair_model(source, lambda: [huge]).left] == ["input x"]


def test_small_numbers_are_named_where_zero_in_their_place_harms() -> None:
    forms = {
        "product": lambda p: keras.ops.log(keras.ops.prod(p, -1)),
        "sum": lambda p: keras.ops.sum(keras.ops.log(p), -1),  # the advice
        "harmless": lambda p: keras.ops.sum(p + p**40, -1),
        "subnormal": lambda p: keras.ops.sum((p * 3e-3) ** 2, -1) / 9e-6,
    }
    found, flushed = {}, {}
    for name, form in forms.items():
        dense = layers.Dense(24, "sigmoid", kernel_initializer="ones")
        source = open_source(on((8,), dense, layers.Lambda(form, name="own")))
        batch = samples(source)
        found[name] = repair_model(source, lambda batch=batch: [batch], overflow=False).vanishing
        flushed[name] = [*first_vanishing(source, lambda batch=batch: [batch])]
    (told,) = found.pop("product")
    assert (told.layer, told.op) == ("layer own", "Prod")
    assert set(found.values()) == {()}
    assert [name for name, one in flushed.items() if one] == ["product", "subnormal"]


def test_a_rewrite_that_changes_float32_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(graph: Graph, edits: Edits, seen: object) -> None:
        edits.outputs[graph.outputs[0]] = lambda x: 2.0 * x

    monkeypatch.setattr("tfmp.converters.tflite.rewriting.repair.rescale", wrong)
    source, _, result = repaired(MODELS["layer norm"]())
    assert result.source is source
    assert result.changes == ()
    assert result.left


def test_an_epsilon_stays_alive() -> None:
    # Constant rows have no variance: only the epsilon keeps 1 / sqrt(variance) finite.
    model = on((64,), layers.Rescaling(1e3), layers.LayerNormalization(epsilon=1e-3, name="norm"))
    source = open_source(model)
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(3, 64)), np.ones((1, 64))]).astype(np.float32)
    result = repair_model(source, lambda: [{"x": rows}])
    graph = Graph(result.source.graph, 1)
    seen = measure(result.source, [{"x": rows}])
    (add,) = (node for node in graph.nodes if node.name.endswith("norm_1/add"))
    (epsilon,) = (name for name in add.inputs if name in graph.constants)
    assert seen[epsilon].peak > 2.0**-20
    assert np.isfinite(result.source.forward({"x": rows})["y"]).all()


def test_a_batch_that_the_model_fixes_is_measured_whole() -> None:
    x = keras.Input(batch_shape=(6, 3), name="x")
    source = open_source(keras.Model(x, layers.Dense(18)(x)))
    rows = np.ones((12, 3), np.float32)
    seen = measure(source, [{"x": rows}])
    assert max(magnitude.size for magnitude in seen.values()) == 6 * 18
