"""A loop of PyTorch that trains a Keras model in mixed precision: tfmp beside PyTorch's AMP.

    KERAS_BACKEND=torch python benchmarks/torch_amp.py [--dtype bfloat16] [--rounds 7] [--write]

The same network with the same weights trains on the same batches in every arm. Arms take turns in
rounds, and ratios are taken within a round. `--write` puts the tables into docs/backends.md.
`step_time.py` times `fit` beside Keras's own loss-scale optimizer.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for each other measure the others

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import torch
from pages import line, write_part
from scaffold import DOCS, parser, versions

import tfmp
from tfmp.loss_scaling.telemetry import read_counters
from tfmp.machine import interleaved, paired_ratio
from tfmp.shared.backend import current_backend

CLASSES, BATCH, STEPS = 10, 64, 20
CURVE_STEPS, HELD_STEPS = 150, 10

RATIOS = (("tfmp", "amp"), ("amp", "float32"))
ABOUT = {
    "float32": "a loop with `torch.optim.Adam`",
    "amp": "that loop with `torch.autocast` and `torch.amp.GradScaler`",
    "tfmp": "a loop with `tfmp.plan(...).apply()` and `tfmp.LossScaleOptimizer`",
}


# Of a processor its own seconds count, which other programs do not lengthen.
now = time.perf_counter if torch.cuda.is_available() else time.process_time


def network() -> keras.Model:
    """A small convolutional network with normalization: a step of some milliseconds on a CPU."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((16, 16, 3)),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(256, activation="relu"),
            layers.Dense(CLASSES, dtype="float32"),
        ]
    )


def samples(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise whose class is a linear function of its mean over places."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, steps * BATCH)
    means = rng.standard_normal((CLASSES, 3))[y]
    noise = rng.standard_normal((steps * BATCH, 16, 16, 3))
    return (noise + means[:, None, None]).astype("float32"), y.astype("int64")


@dataclass
class Arm:
    """A way to train, ready to go on.

    Attributes:
        model: its network.
        block: trains on samples; gives seconds for a step.
        skipped: gives the number of steps that were skipped so far; None without a loss scale.
    """

    model: keras.Model
    block: Callable[[np.ndarray, np.ndarray], float]
    skipped: Callable[[], int | None]


def arm(name: str, dtype: str) -> Arm:
    """An arm by its name in `ABOUT`."""
    model = network()
    device = model.trainable_variables[0].value.device
    step, skipped = STEPPERS[name](model, getattr(torch, dtype), device.type)

    def block(x: np.ndarray, y: np.ndarray) -> float:
        batches = list(_batches(x, y, device))
        current_backend().synchronize()
        start = now()
        for batch in batches:
            step(*batch)
        current_backend().synchronize()
        return (now() - start) / len(batches)

    return Arm(model, block, skipped)


def _batches(x: np.ndarray, y: np.ndarray, device: torch.device) -> Iterator[Any]:
    for start in range(0, len(x), BATCH):
        part = slice(start, start + BATCH)
        yield torch.from_numpy(x[part]).to(device), torch.from_numpy(y[part]).to(device)


def _plain(model: keras.Model, dtype: torch.dtype, kind: str) -> tuple[Any, Any]:
    adam = torch.optim.Adam(model.parameters(), 1e-3)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        adam.zero_grad()
        torch.nn.functional.cross_entropy(model(x, training=True), y).backward()
        adam.step()

    return step, lambda: None


def _amp(model: keras.Model, dtype: torch.dtype, kind: str) -> tuple[Any, Any]:
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler(kind, enabled=dtype == torch.float16)
    skips = []

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        adam.zero_grad()
        with torch.autocast(kind, dtype):
            loss = torch.nn.functional.cross_entropy(model(x, training=True), y)
        scaler.scale(loss).backward()
        scaler.step(adam)
        before = scaler.get_scale()
        scaler.update()
        skips.append(scaler.get_scale() < before)

    return step, lambda: sum(skips) if scaler.is_enabled() else None


def _tfmp(model: keras.Model, dtype: torch.dtype, kind: str) -> tuple[Any, Any]:
    tfmp.plan(model, f"mixed_{str(dtype).removeprefix('torch.')}").apply()
    optimizer = tfmp.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
    weights = model.trainable_variables
    optimizer.build(weights)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, training=True), y)
        optimizer.scale_loss(loss).backward()
        with torch.no_grad():
            optimizer.apply([weight.value.grad for weight in weights], weights)

    return step, lambda: read_counters(optimizer).skipped_steps


STEPPERS = {"float32": _plain, "amp": _amp, "tfmp": _tfmp}


def timed(dtype: str, rounds: int) -> list[str]:
    """Milliseconds of every arm, and the ratios of `RATIOS`, as tables."""
    x, y = samples(STEPS)
    arms = {name: arm(name, dtype) for name in ABOUT}
    blocks = {name: lambda one=one: one.block(x, y) for name, one in arms.items()}
    for block in blocks.values():
        block()
    found = interleaved(blocks, rounds)
    rows = [line(("arm", "ms for a step")), line(("---", "---"))]
    rows += [line((ABOUT[name], f"{1e3 * found[name].median:.2f}")) for name in ABOUT]
    rows += ["", line(("ratio, paired", "median")), line(("---", "---"))]
    return rows + [
        line((f"{one} / {other}", f"{paired_ratio(found[one], found[other]):.2f}"))
        for one, other in RATIOS
    ]


def curves(dtype: str) -> list[str]:
    """The loss of every arm on held-out samples along a training, and its skipped steps."""
    x, y = samples(CURVE_STEPS + HELD_STEPS)
    held = slice(CURVE_STEPS * BATCH, None)
    parts = 3
    size = CURVE_STEPS // parts * BATCH
    head = [f"after {(1 + part) * size // BATCH} steps" for part in range(parts)]
    rows = [line(("arm", *head, "skipped steps")), line(["---"] * (parts + 2))]
    for name, about in ABOUT.items():
        one = arm(name, dtype)
        losses = []
        for part in range(parts):
            own = slice(part * size, (part + 1) * size)
            one.block(x[own], y[own])
            logits = one.model.predict(x[held], batch_size=BATCH, verbose=0)
            losses.append(_cross_entropy(logits, y[held]))
        skipped = one.skipped()
        told = "" if skipped is None else str(skipped)
        rows.append(line((about, *(f"{loss:.3f}" for loss in losses), told)))
    return rows


def _cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels))
    return float(loss)


def device() -> str:
    """The device that everything runs on, in words."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"a processor ({platform.machine()}, {torch.get_num_threads()} threads)"


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--dtype", choices=["float16", "bfloat16"], default="float16")
    given.add_argument("--rounds", type=int, default=7)
    given.add_argument("--write", action="store_true", help="write into docs/backends.md")
    options = given.parse_args()
    where = f"On {device()}, with {versions(['torch', 'keras', 'tfmp'])}, {options.dtype}."
    told = "\n".join([where, "", *timed(options.dtype, options.rounds), "", *curves(options.dtype)])
    print(told)
    if options.write:
        write_part(DOCS / "backends.md", "torch_amp.py", told)


if __name__ == "__main__":
    main()
