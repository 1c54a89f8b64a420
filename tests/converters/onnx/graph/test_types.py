"""Type inference, and ONNX's full check."""

import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import HEADER

from tfmp.converters.onnx.graph.types import check, infer_types
from tfmp.converters.shared.errors import ConversionError

BRANCHES = """
agraph (float[2, 4] x, bool c) => (y) {
    y = If (c) <
        then_branch = yes () => (t) { v = Transpose <perm = [1, 0]> (x)  t = Neg(v) },
        else_branch = no () => (e) { v = Cast <to = 10> (x)  w = Cast <to = 1> (v)  e = Exp(w) }
    >
}
"""


def unchecked(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEADER.replace("{extra}", "") + text))


CONTRADICTIONS = {
    "output type": "agraph (float[4] x) => (float16[4] y) { y = Relu(x) }",
    "operand types": "agraph (float[4] x, float16[4] b) => (float[4] y) { y = Add(x, b) }",
    "shapes": "agraph (float[4] x, float[3] b) => (float[N] y) { y = Add(x, b) }",
    "axis": "agraph (float[4, 5] x) => (float[N] y) { y = Concat <axis = 7> (x, x) }",
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_the_check_refuses_what_contradicts_itself(kind: str):
    with pytest.raises(ConversionError, match="is not valid ONNX"):
        check(unchecked(CONTRADICTIONS[kind]))


def test_bodies_have_types_of_their_own_though_they_share_names():
    model = unchecked(BRANCHES)
    infer_types(model)
    node = model.graph[0]
    kept = node.attributes["then_branch"].as_graph()[0].outputs[0]
    cast = node.attributes["else_branch"].as_graph()[0].outputs[0]
    assert (kept.name, cast.name) == ("v", "v")
    assert (kept.dtype, kept.shape) == (ir.DataType.FLOAT, ir.Shape([4, 2]))
    assert (cast.dtype, cast.shape) == (ir.DataType.FLOAT16, ir.Shape([2, 4]))
    assert node.outputs[0].dtype == ir.DataType.FLOAT


def test_types_that_contradict_each_other_cannot_be_inferred():
    with pytest.raises(ConversionError, match="the graph's types cannot be inferred"):
        infer_types(unchecked(CONTRADICTIONS["operand types"]))
