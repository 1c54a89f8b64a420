"""Whether runtimes that tfmp does not know open its ONNX files: OpenVINO and OpenCV, FP32 and FP16.

    python3 -m venv FOLDER && FOLDER/bin/pip install openvino opencv-python-headless
    python benchmarks/other_runtimes.py --python FOLDER/bin/python [--rows REGEX]

Each row of tests/support/sweep.py becomes an FP32 and an FP16 file. A runtime that gives Keras's
outputs from the first and not from the second meets a fault of the FP16 pass; one that gives them
from neither lacks an op, or dislikes its form. Runtimes differ in versions of their packages, so
they live in another environment, whose Python runs `other_runtimes_worker.py`.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from scaffold import distance, parser

RUNTIMES = ("openvino", "opencv")

import keras
import numpy as np
import sweep

from tfmp.converters import convert, open_source
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import synthetic_batch

# Relative L2 distance from Keras: rounding in this precision, and not another answer.
LIMITS = {"fp32": 1e-3, "fp16": 3e-2}
_SECONDS = 120


class Worker:
    """A process of the other Python, begun anew when a runtime takes it down."""

    def __init__(self, python: str) -> None:
        self._command = [python, str(Path(__file__).with_name("other_runtimes_worker.py"))]

    def run(self, runtime: str, file: Path, samples: Path, output: Path) -> str:
        """Runs a file; gives the reason why it could not, or "" and writes the outputs."""
        job = json.dumps([runtime, str(file), str(samples), str(output)])
        try:
            done = subprocess.run(
                self._command, input=job, capture_output=True, text=True, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            return "does not end"
        return done.stdout.strip() if done.returncode == 0 else f"ends with {done.returncode}"


def answers(worker: Worker, row: sweep.Row, folder: Path) -> dict[tuple[str, str], str]:
    """By runtime and precision: "" if the outputs are Keras's, or what is wrong."""
    source = open_source(row.build())
    files = {name: convert(source, "onnx", folder / f"{name}.onnx", name).path for name in LIMITS}
    batch = synthetic_batch(source.inputs, samples=2, seed=0)
    expected = list(source.forward(batch).values())
    samples, output = folder / "samples.npz", folder / "output.npz"
    np.savez(samples, **batch)
    found = {}
    for runtime in RUNTIMES:
        for precision, file in files.items():
            reason = worker.run(runtime, file, samples, output)
            if not reason:
                with np.load(output) as given:
                    error = distance(expected, given.values())
                reason = "" if error <= LIMITS[precision] else f"wrong by {error:.1g}"
            found[runtime, precision] = reason
    return found


def main() -> None:
    """Prints a table, and the rows that fail in FP16 alone."""
    given = parser(__doc__)
    given.add_argument("--python", required=True, help="of the environment with the runtimes")
    given.add_argument("--rows", metavar="REGEX", default="", help="rows by group and name")
    options = given.parse_args()
    worker, counts, failing = Worker(options.python), Counter[tuple[str, str]](), []
    rows = [row for row in sweep.all_rows() if re.search(options.rows, str(row))]
    for row in rows:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = answers(worker, row, Path(folder))
            except ConversionError:
                continue  # docs/support.md has the reason
        keras.backend.clear_session()
        counts["models", ""] += 1
        counts.update(key for key, reason in found.items() if not reason)
        for (runtime, precision), reason in found.items():
            if reason and (precision == "fp32" or not found[runtime, "fp32"]):
                failing.append(f"{row}: {runtime}, {precision}: {reason[:200]}")
        print(f"{counts['models', '']} of {len(rows)}", end="\r", file=sys.stderr)
    print(f"{'runtime':<12}{'models':>8}{'FP32':>8}{'FP16':>8}")
    for runtime in RUNTIMES:
        shown = (counts["models", ""], *(counts[runtime, precision] for precision in LIMITS))
        print(f"{runtime:<12}" + "".join(f"{count:>8}" for count in shown))
    print(*failing, sep="\n")


if __name__ == "__main__":
    main()
