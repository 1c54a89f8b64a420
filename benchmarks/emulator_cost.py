"""What emulating FP16 costs against running the same model in float32, on this CPU.

Run: python benchmarks/emulator_cost.py [APPLICATION ...]     (default: ResNet50 MobileNetV2)

Each profile takes turns with float32, and the fastest runs are compared.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import scaffold  # noqa: F401  (before a framework)

IMAGES = 8

import keras
import numpy as np

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
from tfmp.converters.onnx.graph.storage import open_session
from tfmp.machine import interleaved, timed

# Runs of each session, by profile: the slower it is, the less it matters when a run is disturbed.
ROUNDS = {"gpu": 10, "pessimistic": 3}


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
        runs = {"float32": partial(exact.run, None, feed), "fp16": partial(session.run, None, feed)}
        for run in runs.values():
            run()
        found = interleaved({key: partial(timed, run) for key, run in runs.items()}, rounds)
        yield str(profile), min(found["float32"].seconds), min(found["fp16"].seconds)


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
