"""Stage "training": Keras on JAX and on PyTorch, three models, every precision.

Each case is a process of its own that trains one model in one precision from the same weights on
the same batches: the loss at every twentieth step, skipped steps, seconds of a step for several
batch sizes, memory at the worst moment, and the kernels of some steps with their time on Tensor
Cores. `residual`, `transformer` and `lstm` build the models; `tfmp profile` takes them, too.
"""

import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from stage import Case

# Everything small, for a machine without a card.
SMALL = bool(os.environ.get("TFMP_GPU_SMALL"))

CLASSES, WORDS = 10, 512
_LENGTH = 8 if SMALL else 128
_SIDE = 8 if SMALL else 32
_BATCHES = (8, 16) if SMALL else (64, 256, 1024)
_STEPS, _EPOCH = (20, 10) if SMALL else (400, 20)
_ROUNDS, _TIMED = (3, 3) if SMALL else (10, 10)

# By arm: the policy, how mixed precision comes about, and whether float32 products run as TF32.
ARMS = {
    "tf32": ("float32", "", True),
    "float16-tfmp": ("mixed_float16", "tfmp", True),
    "float16-keras": ("mixed_float16", "keras", True),
    "bfloat16": ("mixed_bfloat16", "keras", True),
    "float32": ("float32", "", False),
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
    x = _rng().standard_normal((count, _SIDE, _SIDE, 3), dtype=np.float32)
    return x, _classes(x.reshape(count, -1))


def sentences(count: int = 4096) -> tuple[np.ndarray, np.ndarray]:
    """Ids whose class is that of the words in them."""
    x = _rng().integers(0, WORDS, (count, _LENGTH)).astype("int32")
    return x, _classes(np.eye(WORDS, dtype=np.float32)[x].sum(axis=1))


def sequences(count: int = 4096) -> tuple[np.ndarray, np.ndarray]:
    """Noise whose class is a linear function of its end."""
    x = _rng().standard_normal((count, _LENGTH, 64), dtype=np.float32)
    return x, _classes(x[:, -8:].reshape(count, -1))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


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
    found = {}
    # Every case takes about a minute, most of it compilation: what is compared most comes first.
    for arm, backend, model in itertools.product(ARMS, ("jax", "torch"), MODELS):
        environment = {
            "KERAS_BACKEND": backend,
            # Memory is measured: it must be taken as it is needed.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        found[f"{backend}/{model}/{arm}"] = Case(environment, fresh=True, limit_s=150.0)
    return found


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Trains one model in one precision."""
    import keras

    _, model_name, arm = name.split("/")
    policy, how, tf32 = ARMS[arm]
    build, data = MODELS[model_name]
    keras.utils.set_random_seed(0)
    if how == "keras":
        keras.config.set_dtype_policy(policy)
    with _tf32(tf32):
        model = build()
        x, y = data(_BATCHES[0] * 16)
        begin = time.perf_counter()
        losses, skipped = _curve(model, x, y, policy if how == "tfmp" else "")
        found = {
            "device": _device(),
            "weights": model.count_params(),
            "policies": sorted({layer.dtype_policy.name for layer in model.layers}),
            "optimizer": f"{type(model.optimizer).__module__.split('.')[0]}."
            f"{type(model.optimizer).__name__}",
            "loss": losses,
            "skipped_steps": skipped,
            "fit_s": time.perf_counter() - begin,
            "batches": {},
        }
        for size in _BATCHES:
            try:
                found["batches"][str(size)] = _timed(
                    model, data(size), profiled=size == _BATCHES[0]
                )
            except Exception as error:  # out of memory ends the batch size and no more
                found["batches"][str(size)] = {"error": f"{type(error).__name__}: {error}"[:200]}
    return found


def _curve(model: Any, x: np.ndarray, y: np.ndarray, policy: str) -> tuple[list, int | None]:
    """The mean loss of every epoch of a few steps, and the steps that were skipped."""
    import tfmp

    callbacks = [tfmp.MixedPrecision(policy=policy)] if policy else []
    size = _BATCHES[0]
    done = model.fit(
        x[: size * _EPOCH],
        y[: size * _EPOCH],
        batch_size=size,
        epochs=_STEPS // _EPOCH,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
    )
    steps = min(len(x), size * _EPOCH) // size * (_STEPS // _EPOCH)
    inner = getattr(model.optimizer, "inner_optimizer", None)
    taken = int(np.asarray(inner.iterations.value.tolist())) if inner is not None else None
    return [
        float(value) for value in done.history["loss"]
    ], None if taken is None else steps - taken


def _timed(model: Any, batch: tuple[np.ndarray, np.ndarray], profiled: bool) -> dict[str, Any]:
    """Seconds of a step, memory, and kernels."""
    import keras

    block = (_jax_block if keras.backend.backend() == "jax" else _torch_block)(model, batch)
    begin = time.perf_counter()
    block(1)
    first = time.perf_counter() - begin
    block(3)
    seconds = [block(_TIMED) / _TIMED for _ in range(_ROUNDS)]
    step = statistics.median(seconds)
    found = {
        "step_s": step,
        "fastest_s": min(seconds),
        "slowest_s": max(seconds),
        "samples_per_s": len(batch[0]) / step,
        "first_s": first,
        "peak_bytes": _peak_bytes(),
    }
    if profiled:
        found["kernels"] = _kernels(block)
    return found


def _jax_block(model: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[int], float]:
    """Takes steps as `fit` does, without the callbacks around them."""
    import jax

    step = model.train_function  # made by `fit`; compiles once for every batch size
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    # Copies: the step takes its state over, and the model's variables keep theirs.
    state: Any = tuple([variable.value.copy() for variable in group] for group in groups)
    batches: Iterable = itertools.repeat(jax.device_put(batch))

    def run(steps: int) -> float:
        nonlocal state
        start = time.perf_counter()
        for _ in range(steps):
            _, state = step(state, batches)
        jax.block_until_ready(state)
        return time.perf_counter() - start

    return run


def _torch_block(model: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[int], float]:
    import torch
    from keras.src.backend.torch.core import get_device

    step = model.train_function
    data = [tuple(torch.as_tensor(part, device=get_device()) for part in batch)]

    def run(steps: int) -> float:
        _synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            step(data)
        _synchronize()
        return time.perf_counter() - start

    return run


def _synchronize() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _tf32(on: bool) -> AbstractContextManager:
    import keras

    if keras.backend.backend() == "jax":
        import jax

        return jax.default_matmul_precision("tensorfloat32" if on else "highest")
    import torch

    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on
    return nullcontext()


def _device() -> str:
    import keras

    if keras.backend.backend() == "jax":
        import jax

        return str(jax.devices()[0].device_kind)
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _peak_bytes() -> int | None:
    """Memory at the worst moment so far, in the allocator's words; None on a CPU."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        stats = jax.devices()[0].memory_stats()
        return int(stats["peak_bytes_in_use"]) if stats else None
    import torch

    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else None


def _kernels(block: Callable[[int], float]) -> dict[str, Any]:
    """Kernels of three steps: how many, how long, and how much of it on Tensor Cores."""
    import keras

    spans = _jax_spans if keras.backend.backend() == "jax" else _torch_spans
    times = spans(block)
    on_cores = {name: spent for name, spent in times.items() if _uses_tensor_cores(name)}
    longest = sorted(times, key=lambda name: -times[name][1])[:12]
    return {
        "kernels": sum(count for count, _ in times.values()),
        "seconds": sum(spent for _, spent in times.values()),
        "tensor_core_kernels": sum(count for count, _ in on_cores.values()),
        "tensor_core_seconds": sum(spent for _, spent in on_cores.values()),
        "longest": [[name[:160], *times[name]] for name in longest],
    }


def _uses_tensor_cores(name: str) -> bool:
    from tfmp.profiling.kernels import uses_tensor_cores

    return uses_tensor_cores(name)


Spans = dict[str, tuple[int, float]]


def _jax_spans(block: Callable[[int], float]) -> Spans:
    """Runs and seconds of every kernel on the card, from the trace that JAX writes."""
    import jax

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            block(3)
        (trace,) = Path(folder).rglob("*.xplane.pb")
        planes = list(jax.profiler.ProfileData.from_file(str(trace)).planes)
        on_card = [plane for plane in planes if plane.name.startswith("/device:GPU")]
        return _summed(
            (event.name, event.duration_ns / 1e9)
            for plane in on_card
            for line in plane.lines
            if line.name.startswith("Stream")
            for event in line.events
        )


def _torch_spans(block: Callable[[int], float]) -> Spans:
    import torch
    from torch.profiler import ProfilerActivity, profile

    on_card = torch.cuda.is_available()
    activity = ProfilerActivity.CUDA if on_card else ProfilerActivity.CPU
    with tempfile.TemporaryDirectory() as folder:
        with profile(activities=[activity]) as recorded:
            block(3)
        trace = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    return _summed(
        (event["name"], event.get("dur", 0) / 1e6)
        for event in events
        if event.get("cat") == "kernel"
    )


def _summed(events: Iterable[tuple[str, float]]) -> Spans:
    found: Spans = {}
    for name, seconds in events:
        count, spent = found.get(name, (0, 0.0))
        found[name] = count + 1, spent + seconds
    return found
