"""Nodes that add along a size that may change are found; sums over fixed sizes are not."""

import onnx
import onnx_ir as ir
import pytest

from tfmp.converters.onnx.graph import infer_types, sums_over_open_sizes


def found(nodes: str) -> list[tuple[str, str]]:
    constants = "int64[1] one = {1}, int64[1] two = {2}, int64 zero = {0}, int64 step = {1}"
    graph = onnx.parser.parse_graph(f"g (float[N, steps, 4] x) => (y) <{constants}> {{ {nodes} }}")
    model = ir.from_proto(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    )
    infer_types(model)
    return [(op, what) for op, _, what in sums_over_open_sizes(model)]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("y = ReduceSum(x, one)", ("ReduceSum", "a sum")),
        ("y = ReduceMean(x, one)", ("ReduceMean", "a mean")),
        ("y = ReduceL2(x, one)", ("ReduceL2", "a norm")),
        ("y = Softmax<axis = 1>(x)", ("Softmax", "a sum")),
        ("y = CumSum(x, step)", ("CumSum", "a sum")),
        ('y = Einsum<equation = "nsd,nsd->nd">(x, x)', ("Einsum", "a sum")),
        ("t = Transpose<perm = [0, 2, 1]>(x) y = MatMul(t, x)", ("MatMul", "a sum")),
        (
            "t = Transpose<perm = [0, 2, 1]>(x) y = GlobalAveragePool(t)",
            ("GlobalAveragePool", "a mean"),
        ),
        (
            "s = Shape(x) i = Squeeze(s) n = Gather(i, step) y = Range(zero, n, step)",
            ("Range", "positions"),
        ),
    ],
)
def test_a_sum_over_an_open_size_is_found(node: str, expected: tuple[str, str]):
    assert found(node) == [expected]


@pytest.mark.parametrize(
    "node",
    [
        "y = ReduceSum(x, two)",
        "y = Softmax(x)",
        "t = Transpose<perm = [0, 2, 1]>(x) y = MatMul(x, t)",
        'y = Einsum<equation = "nsd,nsd->ns">(x, x)',
        "t = Transpose<perm = [1, 0, 2]>(x) y = ReduceMean(t, one)",
        "y = Range(zero, step, step)",
    ],
)
def test_sums_over_fixed_sizes_or_samples_are_none(node: str):
    assert found(node) == []
