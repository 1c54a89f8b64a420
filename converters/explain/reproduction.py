"""Saves the smallest model and input that show an error, in a folder that runs without tfmp."""

from pathlib import Path

import numpy as np

from tfmp.converters.shared.tensors import Batch

ONNX_SCRIPT = '''\
"""{title} alone in FP16, against its results in FP32 on the same sample.

python reproduce.py    (needs numpy and onnxruntime)
"""

from pathlib import Path

import numpy as np
import onnxruntime

here = Path(__file__).parent
inputs, expected = dict(np.load(here / "inputs.npz")), dict(np.load(here / "expected.npz"))
session = onnxruntime.InferenceSession(here / "node.onnx", providers=["CPUExecutionProvider"])
received = dict(zip(expected, session.run(list(expected), inputs)))
'''

TFLITE_SCRIPT = '''\
"""{title} alone in FP16, against its results in FP32 on the same sample.

python reproduce.py    (needs numpy and ai-edge-litert)
"""

import os
import sys
from pathlib import Path

here = Path(__file__).parent
sys.stderr = sys.stdout  # Python's messages; LiteRT's own go to log.txt
os.dup2(os.open(here / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel, CpuOptions, HardwareAccelerator, Options

inputs, expected = dict(np.load(here / "inputs.npz")), dict(np.load(here / "expected.npz"))
forced = CpuOptions(num_threads=0, xnnpack_flags=4)  # 4: XNNPACK computes in FP16
options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=forced)
model = CompiledModel.from_file(str(here / "node.tflite"), options=options)
(key,) = model.get_signature_list()
given = {{name: model.create_input_buffer_by_name(key, name) for name in inputs}}
taken = {{name: model.create_output_buffer_by_name(key, name) for name in expected}}
for name, buffer in given.items():
    buffer.write(inputs[name].reshape(-1))
model.run_by_name(key, given, taken)
received = {{
    name: taken[name].read(array.size, array.dtype).reshape(array.shape)
    for name, array in expected.items()
}}
'''

_COMPARE = """\
for name, want in expected.items():
    got = received[name].astype("float64")
    finite = np.isfinite(got)
    error = np.linalg.norm(np.where(finite, got - want, 0)) / np.linalg.norm(want)
    lost = int((np.isfinite(want) & ~finite).sum())
    print(f"{name}: relative L2 error {error:.3g}, {lost} of {want.size} values not finite")
"""


def save_reproduction(
    folder: Path, inputs: Batch, expected: Batch, script: str, title: str
) -> None:
    """Writes inputs, their FP32 results, and a script beside a model that is there.

    Args:
        folder: the folder that holds the model.
        inputs: arrays by the model's input names.
        expected: FP32 results by its output names.
        script: `ONNX_SCRIPT` or `TFLITE_SCRIPT`.
        title: the model in words.
    """
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
    np.savez(folder / "expected.npz", **expected)  # type: ignore[arg-type]
    # A name comes from a model: it must not end the docstring that it stands in.
    plain = title.encode("unicode_escape").decode("ascii").replace('"', "'").replace("\\", "/")
    text = script.format(title=plain) + _COMPARE
    (folder / "reproduce.py").write_text(text, encoding="utf-8")
