"""A transpose of the batch axes moves behind a product, and the numbers stay."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import op_types, parse, rewritten, run

from tfmp.converters import convert, validate

WEIGHTS = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
X = np.random.default_rng(0).standard_normal((5, 5, 8)).astype(np.float32)
LEFT = "t = Transpose <perm = [1, 0, 2]> (x)  y = MatMul(t, w)"
RIGHT = "t = Transpose <perm = [1, 2, 0]> (x)  y = MatMul(w, t)"


def graph(body: str) -> onnx.ModelProto:
    return parse(f"g (float[A, B, 8] x) => (float[C, D, E] y) {{ {body} }}", w=WEIGHTS)


THEN = LEFT.replace("y =", "p =")
MOVED = ["MatMul", "Transpose"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LEFT, MOVED),
        (f"{THEN}  y = MatMul(p, w)", ["MatMul", *MOVED]),
        (f"{THEN}  y = Add(p, t)", ["Transpose", *MOVED, "Add"]),
        (LEFT.replace("1, 0, 2", "0, 2, 1"), ["Transpose", "MatMul"]),
        (RIGHT, ["Transpose", "MatMul"]),
    ],
)
def test_the_same_numbers_come_in_another_order(body: str, expected: list[str]):
    model = graph(body)
    changed, _ = rewritten(model)
    batch = {"x": np.resize(X, (8, 8, 8))}
    received, before = run(changed, batch)["y"], run(model, batch)["y"]
    np.testing.assert_allclose(received, before, rtol=1e-5, atol=1e-5)
    assert op_types(changed) == expected


OPEN = "import onnxruntime as o, sys; o.InferenceSession(sys.argv[1])"


@pytest.mark.parametrize(("body", "told"), [(LEFT, False), (RIGHT, True)])
def test_files_load_or_say_how_to_load_them(body: str, told: bool, tmp_path: Path):
    onnx.save(graph(body), tmp_path / "m.onnx")
    file = convert(tmp_path / "m.onnx", output=tmp_path / "out.onnx")
    assert any("disabled_optimizers" in note for note in file.known.notes) == told
    report = validate(tmp_path / "m.onnx", file, {"x": X}, split=True, latency=True)
    (candidate,) = report.candidates  # our own sessions leave that optimizer out
    assert candidate.error is None
    assert candidate.latency is not None
    if not told:
        subprocess.run([sys.executable, "-c", OPEN, str(file.path)], check=True)
