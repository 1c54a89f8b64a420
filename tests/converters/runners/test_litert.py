"""LiteRT runners: right by default, FP16 when forced, and nothing they do ends the run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest
from corpus import corpus
from quick import quick

from tfmp.converters import convert as convert_file, open_source, validate
from tfmp.converters.formats import format_named
from tfmp.converters.intake.source import Source
from tfmp.converters.runners import vulkan
from tfmp.converters.runners.litert import (
    LiteRTGpuRunner,
    LiteRTRunner,
    litert_vulkan,
)
from tfmp.converters.shared.errors import InputError, MachineError, RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.export.export import TFLiteFile, export_tflite
from tfmp.converters.tflite.file import pack, unpacked

# Enumerates an adapter and computes nothing.
MOCK = next(
    (
        path
        for folder in vulkan._CHROMIUM_FOLDERS
        if (path := Path(folder, "libVkICD_mock_icd.so")).exists()
    ),
    None,
)

Convert = Callable[..., tuple[Source, TFLiteFile]]


@pytest.fixture(scope="module")
def overflowing(convert: Convert, models: ModuleType) -> tuple[Source, Path]:
    source, file = convert(models.variance_overflow)
    return source, file.path


@pytest.fixture(scope="module")
def default(overflowing: tuple[Source, Path]) -> Iterator[LiteRTRunner]:
    with LiteRTRunner(overflowing[1], force_fp16=False) as runner:
        yield runner


def sample(source: Source, rows: int) -> Batch:
    rng = np.random.default_rng(5)
    draw = {
        "float32": lambda shape: rng.normal(size=shape),
        "int64": lambda shape: rng.integers(0, 5, size=shape),
        "bool": lambda shape: rng.random(shape) > 0.5,
    }
    return {
        spec.name: draw[spec.dtype]((rows, *spec.shape[1:])).astype(spec.dtype)
        for spec in source.inputs
    }


def rel_l2(received: np.ndarray, expected: np.ndarray) -> float:
    error = received.astype(np.float64) - expected
    return float(np.linalg.norm(error) / np.linalg.norm(expected))


def test_the_overflow_of_a_variance_is_invisible_by_default_and_total_when_forced(
    overflowing: tuple[Source, Path], default: LiteRTRunner
) -> None:
    """An FP16 file is opened to show its arithmetic: its outputs prove it."""
    source, path = overflowing
    batch = sample(source, 4)
    expected = source.forward(batch)["head"]
    assert rel_l2(default.run(batch)["head"], expected) < 1e-3
    with format_named("tflite").open_runner(path) as runner:
        assert rel_l2(runner.run(batch)["head"], expected) > 0.9
        assert (runner.info.name, runner.info.device) == ("litert-fp16", "CPU")
        assert runner.info.fp16 == "native"
        held = runner.info.details["arithmetic"].removeprefix("FP16 by XNNPACK: sums are held in ")
        assert held in ("FP16", "FP32, and results rounded")
        added = f"LiteRT on CPUs that add in {held[:4]}, as this one does"
        assert runner.info.details["holds for"] == added
        outputs = runner.run({"x": batch["x"] * 1e-3})["head"]
        assert np.ptp(outputs) > 0
        np.testing.assert_array_equal(outputs, outputs.astype(np.float16).astype(np.float32))
        assert runner.info.details["proof"] == "every output value is an FP16 number"


def test_the_default_is_labelled_by_the_weights_of_the_file(
    default: LiteRTRunner, convert: Convert, models: ModuleType
) -> None:
    assert (default.info.name, default.info.fp16) == ("litert", "weights-only")
    assert default.info.details["litert"]
    _, file = convert(models.variance_overflow, precision="fp32")
    with format_named("tflite").open_runner(file.path) as runner:
        assert (runner.info.name, runner.info.fp16) == ("litert", None)


def test_names_and_dtypes_of_every_kind_survive_the_way_there_and_back(
    convert: Convert,
    models: ModuleType,
) -> None:
    source, file = convert(models.many_names)
    batch = sample(source, 3)
    expected = source.forward(batch)
    with LiteRTRunner(file.path, force_fp16=False) as runner:
        assert [spec.name for spec in runner.inputs] == [spec.name for spec in source.inputs]
        received = runner.run(batch)
    assert list(received) == [spec.name for spec in source.outputs]
    for name, values in expected.items():
        assert received[name].dtype == values.dtype
        np.testing.assert_allclose(received[name], values, rtol=2e-3, atol=2e-3, err_msg=name)


@pytest.mark.parametrize(("batch_size", "rows"), [(4, [6]), (None, [2, 5, 1])])
def test_any_number_of_samples_fits_any_batch_size(
    batch_size: int | None, rows: list[int], convert: Convert, models: ModuleType
) -> None:
    source, file = convert(models.variance_overflow, batch_size=batch_size)
    with LiteRTRunner(file.path, force_fp16=False) as runner:
        for count in rows:
            batch = sample(source, count)
            assert rel_l2(runner.run(batch)["head"], source.forward(batch)["head"]) < 1e-3


# The first has a bidirectional GRU as well.
RECURRENT = ("lstm", "masked_lstm", "conv_lstm", "any_length")


@pytest.mark.parametrize("name", quick(RECURRENT, "masked_lstm"))
def test_recurrent_layers_need_no_flex_and_are_right(
    name: str, export: Callable, tmp_path: Path
) -> None:
    case = corpus()[name]
    source = case.open()
    batch = case.batch(source, samples=3)
    file = export(source, tmp_path / "model.tflite")
    for force_fp16, limit in ((False, 4e-3), (True, 1e-2)):
        with LiteRTRunner(file.path, force_fp16) as runner:
            received = runner.run(batch)
        for key, expected in source.forward(batch).items():
            assert rel_l2(received[key], expected) < limit


def test_outputs_whose_size_is_known_only_afterwards_are_whole(
    export: Callable, tmp_path: Path
) -> None:
    # LiteRT's own buffers for such outputs are too small: an error at best, or damaged memory.
    source = corpus()["transformer"].open()
    file = export(source, tmp_path / "model.tflite")
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        for length in (3, 7, 5):
            x = np.random.default_rng(1).normal(size=(2, length, 16)).astype(np.float32)
            received, expected = runner.run({"tokens": x}), source.forward({"tokens": x})
            assert rel_l2(received["logits"], expected["logits"]) < 5e-3


def test_outputs_that_litert_keeps_to_itself_are_refused_only_in_fp16(convert: Callable) -> None:
    source, file = convert(repeated)
    batches = [
        {"x": np.random.default_rng(1).normal(size=(2, length, 4)).astype(np.float32)}
        for length in (3, 7, 5)
    ]
    with LiteRTRunner(file.path, force_fp16=False) as runner:
        for batch in batches:
            received, expected = runner.run(batch), source.forward(batch)
            for name, values in expected.items():
                assert received[name].dtype == values.dtype
                np.testing.assert_allclose(received[name], values, rtol=3e-3, atol=3e-3)
    with (
        LiteRTRunner(file.path, force_fp16=True) as runner,
        pytest.raises(RunnerError, match=r"does not hand out 'folded', .*--input-shape"),
    ):
        runner.run(batches[0])


def repeated() -> keras.Model:
    """An open length that is read off the input and given to reshapes."""

    def fold(x):
        length = keras.ops.shape(x)[1]
        at = keras.ops.cast(keras.ops.arange(length), "float32")[None, :, None]
        return keras.ops.reshape(x + at, (-1, length * 2, 2))

    def positive(x):
        length = keras.ops.shape(x)[1]
        return keras.ops.cast(keras.ops.reshape(x > 0, (-1, length * 4)), "int64")

    x = keras.Input((None, 4), name="x")
    outputs = {
        "folded": keras.layers.Lambda(fold, output_shape=(None, 2))(x),
        "positive": keras.layers.Lambda(positive, output_shape=(None,), dtype="int64")(x),
    }
    return keras.Model(x, outputs, name="repeated")


def test_constants_at_the_limit_of_fp16_are_noted_with_their_layer(
    convert: Convert, models: ModuleType
) -> None:
    _, file = convert(models.destroyed_constants)
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        assert len(runner.notes) == 2
        assert any("(layer big)" in note and "clamp to 65504" in note for note in runner.notes)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({}, r"no array for input x: float32\[1, 1024\]; received none"),
        ({"y": np.zeros(3)}, r"no array for input x: float32\[1, 1024\]; received 'y'"),
        ({"x": np.zeros((2, 3))}, r"input x: float32\[1, 1024\] received float64\[2, 3\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_the_runner_lives_on(
    batch: Batch, message: str, default: LiteRTRunner, overflowing: tuple[Source, Path]
) -> None:
    with pytest.raises(RunnerError, match=message):
        default.run(batch)
    assert default.run(sample(overflowing[0], 1))["head"].shape == (1, 10)


def test_outputs_that_mix_samples_are_refused(tmp_path: Path, export: Callable) -> None:
    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, {"total": keras.ops.sum(inputs)})
    export(open_source(model), tmp_path / "model.tflite")
    with (
        LiteRTRunner(tmp_path / "model.tflite", force_fp16=False) as runner,
        pytest.raises(RunnerError, match=r"output 'total' has shape \[\] for a batch of 1"),
    ):
        runner.run({"x": np.ones((2, 4), np.float32)})


class TwoWeights(keras.layers.Layer):
    """Multiplies two weights, for which XNNPACK has no FP16 kernel (LiteRT 2.3)."""

    def build(self, shape):
        self.left, self.right = self.add_weight(shape=(4, 8)), self.add_weight(shape=(8, 16))

    def call(self, x):
        return keras.ops.matmul(keras.ops.matmul(self.left, self.right), x)


def test_a_file_that_xnnpack_cannot_prepare_for_fp16_is_judged_by_emulation(tmp_path: Path) -> None:
    inputs = keras.Input((16, 3), name="x")
    model = keras.Model(inputs, TwoWeights()(inputs))
    x = np.random.default_rng(0).standard_normal((80, 16, 3)).astype(np.float32)
    (candidate,) = convert_file(model, "tflite", tmp_path / "m.tflite", data=x).report.candidates
    assert candidate.runner.fp16 == "emulated"
    assert 1e-5 < candidate.outputs[0].rel_l2 < 2e-3
    assert "failed to prepare" in candidate.runner.details["fallback"]


def test_files_that_need_flex_are_refused_with_the_ops(
    convert: Convert, models: ModuleType
) -> None:
    _, file = convert(models.needs_flex, allow_flex=True)
    with pytest.raises(RunnerError, match=r"needs the TensorFlow \(Flex\) delegate for FlexMatrix"):
        LiteRTRunner(file.path, force_fp16=False)


@pytest.mark.parametrize("keep", [40, -400])
def test_a_damaged_file_costs_a_runner_error(
    keep: int, overflowing: tuple[Source, Path], tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.tflite"
    damaged.write_bytes(overflowing[1].read_bytes()[:keep])
    with pytest.raises(RunnerError):
        LiteRTRunner(damaged, force_fp16=False)


def test_a_missing_file_is_a_runner_error(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="No such file"):
        LiteRTRunner(tmp_path / "model.tflite", force_fp16=False)


def test_a_process_that_dies_costs_a_runner_error(overflowing: tuple[Source, Path]) -> None:
    with LiteRTRunner(overflowing[1], force_fp16=False) as runner:
        runner._worker._process.kill()
        with pytest.raises(RunnerError, match=r"^LiteRT with .*: the process was ended by SIGKILL"):
            runner.run({"x": np.zeros((1, 1024), np.float32)})


@pytest.fixture(scope="module")
def gpu() -> None:
    try:
        with litert_vulkan():
            return
    except RunnerError as error:
        pytest.skip(str(error))


def test_the_gpu_runner_says_its_adapter_and_what_it_computes_in(
    gpu: None, overflowing: tuple[Source, Path]
) -> None:
    source, path = overflowing
    batch = sample(source, 3)
    with format_named("tflite").open_runner(path, gpu=True) as runner:
        outputs = runner.run(batch)["head"]
        info = runner.info
    assert info.name == "litert-gpu"
    assert info.device.endswith(("(software)", "GPU)"))
    assert info.details["accelerated"] == "every operator"
    assert "fallback" not in info.details
    if info.fp16 == "weights-only":
        assert info.details["arithmetic"].startswith("FP32")
        assert rel_l2(outputs, source.forward(batch)["head"]) < 1e-3
    else:
        assert info.details["arithmetic"] == "FP16"


def test_operators_that_a_gpu_lacks_run_on_the_cpu_and_are_named(
    gpu: None, convert: Convert, models: ModuleType
) -> None:
    source, file = convert(models.recurrent)
    batch = sample(source, 2)
    with LiteRTGpuRunner(file.path) as runner:
        received = runner.run(batch)["head"]
        told = runner.info.details["accelerated"]
    assert told.startswith("part of the operators; on the CPU: ")
    assert "WHILE (Operation is not supported)" in told
    assert rel_l2(received, source.forward(batch)["head"]) < 5e-3


def sequence() -> keras.Model:
    """The length of what a recurrent loop has gathered is open in the file."""
    steps = keras.Input((5, 3), name="steps")
    return keras.Model(steps, keras.layers.LSTM(2, return_sequences=True)(steps), name="sequence")


@pytest.mark.parametrize(
    ("make", "which"),
    [
        (repeated, r"the inputs leave sizes open \(x: float32\[1, \?, 4\]\)"),
        (sequence, "the size of '"),
    ],
)
def test_sizes_that_a_gpu_cannot_leave_open_are_named(
    make: Callable, which: str, gpu: None, convert: Callable
) -> None:
    _, file = convert(make)
    with pytest.raises(RunnerError, match=f"takes tensors of fixed size only, and {which}"):
        LiteRTGpuRunner(file.path)


def test_without_an_adapter_the_machine_is_to_blame(
    overflowing: tuple[Source, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vulkan, "_ways", lambda folder: iter([]))
    with pytest.raises(MachineError, match=r"no Vulkan adapter was found|Vulkan on Linux"):
        LiteRTGpuRunner(overflowing[1])


@pytest.mark.skipif(MOCK is None, reason="no Chromium with a mock of a Vulkan driver is installed")
def test_a_driver_that_computes_nothing_is_the_machines_fault(
    overflowing: tuple[Source, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lists an adapter, which LiteRT then cannot use."""
    driver = tmp_path / "mock.json"
    library = {"library_path": str(MOCK), "api_version": "1.1.0"}
    driver.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": library}))
    environment = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(driver))
    beside = MOCK.with_name(vulkan.LOADER)
    loader = str(beside) if beside.exists() else vulkan.LOADER
    monkeypatch.setattr(vulkan, "_ways", lambda folder: iter([(loader, environment)]))
    told = r"cannot run even one product on Vulkan Mock Device \(virtual GPU\), .*No adapters found"
    with pytest.raises(MachineError, match=told):
        LiteRTGpuRunner(overflowing[1])
    with pytest.raises(InputError, match=f"expected a GPU for 'gpu', but LiteRT {told}"):
        validate(*overflowing, device="gpu")


def test_a_file_without_signatures_and_with_an_open_batch_runs(tmp_path: Path) -> None:
    source = open_source(keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)]))
    path = export_tflite(source, tmp_path / "open.tflite", "fp32", batch_size=None).path
    model = unpacked(path)
    model.signatureDefs = None
    pack(model, path)
    batch = {source.inputs[0].name: np.random.default_rng(0).normal(size=(5, 6)).astype("float32")}
    (expected,) = source.forward(batch).values()
    with LiteRTRunner(path, force_fp16=False) as runner:
        (received,) = runner.run({runner.inputs[0].name: batch[source.inputs[0].name]}).values()
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-6)
