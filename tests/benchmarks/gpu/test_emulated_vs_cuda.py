"""benchmarks/gpu/emulated_vs_cuda.py, as far as it goes without a GPU."""

import runpy
import subprocess
import sys

import pytest
from repository import BENCHMARKS

from tfmp.converters.formats import format_named

PROBLEM = format_named("onnx").gpu_problem()
SCRIPT = BENCHMARKS / "gpu" / "emulated_vs_cuda.py"


@pytest.mark.skipif(PROBLEM is None, reason="there is a GPU")
def test_without_a_gpu_it_says_what_is_missing_and_what_to_do():
    result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert f"that ONNX Runtime's CUDA provider can use, but {PROBLEM}" in result.stderr
    assert "pip install '.[cuda,test]', then run this again" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch):
    """Runs the script in this process, which has imported TensorFlow already."""

    def status(*arguments: str) -> object:
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        with pytest.raises(SystemExit) as caught:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return caught.value.code

    return status


def test_its_plumbing_holds_on_the_cpu_and_says_that_this_is_no_figure(run_here, capsys):
    assert run_here("--plumbing", "--samples", "2", "--models", "loop_state") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("PLUMBING ONLY: the CPU provider stands in for the GPU")
    (row,) = [line for line in printed.splitlines() if line.startswith("| loop_state")]
    assert "not compared" not in row
    assert "all values finite alike in 1 of 1 models" in printed


def test_a_model_that_is_not_in_the_corpus_is_told(run_here, capsys):
    assert run_here("--plumbing", "--models", "nonsense") == 2
    assert "no model nonsense; there are: dense," in capsys.readouterr().err
