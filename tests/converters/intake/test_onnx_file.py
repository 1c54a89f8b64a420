"""ONNX files from elsewhere."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_graphs import parse

from tfmp.converters import convert, validate
from tfmp.converters.intake import open_source
from tfmp.converters.shared.errors import InputError


def test_sizes_of_minus_one_vary(tmp_path: Path):
    """PaddlePaddle writes open sizes as -1."""
    model = parse("agraph (float[N, 3] x) => (float[N, 3] y) { h = Neg(x)\n y = Neg(h) }")
    model.graph.value_info.append(helper.make_tensor_value_info("h", 1, ["N", 3]))
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(model, tmp_path / "paddle.onnx")
    source = open_source(tmp_path / "paddle.onnx")
    assert [spec.shape for spec in (*source.inputs, *source.outputs)] == [(None, 3), (None, 3)]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(source.forward({"x": x})["y"], x)
    assert open_source(tmp_path / "paddle.onnx", batch_size=4).inputs[0].shape == (4, 3)


def test_an_output_has_no_names_of_sizes_but_that_of_the_samples(tmp_path: Path):
    """As a super-resolution model has them, whose output is larger than its input."""
    model = parse(
        """
        agraph (float[N, 1, H, W] x) => (float[N, 1, H, W] y)
        <float[0] none = {}, float[4] scales = {1, 1, 2, 2}> {
            h = Neg(x)
            up = Resize <mode = "nearest"> (h, none, scales)
            y = Neg(up)
        }
        """
    )
    onnx.save(model, tmp_path / "model.onnx")
    source = open_source(tmp_path / "model.onnx")
    x, y = source.model.graph.inputs[0].shape, source.model.graph.outputs[0].shape
    assert [str(size.value) for size in x if not isinstance(size, int)] == ["N", "H", "W"]
    assert [size.value for size in y if not isinstance(size, int)] == ["N", None, None]


def test_nodes_may_stand_in_any_order(tmp_path: Path):
    """As other converters write them; ONNX Runtime runs them, and ONNX's check refuses them."""
    model = parse("agraph (float[N, 3] x) => (float[N, 3] y) { h = Neg(x)\n y = Abs(h) }")
    model.graph.node.reverse()
    onnx.save(model, tmp_path / "reversed.onnx")
    x = np.linspace(-1, 1, 300, dtype=np.float32).reshape(100, 3)
    made = convert(tmp_path / "reversed.onnx", output=tmp_path / "half.onnx", data=x)
    onnx.checker.check_model(made.path, full_check=True)
    assert made.report is not None
    assert made.precision == "fp32"  # FP16 has nothing to do here
    half = onnx.load(made.path)
    half.graph.node.reverse()
    onnx.save(half, tmp_path / "half.onnx")
    judged = validate(tmp_path / "reversed.onnx", tmp_path / "half.onnx", x)
    (one,) = judged.candidates
    assert one.checks == made.report.candidates[0].checks


def test_results_that_are_maps_become_rows(tmp_path: Path):
    """Classifiers of scikit-learn answer with them unless they are exported without."""
    labels = list(range(90))
    mapped = f"p = MatMul(x, w) y = ai.onnx.ml.ZipMap <classlabels_int64s = {labels}> (p)"
    sets = '<ir_version: 9, opset_import: ["": 18, "ai.onnx.ml": 3]>'
    text = f"{sets} net (float[n,200] x) => (seq(map(int64, float[])) y) {{ {mapped} }}"
    model = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).standard_normal((200, 90)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))  # above 64 KB
    path, x = tmp_path / "net.onnx", np.eye(200, dtype=np.float32)
    onnx.save(model, path)
    np.testing.assert_allclose(open_source(path).forward({"x": x})["y"], weights, 1e-6)
    made = convert(path, output=tmp_path / "half.onnx")
    assert any("a column for each class" in note for note in made.notes)
    report = validate(path, [path, made.path], x)
    same, half = (candidate.outputs[0].rel_l2 for candidate in report.candidates)
    assert (same, 0 < half < 1e-3) == (0, True)


def test_a_file_of_an_opset_that_nothing_runs_says_how_to_renew_it(tmp_path: Path):
    path = tmp_path / "old.onnx"
    onnx.save(parse("agraph (float[4] x) => (float[4] y) { y = Relu(x) }", opset=5), path)
    with pytest.raises(InputError, match=r"old\.onnx: is of opset 5, .*convert_version\(model, 13"):
        open_source(path)


def test_one_name_for_sizes_that_differ_ends_in_no_buffer_of_another_size(tmp_path: Path):
    names = [(f"{step}{level}", level) for step in "rsu" for level in (1, 2, 3)]
    nodes, before = [], "x"
    for level in (1, 2, 3):
        nodes += [
            f"p{level} = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> ({before})",
            f"r{level} = Reshape (p{level}, rows)",
            f"s{level} = Exp (r{level})",
            f"u{level} = Mul (s{level}, half)",
            f"o{level} = Sigmoid (u{level})",
        ]
        before = f"p{level}"
    model = parse(
        "agraph (float[1, 3, h, w] x) => (float[1, D, 3] o1, float[1, D, 3] o2, float[1, D, 3] o3) "
        f"<int64[3] rows = {{1, -1, 3}}, float[1] half = {{0.5}}> {{ {chr(10).join(nodes)} }}"
    )
    kinds = (helper.make_tensor_value_info(name, 1, [1, "D", 3]) for name, _ in names)
    model.graph.value_info.extend(kinds)
    onnx.save(model, tmp_path / "heads.onnx")
    data = {"x": np.ones((4, 3, 32, 32), np.float32)}
    written = convert(tmp_path / "heads.onnx", output=tmp_path / "out.onnx", data=data)
    assert written.report is not None
    (candidate,) = written.report.candidates
    assert not candidate.error


def test_unknown_operators_are_named_with_their_domain(tmp_path: Path):
    graph = "g (float[2] x) => (float[2] y) { y = com.acme.Frobnicate (x) }"
    model = f'<ir_version: 8, opset_import: ["": 13, "com.acme": 1]> {graph}'
    onnx.save(onnx.parser.parse_model(model), tmp_path / "m.onnx")
    with pytest.raises(InputError, match=r"computes with Frobnicate of com\.acme, which ONNX"):
        open_source(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("Crop", {"border": [1, 2, 0, 3]}),
        ("ImageScaler", {"scale": 0.5, "bias": [-1.0, 0.0, 2.0]}),
        ("QuickGelu", {"domain": "com.microsoft"}),
    ],
)
def test_operators_that_only_onnx_runtime_has_are_kept(kind: str, options: dict, tmp_path: Path):
    """Experimental ones of 2017, and its own, which optimized files have."""
    x, y = (helper.make_tensor_value_info(name, 1, [None, 3, None, None]) for name in "xy")
    nodes = [
        helper.make_node(kind, ["x"], ["z"], **options),
        helper.make_node("Conv", ["z", "w"], ["y"]),
    ]
    weights = helper.make_tensor("w", 1, [2, 3, 1, 1], np.linspace(-1, 1, 6))
    graph = helper.make_graph(nodes, "g", [x], [y], [weights])
    opsets = [helper.make_opsetid("", 9), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=4), tmp_path / "old.onnx")
    data = np.random.default_rng(0).normal(size=(64, 3, 8, 8)).astype(np.float32)
    artifact = convert(tmp_path / "old.onnx", output=tmp_path / "out.onnx", data=data)
    assert artifact.precision == "fp16"
    assert artifact.report is not None
    assert 0 < artifact.report.candidates[0].outputs[0].rel_l2 < 1e-3
