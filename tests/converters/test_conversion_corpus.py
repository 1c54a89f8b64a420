"""Every model of the corpus becomes a valid file, in FP16 and in mixed precision."""

from pathlib import Path

import onnx
import pytest
from corpus import Case, corpus
from quick import quick

from tfmp.converters import convert
from tfmp.converters.intake.source import AnySource
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.runners import OnnxRunner
from tfmp.converters.runners.onnx import onnx_runner
from tfmp.converters.shared.tensors import Batch, relative_l2


def samples_of(case: Case, source: AnySource) -> Batch:
    """Few: they decide what `mixed` keeps in FP32, and accuracy is not the question."""
    return case.batch(source, 2 if case.group == "applications" else 8)


# They stand for the others: each of a kind of its own.
QUICK = "masked_lstm variance_overflow unet top_k loop_in_if functions".split()
CASES = corpus(groups="keras onnx applications")
# They have the layers of their smaller relatives, and take minutes; `test_export_sweep.py` converts
# the last one once.
for relative_of_another in "EfficientNetV2B0 InceptionResNetV2 ResNet50V2 NASNetMobile".split():
    del CASES[relative_of_another]


def assert_valid(path: Path, source: AnySource, batch: Batch) -> onnx.ModelProto:
    """Full check, strict types, loads, runs to the original's shapes and types."""
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    received = OnnxRunner(path).run(batch)
    expected = source.forward(batch)
    assert list(received) == list(expected)
    for name, value in expected.items():
        assert (received[name].shape, received[name].dtype) == (value.shape, value.dtype)
    return model


def assert_converts(case: Case, tmp_path: Path) -> tuple[AnySource, Batch, Path]:
    """The opened case, its samples and its FP16 file."""
    source = case.open()
    batch = samples_of(case, source)
    fp16 = convert(source, output=tmp_path / "fp16.onnx", fp16_edges=True)
    model = assert_valid(fp16.path, source, batch)
    types = {tensor.data_type for tensor in model.graph.initializer} | {
        value.type.tensor_type.elem_type
        for value in onnx.shape_inference.infer_shapes(model).graph.value_info
    }
    assert onnx.TensorProto.FLOAT16 in types
    asked = {"precision": "mixed", "fp16_edges": True}
    mixed = convert(source, output=tmp_path / "mixed.onnx", data=[batch], **asked)
    assert_valid(mixed.path, source, batch)
    assert mixed.report is not None
    outputs = mixed.report.candidates[0].outputs
    assert outputs, mixed.report.candidates[0].reasons
    return source, batch, fp16.path


# The rewriting is that of FP16.
@pytest.mark.parametrize("name", ["unet", "loop_in_if", "functions"])
def test_bf16_files_are_valid_and_drift_as_eight_times_less_digits_do(name: str, tmp_path: Path):
    source = CASES[name].open()
    batch = samples_of(CASES[name], source)
    asked = {"fp16_edges": True, "target": "tensorrt"}
    file = convert(source, "onnx", tmp_path / "bf16.onnx", "bf16", **asked).path
    onnx.checker.check_model(str(file), full_check=True)
    onnx.shape_inference.infer_shapes(onnx.load(file), check_type=True, strict_mode=True)
    expected, received = source.forward(batch), onnx_runner(file).run(batch)
    for output, value in expected.items():
        assert (received[output].shape, received[output].dtype) == (value.shape, value.dtype)
        if value.dtype.kind == "f":
            assert relative_l2(value, received[output]) < 0.05


# Every fourth case is enough for what emulated sums show.
SUMMED = list(CASES)[::4]
# Drift may come out smaller where sums are held in FP16 only by chance, and where next to nothing
# is summed; and a drift this small is no drift.
CHANCE, NOTHING = 0.7, 2e-4


@pytest.mark.parametrize("name", quick(CASES, *QUICK))
def test_converts_validly_and_sums_in_fp16_drift_no_less(name: str, tmp_path: Path):
    source, batch, file = assert_converts(CASES[name], tmp_path)
    if name not in SUMMED:
        return
    expected = source.forward(batch)
    judged = [name for name, value in expected.items() if value.dtype.kind == "f"]
    drifts = []
    for profile in ("gpu", "pessimistic"):
        received = onnx_runner(file, Profile.parse(profile)).run(batch)
        drifts.append({name: relative_l2(expected[name], received[name]) for name in judged})
    gpu, pessimistic = drifts
    for name, drift in gpu.items():
        assert drift < 0.05, name
        assert not NOTHING <= pessimistic[name] < CHANCE * drift, name  # NaN is much


@pytest.mark.parametrize("every", quick([1, 3], 3))
def test_the_zoo_converts_validly_at_fp16_and_mixed(zoo: Path, tmp_path: Path, every: int):
    for case in list(corpus(groups="zoo").values())[::every]:
        folder = tmp_path / case.name
        folder.mkdir()
        assert_converts(case, folder)


def test_a_model_that_is_nearly_all_weights_ends_at_half_its_size(tmp_path: Path):
    source = corpus()["wide"].open()
    sizes = {
        precision: convert(source, output=tmp_path / f"{precision}.onnx", precision=precision)
        for precision in ("fp32", "fp16")
    }
    assert sizes["fp16"].size_bytes <= 0.51 * sizes["fp32"].size_bytes
