"""Profiles of the emulator: their names, and how a user asks for one."""

import click.testing
import keras_models
import numpy as np
import onnx
import onnx_graphs
import pytest

from tfmp.converters import convert, validate
from tfmp.converters.commands.cli import main
from tfmp.converters.onnx.emulation.profiles import DEFAULT_BLOCK, GPU, Profile
from tfmp.converters.runners import onnx_runner
from tfmp.converters.shared.errors import InputError


@pytest.mark.parametrize("text", ["gpu", "pessimistic:1", "pessimistic:16", "pessimistic:512"])
def test_a_profile_prints_as_it_is_read(text: str):
    assert str(Profile.parse(text)) == text


def test_defaults():
    assert Profile.parse("gpu") == GPU
    assert Profile.parse("pessimistic") == Profile(DEFAULT_BLOCK)


@pytest.mark.parametrize(
    "text",
    ["", "cpu", "gpu:16", "pessimistic:", "pessimistic:0", "pessimistic:-4", "pessimistic:x"],
)
def test_another_name_is_refused(text: str):
    with pytest.raises(InputError) as caught:
        Profile.parse(text)
    assert str(caught.value) == (
        "emulate: expected 'gpu', 'pessimistic' or 'pessimistic:BLOCK' with BLOCK a number of "
        f"terms such as 16, received {text!r}."
    )


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A model whose inner sizes are larger than a block, saved, and its FP16 file."""
    folder = tmp_path_factory.mktemp("profiles")
    model = keras_models.lstm()
    model.save(folder / "model.keras")
    return folder / "model.keras", convert(model, output=folder / "half.onnx").path


def test_the_report_says_what_was_emulated(wide):
    model, half = wide
    steps = np.random.default_rng(0).standard_normal((4, 7, 5), dtype=np.float32)
    reports = [validate(model, half, steps, emulate=name) for name in (None, "pessimistic:2")]
    plain, pessimistic = (report.candidates[0] for report in reports)
    assert plain.runner.details["profile"].startswith("gpu: FP32 accumulation")
    assert pessimistic.runner.details["profile"].startswith(
        "pessimistic:2: as gpu, and sums inside"
    )
    assert pessimistic.runner.details["profile"].endswith("rounded to FP16 after every 2 terms")
    assert pessimistic.outputs[0].rel_l2 != plain.outputs[0].rel_l2
    assert reports[1].environment["device"] == "cpu, chosen by auto: FP16 is to be emulated"


def test_the_runner_names_what_it_could_not_look_into(tmp_path):
    model, _ = onnx_graphs.half(
        onnx_graphs.parse(
            "agraph (float[N, 4, 8] x) => (float[N, 4, 8] y) { y = LRN <size = 3> (x) }"
        )
    )
    onnx.save(model, tmp_path / "lrn.onnx")
    for profile, expected in ((GPU, None), (Profile(16), "LRN")):
        with onnx_runner(tmp_path / "lrn.onnx", profile) as runner:
            assert runner.info.details.get("in FP32 inside") == expected


def test_the_command_line_takes_a_profile(wide, tmp_path):
    model, half = wide
    np.savez(tmp_path / "data.npz", steps=np.ones((2, 7, 5), np.float32))
    arguments = ["validate", str(model), str(half), "--data", str(tmp_path / "data.npz"), "--json"]

    def run(profile: str) -> click.testing.Result:
        return click.testing.CliRunner().invoke(main, [*arguments, "--emulate", profile])

    assert "pessimistic:2: as gpu" in run("pessimistic:2").stdout
    refused = run("optimistic")
    assert refused.exit_code == 2
    assert "expected 'gpu', 'pessimistic' or 'pessimistic:BLOCK'" in refused.stderr
