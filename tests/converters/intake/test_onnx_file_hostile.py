"""ONNX files that would take forever, compute nothing or read what is not theirs."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tfmp.converters.intake import open_source
from tfmp.converters.shared import time_limits
from tfmp.converters.shared.errors import InputError

X = {"x": np.ones((2, 3), np.float32)}


def save(path: Path, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> Path:
    """A file whose nodes make y [n, 3] of x [n, 3]."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    graph = helper.make_graph(nodes, "graph", value[:1], value[1:], constants)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def branches(depth: int, output: str) -> onnx.NodeProto:
    """Ifs inside of each other; each doubles x where its condition is true."""

    def body(name: str, node: onnx.NodeProto) -> onnx.GraphProto:
        result = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [result])

    if not depth:
        return helper.make_node("Add", ["x", "x"], [output])
    deeper = branches(depth - 1, f"{output}{depth}")
    same = helper.make_node("Identity", ["x"], [f"same{depth}"])
    return helper.make_node(
        "If", ["yes"], [output], then_branch=body("a", deeper), else_branch=body("b", same)
    )


YES = helper.make_tensor("yes", TensorProto.BOOL, [], [True])


def test_branches_inside_of_each_other(tmp_path: Path):
    source = open_source(save(tmp_path / "few.onnx", [branches(6, "y")], [YES]))
    np.testing.assert_array_equal(source.forward(X)["y"], 2 * X["x"])
    path = save(tmp_path / "many.onnx", [branches(20, "y")], [YES])
    with pytest.raises(InputError, match="more than 12 branches or loops inside of each other"):
        open_source(path)


def test_a_graph_without_outputs(tmp_path: Path):
    path = save(tmp_path / "none.onnx", [helper.make_node("Abs", ["x"], ["y"])], [])
    model = onnx.load(path)
    del model.graph.output[:]
    onnx.save(model, path)
    with pytest.raises(InputError, match="has no outputs to compute"):
        open_source(path)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_loop_without_an_end_is_stopped(
    trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It runs while a sum is below 9: forever for zeros."""
    total = helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["n", 3])
    body = helper.make_graph(
        [
            helper.make_node("Add", ["before", "x"], ["sum"]),
            helper.make_node("ReduceMax", ["sum"], ["largest"], keepdims=0),
            helper.make_node("Less", ["largest", "nine"], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("yes_before", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, ["n", 3]),
        ],
        [helper.make_tensor_value_info("more", TensorProto.BOOL, []), total],
    )
    nine = helper.make_tensor("nine", TensorProto.FLOAT, [], [9.0])
    loop = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
    path = save(tmp_path / "loop.onnx", [loop], [YES, nine])
    source = open_source(path, unsafe_load=trusted)
    monkeypatch.setattr(time_limits, "_SECONDS", 0.2)
    monkeypatch.setattr(time_limits, "_SECONDS_A_SAMPLE", 0.0)
    np.testing.assert_array_equal(source.forward(X)["y"], 9 * X["x"])
    if not trusted:
        with pytest.raises(InputError, match=r"did not end within 0\.2 s on 2 samples"):
            source.forward({"x": 0 * X["x"]})


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("place", ["../secret", "a/../../secret", "/etc/hostname", "..\\secret"])
def test_weights_outside_of_the_folder_are_not_read(place: str, inside: bool, tmp_path: Path):
    """As an initializer, and as the value of a node."""
    (tmp_path / "secret").write_bytes(bytes(12))
    (tmp_path / "model").mkdir()
    weight = TensorProto(name="weight", data_type=1, dims=[3], data_location=1)
    weight.external_data.add(key="location", value=place)
    nodes = [helper.make_node("Add", ["x", "weight"], ["y"])]
    if inside:
        nodes.insert(0, helper.make_node("Constant", [], ["weight"], value=weight))
    path = save(tmp_path / "model" / "model.onnx", nodes, [] if inside else [weight])
    with pytest.raises(InputError, match=r"reads weights from .* which is outside of its folder"):
        open_source(path)


def test_weights_in_the_folder_are_read(tmp_path: Path):
    (tmp_path / "weights").write_bytes(np.ones(3, np.float32).tobytes())
    weight = TensorProto(name="weight", data_type=1, dims=[3], data_location=1)
    weight.external_data.add(key="location", value="weights")
    path = save(
        tmp_path / "model.onnx", [helper.make_node("Add", ["x", "weight"], ["y"])], [weight]
    )
    np.testing.assert_array_equal(open_source(path).forward(X)["y"], X["x"] + 1)


def test_weights_behind_links_are_told(tmp_path: Path):
    sound = tmp_path / "sound"
    sound.mkdir()
    bias = numpy_helper.from_array(np.ones(3, np.float32), "bias")
    path = save(sound / "m.onnx", [helper.make_node("Add", ["x", "bias"], ["y"])], [bias])
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w", size_threshold=0)
    np.testing.assert_array_equal(open_source(path).forward(X)["y"], X["x"] + 1)
    (sound / "w").rename(sound / "other")
    (sound / "w").symlink_to("other")  # a link within the folder
    np.testing.assert_array_equal(open_source(path).forward(X)["y"], X["x"] + 1)
    (sound / "w").unlink()
    (sound / "w").hardlink_to(sound / "other")
    with pytest.raises(InputError, match=r"weights from 'w', which has several names \(hard"):
        open_source(path)
    (sound / "w").unlink()
    (sound / "other").rename(tmp_path / "elsewhere")
    (sound / "w").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"which is a link to '.*elsewhere', outside .*cp -L"):
        open_source(path)
