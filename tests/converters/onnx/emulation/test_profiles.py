"""Profiles of the emulator: their names, and how a user asks for one."""

import keras_models
import numpy as np
import onnx
import onnx_graphs
import pytest

from tfmp.converters import convert, validate
from tfmp.converters.onnx.emulation.profiles import DEFAULT_BLOCK, GPU, Profile
from tfmp.converters.runners import onnx_runner
from tfmp.converters.shared.errors import InputError


def test_defaults():
    assert Profile.parse("gpu") == GPU
    assert Profile.parse("pessimistic") == Profile("pessimistic", DEFAULT_BLOCK)
    assert Profile.parse("webgpu") == Profile("webgpu", 1)
    assert str(Profile.parse("webgpu:1")) == "webgpu"
    assert Profile.parse("ort-cuda") == Profile("ort-cuda", version=(1, 26))
    assert Profile.parse("ort-cuda:1.26.3") == Profile.parse("ort-cuda")


@pytest.mark.parametrize(
    "text",
    """
    cpu gpu:16 gpu: pessimistic: pessimistic:0 pessimistic:-4 pessimistic:x ort-cuda: ort-cuda:1
    ort-cuda:1.x ort-cuda:16 tensorrt:10.0 tensorrt: webgpu:0 webgpu: any ort-cpu :
    """.split(),
)
def test_another_name_is_refused(text: str):
    with pytest.raises(InputError) as caught:
        Profile.parse(text)
    assert str(caught.value) == (
        "emulate: expected 'gpu', 'pessimistic[:BLOCK]', 'ort-cuda[:VERSION]', 'tensorrt', "
        "'litert-gpu[:BLOCK]', 'litert-cpu[:BLOCK]' or 'webgpu[:BLOCK]', with BLOCK a number of "
        "terms such as 16 and "
        f"VERSION such as 1.26; received {text!r}."
    )


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A model whose inner sizes are larger than a block, saved, and its FP16 file."""
    folder = tmp_path_factory.mktemp("profiles")
    model = keras_models.dense()
    model.save(folder / "model.keras")
    return folder / "model.keras", convert(model, output=folder / "half.onnx").path


def test_the_report_says_what_was_emulated(wide):
    model, half = wide
    x = np.random.default_rng(0).standard_normal((4, 6), dtype=np.float32)
    reports = [validate(model, half, x, emulate=name) for name in (None, "pessimistic:2")]
    plain, pessimistic = (report.candidates[0] for report in reports)
    assert plain.runner.details["profile"].startswith("ort-cuda:1.26: as gpu")
    assert pessimistic.runner.details["profile"].startswith(
        "pessimistic:2: as gpu, and sums inside"
    )
    assert pessimistic.runner.details["profile"].endswith("rounded to FP16 after every 2 terms")
    assert pessimistic.outputs[0].rel_l2 != plain.outputs[0].rel_l2
    assert reports[1].environment["device"] == "cpu, chosen by auto: FP16 is to be emulated"


def test_the_runner_names_what_it_could_not_look_into(tmp_path):
    model, _ = onnx_graphs.half(
        onnx_graphs.parse(
            "agraph (float[N, 4, 8] x) => (float[N, 4, a] y)"
            " { y = LpPool <kernel_shape = [2]> (x) }"
        )
    )
    onnx.save(model, tmp_path / "pool.onnx")
    for profile, expected in ((GPU, None), (Profile.parse("pessimistic"), "LpPool")):
        with onnx_runner(tmp_path / "pool.onnx", profile) as runner:
            assert runner.info.details.get("in FP32 inside") == expected


SUM = """
agraph (float[N, 4096] x) => (float[N, 1] y) <int64[1] last = {1}> { y = ReduceMean(x, last) }
"""


def test_a_file_is_judged_by_its_target_unless_another_profile_is_asked_for(tmp_path):
    onnx.save(onnx_graphs.parse(SUM), tmp_path / "mean.onnx")
    x = np.random.default_rng(0).uniform(90, 110, (64, 4096)).astype(np.float32)
    seen = {}
    for target in ("any", "ort-cuda", "webgpu"):
        path = tmp_path / f"{target}.onnx"
        asked = {"target": target, "fp16_edges": True}
        made = convert(tmp_path / "mean.onnx", output=path, data=x, **asked)
        candidate = made.report.candidates[0]
        seen[target] = candidate.verdict, candidate.runner.details["holds for"]
        again = validate(tmp_path / "mean.onnx", path, x, emulate="gpu").candidates[0]
        assert again.runner.details["holds for"] == "GPU kernels that add in FP32"
    assert seen["ort-cuda"] == ("FAIL", "ONNX Runtime 1.26 on CUDA")
    assert seen["webgpu"][1] == "ONNX Runtime's WebGPU provider"
    assert seen["any"] == seen["ort-cuda"]
    properties = [
        {item.key: item.value for item in onnx.load(tmp_path / f"{name}.onnx").metadata_props}
        for name in ("any", "webgpu")
    ]
    assert [found.get("tfmp.target") for found in properties] == [None, "webgpu"]
