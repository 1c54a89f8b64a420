"""Weights that stay in an ONNX file are those that protobuf reads."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from google.protobuf.message import DecodeError

from tfmp.converters.shared.onnx_files import read_light
from tfmp.converters.shared.sessions import read_onnx

LARGE, SMALL = (300, 200), (3, 2)


def write(path):
    """A file with a large weight of each of several types, and what stays in its protobuf."""
    values = np.random.default_rng(0).normal(size=LARGE)
    arrays = {
        "wide": values.astype(np.float32),
        "half": values.astype(np.float16),
        "brain": values.astype(ml_dtypes.bfloat16),
        "whole": (values * 1000).astype(np.int64),
        "small": np.ones(SMALL, np.float32),
    }
    tensors = [ir.to_proto(ir.tensor(array, name=name)) for name, array in arrays.items()]
    typed = onnx.helper.make_tensor("typed", onnx.TensorProto.FLOAT, LARGE, values.ravel())
    output = onnx.helper.make_tensor_value_info("small", onnx.TensorProto.FLOAT, SMALL)
    graph = onnx.helper.make_graph([], "g", [], [output], [*tensors, typed])
    onnx.save(onnx.helper.make_model(graph, producer_name="test"), path)
    return arrays


@pytest.mark.parametrize("mapped", [True, False])
def test_large_weights_stay_in_the_file(mapped, tmp_path):
    path = tmp_path / "model.onnx"
    arrays = write(path)
    light, weights = read_light(path, mapped)
    assert {"wide", "half", "whole"} <= set(weights)  # and "brain", from ONNX 1.18 on
    large = [each.name for each in light.graph.initializer if len(each.raw_data) > 100]
    assert set(large).isdisjoint(weights)
    model, whole = read_onnx(path, mapped), onnx.load(path)
    assert [each.name for each in whole.graph.initializer] == list(model.graph.initializers)
    for name, array in arrays.items():
        found = model.graph.initializers[name].const_value.numpy()
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    assert ir.to_proto(model).graph.initializer[0] == whole.graph.initializer[0]


@pytest.mark.parametrize("kept", [0.5, 0.999])
def test_a_file_that_ends_early_is_refused_as_protobuf_refuses_it(kept, tmp_path):
    path = tmp_path / "model.onnx"
    write(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(DecodeError):
        read_light(path, True)
