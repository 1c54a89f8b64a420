"""What emulating FP16 costs against running the same model in float32, on this CPU.

Run: python benchmarks/emulator_cost.py [APPLICATION ...]     (default: ResNet50 MobileNetV2)

Each profile takes turns with float32, and the fastest runs are compared.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
from tfmp.converters.onnx.graph.storage import open_session

IMAGES = 8

# Runs of each session, by profile: the slower it is, the less it matters when a run is disturbed.
ROUNDS = {"gpu": 10, "pessimistic": 3}


def seconds_per_run(
    sessions: Sequence[Any], feed: dict[str, np.ndarray], rounds: int
) -> list[float]:
    """The fastest of several runs of each, taken in turns so that other load hits all alike."""
    for session in sessions:
        session.run(None, feed)
    best = [float("inf")] * len(sessions)
    for _ in range(rounds):
        for index, session in enumerate(sessions):
            start = time.perf_counter()
            session.run(None, feed)
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def measure(application: Callable[..., keras.Model]) -> Iterator[tuple[str, float, float]]:
    """For each profile its name, and seconds a run in float32 and of the emulator."""
    keras.utils.set_random_seed(0)
    source = open_source(application(weights=None))
    model = export_onnx(source)
    half, _ = to_fp16(model.clone())
    prepare(half)
    exact = open_session(model)
    (spec,) = source.inputs
    rng = np.random.default_rng(0)
    feed = {spec.name: rng.standard_normal((IMAGES, *spec.shape[1:]), dtype=np.float32)}
    for name, rounds in ROUNDS.items():
        profile = Profile.parse(name)
        session = open_session(emulated(half.clone(), profile))
        float32, rounded = seconds_per_run([exact, session], feed, rounds)
        yield str(profile), float32, rounded


def main() -> None:
    """Prints one row a model and profile."""
    names = sys.argv[1:] or ["ResNet50", "MobileNetV2"]
    print(f"Seconds for {IMAGES} images.\n")
    print("| model | profile | float32, s | emulated, s | ratio |")
    print("| --- | --- | ---: | ---: | ---: |")
    for name in names:
        for profile, float32, rounded in measure(getattr(keras.applications, name)):
            ratio = rounded / float32
            print(f"| {name} | {profile} | {float32:.3f} | {rounded:.3f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
