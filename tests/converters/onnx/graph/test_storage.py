"""ONNX files on disk: streamed bytes, external data, and models past protobuf's 2 GiB."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import tensorflow as tf
from onnx_graphs import parse
from repository import SUPPORT

from tfmp.converters import open_source
from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.fp16.rewriter import prepare
from tfmp.converters.onnx.graph.storage import (
    external_files,
    save_checked,
)
from tfmp.converters.runners import OnnxRunner
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.converters.shared.tensors import synthetic_batch


@pytest.fixture
def exported(exported):
    return exported("conv")


def assert_runs_like(source, path) -> None:
    batch = synthetic_batch(source.inputs, samples=3, seed=2)
    for name, value in OnnxRunner(path).run(batch).items():
        np.testing.assert_allclose(value, source.forward(batch)[name], rtol=1e-4, atol=1e-5)


def test_streamed_bytes_are_protobufs(exported, tmp_path):
    """The same message as protobuf's own serializer makes, in another order of fields."""
    source, model = exported
    save_checked(model, tmp_path / "model.onnx")
    loaded = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(loaded, full_check=True)
    expected = ir.to_proto(model)
    assert {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in loaded.graph.initializer} == {
        t.name: onnx.numpy_helper.to_array(t).tobytes() for t in expected.graph.initializer
    }
    assert list(loaded.graph.node) == list(expected.graph.node)
    assert_runs_like(source, tmp_path / "model.onnx")


def test_types_that_every_reader_infers_are_left_out(tmp_path):
    """ONNX's check does not follow sizes through a graph, so the shape of `r` would be lost."""
    model = ir.from_proto(
        parse("""
    agraph (float[2, 3, 4] x, float[5] z) => (float[2, 12] y)
    <int64[1] one = {1}, int64[1] zero = {0}, int64[1] rest = {-1}> {
        r = Reshape(Neg(x), Concat <axis = 0> (Slice(Shape(x), zero, one), rest))
        y = Exp(r)
    }
    """)
    )
    prepare(model)
    save_checked(model, tmp_path / "model.onnx")
    written = onnx.load(tmp_path / "model.onnx")
    assert [info.name for info in written.graph.value_info] == ["r"]
    again = ir.from_proto(written)
    prepare(again)
    for node, same in zip(model.graph, again.graph, strict=True):
        for value, other in zip(node.outputs, same.outputs, strict=True):
            assert (value.name, value.type, value.shape) == (other.name, other.type, other.shape)


def data_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".data")


def test_external_data_on_request(exported, tmp_path):
    source, model = exported
    save_checked(model, tmp_path / "model.onnx", external_data=True)
    (name,) = data_files(tmp_path)
    assert re.fullmatch(r"model\.onnx\.[0-9a-f]{12}\.data", name)
    assert (tmp_path / name).stat().st_size > 1000
    assert external_files(tmp_path / "model.onnx") == (tmp_path / name,)
    assert_runs_like(source, tmp_path / "model.onnx")
    # The same weights have the same name; those of a replaced model stay, with a note.
    assert save_checked(model, tmp_path / "model.onnx", external_data=True) == []
    assert data_files(tmp_path) == [name]
    shutil.copy(tmp_path / "model.onnx", tmp_path / "backup.onnx")  # it shares the weights
    (note,) = save_checked(other(model), tmp_path / "model.onnx", external_data=True)
    assert note == (
        f"{tmp_path / name} has the weights of the replaced model. Remove it if no other file "
        "needs it"
    )
    assert len(data_files(tmp_path)) == 2
    assert_runs_like(source, tmp_path / "backup.onnx")


def other(model: ir.Model) -> ir.Model:
    """The same graph with weights twice as large."""
    changed = model.clone()
    for value in changed.graph.initializers.values():
        if value.const_value.dtype == ir.DataType.FLOAT:
            value.const_value = ir.tensor(value.const_value.numpy() * 2, name=value.name)
    return changed


def test_another_file_in_the_place_of_the_weights_is_refused(exported, tmp_path):
    _, model = exported
    save_checked(model, tmp_path / "model.onnx", external_data=True)
    (name,) = data_files(tmp_path)
    (tmp_path / "model.onnx").unlink()
    (tmp_path / name).write_text("precious")
    with pytest.raises(InputError, match=r"\.data: already exists. Remove it, or choose another"):
        save_checked(model, tmp_path / "model.onnx", external_data=True)
    assert (tmp_path / name).read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("external", [True, False])
def test_a_run_that_ends_in_the_middle_leaves_the_old_model(
    exported, tmp_path, monkeypatch, external
):
    source, model = exported
    save_checked(model, tmp_path / "model.onnx", external_data=True)

    def killed(self: Path, target: Path) -> Path:
        if target.suffix == ".onnx":
            raise KeyboardInterrupt
        return Path(os.rename(self, target) or target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checked(other(model), tmp_path / "model.onnx", external_data=external)
    assert_runs_like(source, tmp_path / "model.onnx")
    assert len(data_files(tmp_path)) == 1


def test_an_invalid_model_leaves_nothing(exported, tmp_path):
    _, model = exported
    broken = model.clone()
    broken.graph[0].outputs[0].dtype = ir.DataType.INT64
    with pytest.raises(ConversionError, match="is not valid ONNX"):
        save_checked(broken, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_the_optimizers_of_onnx_runtime_break_leaves_nothing(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec((None, 4, 3)), tf.TensorSpec((None, 4, 5))])
    def products(a, b):
        return tf.einsum("bij,bik,bi->jk", a, b, a[:, :, 0])

    model = export_onnx(open_source(products))
    with pytest.raises(ConversionError, match=r"cannot open .* Fix sizes .* --batch"):
        save_checked(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    fixed = open_source(products, batch_size=2)
    save_checked(export_onnx(fixed), tmp_path / "model.onnx")
    assert_runs_like(fixed, tmp_path / "model.onnx")


@pytest.mark.slow
def test_models_past_two_gibibytes(tmp_path):
    script = [sys.executable, SUPPORT / "past_two_gibibytes.py", tmp_path]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
