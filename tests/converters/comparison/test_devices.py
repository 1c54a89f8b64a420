"""Where a validation runs. The CUDA session is tried on the CPU provider: the code is the same."""

import ctypes
from contextlib import nullcontext

import keras_models
import numpy as np
import onnx
import pytest

import tfmp.converters.runners.onnx_gpu as gpu_runner
from tfmp.converters import convert, validate
from tfmp.converters.comparison.devices import choose
from tfmp.converters.formats import format_named
from tfmp.converters.onnx.format import OnnxFormat
from tfmp.converters.runners.gpu_session import Placement, _error, _placement
from tfmp.converters.runners.onnx_gpu import OnnxGpuRunner, check_onnx_gpu
from tfmp.converters.runners.reference import TensorFlowRunner
from tfmp.converters.runners.timing import Timer
from tfmp.converters.runners.vulkan import Adapter, Vulkan
from tfmp.converters.shared.errors import InputError, MachineError, RunnerError
from tfmp.converters.tflite.format import TFLiteFormat

ONNX, TFLITE = format_named("onnx"), format_named("tflite")
CPU = "CPUExecutionProvider"
TOLD = TFLiteFormat.gpu_in_software


@pytest.fixture(scope="module")
def model():
    return keras_models.dense()


@pytest.fixture(scope="module")
def half(model, tmp_path_factory):
    return convert(model, output=tmp_path_factory.mktemp("devices") / "half.onnx").path


@pytest.fixture
def cuda(monkeypatch):
    def say(problem: str | None) -> None:
        monkeypatch.setattr(OnnxFormat, "gpu_problem", lambda self, asked=True: problem)

    return say


@pytest.fixture
def vulkan(monkeypatch):
    def say(problem: str | None) -> None:
        monkeypatch.setattr(TFLiteFormat, "gpu_problem", lambda self, asked=True: problem)
        monkeypatch.setattr(TFLiteFormat, "gpu_in_software", lambda self: None)

    return say


def test_auto_takes_cuda_where_it_works_and_says_why_where_not(cuda):
    cuda(None)
    found = choose("auto", [ONNX, TFLITE])
    assert (found.gpu, found.reference_gpu) == ({"onnx"}, True)
    assert found.text == "gpu, chosen by auto: CUDA works"
    cuda("no NVIDIA driver was found")
    found = choose("auto", [ONNX])
    assert (found.gpu, found.reference_gpu) == (set(), False)
    assert found.text == "cpu, chosen by auto: no NVIDIA driver was found"


def test_gpu_without_one_is_an_error_that_says_what_is_missing(cuda, vulkan):
    cuda("no NVIDIA driver was found")
    vulkan("no Vulkan adapter was found")
    with pytest.raises(InputError) as caught:
        choose("gpu", [ONNX])
    assert str(caught.value) == (
        "device: expected a GPU for 'gpu', but no NVIDIA driver was found. Use device cpu, or "
        "pip install 'tfmp[cuda]' on a machine with an NVIDIA GPU."
    )
    with pytest.raises(InputError, match="no Vulkan adapter was found"):
        choose("gpu", [TFLITE])
    cuda(None)
    with pytest.raises(InputError, match="Vulkan"):
        choose("gpu", [ONNX, TFLITE])
    vulkan(None)
    found = choose("gpu", [ONNX, TFLITE])
    assert (found.gpu, found.reference_gpu) == ({"onnx", "tflite"}, True)


def test_a_gpu_in_software_runs_tflite_files_and_is_called_what_it_is(vulkan, monkeypatch):
    vulkan(None)
    adapters = {
        Adapter("SwiftShader", "CPU", False): "SwiftShader, in software and FP32: it shows which "
        "operators a GPU takes, not what FP16 does",
        Adapter("llvmpipe", "CPU", True): "llvmpipe, in software, with the FP16 arithmetic of "
        "LiteRT's GPU kernels",
    }
    for adapter, told in adapters.items():
        way = nullcontext(Vulkan(adapter, "libvulkan.so.1", {}))
        monkeypatch.setattr(TFLiteFormat, "gpu_in_software", TOLD)
        monkeypatch.setattr("tfmp.converters.runners.litert_vulkan", lambda way=way: way)
        found = choose("gpu", [TFLITE])
        assert (found.gpu, found.reference_gpu) == ({"tflite"}, False)
        assert found.text == f"gpu, as asked; for TFLite that is {told}"
    monkeypatch.setattr(TFLiteFormat, "gpu_in_software", lambda self: None)
    assert choose("gpu", [TFLITE]).text == "gpu, as asked"


def test_cpu_asks_nobody_nor_does_emulation(monkeypatch):
    monkeypatch.setattr(OnnxFormat, "gpu_problem", lambda self, asked=True: pytest.fail("asked"))
    assert not choose("cpu", [ONNX]).gpu
    found = choose("auto", [ONNX, TFLITE], emulate=True)
    assert (found.gpu, found.reference_gpu) == (set(), False)
    assert found.text == "cpu, chosen by auto: FP16 is to be emulated"
    with pytest.raises(InputError) as caught:
        choose("gpu", [ONNX], emulate=True)
    assert str(caught.value) == (
        "emulate: a GPU computes in FP16 itself, received device 'gpu' too. Leave one of them out."
    )
    with pytest.raises(InputError) as caught:
        choose("cpu", [TFLITE], emulate=True)
    assert str(caught.value) == (
        "emulate: expected an ONNX file to emulate FP16 arithmetic for, received only .tflite. "
        "Leave it out: LiteRT computes such files itself."
    )


def test_cuda_that_cannot_load_is_a_problem_and_no_crash(monkeypatch):
    """With a driver but without a GPU, the probe itself must tell."""

    def refuse():
        raise MachineError("CUDA does not load.")

    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr("tfmp.converters.runners.check_onnx_gpu", refuse)
    assert ONNX.gpu_problem() == "CUDA does not load"
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: [CPU])
    assert ONNX.gpu_problem() == "this build of ONNX Runtime has no CUDA"


def test_webgpu_is_taken_where_it_is_asked_for(monkeypatch):
    found = ["WebGpuExecutionProvider", CPU]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: found)
    monkeypatch.setattr("tfmp.converters.runners.check_onnx_gpu", lambda: None)
    assert choose("auto", [ONNX]).text == (
        "cpu, chosen by auto: ONNX Runtime has WebGPU in place of CUDA, which device gpu takes"
    )
    assert choose("gpu", [ONNX]).gpu == {"onnx"}


def test_a_session_runs_in_a_worker_and_proves_where_its_nodes_ran(model, half):
    x = np.random.default_rng(0).standard_normal((4, 6), dtype=np.float32)
    with OnnxGpuRunner(half, CPU, "CPU") as runner:
        assert runner.info.fp16 == "native"
        outputs = runner.run({"features": x})
        again = runner.run({"features": x})
        proof = runner.info.details["proof"]
    np.testing.assert_allclose(outputs["scores"], model.predict(x, verbose=0), atol=1e-2)
    np.testing.assert_array_equal(outputs["scores"], again["scores"])
    assert proof.startswith("all ")
    assert proof.endswith(" nodes that compute floats ran on CPU, by profile")


def test_a_candidate_on_a_gpu_runs_there_from_end_to_end(model, half, cuda, monkeypatch):
    """As on a GPU, with the CPU provider in CUDA's place."""
    cuda(None)
    opened = "tfmp.converters.runners.OnnxGpuRunner"
    monkeypatch.setattr(opened, lambda path: OnnxGpuRunner(path, CPU, "GPU (test)"))
    report = validate(model, half, np.ones((64, 6), np.float32))
    (candidate,) = report.candidates
    assert candidate.error is None
    assert (candidate.runner.device, candidate.runner.fp16) == ("GPU (test)", "native")
    assert report.environment["device"] == "gpu, chosen by auto: CUDA works"


def test_nodes_that_fell_back_are_named(monkeypatch, half):
    def node(op: str, provider: str, kind: str) -> dict:
        told = {"op_name": op, "provider": provider, "output_type_shape": [{kind: [1]}]}
        return {"cat": "Node", "args": told}

    events = [
        node("MatMul", "CUDAExecutionProvider", "float16"),
        node("Shape", CPU, "int64"),
        node("Softmax", CPU, "float16"),
        {"cat": "Session", "args": {}},
    ]
    assert _placement(events, "CUDAExecutionProvider") == Placement(1, ("Softmax",))
    with OnnxGpuRunner(half, CPU) as runner:
        answer = {}, Placement(1, ("Softmax",))
        monkeypatch.setattr(runner._worker, "call", lambda *_: answer)
        runner.run({})
    assert runner.info.details["proof"] == "Softmax fell back to the CPU, which has no FP16"


def test_the_probe_of_cuda_runs_on_a_provider_that_works(half):
    check_onnx_gpu(CPU)
    if ONNX.gpu_problem() is None:
        pytest.skip("CUDA works here")
    with pytest.raises(MachineError, match="CUDA"):
        OnnxGpuRunner(half)
    with pytest.raises(MachineError, match="CUDA"):
        check_onnx_gpu()


@pytest.mark.slow
def test_what_refuses_the_probe_as_well_is_broken_itself(half, monkeypatch):
    """A session that fails on every model, as with a cuDNN that does not load."""
    monkeypatch.setattr(gpu_runner, "onnx_probe", lambda: b"no model")
    with pytest.raises(MachineError, match="cannot run even one convolution"):
        check_onnx_gpu(CPU)
    refused = half.with_name("refused.onnx")
    model = onnx.load(half)
    model.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(model, refused)
    with pytest.raises(MachineError, match="cannot run even one convolution"):
        OnnxGpuRunner(refused, CPU)
    monkeypatch.undo()
    with pytest.raises(RunnerError) as caught:
        OnnxGpuRunner(refused, CPU)
    assert not isinstance(caught.value, MachineError)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("[ONNXRuntimeError] : 6 : CUDA failure 2: out of memory ; GPU=0", MachineError),
        ("[ONNXRuntimeError] : 1 : Failed to allocate memory for requested buffer", MachineError),
        ("[ONNXRuntimeError] : 9 : NoSuchOperator(1) is not registered", RunnerError),
    ],
)
def test_a_gpu_without_memory_is_no_fault_of_the_file(told, kind):
    assert type(_error(told)) is kind


class TestAMachineThatFails:
    """A candidate whose runtime does not start: nothing is said of the file."""

    @pytest.fixture
    def broken(self, cuda, monkeypatch):
        """CUDA works when it is probed, and fails afterwards."""
        cuda(None)

        def refuse(path):
            raise MachineError("CUDA failure 2: out of memory.")

        monkeypatch.setattr("tfmp.converters.runners.OnnxGpuRunner", refuse)

    def test_as_asked_it_ends_the_run_and_by_auto_it_falls_back(self, model, half, broken):
        with pytest.raises(InputError) as caught:
            validate(model, half, np.ones((2, 6), np.float32), device="gpu")
        assert str(caught.value) == (
            "device: CUDA failure 2: out of memory. Use device cpu, or repair the GPU's runtime."
        )
        report = validate(model, half, np.ones((400, 6), np.float32), device="auto")
        (candidate,) = report.candidates
        assert (candidate.error, candidate.runner.device) == (None, "CPU")
        told = "ran on the CPU, because the GPU failed: CUDA failure 2: out of memory."
        assert told in candidate.notes

    def test_while_it_runs_it_ends_the_run(self, model, half, cuda, monkeypatch):
        cuda(None)
        runner = OnnxGpuRunner(half, CPU)

        def refuse(batch):
            raise MachineError("CUDA failure 2: out of memory.")

        monkeypatch.setattr(runner, "run", refuse)
        monkeypatch.setattr("tfmp.converters.runners.OnnxGpuRunner", lambda path: runner)
        with pytest.raises(InputError, match=r"^device: CUDA failure 2: out of memory\. Use"):
            validate(model, half, np.ones((2, 6), np.float32), device="auto")


def test_files_that_are_no_models_and_timing(tmp_path, half):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(RunnerError, match="is not a usable ONNX model"):
        OnnxGpuRunner(path, CPU)
    seconds, rows, _ = Timer("onnx-gpu", half, CPU).measure(
        {"features": np.ones((3, 6), np.float32)}, 1
    )
    assert rows == 1
    assert len(seconds) >= 5


def test_a_reference_stays_on_the_cpu_without_a_gpu_and_says_so(model):
    from tfmp.converters.intake import open_source

    with TensorFlowRunner(open_source(model), gpu=True) as runner:
        info = runner.info
        assert runner.run({"features": np.ones((1, 6), np.float32)})["scores"].shape[0] == 1
    if info.device == "CPU":
        assert info.details["device"] == "TensorFlow sees no GPU: the reference ran on the CPU"
    else:
        assert info.details["tf32"] == "off"
