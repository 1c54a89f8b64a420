"""Files are also judged on samples of sizes that the data lacks, made of its values."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx_graphs import parse

from tfmp.converters import open_source, validate
from tfmp.converters.commands.cli import main
from tfmp.converters.samples import made_up, of_sizes
from tfmp.converters.samples.data import open_data
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec

# Sums of long rows pass FP16's 65,504, and the root brings them back.
ROOT = """
root (float[N, steps, 2] x) => (float[N, 2] y) <int64[1] one = {{1}}> {{
    half = Sqrt(ReduceSum<keepdims = 0>(Cast<to = {low}>(x), one))
    y = Cast<to = 1>(half)
}}
"""
DATA = np.random.default_rng(0).uniform(8, 12, (400, 16, 2)).astype(np.float32)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The path of a model, its FP16 file and the data."""
    for name, low in (("root", 1), ("half", 10)):
        onnx.save(parse(ROOT.format(low=low)), tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "data.npz", x=DATA)
    return [str(tmp_path / name) for name in ("root.onnx", "half.onnx", "data.npz")]


def test_a_file_that_overflows_on_long_samples_fails_on_them_alone(files: list[str]):
    reference, candidate, data = files
    report = validate(reference, candidate, data, sizes=[{"x": (3, 40, 2)}, {"x": (2, 9000, 2)}])
    assert [(each.synthetic_sizes, each.verdict) for each in report.candidates] == [
        ("", "PASS"),
        ("x=3,40,2", "INCONCLUSIVE"),
        ("x=2,9000,2", "FAIL"),
    ]
    assert report.verdict == "FAIL"
    assert any("NaN or infinite" in reason for reason in report.candidates[2].reasons)


def test_made_sizes_certify_nothing_and_forbid_nothing(files: list[str]):
    reference, candidate, data = files
    answer = CliRunner().invoke(
        main,
        f"validate {reference} {candidate} --data {data} --json "
        "--sizes x=3,40,2 --sizes x=1,20,2".split(),
    )
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["verdict"]) == (0, "PASS")
    names = [each["name"] for each in document["candidates"]]
    assert names[1:] == ["half.onnx (x=3,40,2, synthetic)", "half.onnx (x=1,20,2, synthetic)"]
    assert [each["synthetic_sizes"] for each in document["candidates"]][1:] == [
        "x=3,40,2",
        "x=1,20,2",
    ]


def test_values_are_repeated_or_cut():
    specs = (TensorSpec("x", (None, None, 2), "float32"), TensorSpec("n", (), "float32"))
    data = {"x": np.arange(12, dtype=np.float32).reshape(2, 3, 2), "n": np.float32(5)}
    samples = of_sizes(open_data(data, specs), {"x": (3, 4, 2)})
    (batch,) = samples.read()
    expected = data["x"][[0, 1, 0]][:, [0, 1, 2, 0]]
    np.testing.assert_array_equal(batch.inputs["x"], expected)
    assert batch.inputs["n"] == 5
    (batch,) = of_sizes(samples, {"x": (1, 2, 2)}).read()
    np.testing.assert_array_equal(batch.inputs["x"], data["x"][:1, :2])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"z": (1, 2)}, r"--sizes\) z=1,2: input shape for 'z': .* Name one of its inputs: x: "),
        ({"x": (1, 9, 3)}, r"have shape \[1, 9, 3\]: the model declares x: float32\[\?, \?, 2\]"),
        ({"x": (1, 9, 2), "y": (2, 2)}, "different numbers of samples"),
    ],
)
def test_sizes_that_do_not_fit_are_told(sizes: dict, message: str):
    specs = (TensorSpec("x", (None, None, 2), "float32"), TensorSpec("y", (None, 2), "float32"))
    with pytest.raises(InputError, match=message):
        of_sizes(made_up(specs), sizes)


def test_data_that_can_be_read_once_makes_no_other_sizes(files: list[str]):
    with pytest.raises(InputError, match=r"sizes \(--sizes\) reads the data once more"):
        validate(open_source(files[0]), files[1], iter([DATA]), sizes={"x": (1, 20, 2)})
