"""Mixed precision: the fewest FP32 nodes that keep a budget, found by trying files."""

from dataclasses import replace
from pathlib import Path

import keras
import keras_models
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import VARIANCE, half, parse, run, run_emulated

from tfmp.converters import DriftBudget, convert
from tfmp.converters.drift.budget import VIEWS
from tfmp.converters.onnx import mixed as repair_module
from tfmp.converters.onnx.fp16.cost import Costs
from tfmp.converters.onnx.fp16.rewriter import prepare
from tfmp.converters.onnx.fp16.rules import decide
from tfmp.converters.onnx.graph import name_nodes
from tfmp.converters.onnx.mixed import MAX_EVALUATIONS, MixedSearch, find_islands
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import relative_l2

FLOAT, FLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16

# Flips need 299 samples for a proof, and these outputs decide nothing.
BUDGET = DriftBudget(rel_l2=5e-3, flip_rate=None)

LOGSUMEXP = """
agraph (float[N, 64] x) => (float[N, 1] y)
<float scale = {10}, int64[1] axis = {1}> {
    y = Log(ReduceSum(Exp(Mul(x, scale)), axis))
}
"""


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def prepared(proto: onnx.ModelProto) -> ir.Model:
    """The model with names for all nodes, which `proto` gets, too."""
    model = ir.from_proto(proto)
    prepare(model)
    name_nodes(model)
    proto.CopyFrom(ir.to_proto(model))
    return model


def search(proto: onnx.ModelProto, x: np.ndarray, budget: DriftBudget, **options) -> MixedSearch:
    return find_islands(prepared(proto), [({"x": x}, None)], budget, **options)


def kept_kinds(proto: onnx.ModelProto, found: MixedSearch) -> list[str]:
    """The op types of what stays in FP32."""
    return sorted(node.op_type for node in proto.graph.node if node.name in found.islands)


def drift(proto: onnx.ModelProto, x: np.ndarray, islands: dict[str, str]) -> float:
    """Relative L2 of the file that the islands make, on the emulator."""
    expected = run(proto, {"x": x})["y"]
    received = run_emulated(half(proto, keep_nodes=islands)[0], {"x": x})["y"]
    return relative_l2(expected, received)


@pytest.mark.parametrize(
    ("text", "width", "nodes"),
    [
        pytest.param(VARIANCE, 1024, {"Mul", "ReduceMean", "Add", "Sqrt"}, id="variance"),
        pytest.param(LOGSUMEXP, 64, {"Exp", "ReduceSum", "Log"}, id="logsumexp"),
    ],
)
def test_exactly_the_nodes_that_overflow_stay_in_fp32(text: str, width: int, nodes: set[str]):
    proto, x = parse(text), normal(32, width)
    found = search(proto, x, BUDGET)
    assert found.met
    assert kept_kinds(proto, found) == sorted(nodes)
    assert all("past FP16's 65504" in reason for reason in found.islands.values())
    assert found.before[0].nonfinite or found.before[0].rel_l2 > 0.5
    # The search measures the file that is written.
    assert found.after[0].rel_l2 == pytest.approx(drift(proto, x, found.islands), rel=1e-3)


LONG_MEAN = """
agraph (float[N, 1024, 8] x) => (float[N, 4] y) <int64[1] axis = {1}> {
    y = Tanh(MatMul(ReduceMean <keepdims = 0> (Abs(x), axis), w))
}
"""


def test_sums_that_the_profile_holds_in_fp16_are_kept_in_fp32(tmp_path: Path):
    """They overflow inside the node, which no value outside it shows."""
    rng = np.random.default_rng(2)
    proto = parse(LONG_MEAN, w=rng.standard_normal((8, 4)).astype(np.float32) * 0.003)
    level = rng.uniform(0, 200, (64, 1, 8))
    x = rng.uniform(0, level, (64, 1024, 8)).astype(np.float32)
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    verdicts = {}
    for precision, emulate in (
        ("fp16", "pessimistic"),
        ("mixed", "pessimistic"),
        ("mixed", "gpu"),
    ):
        path = tmp_path / f"{precision}-{emulate}.onnx"
        artifact = convert(
            *(tmp_path / "model.onnx", "onnx", path, precision, x, BUDGET),
            emulate=emulate,
            fp16_edges=True,
        )
        assert artifact.report is not None
        kept = [note for note in artifact.known.notes if note.startswith("kept in FP32")]
        verdicts[precision, emulate] = str(artifact.report.verdict.value), len(kept)
    assert verdicts == {
        ("fp16", "pessimistic"): ("FAIL", 0),
        ("mixed", "pessimistic"): ("PASS", 1),
        ("mixed", "gpu"): ("PASS", 0),
    }


@pytest.mark.parametrize(
    ("kept", "casts", "said"),
    [
        (1, 1, "1 node (5.0% of the multiplications) stays in FP32, with 2 casts fewer; "),
        (2, 4, "2 nodes (5.0% of the multiplications) stay in FP32, with 1 cast more; "),
    ],
)
def test_the_note_counts_nodes_and_casts(kept: int, casts: int, said: str):
    islands = {f"n{index}": "reason" for index in range(kept)}
    found = MixedSearch(islands, True, (), (), 2, 8, 0.05, casts=casts, casts_before=3)
    (note, *_) = found.notes()
    assert note.startswith(f"mixed precision: {said}")
    assert note.endswith("found in 2 evaluations of 8 samples")


OFFSET = """
agraph (float[N, 16] x) => (float[N, WIDTH] last) {
    last = Add(MatMul(Tanh(MatMul(x, w)), v), b)
}
"""


def offset(width: int, path: Path, x: np.ndarray) -> np.ndarray:
    """Writes a model of numbers near 700, whose differences FP16 rounds off; what it computes."""
    rng = np.random.default_rng(3)
    w, v = (rng.standard_normal(shape, dtype=np.float32) / 4 for shape in ((16, 32), (32, width)))
    b = np.full(width, 700, np.float32)
    proto = parse(OFFSET.replace("WIDTH", str(width)), w=w, v=v, b=b)
    onnx.save(proto, path)
    return run(proto, {"x": x})["last"]


@pytest.mark.parametrize(
    ("width", "said", "options"),
    [
        pytest.param(1, "between samples", {}, id="labels"),
        pytest.param(3, "FP16 has steps of", {}, id="what-nobody-knows"),
        pytest.param(3, "FP16 has steps of", {"tasks": {"last": "regression"}}, id="declared"),
        pytest.param(1, "off_by", {"metric": "own_metrics:off_by"}, id="own-metric"),
    ],
)
def test_the_search_keeps_what_the_verdict_asks_for(
    width: int, said: str, options: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "own_metrics.py").write_text(
        "import numpy as np\ndef off_by(y, labels):\n    return -np.abs(y - labels).mean(axis=1)"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    x, found = normal(400, 16), {}
    exact = offset(width, Path("model.onnx"), x)
    if width == 1:
        options |= {"labels": exact + 0.002 * normal(*exact.shape)}
    for precision in ("fp16", "mixed"):
        path = tmp_path / f"{precision}.onnx"
        artifact = convert("model.onnx", "onnx", path, precision, x, fp16_edges=True, **options)
        verdict = artifact.report.verdict.value
        reasons = " ".join(artifact.report.candidates[0].reasons)
        kept = [note for note in artifact.known.notes if note.startswith("kept in FP32")]
        found[precision] = verdict, kept
        assert precision == "mixed" or said in reasons
    assert found["fp16"][1] == []
    assert found["fp16"][0] != "PASS"
    assert found["mixed"][0] == "PASS"
    (kept,) = found["mixed"][1]
    assert "Add" in kept


def test_an_accuracy_that_few_samples_cannot_prove_still_counts(tmp_path: Path):
    """Of 256 samples that are all right, up to 1.06 % may be wrong: a limit of 1 % stays open."""
    x = normal(300, 16)
    labels = offset(4, tmp_path / "model.onnx", x).argmax(axis=1)
    budget = DriftBudget(
        **dict.fromkeys(("rel_l2", "sample_rel_l2", "class_flip_rate", "flip_rate", *VIEWS))
    )
    kept = {}
    for drop in (0.01, 0.5):
        path, asked = tmp_path / f"{drop}.onnx", replace(budget, accuracy_drop=drop)
        artifact = convert(
            *(tmp_path / "model.onnx", "onnx", path, "mixed", x, asked),
            labels=labels,
            fp16_edges=True,
        )
        kept[drop] = [note for note in artifact.known.notes if note.startswith("kept in FP32")]
    assert any("Add" in note for note in kept[0.01])
    assert kept[0.5] == []


@pytest.mark.parametrize(("rate", "places"), [(0.001, 1), (0.01, 3000)])
def test_what_no_precision_could_prove_keeps_nothing_in_fp32(rate, places, tmp_path: Path):
    """Eight samples certify nothing, and 256 no rate of 0.1 %; of many places some change class."""
    x = keras.Input((places, 16), name="x")
    model = keras.Model(x, keras.layers.Dense(4, "softmax")(keras.layers.Dense(64, "tanh")(x)))
    given = normal(8, places, 16), DriftBudget(flip_rate=rate)
    artifact = convert(model, "onnx", tmp_path / "few.onnx", "mixed", *given, fp16_edges=True)
    assert artifact.report.verdict.value == "INCONCLUSIVE"
    assert not [note for note in artifact.known.notes if note.startswith("kept in FP32")]
    assert "0 nodes" in " ".join(artifact.known.notes)


def deep(depth: int = 12, end: str = "y = Identity(t)", outputs: int = 16) -> onnx.ModelProto:
    """Wide layers, and an end that reads `t`."""
    lines = [f"h{i} = MatMul(t{i}, w{i})  t{i + 1} = Tanh(h{i})" for i in range(depth)]
    rng = np.random.default_rng(1)
    weights = {f"w{i}": rng.standard_normal((16, 16)).astype(np.float32) / 4 for i in range(depth)}
    body = "  ".join([*lines, end]).replace("(t0,", "(x,").replace("(t)", f"(t{depth})")
    return parse(
        f"""agraph (float[N, 16] x) => (float[N, {outputs}] y)
        <int64[1] axis = {{1}}, float far = {{1000.3}}, float back = {{999}}> {{ {body} }}""",
        **weights,
    )


def test_a_tight_budget_is_met_with_part_of_the_graph_in_few_evaluations():
    proto, x = deep(), normal(64, 16)
    all_half = drift(proto, x, {})
    found = search(proto, x, DriftBudget(rel_l2=all_half * 0.7, flip_rate=None))
    assert found.met
    assert 0 < len(found.islands) < 24
    assert found.evaluations <= MAX_EVALUATIONS
    assert "rounding matters most" in next(iter(found.islands.values()))
    assert drift(proto, x, found.islands) <= all_half * 0.7


def test_an_assignment_that_is_far_off_is_not_run_on_all_samples(monkeypatch: pytest.MonkeyPatch):
    runs, plain = [], repair_module._Trial._judged

    def judged(self, given, first: int, last: int):
        runs.append(last - first)
        return plain(self, given, first, last)

    monkeypatch.setattr(repair_module._Trial, "_judged", judged)
    model, x = past_fp16(), normal(256, 64)
    parts = [({"x": part}, None) for part in np.split(x, 8)]
    found = find_islands(prepared(model), parts, BUDGET)
    assert found.islands.keys() == search(past_fp16(), x, BUDGET).islands.keys()
    assert found.met
    assert found.samples == 256
    runs.clear()
    find_islands(prepared(model), parts, BUDGET)
    assert sum(runs) < 8 * found.evaluations - 7


def test_the_cheapest_part_that_is_enough_ends_the_ranking():
    """What a narrow end loses is found before the wide layers in front of it are tried."""
    end = "s = ReduceSum <keepdims = 1> (t, axis)  away = Add(s, far)  y = Sub(away, back)"
    proto = deep(15, end.replace("(t,", "(t15,"), 1)
    found = search(proto, normal(64, 16), DriftBudget(rel_l2=2e-3, flip_rate=None))
    assert found.met
    assert set(kept_kinds(proto, found)) <= {"Add", "Sub"}
    assert found.evaluations <= 8  # every part in turn would be sixteen alone


def test_a_cheap_node_between_fp32_ones_stays_where_its_casts_would_cost_more():
    """Each node in turn: FP32 neighbours make the one between them cheaper in FP32."""
    model = prepared(deep(depth=3))
    decisions = decide(model)
    costs = Costs(model, decisions)
    nodes = costs.nodes
    costs.measure({value: 1024 for node in nodes for value in node.outputs})
    products = [str(node.name) for node in nodes if node.op_type == "MatMul"]
    bends = [str(node.name) for node in nodes if node.op_type == "Tanh"]
    assert costs.total(products[:2]) > costs.total([*products[:2], bends[0]])
    assert costs.casts([]) == 2  # the input and the output
    assert costs.casts(products) == 6  # all but the input
    assert costs.casts([*products, *bends]) == 0
    assert costs.share([*products, *bends]) == 1
    assert costs.multiplications(products[:1]) == 16 * 1024


def test_a_budget_that_fp16_keeps_needs_no_island():
    found = search(deep(), normal(32, 16), DriftBudget(flip_rate=None))
    assert (found.islands, found.met, found.evaluations) == ({}, True, 2)


def test_a_budget_that_nothing_meets_gives_the_closest_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
):
    # The float32 run itself always meets a budget, so what stays is a bound of the search.
    monkeypatch.setattr(repair_module._Trial, "meets", lambda self, fp32: False)
    excess = lambda self, fp32, narrow=(): 3.0 - len(fp32) / 100  # noqa: E731
    monkeypatch.setattr(repair_module._Trial, "excess", excess)
    found = search(deep(), normal(8, 16), DriftBudget(rel_l2=1e-9, flip_rate=None))
    assert not found.met
    assert len(found.islands) == 24
    assert "no assignment that was tried meets the budget" in found.notes()[1]


PAST_FP16 = """
agraph (float[N, 64] x) => (float[N, 4] y) {
    n = Log(Add(Abs(MatMul(MatMul(x, w), v)), one))
    y = MatMul(n, u)
}
"""


def past_fp16() -> onnx.ModelProto:
    """The second product leaves the range of FP16, and its weights do not."""
    rng = np.random.default_rng(0)
    w, v, u = (
        (rng.standard_normal(shape) * size).astype(np.float32)
        for shape, size in (((64, 64), 1), ((64, 256), 3e3), ((256, 4), 1))
    )
    return parse(PAST_FP16, w=w, v=v, u=u, one=np.ones(256, np.float32))


@pytest.mark.parametrize(
    ("limit", "stored"), [(5e-3, {FLOAT16}), (5e-5, {FLOAT})], ids=["seen by none", "seen"]
)
def test_weights_of_fp32_nodes_are_stored_in_fp16_where_the_budget_does_not_see_it(limit, stored):
    model = past_fp16()
    found = search(model, normal(300, 64), DriftBudget(rel_l2=limit, flip_rate=None))
    assert found.met
    assert "MatMul" in kept_kinds(model, found)
    narrow = {"keep_nodes": found.islands, "narrow_weights": found.narrow}
    file, _ = half(model, **narrow)
    assert {one.data_type for one in file.graph.initializer if one.dims[-1] == 256} >= stored
    large = [one for one in file.graph.initializer if list(one.dims) == [64, 256]]
    assert {one.data_type for one in large} == stored
    assert bool(found.narrow) == (stored == {FLOAT16})
    assert ("stored in FP16" in found.notes()[0]) == bool(found.narrow)
    # The search has measured the file that is written.
    exact, received = (run_emulated(one, {"x": normal(300, 64)})["y"] for one in (model, file))
    error = relative_l2(exact, received)
    assert error == pytest.approx(found.after[0].rel_l2, rel=1e-2, abs=1e-6)


def test_a_product_that_overflows_is_scaled_down_where_what_reads_it_takes_the_factor(
    tmp_path: Path,
):
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 64), (64, 4)))
    text = """agraph (float[N, 64] x) => (float[N, 4] y) {
        h = MatMul(x, w)  b = Add(h, c)  r = Relu(b)  y = MatMul(r, v)
    }"""
    onnx.save(parse(text, w=3e3 * w, v=1e-4 * v, c=1e4 * w[0]), tmp_path / "m.onnx")
    options = {"data": normal(128, 64), "tasks": {"y": "regression"}}
    plain = convert(tmp_path / "m.onnx", "onnx", tmp_path / "plain.onnx", **options)
    mixed = convert(tmp_path / "m.onnx", "onnx", tmp_path / "mixed.onnx", "mixed", **options)
    assert (plain.report.verdict, mixed.report.verdict) == ("FAIL", "PASS")
    assert any("mixed precision: 0 nodes" in note for note in mixed.notes), mixed.notes
    assert any("times smaller, and those behind it larger" in note for note in mixed.notes)
    assert mixed.size_bytes < 1.05 * plain.size_bytes


LOOP = """
agraph (float[N, 4] x) => (float[N, 4] y)
<float[4] step = {0.1, 0.2, 0.3, 0.7}, int64 trips = {5}, bool go = {1}> {
    start = Exp(x)
    y = Loop (trips, go, start) <
        body = once (int64 i, bool c, float[N, 4] state) => (bool c_out, float[N, 4] next) {
            c_out = Identity(c)
            next = Add(state, step)
        }
    >
}
"""


def test_nodes_in_bodies_are_chosen_too():
    proto, x = parse(LOOP), normal(8, 4)
    found = search(proto, x, DriftBudget(rel_l2=1e-6, flip_rate=None))
    assert found.met
    assert len(found.islands) == 3  # the Loop too: it holds the state
    assert drift(proto, x, found.islands) < 1e-6


GROWING = """
agraph (float[N, 4] x) => (float[N, 4] y)
<float twice = {16}, float small = {0.00001}, int64 trips = {5}, bool go = {1}> {
    start = Abs(x)
    grown = Loop (trips, go, start) <
        body = once (int64 i, bool c, float[N, 4] state) => (bool c_out, float[N, 4] next) {
            c_out = Identity(c)
            next = Mul(state, twice)
        }
    >
    y = Mul(grown, small)
}
"""


def recurrent(steps: int = 6, growth: float = 1.0) -> onnx.ModelProto:
    """An RNN without a bound on its state, of two numbers in and out."""
    rng = np.random.default_rng(0)
    return parse(
        f"""agraph (float[{steps}, N, 2] x) => (float[1, N, 2] y) <float small = {{0.00001}}> {{
            all, last = RNN <hidden_size = 2, activations = ["Relu"]> (Mul(x, growth), w, r)
            y = Mul(last, small)
        }}""",
        growth=np.float32(growth).reshape(()),
        w=rng.random((1, 2, 2)).astype(np.float32),
        r=growth * np.array([[[1.1, 0.3], [0.2, 1.3]]], np.float32),
    )


@pytest.mark.parametrize(
    ("make", "x", "kind"),
    [
        pytest.param(lambda: recurrent(growth=9.0), np.abs(normal(6, 5, 2)), "RNN", id="RNN"),
        pytest.param(lambda: parse(GROWING), normal(16, 4), "Loop", id="Loop"),
    ],
)
def test_a_state_that_overflows_is_held_in_fp32(make, x: np.ndarray, kind: str):
    proto = make()
    found = search(proto, x, BUDGET)
    assert found.met
    assert kind in kept_kinds(proto, found)
    assert drift(proto, x, found.islands) < 5e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"precision": "mixed", "data": iter([np.zeros((2, 6), np.float32)])},
            "received data that can be read only once",
        ),
        ({"precision": "fp32", "fp16_io": True}, "fp16_io is about FP16 files, received"),
    ],
)
def test_options_that_contradict_mixed_precision_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        convert(keras_models.dense(), output=tmp_path / "m.onnx", **options)
