"""Recurrent operators step by step: the same numbers as ONNX Runtime's, but for rounded states."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx_graphs import half, op_types, parse, run, run_emulated

from tfmp.converters.onnx.emulation.emulate import FP32_INSIDE, emulated
from tfmp.converters.onnx.fp16.rewriter import prepare

STEPS, SAMPLES, INPUTS, HIDDEN = 9, 3, 5, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OUTPUTS = {
    "LSTM": "float[T, D, N, 4] y, float[D, N, 4] h, float[D, N, 4] c",
    "GRU": "float[T, D, N, 4] y, float[D, N, 4] h",
    "RNN": "float[T, D, N, 4] y, float[D, N, 4] h",
}


def graph(op: str, attributes: str, inputs: str) -> str:
    names = ", ".join(part.split("] ")[1] for part in OUTPUTS[op].split(", float"))
    return (
        f"agraph (float[T, N, 5] x) => ({OUTPUTS[op]})"
        f" {{ {names} = {op} <hidden_size = 4, {attributes}> ({inputs}) }}"
    )


def weights(op: str, directions: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    rows = GATES[op] * HIDDEN

    def draw(*shape: int) -> np.ndarray:
        return generator.uniform(-1, 1, shape).astype(np.float16).astype(np.float32)

    return {
        "w": draw(directions, rows, INPUTS),
        "r": draw(directions, rows, HIDDEN),
        "b": draw(directions, 2 * rows),
        "h0": draw(directions, SAMPLES, HIDDEN),
        "c0": draw(directions, SAMPLES, HIDDEN),
        "lens": np.array([9, 4, 1], np.int32),
    }


def batch() -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((STEPS, SAMPLES, INPUTS))
    return {"x": x.astype(np.float16).astype(np.float32)}


VARIANTS = {
    "plain": ("forward", "x, w, r"),
    "biases": ("forward", "x, w, r, b"),
    "states": ("forward", "x, w, r, b, , h0"),
    "lengths": ("forward", "x, w, r, b, lens"),
    "reverse": ("reverse", "x, w, r, b, lens, h0"),
    "both": ("bidirectional", "x, w, r, b, , h0"),
    "both, lengths": ("bidirectional", "x, w, r, b, lens"),
}


@pytest.mark.parametrize(
    ("op", "variant", "opset"),
    [
        *(("LSTM", variant, 18) for variant in VARIANTS),
        *((op, variant, 11) for op in ("GRU", "RNN") for variant in ("states", "both, lengths")),
        ("LSTM", "states", 10),
    ],
)
def test_steps_compute_what_the_operator_does(op: str, variant: str, opset: int):
    direction, inputs = VARIANTS[variant]
    check(op, f'direction = "{direction}"', inputs, 1 + (direction == "bidirectional"), opset)


@pytest.mark.parametrize("inputs", ["x, w, r", "x, w, r, b", "x, w, r, b, lens, h0"])
def test_a_gru_that_resets_after_its_product(inputs: str):
    check("GRU", "linear_before_reset = 1", inputs)


def test_an_lstm_with_a_cell_state_and_activations_of_its_own():
    activations = '"Sigmoid", "Relu", "Tanh", "Sigmoid", "Tanh", "Relu"'
    attributes = f'direction = "bidirectional", activations = [{activations}]'
    check("LSTM", attributes, "x, w, r, b, , h0, c0", 2)


def test_an_lstm_in_a_branch_on_values_of_unknown_rank():
    """As Silero's voice detector has it: ONNX Runtime asks for the rank of a Scan's outputs."""
    text = (
        "agraph (bool k, float[T, N, 5] x, int64[R] shape) => (float[T, 1, N, 4] out) {"
        " z = Reshape(x, shape)"
        " out = If (k) <then_branch = a () => (float[T, 1, N, 4] y)"
        " { y = LSTM <hidden_size = 4> (z, w, r) },"
        " else_branch = b () => (float[T, 1, N, 4] q) { q = Identity(h) }> }"
    )
    given = {name: value for name, value in weights("LSTM", 1).items() if name in "wr"}
    h = np.zeros((1, 1, 1, 4), np.float32)
    converted, _ = half(parse(text, **given, h=h))
    shape = np.array([STEPS, SAMPLES, INPUTS])
    received = run_emulated(converted, {**batch(), "k": np.array(True), "shape": shape})
    assert received["out"].shape == (STEPS, 1, SAMPLES, HIDDEN)


def check(op: str, attributes: str, inputs: str, directions: int = 1, opset: int = 18) -> None:
    used = [name for name in inputs.split(", ") if name not in ("x", "")]
    given = {name: value for name, value in weights(op, directions).items() if name in used}
    model = parse(graph(op, attributes, inputs), opset=opset, **given)
    converted, _ = half(model)
    expected, received = run(model, batch()), run_emulated(converted, batch())
    once = {name: value.astype(np.float16) for name, value in expected.items()}
    for name, value in expected.items():
        np.testing.assert_allclose(received[name], value, atol=8e-3, err_msg=name)
        assert np.array_equal(received[name], received[name].astype(np.float16))
    # Rounded at every step, and not only once at the end.
    assert any(not np.array_equal(received[name], once[name]) for name in expected)


def test_states_are_float16_between_steps():
    """A state that grows by less than its spacing does not grow."""
    text = (
        "agraph (float[T, N, 1] x) => (float[T, 1, N, 1] y, float[1, N, 1] h)"
        ' { y, h = RNN <hidden_size = 1, activations = ["Relu"]> (x, w, r) }'
    )
    one = np.ones((1, 1, 1), np.float32)
    converted, _ = half(parse(text, w=one, r=one))
    x = np.full((100, 1, 1), 2.0**-2, np.float32)
    x[0] = 1024  # where float16 numbers are 1 apart
    received = run_emulated(converted, {"x": x})
    assert received["h"].item() == 1024
    assert run(converted, {"x": x})["h"].item() > 1040


def test_products_between_steps_sum_in_fp16_where_the_profile_does():
    """Ones summed one by one stop at 2048."""
    text = (
        "agraph (float[T, N, 1] x) => (float[T, 1, N, 2100] y, float[1, N, 2100] h)"
        ' { y, h = RNN <hidden_size = 2100, activations = ["Relu"]> (x, w, r) }'
    )
    w, r = np.ones((1, 2100, 1), np.float32), np.ones((1, 2100, 2100), np.float32)
    converted, _ = half(parse(text, w=w, r=r))
    x = np.array([1, 0], np.float32).reshape(2, 1, 1)
    assert (run_emulated(converted, {"x": x})["h"] == 2100).all()
    assert (run_emulated(converted, {"x": x}, "pessimistic:1")["h"] == 2048).all()


def test_what_cannot_be_unrolled_is_named():
    given = {name: value for name, value in weights("LSTM", 1).items() if name in "wr"}
    for attributes, left in (("clip = 3.0", "LSTM"), ('direction = "forward"', "")):
        converted, _ = half(parse(graph("LSTM", attributes, "x, w, r"), **given))
        copy = ir.from_proto(converted)
        prepare(copy)
        wide = emulated(copy)
        assert wide.metadata_props[FP32_INSIDE] == left
        assert ("LSTM" in op_types(ir.to_proto(wide))) == bool(left)


def test_activations_are_approximations_where_the_runtime_says_so():
    given = {name: value for name, value in weights("LSTM", 1).items() if name in "wrb"}
    converted, _ = half(parse(graph("LSTM", 'direction = "forward"', "x, w, r, b"), **given))
    exact, coarse = (run_emulated(converted, batch(), name)["y"] for name in ("gpu", "ort-cuda"))
    error = np.linalg.norm(coarse - exact) / np.linalg.norm(exact)
    assert 2**-11 < error < 2**-8
