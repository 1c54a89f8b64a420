"""Each remedy that a FAIL names is walked: to a better result, or to the honest end."""

import re
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from keras import layers, ops
from onnx_graphs import parse
from own_layer import Own

from tfmp.converters import DriftBudget, convert, formats, validate
from tfmp.converters.comparison import trials
from tfmp.converters.onnx import format as onnx_format
from tfmp.converters.onnx.emulation.facts import FACTS
from tfmp.converters.tflite import format as tflite

X = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
GROWING = np.concatenate([X, X * 1e6])  # past the samples that a search looks at
STEPS = np.random.default_rng(1).integers(0, 1000, (400, 1)).astype(np.float32)
CODES = X[:32] + 40
RATES = np.exp(-np.log(10000) * np.arange(16) / 16).astype(np.float32)


def own(function: Callable) -> Own:
    return Own(function, name="own")


def model(*stack: Callable, columns: int = 8) -> keras.Model:
    keras.utils.set_random_seed(5)
    x = inputs = keras.Input((columns,), name="x")
    for layer in stack:
        x = layer(x)
    return keras.Model(inputs, {"y": x}, name="m")


def dense(columns: int, scale: float = 1.0, offset: float = 0.0) -> keras.layers.Layer:
    kernel = keras.initializers.RandomNormal(stddev=scale / 3, seed=1)
    return layers.Dense(columns, None, True, kernel, keras.initializers.Constant(offset))


def distances(x):
    """From points that a table holds, squared."""
    return ops.sum(x * x, -1, keepdims=True) + ops.sum(CODES**2, -1) - 2 * ops.matmul(x, CODES.T)


def hyperbolic(x):
    """Distances near the edge of a Poincare ball."""
    x = x / ops.sqrt(ops.sum(x * x, -1, keepdims=True))
    one, other = x * 0.9999, x[:, ::-1] * 0.9998
    apart = ops.sum((one - other) ** 2, -1, keepdims=True)
    edges = [1 - ops.sum(each * each, -1, keepdims=True) for each in (one, other)]
    return ops.arccosh(1 + 2 * apart / (edges[0] * edges[1]))


def inner() -> Callable:
    return own(lambda x: ops.mean(ops.square(x * 500), -1, keepdims=True) / 1e5)


# The model of a .tflite file, the options that its FAIL names, and the remedy.
TFLITE = {
    "overflow": (
        lambda: model(inner(), dense(2)),
        X,
        "--repair",
        tflite._REPAIR,
    ),
    "overflow before an offset": (  # a host's help is not asked for where none is needed
        lambda: model(inner(), dense(1, 1, 30.0)),
        *(X, "--repair", tflite._REPAIR),
    ),
    "angle": (
        lambda: model(own(lambda t: ops.sin(t * RATES)), dense(4), columns=1),
        *(STEPS, "--repair", tflite._REPAIR),
    ),
    "offset": (
        lambda: model(dense(1, 5, 20003.7)),
        *(X, "--host-output-scaling", tflite._SCALING),
    ),
    "large output": (lambda: model(dense(2, 1e5)), X, "--host-output-scaling", tflite._SCALING),
    "large positive output": (
        lambda: model(dense(2, 1e5), layers.ReLU()),
        *(X, "--host-output-scaling --repair", tflite._REPAIR),
    ),
    "fractions": (
        lambda: model(own(lambda t: ops.sin(t * 0.99 * RATES)), dense(4), columns=1),
        *(STEPS + 0.123, "", "FP16 rounds the position"),
    ),
    "exponential output": (
        lambda: model(dense(2, 2, 12), own(ops.exp)),
        *(X, "--host-output-scaling --repair", tflite._REPAIR),
    ),
    "steps of an exponential": (
        lambda: model(dense(2, 2, 12), own(lambda x: ops.floor(ops.exp(x)) * 1e-5)),
        *(X, "", tflite._PAST_FP16),
    ),
    "edge of a ball": (  # a repair changes something, and the numbers are still NaN
        lambda: model(own(hyperbolic)),
        *(X, "", tflite._ONNX),
    ),
    "distance": (
        lambda: model(own(lambda x: ops.exp(-distances(x) / 16)), dense(2)),
        *(X + 40, "", "layer own: it subtracts numbers up to"),
    ),
    "steps of an input": (
        lambda: model(layers.LayerNormalization(), dense(2)),
        *(X + 80, "", tflite._ROUNDED_INPUT),
    ),
    "vanishing input": (
        lambda: model(own(lambda x: ops.log(x + 1e-12)), dense(2)),
        *(np.float32(10) ** (2 * X - 6), "", "FP16 makes zero of numbers of input x, down to "),
    ),
    "survival near one": (
        lambda: model(dense(1, 1, -9), own(lambda z: 1 - ops.sigmoid(z))),
        *(X, "", tflite._ONNX),
    ),
    "product of probabilities": (
        lambda: model(layers.Dense(24, "sigmoid"), own(lambda p: ops.log(ops.prod(p, -1)))),
        *(X, "", tflite._VANISHES),
    ),
    "large input": (
        lambda: model(layers.Rescaling(1e-5), dense(2)),
        *(X * 1e5, "", tflite._RAW_INPUT),
    ),
}


# ONNX files: standard deviations of weights, options, limit, and the remedies until a PASS.
FP16, BF16, STRICT = {"precision": "fp16"}, {"precision": "bf16"}, 1e-12
ONNX = [
    ((3e4, 1e-5), FP16, 0.01, [onnx_format._REMEDY]),
    ((0.3, 0.3), FP16, 1e-5, [onnx_format._REMEDY]),
    ((0.3, 0.3), BF16, 0.002, [onnx_format._MORE_DIGITS]),
    ((3e4, 1e-5), BF16, 0.002, [onnx_format._REMEDY]),
    ((0.3, 0.3), FP16 | {"fp16_io": True, "offset": 100}, 1e-4, [onnx_format._ROUNDED_OUTPUTS]),
    ((0.3, 0.3), FP16 | {"fp16_io": True}, 5e-5, [onnx_format._ROUNDED_AND_MIXED]),
    ((0.3, 0.3), FP16, STRICT, [formats.FP32_FAILS]),
    ((0.3, 0.3), FP16 | {"data": GROWING}, 0.01, [onnx_format._KEEP_FP32]),
    ((0.3, 0.3), {"precision": "mixed", "data": GROWING}, 0.01, [onnx_format._KEEP_FP32]),
    ((0.3, 0.3), {"precision": "mixed"}, STRICT, [trials.IN_FP32]),
    ((0.3, 0.3), {"precision": "fp32"}, STRICT, [trials.IN_FP32]),
    ((0.3, 0.3), {"made": True}, 1e-5, [onnx_format._FROM_FP32, onnx_format._REMEDY]),
]
LARGER = {"budget": DriftBudget(rel_l2=0.01)}
STEPS_OF = {
    onnx_format._REMEDY: {"precision": "mixed"},
    onnx_format._MORE_DIGITS: FP16,
    onnx_format._KEEP_FP32: {"precision": "fp32"},
    onnx_format._FROM_FP32: {"made": False},
    formats.FP32_FAILS: LARGER,
    trials.IN_FP32: LARGER,
    onnx_format._ROUNDED_OUTPUTS: {"fp16_io": False},
    onnx_format._ROUNDED_AND_MIXED: {"fp16_io": False, "precision": "mixed"},
}

# Squares of the sum pass FP16's range where CUDA's fused kernel holds them in FP16. A wrong weight
# is wrong in every kernel.
NORMALIZED = """
normalized (float[N, 4, 64] x) => (float[N, 4, 64] y)
<float big = {{500}}, float[1] gain = {{{gain}}}> {{
    xl = Cast<to = {low}>(x)
    bl = Cast<to = {low}>(big)
    gl = Cast<to = {low}>(gain)
    large = Mul(xl, bl)
    total = Add(large, xl)
    n = LayerNormalization<axis = -1>(total, scales)
    m = Mul(n, gl)
    y = Cast<to = 1>(m)
}}
"""

# TF32 has steps of 0.5 at 1,000, and FP16's are behind the difference.
COARSE = """
coarse (float[N, 4, 64] x) => (float[N, 4, 1] y)
<float far = {{1000}}, float[1] gain = {{{gain}}}> {{
    large = Add(x, far)
    scaled = Mul(signs, gain)
    sum = MatMul(large, scaled)
    low = Cast<to = {low}>(sum)
    turned = Neg(low)
    y = Cast<to = 1>(turned)
}}
"""
RUNTIMES = [
    (
        NORMALIZED,
        1,
        "ort-cuda",
        "Set the CUDA provider's option enable_skip_layer_norm_strict_mode",
    ),
    (NORMALIZED, 2, "ort-cuda", ""),
    (COARSE, 1, "ort-cuda", "Set the CUDA provider's option use_tf32 to 0"),
    (COARSE, 1, "tensorrt", "Clear TensorRT's builder flag TF32"),
]

# Sums in FP16 of LiteRT, and what walks to sums in FP32.
LITERT = {
    "litert-gpu": "LiteRT 2.2 and later: ask for the precision FP16 with FP32 accumulation",
    "litert-cpu": "Convert with --accumulate fp32",
}


def test_each_remedy_has_a_row() -> None:
    o, t = onnx_format, tflite
    listed = {trials.IN_FP32, formats.FP32_FAILS, o._ROUNDED_OUTPUTS, o._ROUNDED_AND_MIXED}
    listed |= {o._REMEDY, o._MORE_DIGITS, o._KEEP_FP32, o._FROM_FP32, t._REPAIR, t._SCALING}
    listed |= {t._PAST_FP16, t._VANISHES, t._RAW_INPUT, t._ROUNDED_INPUT, t._ONNX}
    walked = {row[-1] for row in TFLITE.values()} | {one for row in ONNX for one in row[-1]}
    assert listed <= walked  # _LOOK and _NO_WAY have tests of their own
    ways = {row[-1] for row in RUNTIMES if row[-1]} | {*LITERT.values()}
    for fact in FACTS:
        assert not fact.fix or any(fact.fix.startswith(way) for way in ways), fact.fix


def pattern(remedy: str) -> str:
    return re.sub(r"\\{.*?\\}", ".*", re.escape(remedy))


@pytest.mark.slow
@pytest.mark.parametrize("name", TFLITE)
def test_remedies_of_tflite_files_are_walked(name: str, tmp_path: Path) -> None:
    make, x, flags, told = TFLITE[name]
    report = convert(make(), "tflite", tmp_path / "m.tflite", data=x).report
    assert report.verdict.name != "PASS"
    remedy = report.candidates[0].remedy
    assert re.search(pattern(told), remedy)
    assert re.findall(r"--[\w-]+", remedy.partition(":")[0] * bool(flags)) == [
        *flags.split(),
        *["--data"] * bool(flags),
    ]
    options = {flag.strip("-").replace("-", "_"): True for flag in flags.split()}
    precision = "fp16" if flags else "fp32"
    walked = convert(make(), "tflite", tmp_path / "again.tflite", precision, data=x, **options)
    assert walked.report.verdict.name == "PASS", walked.report.candidates[0].reasons


def test_rounding_alone_has_no_option_that_mends_it(tmp_path: Path) -> None:
    strict = DriftBudget(rel_l2=1e-9)
    first = convert(model(dense(2)), "tflite", tmp_path / "m.tflite")
    found = validate(model(dense(2)), first, X, budget=strict).candidates[0]
    assert (found.remedy, found.remedy_flags) == (tflite._LOOK, "")
    again = convert(model(dense(2)), "tflite", tmp_path / "n.tflite", data=X, budget=strict).report
    assert again.candidates[0].reasons[-1] == tflite._ONNX.format(" --precision mixed")


@pytest.mark.parametrize(("scales", "options", "limit", "remedies"), ONNX)
def test_remedies_of_onnx_files_are_walked(scales, options, limit, remedies, tmp_path) -> None:
    normal = keras.initializers.RandomNormal
    inner = [layers.Dense(16, "gelu", kernel_initializer=normal(0, one, 1)) for one in scales]
    given = {"budget": DriftBudget(rel_l2=limit), "data": X, **options}
    float32, walked = model(*inner, dense(2, offset=given.pop("offset", 0))), []
    made = convert(float32, "onnx", tmp_path / "made.onnx").path
    while len(walked) <= len(remedies):
        source = made if given.pop("made", False) else float32
        artifact = convert(source, "onnx", tmp_path / f"{len(walked)}.onnx", **given)
        (found,) = artifact.report.candidates
        if found.verdict == "PASS":
            break
        walked.append(found.remedy)
        given |= STEPS_OF[found.remedy]
    assert walked == remedies
    assert found.verdict == "PASS"


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        (lambda p: ops.prod(ops.sigmoid(p - 5), -1, keepdims=True), "vanishes in FP16:"),
        (lambda x: ops.exp(0 * ops.exp(x + 12) * x), "overflows in FP16:"),
    ],
)
def test_the_layer_that_fp16_harms_is_told_without_asking(inner, told, tmp_path: Path) -> None:
    made = model(dense(4), own(inner), Own(ops.log, name="end"))
    (found,) = convert(made, "onnx", tmp_path / "m.onnx", data=X, fp16_edges=True).report.candidates
    assert found.overflows[0].startswith(f"{told} layer 'own'"), found.reasons


@pytest.mark.parametrize(("graph", "gain", "target", "way"), RUNTIMES)
def test_a_way_to_run_the_file_is_told_where_it_passes_so(
    graph: str, gain: int, target: str, way: str, tmp_path: Path
):
    signs = np.tile(np.float32([1, -1]), 32)[:, None]
    for name, low, kind, own in (("full", 1, np.float32, 1), ("half", 10, np.float16, gain)):
        weights = {"scales": np.ones(64, kind), "signs": signs}
        used = {key: value for key, value in weights.items() if key in graph}
        onnx.save(parse(graph.format(low=low, gain=own), **used), tmp_path / f"{name}.onnx")
    data = np.random.default_rng(0).standard_normal((100, 4, 64)).astype(np.float32)
    report = validate(tmp_path / "full.onnx", tmp_path / "half.onnx", data, target=target)
    assert report.verdict == "FAIL"
    remedy = report.candidates[0].remedy
    assert remedy.startswith(way)
    assert remedy.endswith("emulated so, the first 32 samples pass") is bool(way)


def test_a_way_to_run_the_other_file_is_told_with_it(tmp_path: Path) -> None:
    """TF32 has no more digits than FP16, so nodes that stay in FP32 gain nothing with it."""
    normal = keras.initializers.RandomNormal
    inner = [layers.Dense(16, "gelu", kernel_initializer=normal(0, 0.3, 1)) for _ in range(3)]
    float32, given = model(*inner, dense(2)), {"data": X, "budget": DriftBudget(rel_l2=8e-4)}
    (found,) = convert(float32, "onnx", tmp_path / "m.onnx", **given).report.candidates
    assert found.remedy == f"{onnx_format._REMEDY}. Set the CUDA provider's option use_tf32 to 0"
    assert found.remedy_flags is None  # a command alone leads to a FAIL
    mixed = convert(float32, "onnx", tmp_path / "mixed.onnx", "mixed", emulate="gpu", **given)
    assert (found.verdict, mixed.report.verdict) == ("FAIL", "PASS")


def test_sums_in_fp32_mend_what_sums_in_fp16_lose(tmp_path: Path) -> None:
    wide = model(layers.Dense(1, kernel_initializer="ones"), columns=8192)
    x = np.random.default_rng(0).uniform(0, 1, (100, 8192)).astype(np.float32)
    file = convert(wide, "onnx", tmp_path / "m.onnx", fp16_edges=True)
    verdicts = [validate(wide, file, x, emulate=one).verdict for one in (*LITERT, "gpu")]
    assert verdicts == ["FAIL", "FAIL", "PASS"]
    mended = convert(wide, "tflite", tmp_path / "m.tflite", accumulate="fp32", data=x)
    assert mended.report.verdict == "PASS"
