"""Several trainings on one device: every way of `tfmp colocate` against one after another.

    python benchmarks/colocate.py [--rounds 5] [--steps 200] [--jobs tiny ...] [--json FILE]
    python benchmarks/colocate.py --crossover [--widths 32 256 1024] [--batches 8 64 512]

Groups of three jobs at three precisions (float32, float64, 16 bits mixed), and pairs of different
models, take the same number of steps in every mode. `--crossover` takes two equal jobs of each
width and batch instead, and names the fastest mode of each: where one after another wins, the jobs
fill the device. A round has each mode once, in an order that rotates, so that drift of the
machine hits all alike; what is compared is the time of the steps within a round. Setting up is told
apart: it is once, and steps are many. At the end stands what mode "auto" takes for training 20
times as long, by short runs of its own.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import tfmp
from tfmp.colocation.choice import compare
from tfmp.colocation.mode_names import IN_PROCESS, PROCESSES, SEQUENTIAL, STREAMS
from tfmp.colocation.modes import run_in_process
from tfmp.colocation.processes import run_in_processes
from tfmp.colocation.report import ModeResult
from tfmp.colocation.streams import stream_devices
from tfmp.machine import devices
from tfmp.machine.measuring import bytes_text, seconds_text
from tfmp.shared.wording import table

WAYS = (*IN_PROCESS, PROCESSES)
TRAINED_LONGER = 20

RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((1024, 32)).astype("float32")
IMAGES = RNG.standard_normal((256, 28, 28, 1)).astype("float32")
SERIES = RNG.standard_normal((256, 32, 8)).astype("float32")

# A mode that is faster by less is as fast as one job after another.
WORTHWHILE = 1.05


def tiny() -> keras.Model:
    """5,000 weights; a step is mostly the overhead of starting it."""
    layers = keras.layers
    hidden = [layers.Dense(64, activation="relu") for _ in range(2)]
    model = keras.Sequential([layers.Input((32,)), *hidden, layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def convolutional() -> keras.Model:
    """A small network on 28 x 28 images; a step fills a core or two."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def recurrent() -> keras.Model:
    """A small LSTM: many short kernels, one after another."""
    layers = keras.layers
    model = keras.Sequential([layers.Input((32, 8)), layers.LSTM(32), layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class Wide:
    """Builds a network with layers of one width."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self) -> keras.Model:
        layers = keras.layers
        hidden = [layers.Dense(self.width, activation="relu") for _ in range(3)]
        model = keras.Sequential([layers.Input((32,)), *hidden, layers.Dense(10)])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model


Model = tuple[Callable[[], keras.Model], np.ndarray]
TINY: Model = (tiny, FEATURES)
CONVOLUTIONAL: Model = (convolutional, IMAGES)
RECURRENT: Model = (recurrent, SERIES)

# One model comes in three precisions, of two each comes in its own.
GROUPS: dict[str, tuple[Model, ...]] = {
    "tiny": (TINY,),
    "convolutional": (CONVOLUTIONAL,),
    "tiny+convolutional": (TINY, CONVOLUTIONAL),
    "recurrent+convolutional": (RECURRENT, CONVOLUTIONAL),
}


@dataclass(frozen=True)
class Way:
    """One mode on one group of jobs.

    Attributes:
        mode: its name.
        steps_s: seconds of all jobs' steps, set-up apart: the median over rounds.
        speed: how many times as fast as one after another, in the same round: lowest, median and
            highest.
        slowdowns: of each job against running alone: medians.
        fairness: Jain's index of them.
        setup_s: seconds until all jobs were set up: the median.
        memory: bytes at the worst moment: the largest.
    """

    mode: str
    steps_s: float
    speed: tuple[float, float, float]
    slowdowns: tuple[float, ...]
    fairness: float
    setup_s: float
    memory: int


def jobs_of(group: str, steps: int) -> list[tfmp.Job]:
    """Precisions side by side, with the 16 bits that this device computes in."""
    narrow = "mixed_float16" if devices.accelerators() else "mixed_bfloat16"
    models = GROUPS[group]
    pairs = [(models[0], policy) for policy in ("float32", "float64", narrow)]
    if len(models) > 1:
        pairs = list(zip(models, (narrow, "float32"), strict=True))
    return [
        tfmp.Job(
            build,
            (x, RNG.integers(0, 10, len(x))),
            policy,
            steps + 1,
            name=policy if len(models) == 1 else f"{build.__name__} {policy}",
        )
        for (build, x), policy in pairs
    ]


def taken(mode: str, jobs: Sequence[tfmp.Job]) -> ModeResult:
    """One run; raises if a job failed in it."""
    run = run_in_processes if mode == "processes" else None
    result = run(jobs, False) if run else run_in_process(mode, jobs)
    if result.failed:
        raise SystemExit(f"{mode}: {result.failed[0].name}: {result.failed[0].error}")
    return result


def steps_seconds(result: ModeResult) -> float:
    return max(job.finished_s for job in result.jobs)


def compared(jobs: Sequence[tfmp.Job], rounds: int, ways: Sequence[str] = WAYS) -> list[Way]:
    """Every mode, in rounds whose order rotates."""
    taken(
        "sequential", [replace(job, steps=2) for job in jobs]
    )  # pays for what only the first does
    runs: dict[str, list[ModeResult]] = {mode: [] for mode in ways}
    order = list(ways)
    for _ in range(rounds):
        for mode in order:
            runs[mode].append(taken(mode, jobs))
        order = order[1:] + order[:1]
    return [way_of(mode, runs[mode], runs["sequential"]) for mode in ways]


def way_of(mode: str, results: Sequence[ModeResult], alone: Sequence[ModeResult]) -> Way:
    pairs = list(zip(results, alone, strict=True))
    speeds = sorted(steps_seconds(one) / steps_seconds(result) for result, one in pairs)
    judged = [compare(result, one) for result, one in pairs]
    slow = zip(*([job.slowdown or 0.0 for job in row.jobs] for row in judged), strict=True)
    return Way(
        mode,
        statistics.median(map(steps_seconds, results)),
        (speeds[0], statistics.median(speeds), speeds[-1]),
        tuple(statistics.median(values) for values in slow),
        statistics.median(row.fairness or 0.0 for row in judged),
        statistics.median(result.setup_s for result in results),
        max(result.memory.bytes if result.memory else 0 for result in results),
    )


def cells(ways: Sequence[Way]) -> list[tuple[str, ...]]:
    rows = [
        ("mode", "steps", "speed", "lowest to highest", "slow-down", "fairness", "set-up", "memory")
    ]
    for way in ways:
        low, median, high = way.speed
        rows.append(
            (
                way.mode,
                seconds_text(way.steps_s),
                f"{median:.2f}x",
                f"{low:.2f}x to {high:.2f}x",
                ", ".join(f"{slow:.2f}x" for slow in way.slowdowns),
                f"{way.fairness:.2f}",
                seconds_text(way.setup_s),
                bytes_text(way.memory),
            )
        )
    return rows


def chosen(jobs: Sequence[tfmp.Job]) -> dict:
    """The way that mode "auto" takes, which it also prints."""
    choice = tfmp.colocate(jobs, train=False)
    print(f"\nauto takes {choice.mode}: {choice.reason}", flush=True)
    for note in choice.notes:
        print(f"note: {note}")
    return {"mode": choice.mode, "reason": choice.reason, "notes": choice.notes}


def crossover(options: argparse.Namespace) -> list[dict]:
    """Two equal jobs of each width and batch, in every mode of one process."""
    narrow = "mixed_float16" if devices.accelerators() else "float32"
    found = []
    for width in options.widths:
        for batch in options.batches:
            data = FEATURES, RNG.integers(0, 10, len(FEATURES))
            one = tfmp.Job(
                Wide(width), data, narrow, options.steps + 1, name="one", batch_size=batch
            )
            jobs = [one, replace(one, name="two")]
            ways = compared(jobs, options.rounds, IN_PROCESS)
            found.append({"width": width, "batch": batch, "ways": [asdict(way) for way in ways]})
            print(f"width {width}, batch {batch}: {fastest(found[-1]['ways'])}", flush=True)
    return found


def fastest(ways: Sequence[dict]) -> str:
    """The fastest mode and its speed; one after another unless another is worth it."""
    best = max(ways, key=lambda way: way["speed"][1])
    if best["speed"][1] < WORTHWHILE:
        return SEQUENTIAL
    return f"{best['mode']} {best['speed'][1]:.2f}x"


def crossover_cells(found: Sequence[dict]) -> list[tuple[str, ...]]:
    """A row for each width, a column for each batch."""
    batches = sorted({cell["batch"] for cell in found})
    by_size = {(cell["width"], cell["batch"]): fastest(cell["ways"]) for cell in found}
    rows = [("width", *(f"batch {batch}" for batch in batches))]
    for width in sorted({cell["width"] for cell in found}):
        rows.append((str(width), *(by_size[width, batch] for batch in batches)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--jobs", nargs="+", choices=sorted(GROUPS), default=list(GROUPS))
    parser.add_argument("--without-auto", action="store_true", help="do not ask for auto's way")
    parser.add_argument("--crossover", action="store_true", help="two equal jobs of many sizes")
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 256, 1024])
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument(
        "--streams", action="store_true", help="with mode streams: it takes its devices at once"
    )
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.streams:
        stream_devices(3)
    device = devices.visible_devices()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{device}, {cores} cores; {keras.backend.backend()}, Keras {keras.__version__}")
    document = {"device": device.to_dict(), "cores": cores, "groups": {}, "crossover": []}
    if options.crossover:
        document["crossover"] = crossover(options)
        print(f"\n{table(crossover_cells(document['crossover']))}", flush=True)
    ways_of_all = (*WAYS, STREAMS) if options.streams else WAYS
    for group in () if options.crossover else options.jobs:
        jobs = jobs_of(group, options.steps)
        names = ", ".join(job.name for job in jobs)
        print(f"\n{group}: {names}; {options.steps} steps each, {options.rounds} rounds\n")
        ways = compared(jobs, options.rounds, ways_of_all)
        print(table(cells(ways)), flush=True)
        document["groups"][group] = {"ways": [asdict(way) for way in ways]}
        if not options.without_auto:
            longer = [replace(job, steps=TRAINED_LONGER * options.steps) for job in jobs]
            document["groups"][group]["auto"] = chosen(longer)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)


if __name__ == "__main__":
    main()
