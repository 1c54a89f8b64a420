"""FP32, FP64 and mixed precision on one device, each training as if it were alone.

Run: python samples/colocate_precisions.py
     tfmp colocate samples.colocate_precisions:jobs
"""

import keras
import numpy as np

import tfmp

RNG = np.random.default_rng(0)
X = RNG.standard_normal((256, 8)).astype("float32")
Y = np.sin(X.sum(axis=1, keepdims=True))


def build() -> keras.Model:
    """Builds the model; a job calls this under its own policy and seed."""
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def jobs() -> list[tfmp.Job]:
    """The same training in three precisions."""
    policies = ("float32", "float64", "mixed_float16")
    return [tfmp.Job(build, (X, Y), policy, steps=64, name=policy) for policy in policies]


def main() -> None:
    """Trains the jobs in the fastest way, and compares one with its training alone."""
    report = tfmp.colocate(jobs())
    print(report, "\n")
    for name in ("float32", "float64", "mixed_float16"):
        print(f"{name}: weights {report[name].weights[0].dtype}")

    alone = tfmp.colocate(jobs()[:1], "sequential", measure_steps=0)["float32"].weights
    beside = report["float32"].weights
    same = all(np.array_equal(a, b) for a, b in zip(alone, beside, strict=True))
    print(f"float32 has the weights that it has alone, bit for bit: {same}")


if __name__ == "__main__":
    main()
