"""Every sample runs and does what it says."""

import json
import os
import runpy
import subprocess
import sys

import pytest
from repository import ROOT

SAMPLES = ROOT / "samples"


def run(sample: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SAMPLES / sample), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
    )


def test_the_index_names_every_sample():
    index = (SAMPLES / "README.md").read_text()
    for path in SAMPLES.glob("*.py"):
        assert path.name in index


# What a reader should see: in each sample's output, whatever the machine.
SHOWN = {
    "first_callback.py": ["base policy", "loss by epoch", "after tfmp.revert: float32"],
    "custom_loop.py": ["epoch 9: loss", "loss scale 32768, 0 steps skipped"],
    "static_scale.py": ["Recommended static loss scale: 131072", "skipped 0 of 48"],
    "scale_schedule.py": ["its end 1024", "its end 4096", "its end 16384"],
    "find_nan.py": ["output of layer big", "65504", "is in row 7", "All values are finite"],
    "keep_float32.py": ["keep_float32: delicate", "delicate: computes in float32"],
    "graph_rewrite.py": ["5 MatMul", "operations in float16", "loss"],
    "colocate_precisions.py": ["fairness", "float64: weights float64", "bit for bit: True"],
    "profile_steps.py": ["mixed_bfloat16", "Tensor Cores"],
}


@pytest.mark.parametrize("sample", SHOWN)
def test_a_sample_shows_what_it_is_about(sample, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(SAMPLES))
    runpy.run_path(str(SAMPLES / sample), run_name="__main__")
    out = capsys.readouterr().out
    for text in SHOWN[sample]:
        assert text in out, out


def test_distributed_training():
    result = run("distributed_training.py")  # makes devices: a process of its own
    assert result.returncode == 0, result.stderr[-2000:]
    assert "2 replicas; all weights finite: True" in result.stdout
    assert "skipped" in result.stdout


def test_convert_and_gate(tmp_path):
    result = run("convert_and_gate.py", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
    assert "PASS" in result.stdout
    assert "reports: drift.html, drift.md, drift.xml" in result.stdout


def test_repair_overflow(tmp_path):
    result = run("repair_overflow.py", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
    assert "plain.onnx: FAIL" in result.stdout
    assert "mixed.onnx: PASS" in result.stdout


def test_digits_end_to_end(tmp_path):
    result = run("digits_end_to_end.py", str(tmp_path / "demo"))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-2000:]
    report = json.loads((tmp_path / "demo" / "drift.json").read_text())
    assert [candidate["verdict"] for candidate in report["candidates"]] == ["PASS", "PASS"]
    assert "loss_scale" in result.stdout
    page = (tmp_path / "demo" / "drift.html").read_text()
    assert "digits.onnx" in page
    assert "digits.tflite" in page
