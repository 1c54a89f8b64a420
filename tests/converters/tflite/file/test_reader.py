"""Reading a .tflite file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings, strategies
from mutations import mutated

from tfmp.converters.shared.errors import InputError
from tfmp.converters.tflite.file.reader import TFLiteModel, layer_of


def test_loops_have_their_operators_in_their_own_subgraphs(
    convert: Callable, models: ModuleType
) -> None:
    model = TFLiteModel(convert(models.recurrent)[1].path)
    assert {"WHILE", "FULLY_CONNECTED"} <= {o.name for o in model.operators if o.subgraph == 0}
    assert {"LOGISTIC", "TANH"} <= {o.name for o in model.operators if o.subgraph > 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"PK\3\4 a zip archive", "not a TFLite model: expected the mark 'TFL3' at byte 4"),
        (None, r"cannot be read \(No such file or directory\)"),
    ],
)
def test_files_that_are_no_models_are_refused(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.tflite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        TFLiteModel(path)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("model_1/norm_1/moments/mean", "norm"),
        ("model_1/block_1/dense_1_2/MatMul;model_1/block_1/dense_1_2/BiasAdd", "block/dense_1"),
        ("model_1/Relu", ""),
        ("arith.constant", ""),
        ("m_1/lstm_1/while/lstm_cell_1/MatMul@__inference_f_3", "lstm"),
    ],
)
def test_layers_are_found_in_names(name: str, layer: str) -> None:
    assert layer_of(name) == layer


def test_a_constant_that_does_not_fill_its_shape(convert: Callable, models: ModuleType) -> None:
    model = TFLiteModel(convert(models.variance_overflow)[1].path)
    tensor = next(model.constants())
    wrong = replace(tensor, spec=replace(tensor.spec, shape=(3, 788529160)))
    with pytest.raises(InputError, match=r"has .* bytes, which do not fill it"):
        model.constant(wrong)


@pytest.fixture(scope="module")
def sound(convert: Callable, models: ModuleType) -> bytes:
    return convert(models.recurrent)[1].path.read_bytes()


@settings(derandomize=True, max_examples=200, deadline=None)
@given(seed=strategies.integers(0, 2**32))
def test_damage_is_told_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, sound: bytes, seed: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.tflite"
    path.write_bytes(mutated(sound, seed))
    told = ""
    try:
        model = TFLiteModel(path)
        for tensor in model.constants():
            model.constant(tensor)
    except InputError as error:
        told = str(error)
    assert "\n" not in told
