"""Files that one runtime computes well and another one does not."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse

from tfmp.converters import DriftBudget, convert, validate
from tfmp.converters.report import merge_reports
from tfmp.converters.report.model import DriftReport
from tfmp.converters.report.summary import holds_text

NORMAL = np.random.default_rng(0).standard_normal((96, 4, 64)).astype(np.float32)

RUNNING = """
agraph (float[N, 6000] x) => (float[N, 6000] y) <int64 a = {1}> {
    e = Abs(x)
    y = CumSum(e, a)
}
"""

RESIDUAL = """
agraph (float[N, 4, 64] x) => (float[N, 4, 8] y) {
    h = MatMul(x, w)
    r = Add(x, h)
    n = LayerNormalization <axis = -1, epsilon = 1e-5> (r, g, b)
    y = MatMul(n, v)
}
"""

QUOTIENT = """
agraph (float[N, 64] x) => (float[N, 64] y) {
    a = Abs(x)
    d = Add(a, eps)
    q = Mul(x, d)
    y = Div(q, d)
}
"""

LONG = "agraph (float[N, 8192] x) => (float[N, 4] y) { y = MatMul(x, w) }"


def residual() -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    model = parse(
        RESIDUAL,
        w=(rng.standard_normal((64, 64)) / 8).astype(np.float32),
        v=(rng.standard_normal((64, 8)) / 8).astype(np.float32),
        g=np.ones(64, np.float32),
        b=np.zeros(64, np.float32),
    )
    for node in model.graph.node:
        node.name = f"{node.output[0]}/{node.op_type}"
    return model


def judged(model: onnx.ModelProto, x: np.ndarray, folder, **options):
    onnx.save(model, folder / "model.onnx")
    made = convert(
        folder / "model.onnx", output=folder / "half.onnx", data={"x": x}, force=True, **options
    )
    assert made.report is not None
    return made.report


def doubts(report: DriftReport) -> list[str]:
    return [check.text for check in report.candidates[0].checks if check.name == "runtime"]


@pytest.fixture(scope="module")
def harmed(tmp_path_factory) -> tuple[Path, DriftReport]:
    """The folder and the report of a file that one kernel harms."""
    folder = tmp_path_factory.mktemp("harmed")
    return folder, judged(residual(), NORMAL * 1000, folder)


def test_a_residual_sum_that_one_kernel_squares_in_fp16(harmed):
    _, report = harmed
    assert report.verdict == "INCONCLUSIVE"
    (text,) = doubts(report)
    assert text == (
        "the verdict depends on the runtime: on ONNX Runtime 1.26 on CUDA, output 'y': the "
        "candidate gives the same answer to every sample, the reference does not (96 samples). "
        "This begins in LayerNormalization in n/LayerNormalization, because an addition before "
        "LayerNormalization becomes SkipLayerNormalization, which holds mean, mean square and "
        "their difference in FP16. Set the CUDA provider's option "
        "enable_skip_layer_norm_strict_mode to 1, or use ONNX Runtime 1.27; or convert with "
        "--keep-fp32 'n/LayerNormalization'"
    )
    assert report.candidates[0].reasons == (text,)
    assert "add in FP32." in holds_text(report.candidates[0])
    assert "WebGPU" not in holds_text(report.candidates[0])


def test_the_same_model_on_numbers_that_every_runtime_holds(tmp_path):
    report = judged(residual(), NORMAL, tmp_path)
    assert report.verdict == "PASS"
    assert doubts(report) == []
    names = [found.profile for found in report.candidates[0].elsewhere]
    assert names == ["ort-cuda:1.26", "webgpu"]
    assert "and on 96 of the samples for" in holds_text(report.candidates[0])
    assert "WebGPU" in holds_text(report.candidates[0])


def test_what_is_asked_for_is_what_is_judged(tmp_path):
    kept = judged(residual(), NORMAL * 1000, tmp_path, keep_fp32=["n/LayerNormalization"])
    assert kept.verdict == "PASS"
    for target, verdict in (("webgpu", "PASS"), ("ort-cuda", "FAIL")):
        report = judged(residual(), NORMAL * 1000, tmp_path, target=target)
        assert (report.verdict, report.candidates[0].elsewhere) == (verdict, ())
    report = judged(residual(), NORMAL * 1000, tmp_path, emulate="gpu")
    assert (report.verdict, report.candidates[0].elsewhere) == ("PASS", ())


def test_running_totals_that_cuda_holds_in_fp16(tmp_path):
    x = np.random.default_rng(0).random((64, 6000), dtype=np.float32)
    report = judged(parse(RUNNING), x, tmp_path, fp16_edges=True)
    assert report.verdict == "INCONCLUSIVE"
    runtimes = {"ort-cuda": "ONNX Runtime 1.26 on CUDA", "webgpu": "WebGPU provider"}
    for text, (profile, runtime) in zip(doubts(report), runtimes.items(), strict=True):
        assert f"{runtime}, output 'y': rel_l2 0.1" in text
        mend = f"Convert with --precision mixed --emulate {profile}"
        assert f"because CumSum adds in FP16. {mend}" in text
    few = np.where(np.arange(6000) < 200, x, 0)
    assert judged(parse(RUNNING), few, tmp_path, fp16_edges=True).verdict == "PASS"


def test_divisors_that_are_zero_where_subnormal_numbers_are(tmp_path):
    x = np.random.default_rng(0).uniform(-3, 3, (64, 64)).astype(np.float32)
    # Somebody else's file: a conversion would keep the divisor in FP32.
    epsilon = np.array(3e-5, np.float32)
    onnx.save(parse(QUOTIENT, eps=epsilon), tmp_path / "model.onnx")
    half = parse(QUOTIENT.replace("float", "float16"), eps=epsilon.astype(np.float16))
    onnx.save(half, tmp_path / "half.onnx")
    files = tmp_path / "model.onnx", tmp_path / "half.onnx"
    assert validate(*files, x).verdict == "PASS"
    x[5, 3] = 0
    report = validate(*files, x)
    assert report.verdict == "INCONCLUSIVE"
    assert judged(parse(QUOTIENT, eps=epsilon), x, tmp_path).verdict == "PASS"
    (text,) = doubts(report)
    assert "WebGPU provider, output 'y': 1 of 4,096 values are NaN" in text
    assert "This begins in Div" in text


def test_few_samples_are_enough_where_all_are_alike(tmp_path):
    """Large models are run on some samples elsewhere: the largest and the smallest of a batch."""
    w = np.where(np.arange(8192) < 4096, 1, -1).astype(np.float32)[:, None] * np.ones(4, np.float32)
    x = np.random.default_rng(0).uniform(0, 1, (64, 8192)).astype(np.float32)
    x[9] *= 60
    report = judged(parse(LONG, w=w), x, tmp_path, budget=DriftBudget(rel_l2=0.1))
    assert max(o.samples for o in report.candidates[0].elsewhere[1].outputs) == 2
    assert "WebGPU provider" in doubts(report)[0]


def test_the_report_keeps_it_through_json_merging_and_new_budgets(harmed):
    folder, report = harmed
    again = DriftReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert doubts(again) == doubts(report)
    other = validate(folder / "model.onnx", folder / "half.onnx", NORMAL[:64] * 1001)
    merged = merge_reports([report, other])
    assert doubts(merged)[0].startswith(doubts(report)[0].partition(" (96")[0])
    assert "(160 samples)" in doubts(merged)[0]
    loose = report.judged_by(DriftBudget(rel_l2=None, sample_rel_l2=None, slice_rel_l2=None))
    assert doubts(loose)  # a collapsed output is no matter of limits
