"""How long imports and `tfmp-convert` on a tiny model take, as ratios to `import keras`.

    python benchmarks/command_time.py [--rounds 7]

The commands take turns, so that whatever else the machine does meets all of them; printed are the
medians of the rounds' ratios, and their spread. Wall time, cold interpreters, warm disk cache.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
import keras, numpy as np
keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((6,), name="features"),
    keras.layers.Dense(8, "relu"),
    keras.layers.Dense(3, "softmax", name="scores"),
])
model.save("tiny.keras")
x = np.random.default_rng(0).normal(size=(1000, 6)).astype("float32")
np.savez("data.npz", features=x, labels=model.predict(x, verbose=0).argmax(1))
"""

# Imports every optimizer and layer, as any training script does.
BASELINE = "import keras; keras.Model"
IMPORTS = [
    BASELINE,
    "import tfmp",
    "import tfmp.converters",
    "import keras, tfmp; keras.Model, tfmp.MixedPrecision()",
    "import keras, tfmp.converters; keras.Model, tfmp.converters.convert",
]
CONVERT = [sys.executable, "-m", "tfmp.converters.commands"]
COMMANDS = {
    **{code: [sys.executable, "-c", code] for code in IMPORTS},
    "tfmp-convert onnx": [*CONVERT, "onnx", "tiny.keras", "--force"],
    "tfmp-convert tflite": [*CONVERT, "tflite", "tiny.keras", "--force"],
    "tfmp-convert all --data --report": [
        *(*CONVERT, "all", "tiny.keras", "-o", ".", "--force"),
        *("--data", "data.npz", "--report", "drift.html"),
    ],
}


def seconds(command: list[str], folder: str) -> float:
    """Wall time of one run; raises if it fails."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", MODEL], cwd=Path(folder), check=True, capture_output=True
        )
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(rounds + 1):  # the first fills the disk cache
            for name, command in COMMANDS.items():
                times[name].append(seconds(command, folder))
    print(f"{'command':68} {'seconds':>8} {'ratio':>6} {'from':>6} {'to':>6}   ({rounds} rounds)")
    for name, taken in times.items():
        ratios = [one / base for one, base in zip(taken[1:], times[BASELINE][1:], strict=True)]
        print(
            f"{name:68} {statistics.median(taken[1:]):8.2f} {statistics.median(ratios):6.2f} "
            f"{min(ratios):6.2f} {max(ratios):6.2f}"
        )


if __name__ == "__main__":
    main()
