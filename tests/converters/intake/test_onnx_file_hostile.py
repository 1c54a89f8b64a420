"""ONNX files that would take forever, compute nothing or read what is not theirs."""

import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tfmp.converters import convert
from tfmp.converters.intake import open_source
from tfmp.converters.onnx.graph import external_files
from tfmp.converters.runners import OnnxRunner
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


YES = helper.make_tensor("yes", TensorProto.BOOL, [], [True])


def test_a_graph_without_outputs(tmp_path: Path):
    path = save(tmp_path / "none.onnx", [helper.make_node("Abs", ["x"], ["y"])], [])
    model = onnx.load(path)
    del model.graph.output[:]
    onnx.save(model, path)
    with pytest.raises(InputError, match="has no outputs to compute"):
        open_source(path)


@pytest.mark.parametrize("trusted", [False, True])
def test_calls_end_in_time(trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A loop may have no end; the limit is obeyed in a test of `watched`."""
    limits = [(50.0, "a call of model 'loop'")]
    path = save(tmp_path / "loop.onnx", [helper.make_node("Abs", ["x"], ["y"])], [])
    source = open_source(path, unsafe_load=trusted)
    monkeypatch.setattr(time_limits, "within", lambda *limit: nullcontext(limits.remove(limit)))
    source.forward(X)
    assert bool(limits) is trusted


@pytest.mark.parametrize(
    ("place", "inside"),
    [
        ("a/../../secret", False),
        ("/etc/hostname", False),
        ("..\\secret", False),
        ("../secret", True),
    ],
)
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
    with pytest.raises(InputError, match=r"weights from 'w', which is a link: any file may.*cp -L"):
        open_source(path)
    (sound / "w").unlink()
    (sound / "other").rename(tmp_path / "elsewhere")
    (sound / "w").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="which is a link"):
        open_source(path)
    (sound / "w").unlink()
    (sound / "w").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\n")
    with pytest.raises(InputError, match=r"w: is a pointer of Git LFS"):
        open_source(path)


# In the place of bytes that are no text in UTF-8.
MARK = "MARK"


def in_every_text(path: Path, field: str, raw: bytes) -> Path:
    """A model of y = |x| with other bytes in one of its texts."""
    model = onnx.load(save(path, [helper.make_node("Abs", ["x"], ["y"], name="n")], []))
    model.metadata_props.add(key="key", value="value")
    parts = {
        "model": model,
        "graph": model.graph,
        "node": model.graph.node[0],
        "opset": model.opset_import.add(domain="other", version=1),
        "metadata": model.metadata_props[0],
        "input": model.graph.input[0],
        "size": model.graph.input[0].type.tensor_type.shape.dim[0],
    }
    part, _, name = field.partition(".")
    setattr(parts[part], name, MARK)
    if field == "input.name":
        model.graph.node[0].input[0] = MARK
    path.write_bytes(model.SerializeToString().replace(MARK.encode(), raw))
    return path


@pytest.mark.parametrize(
    "field", ["model.domain", "node.name", "opset.domain", "metadata.key", "size.dim_param"]
)
def test_texts_that_are_no_text(field: str, tmp_path: Path):
    path = in_every_text(tmp_path / "m.onnx", field, b"\xff\xfe\x80A")
    with pytest.raises(InputError) as caught:
        open_source(path)
    assert re.match(
        rf"{path}: not a usable ONNX model \(onnx\.[\w.]+ is \[?b'.*'\]?, which is not UTF-8\)\. "
        r"It may be truncated: copy or export it again\.",
        str(caught.value),
    )


def test_comments_may_hold_anything_and_texts_any_language(tmp_path: Path):
    open_source(in_every_text(tmp_path / "m.onnx", "graph.name", "жж".encode()))
    path = in_every_text(tmp_path / "m.onnx", "node.doc_string", b"\xff\xfe\x80A")
    convert(path, to="onnx", output=tmp_path / "out.onnx")
    assert open_source(tmp_path / "out.onnx").outputs[0].name == "y"


@pytest.mark.parametrize("size", [2**63 - 1, 2**50])
def test_a_size_that_no_memory_holds(size: int, tmp_path: Path):
    model = onnx.load(save(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["y"])], []))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(
        InputError, match=rf"input x: float32\[{size}, 3\] asks for .* Check the file"
    ):
        open_source(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("place", "dtype", "kind"),
    [
        ("m.onnx", "float16", "initializer"),
        ("./m.onnx", "float32", "constant"),
        ("m.onnx", "bool", "in a branch"),
        ("other.bin", "bool", "initializer"),
    ],
)
def test_weights_in_the_model_file_itself(place: str, dtype: str, kind: str, tmp_path: Path):
    """Small ones, too: the converted file holds them, and needs no file of the original."""
    values = np.array([1, 0, 2]).astype(dtype)
    constant = onnx.TensorProto(name="w", dims=[3], data_location=TensorProto.EXTERNAL)
    constant.data_type = helper.np_dtype_to_tensor_dtype(values.dtype)
    cast = helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT)
    nodes, constants = [cast, helper.make_node("Add", ["x", "v"], ["y"])], [constant]
    if kind == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=constant))
        constants = []
    if kind == "in a branch":
        result = helper.make_tensor_value_info("v", TensorProto.FLOAT, [3])
        body = helper.make_graph([cast], "body", [], [result], [constant])
        nodes[0] = helper.make_node("If", ["yes"], ["v"], then_branch=body, else_branch=body)
        constants = [YES]
    folder = tmp_path / "models"
    folder.mkdir()
    for offset in (1000, 0, 0):  # in the end the first part is as long as it says
        offset = offset or (folder / "m.onnx").stat().st_size
        del constant.external_data[:]
        facts = {"location": place, "offset": offset, "length": values.nbytes}
        for key, value in facts.items():
            constant.external_data.add(key=key, value=str(value))
        if kind == "constant":
            nodes[0].attribute[0].t.CopyFrom(constant)
        if kind == "in a branch":
            for branch in nodes[0].attribute:
                branch.g.initializer[0].CopyFrom(constant)
        save(folder / "m.onnx", nodes, constants)
        with (folder / "m.onnx").open("ab") as file:  # a field that protobuf does not know
            file.write(b"\xc2\x3e" + bytes([values.nbytes]))
    with (folder / "m.onnx").open("ab") as file:
        file.write(values.tobytes())
    shutil.copy(folder / "m.onnx", folder / "other.bin")
    convert(folder / "m.onnx", to="onnx", output=tmp_path / "out.onnx")
    assert external_files(tmp_path / "out.onnx") == ()
    shutil.rmtree(folder)
    (received,) = OnnxRunner(tmp_path / "out.onnx").run(X).values()
    np.testing.assert_array_equal(received, X["x"] + values.astype(np.float32))
