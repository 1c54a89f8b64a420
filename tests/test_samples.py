"""Every sample runs and does what it says."""

import contextlib
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from notebook_cells import headline_and_page
from quick import quick
from repository import ROOT

from tfmp.converters.commands.cli import main

SAMPLES = ROOT / "samples"


def test_the_index_names_every_sample():
    index = (SAMPLES / "README.md").read_text()
    for path in (*SAMPLES.glob("*.py"), *SAMPLES.glob("*.ipynb")):
        assert path.name in index


# What a reader should see: in each sample's output, whatever the machine.
SHOWN = {
    "first_callback.py": ["base policy", "loss by epoch", "after tfmp.revert: float32"],
    "custom_loop.py": ["epoch 9: loss", "loss scale 32768, 0 steps skipped"],
    "static_scale.py": ["Recommended static loss scale: 131072", "skipped 0 of 48"],
    "scale_schedule.py": ["its end 1024", "its end 4096", "its end 16384"],
    "find_nan.py": ["output of layer big", "65504", "is in row 7", "All values are finite"],
    "keep_float32.py": ["keep_float32: delicate", "delicate: computes in float32"],
    "graph_rewrite.py": ["graph rewrite", "loss"],
    "colocate_precisions.py": ["slow-down", "float64: weights float64", "bit for bit: True"],
    "profile_steps.py": ["mixed_bfloat16", "Tensor Cores"],
}


def run_command(command: Any, start=subprocess.run, **options: Any) -> Any:
    """`subprocess.run`, but for `tfmp-convert`: that runs here, where TensorFlow has started."""
    if Path(command[0]).name != "tfmp-convert":
        return start(command, **options)
    with contextlib.chdir(options["cwd"]), pytest.raises(SystemExit) as end:
        main(command[1:])
    return subprocess.CompletedProcess(command, end.value.code)


@pytest.fixture
def run(capfd, monkeypatch):
    """Runs a sample in this process: what it and its commands print, and its exit status."""
    monkeypatch.setattr(subprocess, "run", run_command)

    def in_process(sample: str, *arguments: object) -> tuple[str, object]:
        monkeypatch.syspath_prepend(str(SAMPLES))
        monkeypatch.setattr(sys, "argv", [sample, *map(str, arguments)])
        status = None
        try:
            runpy.run_path(str(SAMPLES / sample), run_name="__main__")
        except SystemExit as end:
            status = end.code
        return capfd.readouterr().out, status

    return in_process


@pytest.mark.parametrize(
    "sample", quick(SHOWN, "first_callback.py", "keep_float32.py", "find_nan.py")
)
def test_a_sample_shows_what_it_is_about(sample, run):
    out, _ = run(sample)
    for text in SHOWN[sample]:
        assert text in out, out


@pytest.mark.slow
def test_distributed_training():
    result = subprocess.run(  # makes devices: a process of its own
        [sys.executable, SAMPLES / "distributed_training.py"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert "2 replicas; all weights finite: True" in result.stdout
    assert "skipped" in result.stdout


def test_convert_and_gate(run, tmp_path):
    out, status = run("convert_and_gate.py", tmp_path)
    assert status == 0, out
    assert "PASS" in out
    assert "reports: drift.html, drift.md, drift.xml" in out


@pytest.mark.slow
def test_declare_tasks(run, tmp_path):
    out, status = run("declare_tasks.py", tmp_path)
    assert status == 0, out
    words = " ".join(out.split())
    for sentence in (
        "'found' is read as regression, because the model was compiled with mean_squared_error",
        "'found' is read as detection with boxes in the columns 0, 1, 2, 3, as declared",
        "'decoded' is read as multilabel, because the model was compiled with binary_crossentropy",
        "'decoded' is read as reconstruction, as declared",
    ):
        assert sentence in words
    assert words.count("✓ PASS 1 of 1 candidate passed") == 4


def test_repair_overflow(run, tmp_path):
    out, _ = run("repair_overflow.py", tmp_path)
    assert "plain.onnx: FAIL" in out
    assert "mixed.onnx: PASS" in out


class _Heard(NotebookClient):
    """Also keeps what cells showed only while they ran."""

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            self.updates.append(msg["content"]["data"]["text/html"])
        return super().process_message(msg, cell, cell_index)


@pytest.mark.slow
def test_the_notebook_shows_its_reports(tmp_path):
    made = nbformat.read(SAMPLES / "quickstart.ipynb", 4)
    assert all(not cell.get("outputs") for cell in made.cells)
    client = _Heard(made, resources={"metadata": {"path": str(tmp_path)}})
    client.updates = []
    client.execute()
    shown = [
        headline_and_page(output.data["text/html"])[0]
        for cell in made.cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    ]
    assert [text.partition(":")[0].partition(".")[0] for text in shown] == [
        "mixed_float16",
        "✓ no trouble found",
        "✓ PASS",
    ]
    assert any("719 of 719" in update for update in client.updates)
    assert client.updates[-1] == ""
    printed = [o.text for o in made.cells[-1].outputs if o.get("name") == "stdout"]
    assert "".join(printed).splitlines()[-1] == "PASS"
    assert (tmp_path / "out" / "quickstart" / "drift.md").exists()


@pytest.mark.slow
def test_digits_end_to_end(run, tmp_path):
    out, status = run("digits_end_to_end.py", tmp_path / "demo")
    assert status == 0, out
    # Loss scaling at work: the scale grew from its first value, and may have fallen again.
    scales = [float(number) for number in re.findall(r"loss_scale: ([\d.]+)", out)]
    assert max(scales) >= 2 * 32768
    accuracy = float(re.findall(r"accuracy: ([\d.]+)", out)[-1])
    assert accuracy > 0.97
    report = json.loads((tmp_path / "demo" / "drift.json").read_text())
    assert [candidate["verdict"] for candidate in report["candidates"]] == ["PASS", "PASS"]
    page = (tmp_path / "demo" / "drift.html").read_text()
    assert "digits.onnx" in page
    assert "digits.tflite" in page
