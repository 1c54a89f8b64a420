"""Runs one ONNX file in another runtime, for `other_runtimes.py`, whose environment lacks it.

Reads a JSON list: the runtime, and the paths of the file, of the samples (.npz) and of where to
write the outputs. Prints what the runtime raised, if it did.
"""

import json
import sys

import numpy as np


def openvino(file: str, samples: dict[str, np.ndarray]) -> list[np.ndarray]:
    """OpenVINO on the CPU, in FP32 where it may choose."""
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(samples)
    return [np.array(results[output]) for output in compiled.outputs]


def opencv(file: str, samples: dict[str, np.ndarray]) -> list[np.ndarray]:
    """OpenCV's own networks on the CPU."""
    import cv2

    network = cv2.dnn.readNetFromONNX(file)
    for name, array in samples.items():
        network.setInput(array, name)
    return [np.array(array) for array in network.forward(network.getUnconnectedOutLayersNames())]


def main() -> None:
    runtime, file, samples, output = json.load(sys.stdin)
    with np.load(samples) as loaded:
        arrays = dict(loaded)
    try:
        np.savez(output, *globals()[runtime](file, arrays))
    except Exception as error:  # whatever it raises is the result
        print(" ".join(str(error).split()) or type(error).__name__)


if __name__ == "__main__":
    main()
