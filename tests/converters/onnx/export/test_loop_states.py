"""States that no step of a loop changes are read from outside, and nothing else changes."""

import keras
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export import export_onnx
from tfmp.converters.onnx.export.loop_states import release_constant_states
from tfmp.converters.onnx.graph import nodes_of

# Both loops double their way: the sum of w over 3 steps, with w as a state that nothing changes.
LOOP = """
<ir_version: 8, opset_import: ["" : 18]>
main (float[2] x, float[2] w, int64 n) => (float[2] y, float[k, 2] each{more})
<bool go = {{1}}>
{{
  y, same, each = Loop (n, go, x, w) <body = step (int64 i, bool c, float[2] s, float[2] v)
    => (bool again, float[2] t, float[2] v, float[2] {each})
  {{
    again = Identity (c)
    t = Add (s, v)
    u = Identity (t)
  }}>
  {rest}
}}
"""

NESTED = """
<ir_version: 8, opset_import: ["" : 18]>
main (float[2] x, float[2] w, int64 n) => (float[2] y)
<bool go = {1}>
{
  y, same = Loop (n, go, x, w) <body = outer (int64 i, bool c, float[2] s, float[2] v)
    => (bool again, float[2] t, float[2] v)
  {
    again = Identity (c)
    t, inside = Loop (n, go, s, v) <body = inner (int64 j, bool d, float[2] p, float[2] q)
      => (bool on, float[2] r, float[2] q)
    {
      on = Identity (d)
      r = Add (p, q)
    }>
  }>
}
"""

FED = {
    "x": np.array([1, 2], np.float32),
    "w": np.array([0.5, 0.25], np.float32),
    "n": np.array(3, np.int64),
}


def loops(model: ir.Model) -> list[ir.Node]:
    return [node for node in nodes_of(model.graph) if node.op_type == "Loop"]


def run(model: ir.Model, steps: int = 3) -> list[np.ndarray]:
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {**FED, "n": np.array(steps, np.int64)})


def released(text: str) -> tuple[ir.Model, ir.Model]:
    before, after = (ir.from_proto(onnx.parser.parse_model(text)) for _ in range(2))
    release_constant_states(after.graph)
    return before, after


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (LOOP.format(more="", each="u", rest=""), [3]),
        # the last value of the state is read behind the loop
        (LOOP.format(more=", float[2] z", each="u", rest="z = Neg (same)"), [3]),
        # the state is an output of the model
        (LOOP.format(more=", float[2] same", each="u", rest=""), [4]),
        # and one of each step
        (LOOP.format(more="", each="v", rest=""), [4]),
        (NESTED, [3, 3]),
    ],
)
def test_the_model_says_the_same(text: str, inputs: list[int], steps: int) -> None:
    before, after = released(text)
    assert [len(loop.inputs) for loop in loops(after)] == inputs
    for one, other in zip(run(before, steps), run(after, steps), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("layer", [keras.layers.GRU, keras.layers.SimpleRNN])
def test_weights_of_recurrent_layers_are_no_states(layer: type[keras.layers.RNN]) -> None:
    x = keras.Input((5, 3), name="x")
    model = export_onnx(open_source(keras.Model(x, layer(4)(x))))
    (loop,) = loops(model)
    body = loop.attributes["body"].as_graph()
    assert not set(body.inputs) & set(body.outputs)
    weights = {value.name for node in body for value in node.inputs if value is not None}
    assert weights & set(model.graph.initializers)
