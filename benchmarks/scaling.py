"""One model on 1 to N replicas: strong and weak scaling in each precision, and one job a device.

    python benchmarks/scaling.py [--replicas 1 2 4] [--policies float32 ...] [--out scaling.md]

Weak scaling gives each replica a batch, strong scaling shares one batch out. Every number of
replicas is a process of its own, on as many GPUs, or on as many virtual processors where there is
no GPU: that is a rehearsal, because these share the same cores. TensorFlow trains under
MirroredStrategy, JAX (KERAS_BACKEND=jax) under Keras's DataParallel. "processes" trains one whole
job on each device at the same time, without any communication.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BACKEND = os.environ.setdefault("KERAS_BACKEND", "tensorflow")

STRONG, WEAK, APART = "strong", "weak", "processes"
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
FEATURES, WIDTH, CLASSES = 128, 512, 10


@dataclass(frozen=True)
class Row:
    """One precision on some replicas.

    Attributes:
        policy: the precision.
        scaling: "strong", "weak" or "processes".
        replicas: number of devices.
        batch: samples of a step, over all devices.
        step_s: seconds of a step, the median over epochs; of the slowest process.
        reduce_s: seconds of one sum of all gradients over the replicas, by itself.
        skipped: steps that the loss-scale optimizer did not apply.
        steps: all steps.
    """

    policy: str
    scaling: str
    replicas: int
    batch: int
    step_s: float
    reduce_s: float = 0.0
    skipped: int = 0
    steps: int = 0

    @property
    def samples_per_second(self) -> float:
        return self.batch / self.step_s

    @property
    def communication(self) -> float | None:
        """The sum of gradients as a share of the step; an overlap with other work is not seen."""
        return self.reduce_s / self.step_s if self.reduce_s else None

    def efficiency(self, one: "Row") -> float:
        """The throughput as a share of so many times the throughput of one replica."""
        return self.samples_per_second / (self.replicas * one.samples_per_second)


HEADING = (
    *("policy", "scaling", "replicas", "batch", "step", "samples/s"),
    *("efficiency", "communication", "skipped"),
)


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table: every row beside the row of one replica with the same precision and scaling."""
    ones = {(row.policy, row.scaling): row for row in rows if row.replicas == 1}
    found = [HEADING]
    for row in rows:
        one = ones.get((row.policy, row.scaling)) or ones.get((row.policy, WEAK))
        share = row.communication
        found.append(
            (
                row.policy,
                row.scaling,
                str(row.replicas),
                str(row.batch),
                f"{row.step_s * 1000:.2f} ms",
                f"{row.samples_per_second:,.0f}",
                "-" if one is None else f"{row.efficiency(one):.0%}",
                "-" if share is None else f"{share:.0%}",
                f"{row.skipped} of {row.steps}",
            )
        )
    return found


def markdown(rows: Sequence[Row], hardware: str, rehearsal: bool) -> str:
    heading, *body = cells(rows)
    lines = [hardware, ""]
    if rehearsal:
        lines += [
            "A rehearsal: virtual devices share the same cores, so that an efficiency below 100 % "
            "says nothing about a machine with as many devices.",
            "",
        ]
    lines += ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)]) + "\n"


# In a worker: everything that touches a framework.


def build() -> Any:
    """A classifier with 0.6 million weights."""
    import keras

    layers = keras.layers
    hidden = [layers.Dense(WIDTH, activation="relu") for _ in range(3)]
    model = keras.Sequential([layers.Input((FEATURES,)), *hidden, layers.Dense(CLASSES)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class Replicas:
    """So many devices that train one model: a scope to build it in, and a sum over them."""

    def __init__(self, count: int) -> None:
        self.count = count
        if BACKEND == "jax":
            import keras

            devices = keras.distribution.list_devices()[:count]
            if count > 1:
                keras.distribution.set_distribution(
                    keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
                )
            return
        import tensorflow as tf

        kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
        physical = tf.config.list_physical_devices(kind)
        if kind == "CPU":
            parts = [tf.config.LogicalDeviceConfiguration()] * count
            tf.config.set_logical_device_configuration(physical[0], parts)
        names = [f"/{kind.lower()}:{i}" for i in range(count)]
        self._strategy = tf.distribute.MirroredStrategy(names) if count > 1 else None

    def build(self) -> Any:
        if BACKEND == "jax" or self._strategy is None:
            return build()
        with self._strategy.scope():
            return build()

    def reduce_seconds(self, model: Any) -> float:
        """Seconds to sum tensors with the shapes of all gradients over the replicas."""
        if self.count == 1:
            return 0.0
        reduce = self._reduce_on_jax(model) if BACKEND == "jax" else self._reduce(model)
        reduce()
        times = []
        for _ in range(20):
            start = time.perf_counter()
            reduce()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def _reduce(self, model: Any) -> Any:
        import tensorflow as tf

        def in_replica() -> Any:
            context = tf.distribute.get_replica_context()
            values = [tf.convert_to_tensor(v.value) for v in model.trainable_variables]
            return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

        strategy = self._strategy
        compiled = tf.function(lambda: strategy.run(in_replica))

        def reduce() -> None:
            compiled()
            tf.test.experimental.sync_devices()

        return reduce

    def _reduce_on_jax(self, model: Any) -> Any:
        import jax
        from jax.sharding import Mesh, PartitionSpec

        mesh = Mesh(jax.devices()[: self.count], ("replica",))
        every = PartitionSpec("replica")
        values = [
            jax.device_put(
                jax.numpy.ones((self.count, *v.shape), v.dtype),
                jax.sharding.NamedSharding(mesh, every),
            )
            for v in model.trainable_variables
        ]

        def total(parts: Any) -> Any:
            return [jax.lax.psum(part, "replica") for part in parts]

        compiled = jax.jit(
            jax.shard_map(total, mesh=mesh, in_specs=every, out_specs=PartitionSpec())
        )
        return lambda: jax.block_until_ready(compiled(values))


def trained(
    replicas: Replicas, policy: str, batch: int, steps: int, epochs: int, ready: Any = None
) -> tuple[float, float, int]:
    """Seconds of a step, seconds of a sum of gradients, and skipped steps."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfmp
    from tfmp.loss_scaling import LossScaleOptimizer, read_counters

    class Clock(keras.callbacks.Callback):
        """Seconds of each epoch; the first one compiles."""

        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1 and ready is not None:
                ready()
            self._start = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seconds.append(time.perf_counter() - self._start)

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch * 4, FEATURES)).astype("float32")
    y = rng.integers(0, CLASSES, len(x))
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(batch, drop_remainder=True)
    model, clock = replicas.build(), Clock()
    model.fit(
        data.prefetch(2),
        epochs=epochs + 1,
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
        callbacks=[tfmp.MixedPrecision(policy), clock],
    )
    optimizer = model.optimizer
    scaled = isinstance(optimizer, LossScaleOptimizer)
    skipped = read_counters(optimizer).skipped_steps if scaled else 0
    step_s = statistics.median(clock.seconds[1:]) / steps
    return step_s, replicas.reduce_seconds(model), int(skipped)


def work(options: argparse.Namespace) -> None:
    """A worker: all precisions on one number of replicas, or one job of "processes"."""
    told = sys.stdout
    sys.stdout = sys.stderr  # libraries print

    def tell(content: object) -> None:
        told.write(json.dumps(content) + "\n")
        told.flush()

    def wait() -> None:
        tell("ready")
        sys.stdin.readline()

    count = options.worker
    replicas = Replicas(count)
    for policy in options.policies:
        for scaling in (APART,) if options.apart else (WEAK, STRONG):
            batch = options.batch * (count if scaling == WEAK else 1)
            sizes = (policy, batch, options.steps, options.epochs)
            ready = wait if options.apart else None
            step_s, reduce_s, skipped = trained(replicas, *sizes, ready=ready)
            taken = options.steps * (options.epochs + 1)
            tell(asdict(Row(policy, scaling, count, batch, step_s, reduce_s, skipped, taken)))


# In the process that the user starts: no framework has begun here.


def worker(options: argparse.Namespace, count: int, *more: str, card: int | None = None) -> Any:
    """Starts a worker."""
    environment = dict(os.environ)
    if card is not None:
        environment["CUDA_VISIBLE_DEVICES"] = str(card)
    elif not options.cards:
        flags = environment.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={count}".strip()
    sizes = ["--steps", options.steps, "--epochs", options.epochs, "--batch", options.batch]
    return subprocess.Popen(
        [
            *(sys.executable, __file__, "--worker", str(count), *map(str, sizes), *more),
            *("--policies", *options.policies),
        ],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answers(process: Any) -> Iterable[Any]:
    for line in process.stdout:
        yield json.loads(line)
    if process.wait():
        raise SystemExit(f"a worker ended with status {process.returncode}; its output is above")


def scaled(options: argparse.Namespace, count: int) -> list[Row]:
    """Strong and weak scaling on some replicas."""
    with worker(options, count) as process:
        return [Row(**answer) for answer in answers(process)]


def apart(options: argparse.Namespace, count: int) -> list[Row]:
    """One job on each device, all at the same time."""
    cards = range(count) if options.cards else [None] * count
    processes = [worker(options, 1, "--apart", card=card) for card in cards]
    streams = [iter(answers(process)) for process in processes]
    rows = []
    for _ in options.policies:
        assert all(next(stream) == "ready" for stream in streams)
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        rows.append(together([Row(**next(stream)) for stream in streams]))
    for stream in streams:
        assert next(stream, None) is None
    for process in processes:
        process.stdin.close()
        process.stdout.close()
    return rows


def together(rows: Sequence[Row]) -> Row:
    """Jobs side by side as one row: all their samples, in the time of the slowest."""
    return Row(
        rows[0].policy,
        rows[0].scaling,
        len(rows),
        sum(row.batch for row in rows),
        max(row.step_s for row in rows),
        skipped=sum(row.skipped for row in rows),
        steps=sum(row.steps for row in rows),
    )


def cards_there() -> list[str]:
    """The names of the GPUs that the backend sees; asked in a process that ends again."""
    code = "from tfmp.machine import accelerators as a; print('\\n'.join(map(str, a())))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def hardware(cards: Sequence[str]) -> str:
    """What this ran on, in a sentence."""
    from importlib.metadata import version

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    devices = ", ".join(cards) or f"CPU with {cores} cores ({platform.machine()})"
    return f"{devices}; {BACKEND} {version(BACKEND)}, Keras {version('keras')}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--batch", type=int, default=128, help="samples of one replica")
    parser.add_argument("--steps", type=int, default=20, help="steps of an epoch")
    parser.add_argument("--epochs", type=int, default=5, help="epochs that are timed")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table, as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    options.cards = cards_there()
    counts = sorted({1, *options.replicas})
    if options.cards:
        counts = [count for count in counts if count <= len(options.cards)]
    if any(options.batch % count for count in counts):
        parser.error(f"--batch {options.batch} cannot be shared out to {counts} replicas")
    rows: list[Row] = []
    for count in counts:
        print(f"{count} replicas ...", file=sys.stderr, flush=True)
        rows += scaled(options, count) + apart(options, count)
    order = {name: place for place, name in enumerate((WEAK, STRONG, APART))}
    rows.sort(key=lambda row: (options.policies.index(row.policy), order[row.scaling]))
    text = markdown(rows, hardware(options.cards), rehearsal=not options.cards)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
