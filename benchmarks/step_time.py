"""Step time of tfmp.LossScaleOptimizer against Keras's own, and on PyTorch against AMP's.

    python benchmarks/step_time.py [--copies 10] [--rounds 15] [--steps 30] [--write]

KERAS_BACKEND chooses the backend. Both optimizers train the same model on the same batch; on
PyTorch a plain loop with `torch.amp.GradScaler` and one with tfmp do, too. Every round times a
block of steps with each of them, in alternating order, so that drift of the machine hits all alike.
Where a compiled step happens to lie in memory moves its time by a few percent, so the models are
built again for each copy; what is reported is the geometric mean over copies, each the median over
rounds of the ratio within a round, with Student's 95 % interval over the copies. `--write` puts the
table of PyTorch into docs/backends.md.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial

from pages import table, write_part
from scaffold import DOCS, parser, versions

BATCHES = {"dense": (64, 64), "conv": (16, 16, 16, 3), "wide": (128, 64)}

import keras
import numpy as np
from scipy.stats import t

import tfmp
from tfmp.machine import devices, interleaved, measuring, paired_ratio
from tfmp.shared.backend import TensorTree, current_backend
from tfmp.shared.batches import TrainingBatch

# One training step; what it gives is ready when the step is.
Step = Callable[[], TensorTree]
Network = tuple[keras.Model, TrainingBatch]

JITS = {"tensorflow": (False, True), "jax": (True,), "torch": (False,)}
RATIOS = {"tfmp": "Keras", "Keras again": "Keras"}
LOOPS = {"loop with tfmp": "loop with AMP"}


def network(name: str) -> Network:
    """A small classifier, and a batch; the same each time."""
    keras.utils.set_random_seed(0)
    layers, shape = keras.layers, BATCHES[name]
    hidden: list[keras.Layer] = [layers.Dense(128, activation="relu") for _ in range(2)]
    if name == "wide":  # a step of a few milliseconds
        hidden = [layers.Dense(512, activation="relu") for _ in range(4)]
    elif name == "conv":
        hidden = [
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
        ]
    last = layers.Dense(10, dtype="float32")
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    y = np.random.default_rng(1).integers(0, 10, shape[0])
    return keras.Sequential([layers.Input(shape[1:]), *hidden, last]), TrainingBatch(x, y)


def fitted(name: str, wrap: type[keras.optimizers.Optimizer], jit: bool) -> Step:
    """The trainer's own step function, as `fit` calls it, without the callbacks around it."""
    with tfmp.policy_scope("mixed_float16"):
        model, batch = network(name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(wrap(keras.optimizers.Adam(1e-4)), loss, jit_compile=jit)
    model.train_on_batch(batch.x, batch.y)
    step, data, backend = model.train_function, batch.placed(), current_backend()
    if not backend.is_stateless:
        return lambda: step(backend.feed([data]))
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in group] for group in groups)

    def stateless() -> TensorTree:
        nonlocal state
        _, state = step(state, backend.feed([data]))
        return state

    return stateless


def looped(name: str, ours: bool) -> Step:
    """A step of a plain loop of PyTorch, with tfmp or with AMP."""
    import torch

    model, batch = network(name)
    x, y = batch.placed()
    if ours:
        tfmp.plan(model, "mixed_float16").apply()
        optimizer = tfmp.LossScaleOptimizer(keras.optimizers.Adam(1e-4))
        weights = model.trainable_variables
        optimizer.build(weights)
    else:
        adam = torch.optim.Adam(model.parameters(), 1e-4)
        scaler = torch.amp.GradScaler(x.device.type)

    def with_tfmp() -> None:
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, training=True), y)
        optimizer.scale_loss(loss).backward()
        with torch.no_grad():
            optimizer.apply([weight.value.grad for weight in weights], weights)

    def with_amp() -> None:
        adam.zero_grad()
        with torch.autocast(x.device.type, torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x, training=True), y)
        scaler.scale(loss).backward()
        scaler.step(adam)
        scaler.update()

    return with_tfmp if ours else with_amp


def arms(name: str, jit: bool) -> dict[str, Callable[[], Step]]:
    """What is timed, by name."""
    of_keras = partial(fitted, name, keras.optimizers.LossScaleOptimizer, jit)
    found: dict[str, Callable[[], Step]] = {
        "Keras": of_keras,
        "Keras again": of_keras,
        "tfmp": partial(fitted, name, tfmp.LossScaleOptimizer, jit),
    }
    if keras.backend.backend() == "torch":
        found |= {"loop with AMP": partial(looped, name, False)}
        found |= {"loop with tfmp": partial(looped, name, True)}
    return found


def block(step: Step, steps: int) -> float:
    """Seconds of so many steps."""
    # Of a processor its own seconds count, which other programs do not lengthen.
    now = time.perf_counter if devices.accelerators() else time.process_time
    start, last = now(), None
    for _ in range(steps):
        last = step()
    measuring.synchronize(last)
    return now() - start


def row(name: str, jit: bool, ratios: dict[str, str], copies: int, rounds: int, steps: int) -> list:
    """Milliseconds of a step with Keras and tfmp, and ratios with their intervals."""
    pairs: list[list[float]] = []
    milliseconds: list[list[float]] = []
    for copy in range(copies):
        keras.backend.clear_session()
        made = arms(name, jit)
        order = [*made][copy % len(made) :] + [*made][: copy % len(made)]
        blocks = {key: partial(block, made[key](), steps) for key in order}
        for warm_up in blocks.values():
            warm_up()
        found = interleaved(blocks, rounds)
        pairs.append([paired_ratio(found[one], found[other]) for one, other in ratios.items()])
        milliseconds.append([1e3 * found[key].median / steps for key in ("Keras", "tfmp")])
    times = (f"{one:.2f}" for one in np.median(milliseconds, axis=0))
    return [name, "XLA" if jit else "", *times, *map(interval, zip(*pairs, strict=True))]


def interval(ratios: Iterable[float]) -> str:
    """The geometric mean of ratios, and the ends of its 95 % confidence interval."""
    logs = np.log([*ratios])
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, middle, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    """Prints the table."""
    given = parser(__doc__)
    given.add_argument("--copies", type=int, default=10, help="times that each model is built")
    given.add_argument("--rounds", type=int, default=15, help="paired rounds per copy")
    given.add_argument("--steps", type=int, default=30, help="training steps per round")
    given.add_argument("--write", action="store_true", help="write into docs/backends.md")
    options = given.parse_args()
    if options.copies < 3:
        given.error(f"--copies must be 3 or more for an interval, received {options.copies}")
    backend = keras.backend.backend()
    ratios = RATIOS | (LOOPS if backend == "torch" else {})
    columns = ["model", "compiler", "Keras, ms", "tfmp, ms"]
    rows = [[*columns, *(f"{one} / {other}" for one, other in ratios.items())]]
    for name in BATCHES:
        for jit in JITS[backend]:
            sizes = options.copies, options.rounds, options.steps
            rows.append(row(name, jit, ratios, *sizes))
            print(*rows[-1], sep="  ", flush=True)
    where = devices.visible_devices()[0]
    told = f"mixed_float16 on {where}, with {versions([backend, 'keras', 'tfmp'])}."
    print(text := f"{told}\n\n{table(rows, words=2)}")
    if options.write:
        write_part(DOCS / "backends.md", "step_time.py", text)


if __name__ == "__main__":
    main()
