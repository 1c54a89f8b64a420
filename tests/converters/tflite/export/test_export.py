"""Export to TFLite: names, order, weights, refusals, and nothing left behind by a failure."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters import open_source
from tfmp.converters.intake.source import Source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.converters.tflite.export.export import export_tflite
from tfmp.converters.tflite.file.reader import TFLiteModel


@pytest.fixture(scope="module")
def source() -> Source:
    return open_source(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))


def test_names_order_and_dtypes_are_the_models_own(convert: Callable, models: ModuleType) -> None:
    source, file = convert(models.many_names)
    model = TFLiteModel(file.path)
    assert model.inputs == tuple(one_row(spec) for spec in source.inputs)
    assert model.outputs == tuple(one_row(spec) for spec in source.outputs)
    names = {spec.name for spec in (*source.inputs, *source.outputs)}
    assert names <= {tensor.spec.name for tensor in model.tensors[0]}
    # No tensor is two outputs, or input and output.
    (signature,) = model.content.signatureDefs
    used = [entry.tensorIndex for entry in (*signature.inputs, *signature.outputs)]
    assert len(used) == len(set(used)) == 3 + 8


def one_row(spec: TensorSpec) -> TensorSpec:
    return replace(spec, shape=(1, *spec.shape[1:]))


def constants(path: Path) -> dict[str, int]:
    """Bytes of a file's constants by dtype."""
    found: dict[str, int] = {}
    for tensor in TFLiteModel(path).constants():
        found[tensor.spec.dtype] = found.get(tensor.spec.dtype, 0) + tensor.nbytes
    return found


def test_large_weights_become_fp16_and_the_account_says_so(
    convert: Callable, models: ModuleType
) -> None:
    source, file = convert(models.variance_overflow)
    sizes = [int(np.prod(variable.shape)) for variable in source.variables]
    stored = constants(file.path)
    assert stored["float16"] == 2 * sum(size for size in sizes if size > 1024)
    assert 0 < stored["float32"] <= 4 * sum(size for size in sizes if size <= 1024)
    assert f": {stored['float16'] / 1e3:.3g} kB of FP16 weights, " in file.notes[0]


def test_recurrent_layers_with_an_open_batch_are_refused_with_the_way_out(
    models: ModuleType, tmp_path: Path, export: Callable
) -> None:
    with pytest.raises(ConversionError, match=r"TensorListReserve \(layer lstm\)") as e:
        export(open_source(models.recurrent()), tmp_path / "rnn.tflite", batch_size=None)
    assert "convert with `--batch 1`" in str(e.value)
    assert list(tmp_path.iterdir()) == []


def test_ops_that_tflite_lacks_are_refused_with_their_layer(
    models: ModuleType, tmp_path: Path, export: Callable
) -> None:
    output = tmp_path / "flex.tflite"
    output.write_text("an earlier file")
    with pytest.raises(ConversionError) as error:
        export(open_source(models.needs_flex()), output)
    assert str(error.value).startswith(
        "model 'flex': TFLite has no operator for MatrixInverse (layer inverse). Replace the "
        "layers that need it. With `--allow-flex`"
    )
    assert "`--allow-flex`" in str(error.value)
    assert output.read_text() == "an earlier file"
    assert list(tmp_path.iterdir()) == [output]


def test_several_signatures_share_their_weights(tmp_path: Path, models: ModuleType) -> None:
    encoder, autoencoder = models.encoder_and_autoencoder()
    sources = {"encode": open_source(encoder), "reconstruct": open_source(autoencoder)}
    file = export_tflite(sources, tmp_path / "both.tflite")
    assert {key: one.outputs[0].name for key, one in TFLiteModel(file.path).signatures.items()} == {
        "encode": "code",
        "reconstruct": "decoder",
    }
    kernels = [v for v in sources["reconstruct"].variables if len(v.shape) == 2]
    assert sum(constants(file.path).values()) < 5 * sum(int(np.prod(v.shape)) for v in kernels)
    batch = {"x": np.random.default_rng(0).normal(size=(2, 32)).astype(np.float32)}
    for key, source in sources.items():
        with LiteRTRunner(file.path, force_fp16=False, signature=key) as runner:
            for name, expected in source.forward(batch).items():
                np.testing.assert_allclose(runner.run(batch)[name], expected, rtol=5e-3, atol=5e-3)
    with pytest.raises(RunnerError, match="no signature 'decode'; it has 'encode', 'reconstruct'"):
        LiteRTRunner(file.path, force_fp16=False, signature="decode")


def of_function(function: Callable, *specs: tf.TensorSpec) -> Source:
    named = [tf.TensorSpec(spec.shape, spec.dtype, name=f"x{i}") for i, spec in enumerate(specs)]
    return open_source(tf.function(function, input_signature=named))


ROWS = tf.TensorSpec((3, 4), tf.int32)


@pytest.mark.slow
def test_models_that_divide_by_an_input_or_loop_over_it_run(
    tmp_path: Path, export: Callable
) -> None:
    def quotients(x, y):
        grown = tf.while_loop(lambda z: tf.reduce_max(z) < 9, lambda z: (z * 2,), (y,))[0]
        return x // grown

    export(of_function(quotients, ROWS, ROWS), tmp_path / "model.tflite")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: tf.where(x > 0), "the size of an output depends on the values of the inputs"),
        (lambda x: tf.cast(x, tf.int16), "LiteRT takes no inputs and gives no outputs of int16"),
    ],
)
def test_outputs_that_litert_does_not_hand_out(
    function: Callable, told: str, tmp_path: Path, export: Callable
) -> None:
    with pytest.raises(ConversionError, match=f"{told}.* convert to ONNX"):
        export(of_function(function, ROWS), tmp_path / "model.tflite")
    assert not any(tmp_path.iterdir())


def test_flex_is_allowed_on_request_and_noted(convert: Callable, models: ModuleType) -> None:
    _, file = convert(models.needs_flex, allow_flex=True)
    told = " ".join(file.notes)
    assert "needs the TensorFlow (Flex) delegate for FlexMatrixInverse" in told


def test_allowed_accumulation_is_in_the_file(convert: Callable, models: ModuleType) -> None:
    for options in ({}, {"accumulate": "fp16"}):
        _, file = convert(models.variance_overflow, **options)
        accumulate = options.get("accumulate", "fp32")
        assert f"fp16acc{accumulate}".encode() in file.path.read_bytes()
        assert TFLiteModel(file.path).accumulation == accumulate
        assert f"allows {accumulate.upper()} sums" in file.notes[1]


def test_a_folder_that_cannot_be_is_refused(source: Source, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Not a directory"):
        export_tflite(source, tmp_path / "file" / "model.tflite")


def test_weights_past_the_format_are_refused_at_once(source: Source, tmp_path: Path) -> None:
    huge = replace(source, variables=(SimpleNamespace(shape=(1 << 15, 1 << 15)),))
    with pytest.raises(
        ConversionError, match=r"2\.0 GiB of fp16 weights; a TFLite file holds less"
    ):
        export_tflite(huge, tmp_path / "model.tflite")


def test_what_a_loop_gives_is_handed_out(export: Callable, tmp_path: Path) -> None:
    # LiteRT's CompiledModel takes no buffer for a tensor that is allocated as it comes.
    steps = keras.Input((5, 3), name="steps")
    sequence, state = keras.layers.GRU(2, return_sequences=True, return_state=True)(steps)
    source = open_source(keras.Model(steps, {"sequence": sequence, "state": state}))
    file = export(source, tmp_path / "model.tflite")
    batch = {"steps": np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)}
    for force_fp16 in (False, True):
        with LiteRTRunner(file.path, force_fp16) as runner:
            for name, expected in source.forward(batch).items():
                np.testing.assert_allclose(runner.run(batch)[name], expected, atol=5e-3)
