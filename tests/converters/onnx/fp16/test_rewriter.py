"""The FP16 pass on hand-written graphs: valid, loadable, right, with few casts."""

import corpus_onnx
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import assert_close_in_fp16, half, op_types, parse, run, run_emulated

from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
from tfmp.converters.onnx.graph.types import check
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.sessions import cpu_session

X = {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}

DENSE = """
agraph (float[N, 4] x) => (float[N, 4] y)
<float[4, 4] w = {1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4}> {
    y = Relu(MatMul(x, w))
}
"""


STEPS = """
agraph (float[N, 4] x, int64 trips, bool go) => (float[N, 4] y, float[K, N, 4] all) {
    start = Exp(x)
    y, all = Loop (trips, go, start) <
        body = once (int64 i, bool c, float[N, 4] state)
            => (bool c_out, float[N, 4] next, float[N, 4] copy) {
            c_out = Identity(c)
            next = If (c) <
                then_branch = yes () => (float[N, 4] t) { t = Add(state, x) },
                else_branch = no () => (float[N, 4] e) { e = Sub(state, x) }
            >
            copy = Neg(next)
        }
    >
}
"""


@pytest.mark.parametrize("text", [DENSE, STEPS], ids=["dense", "bodies"])
def test_a_clone_is_converted_without_its_original(text: str):
    """onnx_ir's clones share the objects that say types."""
    model = ir.from_proto(parse(text))
    prepare(model)
    before = ir.to_proto(model)
    for _ in range(2):
        check(to_fp16(model.clone(), fp16_io=True)[0])
        assert ir.to_proto(model) == before


def test_a_dense_layer_has_one_cast_in_and_one_out():
    model, report = half(parse(DENSE))
    assert op_types(model) == ["Cast", "MatMul", "Relu", "Cast"]
    assert report.casts == 2
    assert report.half_nodes == 2
    assert report.islands == ()
    assert [(t.name, t.data_type) for t in model.graph.initializer] == [
        ("w", onnx.TensorProto.FLOAT16)
    ]
    assert_close_in_fp16(parse(DENSE), X)


def test_a_converted_model_is_left_as_it_is():
    once, _ = half(parse(DENSE))
    twice, report = half(once)
    assert twice.graph == once.graph
    assert report.casts == 0


def test_one_constant_read_in_two_precisions_exists_in_both():
    model = parse("""
    agraph (float[N, 4] x) => (float[N, 4] y, float[N, 4] z)
    <float[4] c = {0.1, 0.2, 0.3, 0.4}> {
        y = Mul(x, c)
        [exact] z = Add(x, c)
    }
    """)
    converted, report = half(model, keep_fp32=("exact",))
    assert [island.reason for island in report.islands] == ["kept by request (exact)"]
    kinds = {t.name: t.data_type for t in converted.graph.initializer}
    assert kinds == {"c": onnx.TensorProto.FLOAT, "c_fp16": onnx.TensorProto.FLOAT16}
    np.testing.assert_array_equal(run(converted, X)["z"], run(model, X)["z"])


def test_an_output_that_is_an_input_or_an_initializer():
    model = parse("agraph (float[N, 4] x) => (float[N, 4] x, float[2] c) {}", c=np.ones(2, "f"))
    converted, _ = half(model)
    assert [value.name for value in converted.graph.output] == ["x", "c"]
    check(ir.from_proto(converted))


def test_an_initializer_that_callers_may_override_keeps_its_type():
    model = parse(
        """
    agraph (float[N, 4] x, float[4] c) => (float[N, 4] y)
    { y = Mul(x, c) }
    """,
        c=np.full(4, 3, np.float32),
    )
    converted, _ = half(model)
    assert {t.name: t.data_type for t in converted.graph.initializer} == {
        "c": onnx.TensorProto.FLOAT
    }
    five = {"c": np.full(4, 5, np.float32)}
    session = cpu_session(converted.SerializeToString())
    (received,) = session.run(None, X | five)
    np.testing.assert_allclose(received, X["x"] * 5, rtol=1e-2)


def test_names_that_the_pass_would_invent_may_be_taken():
    model = parse("""
    agraph (float[N, 4] x, float[N, 4] x_fp16) => (float[N, 4] y)
    { a = Exp(x)  b = Exp(x_fp16)  y_fp32 = Add(a, b)  y = Neg(y_fp32) }
    """)
    assert_close_in_fp16(model, X | {"x_fp16": X["x"]}, tolerance=2e-2)


FED = X | {"flag": np.array(True), "trips": np.array(3)}


def fed(model: onnx.ModelProto, **others: object) -> dict[str, np.ndarray]:
    """What the model's inputs are given."""
    given = FED | {name: np.array(value) for name, value in others.items()}
    return {value.name: given[value.name] for value in model.graph.input}


@pytest.mark.parametrize(
    ("name", "kept", "others"),
    [
        ("if_branches", "Mul", {}),
        ("if_branches", "Mul", {"flag": False}),
        ("loop_state", "Add", {}),
    ],
)
def test_a_body_that_is_fp32_in_part_is_consistent(name: str, kept: str, others: dict):
    model = corpus_onnx.GRAPHS[name]()
    converted, report = half(model, keep_fp32=(kept,))
    assert report.islands[0].op_type == kept
    batch = fed(model, **others)
    expected, received = run(model, batch), run(converted, batch)
    for output, array in expected.items():
        np.testing.assert_allclose(received[output], array, rtol=1e-2)


@pytest.mark.parametrize(
    ("text", "x", "islands"),
    [
        pytest.param(
            """
            agraph (float[N, 4] x) => (float[N, 4] y) <float scale = {0.1}, uint8 zero = {128}> {
                y = Exp(Tanh(DequantizeLinear(QuantizeLinear(x, scale, zero), scale, zero)))
            }
            """,
            X["x"],
            {"QuantizeLinear": "", "DequantizeLinear": "", "Tanh": "quantized arithmetic"},
            id="scales of quantized nodes, and what reads nothing else",
        ),
        pytest.param(
            """
            agraph (float x) => (float[N] y)
            <float zero = {0}, float step = {0.5}> { r = Range(zero, x, step)  y = Exp(r) }
            """,
            np.array(3, np.float32),
            {"Range": "Range of opset 18 is not defined for float16"},
            id="ops without float16",
        ),
        pytest.param(
            # onnx's checker and ONNX Runtime both expand it to a function with a float32 epsilon.
            """
            agraph (float[N, 4] x) => (float[N, 4] y) {
                y = MeanVarianceNormalization <axes = [0, 1]> (x)
            }
            """,
            X["x"],
            {
                "MeanVarianceNormalization": "ONNX Runtime's CPU provider cannot load "
                "MeanVarianceNormalization"
            },
            id="a function with a float32 epsilon",
        ),
        pytest.param(
            """
            agraph (float[N, 4] x) => (float[N, 4] y, float[N, 1] m)
            <float[4] s = {1, 2, 3, 4}> { y, m = LayerNormalization(x, s) }
            """,
            X["x"],
            {},
            id="statistics that are float32 keep nothing there",
        ),
    ],
)
def test_what_stays_in_fp32_is_right_and_says_why(text: str, x: np.ndarray, islands: dict):
    model = parse(text)
    _, report = half(model)
    told = {island.op_type: island.reason for island in report.islands}
    assert told.keys() == islands.keys()
    assert all(told[op].startswith(reason) for op, reason in islands.items())
    assert_close_in_fp16(model, {"x": x})


@pytest.mark.parametrize("keep_fp32", [(), ("Mul",)], ids=["by rule", "by request"])
def test_a_mask_constant_past_the_range_keeps_the_mask_and_softmax_in_fp32(
    keep_fp32: tuple[str, ...],
):
    """Its reader stays as well, whichever rule kept the mask itself."""
    model = parse("""
    agraph (float[N, 4] x, float[N, 4] m) => (float[N, 4] y)
    <float big = {-1e9}> {
        offset = Mul(m, big)
        y = Softmax(Add(x, offset))
    }
    """)
    converted, report = half(model, keep_fp32=keep_fp32)
    assert ("by request" if keep_fp32 else "reaches 1e+09") in report.islands[0].reason
    assert report.islands[1].reason == "offset can be past the range of FP16"
    mask = np.zeros_like(X["x"])
    mask[0, 1:] = 1
    mask[1] = 1  # a row that is masked throughout is NaN where the mask becomes -inf
    batch = X | {"m": mask}
    received = run_emulated(converted, batch)["y"]
    assert np.isfinite(received).all()
    np.testing.assert_allclose(received, run(model, batch)["y"], atol=1e-3)


def test_a_node_without_a_name_is_told_by_the_value_that_it_makes():
    model = parse("""
    agraph (float[N, 4] x) => (float[N, 4] y) <float big = {1e9}, int64[1] axis = {1}> {
        far = Mul(x, big)
        length = Sqrt(ReduceSum(Mul(x, x), axis))
        y = Add(far, length)
    }
    """)
    notes = half(model)[1].notes()
    assert notes[0].startswith("kept in FP32: Mul in far: ")
    assert notes[-1].startswith("rewritten: Sqrt in length: ")


def test_an_epsilon_that_vanishes_keeps_its_readers_in_fp32():
    """Its root, 1e-6, is subnormal, so the division stays, too."""
    model = parse("""
    agraph (float[N, 4] x) => (float[N, 4] y)
    <float eps = {1e-12}> { v = Mul(x, x)  s = Add(v, eps)  r = Sqrt(s)  y = Div(x, r) }
    """)
    _, report = half(model)
    assert [island.op_type for island in report.islands] == ["Add", "Sqrt", "Div"]
    assert report.islands[0].reason == "constant eps (1e-12) becomes zero in FP16"


def test_a_weight_matrix_with_a_few_tiny_values_is_reported_not_kept():
    weights = np.full((4, 4), 0.5, np.float32)
    weights[0, 0] = 1e-12
    weights[1, 1] = 1e-6
    model = parse("agraph (float[N, 4] x) => (float[N, 4] y) { y = MatMul(x, w) }", w=weights)
    _, report = half(model)
    assert report.islands == ()
    (change,) = report.constants
    assert (change.name, change.size, change.vanished, change.subnormal) == ("w", 16, 1, 1)
    assert report.notes() == ["1 of 16 values of w became zero in FP16"]


@pytest.mark.parametrize(
    ("op", "constant", "kept"),
    [
        ("Mul", 1e-6, True),
        ("Mul", 5e-5, False),
        ("Add", 1e-6, False),
        ("MatMul", np.full((4, 4), 2e-7) * np.arange(1, 5), True),
        ("MatMul", np.eye(4) * 0.1 + 1e-7, False),
    ],
)
def test_factors_that_fp16_holds_badly_stay_in_fp32(op, constant, kept):
    source = f"agraph (float[N, 4] x) => (float[N, 4] y) {{ y = {op}(x, w) }}"
    _, report = half(parse(source, w=np.asarray(constant, np.float32)))
    reasons = [island.reason for island in report.islands]
    assert [reason.partition(",")[0] for reason in reasons] == kept * [
        "constant w lies below FP16's normal numbers"
    ]


def test_float64_stays_and_is_told():
    model = parse("""
    agraph (double[N, 4] x, float[N, 4] z) => (double[N, 4] y, float[N, 4] w) {
        y = Exp(Relu(x))
        w = Relu(z)
    }
    """)
    nothing, note = half(model)[1].notes()
    assert nothing == "nothing in this file computes in FP16"
    assert note.startswith("nodes that compute in float64 and stay as they are: 2 ")


def test_constants_round_to_nearest_even_and_keep_sign_infinity_and_subnormals():
    values = np.array([-1e-9, 1 + 2**-11, 1 + 3 * 2**-11, -np.inf, 2**-24, -0.0], np.float32)
    model = parse("agraph (float[N, 6] x) => (float[N, 6] y) { y = Mul(x, c) }", c=values)
    converted, _ = half(model)
    (stored,) = (onnx.numpy_helper.to_array(t) for t in converted.graph.initializer)
    expected = values.astype(np.float16)
    np.testing.assert_array_equal(stored.view(np.uint16), expected.view(np.uint16))
    assert np.signbit(stored[0])


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "'\\(' is not a regular expression"),
        ("nowhere", "'nowhere' matches no node name, layer or op type. Known, for example: MatMul"),
    ],
)
def test_bad_patterns_are_refused(pattern: str, message: str):
    with pytest.raises(InputError, match=message):
        half(parse(DENSE), keep_fp32=(pattern,))


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("a = Exp(x)  b = Cast <to = 1> (a)  y = Tanh(b)", ["Exp", "Tanh"]),
        ("a = Exp(x)  b = CastLike(a, x)  y = Tanh(b)", ["Exp", "Tanh"]),
        ("a = Exp(x)  y = Cast <to = 1> (a)", ["Exp"]),  # it leaves its name to the output
    ],
)
def test_casts_that_became_idle_are_gone(body: str, kinds: list[str]):
    model = parse(f"agraph (float[N, 4] x) => (float[N, 4] y) {{ {body} }}")
    assert op_types(half(model)[0]) == ["Cast", *kinds, "Cast"]
    assert_close_in_fp16(model, X)


def test_a_model_without_the_default_domain_can_be_cast():
    text = """
    <ir_version: 8, opset_import: ["ai.onnx.ml" : 3]>
    agraph (float[N, 4] x) => (float[N, 4] y)
    { y = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x) }
    """
    model = onnx.parser.parse_model(text)
    converted, _ = half(model, fp16_io=True)
    received = run(converted, {"x": X["x"].astype(np.float16)})["y"]
    np.testing.assert_allclose(received, X["x"] * 2, rtol=1e-3)


def test_a_loop_that_counts_past_2048_in_floats_makes_every_trip():
    """tf2onnx compares a loop's counter and its limit as floats."""
    model = parse("""
    agraph (float[N, 4] x, int64 n) => (float[N, 4] y)
    <bool go = {1}, int64 most = {9999}, int64 one = {1}, int64 begin = {0}> {
        i, y = Loop (most, go, begin, x) <
            body = once (int64 t, bool c, int64 i, float[N, 4] s)
                => (bool more, int64 next, float[N, 4] r) {
                next = Add(i, one)
                r = Identity(s)
                more = Less(Cast <to = 1> (next), Cast <to = 1> (n))
            }
        >
        trips = Identity(i)
    }
    """)
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("trips", onnx.TensorProto.INT64, [])
    )
    converted, report = half(model)
    assert "compares integers, which FP16 holds only to 2048" in {i.reason for i in report.islands}
    batch = X | {"n": np.array(2049, np.int64)}
    for received in (run(converted, batch), run_emulated(converted, batch)):
        assert received["trips"] == 2049
