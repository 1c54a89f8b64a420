"""Accuracy after mixed-precision training against float32, over seeds, with a confidence interval.

    python benchmarks/training_accuracy.py [--seeds 10] [--quick] [--output docs/accuracy.md]

Each seed trains the same model from the same weights on the same batches under every policy, so
that the differences are paired; what is reported is their mean with a 95 % interval (Student's t
over seeds). Digits come with scikit-learn; MNIST is added where TFMP_ZOO names the folder with
`mnist10k.npz`. Writes a Markdown page.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from scipy import stats
from sklearn.datasets import load_digits

import tfmp

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
CONFIDENCE = 0.95

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """What is learned.

    Attributes:
        name: for the table.
        load: gives images in [0, 1] with a channel axis, and labels.
        held_out: share of the images that is not trained on, another one for each seed.
        epochs: of training.
        filters: of the two convolutions.
    """

    name: str
    load: Callable[[], Arrays]
    held_out: float
    epochs: int
    filters: tuple[int, int]


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        accuracy: on held-out images, in percent.
        loss: the same, cross-entropy.
        skipped: skipped steps.
        finite: whether all weights are finite.
    """

    accuracy: float
    loss: float
    skipped: int
    finite: bool


def digits() -> Arrays:
    """1,797 scans of 8 by 8 pixels."""
    images, labels = load_digits(return_X_y=True)
    return (images / 16.0).astype("float32").reshape(-1, 8, 8, 1), labels


def mnist() -> Arrays:
    """10,000 digits of 28 by 28 pixels from the folder of real models."""
    with np.load(Path(os.environ["TFMP_ZOO"]) / "mnist10k.npz") as data:
        return data["images"].astype("float32")[..., None] / 255.0, data["labels"].astype("int64")


def tasks(quick: bool) -> list[Task]:
    """The tasks whose data is here."""
    found = [Task("digits", digits, 0.4, 2 if quick else 10, (16, 32))]
    if os.environ.get("TFMP_ZOO"):
        found.append(Task("MNIST (10,000 images)", mnist, 0.2, 1 if quick else 3, (8, 16)))
    return found


def build(task: Task, shape: tuple[int, ...]) -> keras.Model:
    """A plain float32 model."""
    first, second = task.filters
    model = keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Conv2D(first, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(second, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def train(task: Task, data: Arrays, seed: int, policy: str) -> Run:
    """One training from the seed's weights on the seed's split."""
    images, labels = data
    order = np.random.default_rng(seed).permutation(len(images))
    cut = int(len(images) * task.held_out)
    test, rest = order[:cut], order[cut:]
    keras.utils.set_random_seed(seed)
    model = build(task, images.shape[1:])
    callback = tfmp.MixedPrecision(policy)
    model.fit(
        images[rest],
        labels[rest],
        batch_size=64,
        epochs=task.epochs,
        verbose=0,
        callbacks=[callback],
    )
    tfmp.revert(model)  # all are judged by their float32 forward pass
    loss, accuracy = model.evaluate(images[test], labels[test], batch_size=512, verbose=0)
    finite = all(np.isfinite(weight).all() for weight in model.get_weights())
    return Run(100 * accuracy, loss, callback.report.skipped_steps, finite)


def interval(differences: np.ndarray) -> tuple[float, float]:
    """The mean, and half the width of its confidence interval."""
    mean = float(np.mean(differences))
    if len(differences) < 2:
        return mean, float("inf")
    error = float(stats.sem(differences))
    return mean, error * float(stats.t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1))


def row(task: Task, policy: str, runs: list[Run], reference: list[Run]) -> str:
    """One row of the table."""
    accuracies = np.array([run.accuracy for run in runs])
    losses = np.array([run.loss for run in runs])
    cells = [
        task.name,
        policy,
        str(len(runs)),
        f"{accuracies.mean():.2f} ± {accuracies.std(ddof=1) if len(runs) > 1 else 0:.2f}",
        f"{losses.mean():.4f}",
    ]
    if policy == "float32":
        cells += ["reference", "reference"]
    else:
        for values, base in (
            (accuracies, np.array([run.accuracy for run in reference])),
            (losses, np.array([run.loss for run in reference])),
        ):
            mean, half = interval(values - base)
            digits_shown = 2 if values is accuracies else 4
            cells.append(f"{mean:+.{digits_shown}f} ± {half:.{digits_shown}f}")
    cells += [str(sum(run.skipped for run in runs)), "yes" if all(r.finite for r in runs) else "NO"]
    return "| " + " | ".join(cells) + " |"


def page(rows: list[str], seconds: float, command: str) -> str:
    """The Markdown page."""
    return "\n".join(
        [
            "# Accuracy after training",
            "",
            "Written by `benchmarks/training_accuracy.py`; do not edit by hand.",
            "",
            "A small CNN is trained under each policy with `tfmp.MixedPrecision(policy)`, from the",
            "same weights and on the same batches, and evaluated in float32 on held-out images.",
            "Differences from float32 are paired by seed: the table has their mean with a 95 %",
            "interval (Student's t over seeds). If an interval contains 0, no difference was seen,",
            "and the ends of the interval bound the size of a difference.",
            "",
            "| data | policy | seeds | accuracy, % (mean ± sd) | loss "
            "| accuracy minus float32, points | loss minus float32 | skipped steps | finite |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"`{command}`: {seconds / 60:.0f} minutes on {platform.processor() or 'a CPU'} with",
            f"Keras {keras.__version__} on {keras.backend.backend()}. A CPU computes FP16 layers "
            "in FP16, slowly:",
            "the accuracy carries over to a GPU, but not the speed.",
            "",
        ]
    )


def main() -> None:
    """Trains, prints the rows as they come, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two seeds, fewer epochs")
    parser.add_argument("--output", type=Path, default=None, help="Markdown file to write")
    options = parser.parse_args()
    seeds = 2 if options.quick else options.seeds
    start = time.perf_counter()
    rows = []
    for task in tasks(options.quick):
        data = task.load()
        results: dict[str, list[Run]] = {policy: [] for policy in POLICIES}
        for seed in range(seeds):
            for policy in POLICIES:
                results[policy].append(train(task, data, seed, policy))
                keras.backend.clear_session()
                print(f"{task.name}, seed {seed}, {policy}: {results[policy][-1]}", flush=True)
        rows += [row(task, p, runs, results["float32"]) for p, runs in results.items()]
    command = f"python benchmarks/training_accuracy.py --seeds {seeds}"
    text = page(rows, time.perf_counter() - start, command + (" --quick" if options.quick else ""))
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
