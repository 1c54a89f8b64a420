"""Stage "training": Keras on JAX and on PyTorch, three models, every precision.

Each case is a process of its own that trains one model in one precision from the same weights on
the same batches, as `tfmp profile` does: the loss at every twentieth step, skipped steps, seconds
of a step for several batch sizes, memory at the worst moment, and the share of Tensor Cores in the
kernels of some steps. `residual`, `transformer` and `lstm` build the models; `tfmp profile` takes
them, too.
"""

import itertools
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from stage import Case

if TYPE_CHECKING:
    from tfmp.profiling.runs import TrainingRun

# Everything small, for a machine without a card.
SMALL = bool(os.environ.get("TFMP_GPU_SMALL"))

CLASSES, WORDS = 10, 512
_LENGTH = 8 if SMALL else 128
_SIDE = 8 if SMALL else 32
_BATCHES = (8, 16) if SMALL else (64, 1024)
_STEPS, _EPOCH = (20, 10) if SMALL else (200, 20)
_ROUNDS, _TIMED = (3, 3) if SMALL else (10, 5)

# By arm: the policy, and whether float32 products run as TF32.
ARMS = {
    "tf32": ("float32", True),
    "float16-tfmp": ("mixed_float16", True),
    "bfloat16": ("mixed_bfloat16", True),
    "float32": ("float32", False),
}


def residual() -> Any:
    """A residual network on images of 32 x 32."""
    import keras

    layers = keras.layers
    widths = (8, 16) if SMALL else (64, 128, 256)
    image = keras.Input((_SIDE, _SIDE, 3), name="image")
    hidden = layers.Conv2D(widths[0], 3, padding="same", use_bias=False)(image)
    for stage, width in enumerate(widths):
        for block in range(1 if SMALL else 2):
            strides = 2 if stage and not block else 1
            inner = hidden
            for step in range(2):
                inner = layers.ReLU()(layers.BatchNormalization()(inner))
                inner = layers.Conv2D(
                    width, 3, padding="same", use_bias=False, strides=strides if not step else 1
                )(inner)
            if strides > 1:
                hidden = layers.Conv2D(width, 1, strides=2, use_bias=False)(hidden)
            hidden = layers.Add()([hidden, inner])
    hidden = layers.GlobalAveragePooling2D()(layers.ReLU()(hidden))
    return _compiled(keras.Model(image, layers.Dense(CLASSES)(hidden), name="residual"))


def transformer() -> Any:
    """An encoder with pre-normalization over token ids."""
    import keras

    layers = keras.layers
    width, heads, blocks = (16, 2, 1) if SMALL else (512, 8, 4)
    ids = keras.Input((_LENGTH,), dtype="int32", name="ids")
    hidden = layers.Embedding(WORDS, width)(ids)
    for _ in range(blocks):
        normal = layers.LayerNormalization(epsilon=1e-5)(hidden)
        mixed = layers.MultiHeadAttention(heads, width // heads)(normal, normal)
        hidden = layers.Add()([hidden, mixed])
        normal = layers.LayerNormalization(epsilon=1e-5)(hidden)
        inner = layers.Dense(4 * width, activation="gelu")(normal)
        hidden = layers.Add()([hidden, layers.Dense(width)(inner)])
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-5)(hidden))
    return _compiled(keras.Model(ids, layers.Dense(CLASSES)(pooled), name="transformer"))


def lstm() -> Any:
    """Two LSTM layers over sequences of numbers."""
    import keras

    layers = keras.layers
    units = 8 if SMALL else 512
    model = keras.Sequential(
        [
            keras.Input((_LENGTH, 64), name="sequence"),
            layers.LSTM(units, return_sequences=True),
            layers.LSTM(units),
            layers.Dense(CLASSES),
        ],
        name="lstm",
    )
    return _compiled(model)


def _compiled(model: Any) -> Any:
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    return model


def images(count: int = 4096) -> tuple[np.ndarray, np.ndarray]:
    """Noise whose class is a linear function of it."""
    x = np.random.default_rng(0).standard_normal((count, _SIDE, _SIDE, 3), dtype=np.float32)
    return x, _classes(x.reshape(count, -1))


def sentences(count: int = 4096) -> tuple[np.ndarray, np.ndarray]:
    """Ids whose class is that of the words in them."""
    x = np.random.default_rng(0).integers(0, WORDS, (count, _LENGTH)).astype("int32")
    return x, _classes(np.eye(WORDS, dtype=np.float32)[x].sum(axis=1))


def sequences(count: int = 4096) -> tuple[np.ndarray, np.ndarray]:
    """Noise whose class is a linear function of its end."""
    x = np.random.default_rng(0).standard_normal((count, _LENGTH, 64), dtype=np.float32)
    return x, _classes(x[:, -8:].reshape(count, -1))


def _classes(features: np.ndarray) -> np.ndarray:
    teacher = np.random.default_rng(1).standard_normal((features.shape[1], CLASSES))
    return (features @ teacher).argmax(axis=1).astype("int32")


MODELS: dict[str, tuple[Callable[[], Any], Callable[[int], tuple[np.ndarray, np.ndarray]]]] = {
    "transformer": (transformer, sentences),
    "residual": (residual, images),
    "lstm": (lstm, sequences),
}


def cases(corpus: Path) -> dict[str, Case]:
    """Every arm and backend with every model."""
    # Every case takes about a minute, most of it compilation: what is compared most comes first.
    return {
        f"{backend}/{model}/{arm}": Case(
            # Memory is measured: it must be taken as it is needed.
            {"KERAS_BACKEND": backend, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
            fresh=True,
            limit_s=150.0,
        )
        for arm, backend, model in itertools.product(ARMS, ("jax", "torch"), MODELS)
    }


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Trains one model in one precision."""
    import keras

    from tfmp.machine import devices
    from tfmp.profiling.runs import TrainingRun, Variant
    from tfmp.shared.batches import whole_batches

    _, model_name, arm = name.split("/")
    build, data = MODELS[model_name]
    found: dict[str, Any] = {"device": str(devices.visible_devices()[0]), "batches": {}}
    for size in _BATCHES:
        first = size == _BATCHES[0]
        keras.utils.set_random_seed(0)
        try:
            batches = tuple(whole_batches(data(size * (_EPOCH if first else 1)), size))
            run = TrainingRun(build(), Variant(*ARMS[arm]), batches)
            told = {"first_s": run.warm_up()}
            if first:
                found |= _curve(run)
            found["batches"][str(size)] = told | _timed(run, size)
            if first:
                found["batches"][str(size)]["kernels"] = _kernels(run)
        except Exception as error:  # out of memory ends the batch size and no more
            if first:
                raise
            found["batches"][str(size)] = {"error": f"{type(error).__name__}: {error}"[:200]}
    return found


def _curve(run: "TrainingRun") -> dict[str, Any]:
    """The mean loss of every epoch of a few steps, and the steps that were skipped."""
    losses = []
    for _ in range(_STEPS // _EPOCH):
        run.run(_EPOCH)
        losses.append(run.mean_loss())
    return {
        "weights": run.model.count_params(),
        "policies": sorted({layer.dtype_policy.name for layer in run.model.layers}),
        "loss": losses,
        "skipped_steps": run.skipped_steps(),
    }


def _timed(run: "TrainingRun", size: int) -> dict[str, Any]:
    """Seconds of a step, and memory."""
    seconds = [run.run(_TIMED) / _TIMED for _ in range(_ROUNDS)]
    step = statistics.median(seconds)
    return {
        "step_s": step,
        "fastest_s": min(seconds),
        "slowest_s": max(seconds),
        "samples_per_s": size / step,
        "peak_bytes": run.memory().bytes,
    }


def _kernels(run: "TrainingRun") -> dict[str, float]:
    """Seconds of all kernels of three steps, and of those on Tensor Cores."""
    from tfmp.profiling.kernels import read_kernels, trace, uses_tensor_cores

    with tempfile.TemporaryDirectory() as folder:
        trace(lambda: run.run(3), Path(folder))
        spent = [
            (kernel.seconds, kernel.tensor_core) for kernel in read_kernels(Path(folder)) or ()
        ]
        for path in Path(folder).rglob("*.xplane.pb"):  # JAX reads its own trace without XProf
            import jax

            planes = jax.profiler.ProfileData.from_file(str(path)).planes
            spent = [
                (event.duration_ns / 1e9, uses_tensor_cores(event.name))
                for plane in planes
                if plane.name.startswith("/device:GPU")
                for line in plane.lines
                if line.name.startswith("Stream")
                for event in line.events
            ]
    return {
        "seconds": sum(seconds for seconds, _ in spent),
        "tensor_core_seconds": sum(seconds for seconds, on_cores in spent if on_cores),
    }
