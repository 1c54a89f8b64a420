"""benchmarks/gpu/emulated_vs_cuda.py, as far as it goes without a GPU."""

import subprocess
import sys

import pytest
from repository import BENCHMARKS

from tfmp.converters.formats import format_named

PROBLEM = format_named("onnx").gpu_problem()
SCRIPT = BENCHMARKS / "gpu" / "emulated_vs_cuda.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--models", "loop_state", *arguments],
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(PROBLEM is None, reason="there is a GPU")
def test_without_a_gpu_it_says_what_is_missing_and_what_to_do():
    result = run()
    assert result.returncode == 2
    assert result.stdout == ""
    assert f"that ONNX Runtime's CUDA provider can use, but {PROBLEM}" in result.stderr
    assert "pip install '.[cuda,test]', then run this again" in result.stderr
    assert "Traceback" not in result.stderr


def test_its_plumbing_holds_on_the_cpu_and_says_that_this_is_no_figure():
    result = run("--plumbing", "--samples", "2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PLUMBING ONLY: the CPU provider stands in for the GPU")
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("| loop_state")]
    assert "not compared" not in row
    assert "all values finite alike in 1 of 1 models" in result.stdout


def test_a_model_that_is_not_in_the_corpus_is_told():
    result = run("--plumbing", "--models", "nonsense")
    assert result.returncode == 2
    assert "no model nonsense; there are: dense," in result.stderr
