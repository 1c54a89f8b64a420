"""Every sample runs and does what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
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


def test_digits_end_to_end(tmp_path):
    result = run("digits_end_to_end.py", str(tmp_path / "demo"))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-2000:]
    report = json.loads((tmp_path / "demo" / "drift.json").read_text())
    assert [candidate["verdict"] for candidate in report["candidates"]] == ["PASS", "PASS"]
    assert "loss_scale" in result.stdout
    page = (tmp_path / "demo" / "drift.html").read_text()
    assert "digits.onnx" in page
    assert "digits.tflite" in page
