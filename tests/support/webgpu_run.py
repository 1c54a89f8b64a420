"""Runs a folder's model.onnx with ONNX Runtime's WebGPU provider; `fp16_oracles` starts it.

Run: python webgpu_run.py FOLDER     (reads inputs.npz, writes outputs.npz)

A node that the provider does not take is an error: the CPU's kernels are another runtime.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime


def main() -> None:
    """Loads and runs."""
    folder = Path(sys.argv[1])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", options, providers=["WebGpuExecutionProvider"]
    )
    if session.get_providers()[0] != "WebGpuExecutionProvider":
        raise SystemExit("no WebGPU adapter was found")
    with np.load(folder / "inputs.npz") as given:
        values = [given[f"i{index}"] for index in range(len(given.files))]
    names = [one.name for one in session.get_inputs()]
    results = session.run(None, dict(zip(names, values, strict=True)))
    np.savez(folder / "outputs.npz", **{f"o{index}": one for index, one in enumerate(results)})


if __name__ == "__main__":
    main()
