"""What emulating FP16 costs against running the same model in float32, on this CPU.

Run: python benchmarks/emulator_cost.py [APPLICATION ...]     (default: ResNet50 MobileNetV2)
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.emulate import emulated
from tfmp.converters.onnx.export import export_onnx
from tfmp.converters.onnx.fp16 import prepare, to_fp16
from tfmp.converters.onnx.storage import open_session

ROUNDS = 10


def seconds_per_run(sessions: dict[str, Any], feed: dict[str, np.ndarray]) -> dict[str, float]:
    """The fastest of several runs of each, taken in turns so that other load hits all alike."""
    for session in sessions.values():
        session.run(None, feed)
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(ROUNDS):
        for name, session in sessions.items():
            start = time.perf_counter()
            session.run(None, feed)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def measure(application: Callable[..., keras.Model]) -> dict[str, float]:
    """Seconds a run of 8 images in float32, and of the emulator."""
    keras.utils.set_random_seed(0)
    source = open_source(application(weights=None))
    model = export_onnx(source)
    half, _ = to_fp16(model.clone())
    prepare(half)
    sessions = {"float32": open_session(model), "emulated": open_session(emulated(half))}
    (spec,) = source.inputs
    rng = np.random.default_rng(0)
    return seconds_per_run(
        sessions, {spec.name: rng.standard_normal((8, *spec.shape[1:]), dtype=np.float32)}
    )


def main() -> None:
    """Prints one row a model."""
    names = sys.argv[1:] or ["ResNet50", "MobileNetV2"]
    print("| model | float32, s | emulated, s | ratio |\n| --- | ---: | ---: | ---: |")
    for name in names:
        best = measure(getattr(keras.applications, name))
        ratio = best["emulated"] / best["float32"]
        print(f"| {name} | {best['float32']:.3f} | {best['emulated']:.3f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
