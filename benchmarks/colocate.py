"""Several trainings on one device: every way of `tfmp colocate` against one after another.

    python benchmarks/colocate.py [--rounds 5] [--steps 200] [--jobs tiny ...] [--json FILE]

Groups of three jobs at three precisions (float32, float64, 16 bits mixed), and pairs of different
models, take the same number of steps in every mode. A round has each mode once, in an order that
rotates, so that drift of the machine hits all alike; what is compared is the time of the steps
within a round. Setting up is told apart: it is once, and steps are many. At the end stands what
mode "auto" takes for training 20 times as long, by short runs of its own.
"""

import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from scaffold import parser

TRAINED_LONGER = 20

import keras
import numpy as np
from keras import layers

import tfmp
from tfmp.colocation.choice import compare
from tfmp.colocation.mode_names import IN_PROCESS, PROCESSES, STREAMS
from tfmp.colocation.modes import run_in_process
from tfmp.colocation.processes import run_in_processes
from tfmp.colocation.report import ModeResult
from tfmp.colocation.streams import streams_of
from tfmp.machine import devices
from tfmp.machine.measuring import bytes_text, seconds_text
from tfmp.shared.wording import table

WAYS = (*IN_PROCESS, PROCESSES)
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((1024, 32)).astype("float32")
IMAGES = RNG.standard_normal((256, 28, 28, 1)).astype("float32")
SERIES = RNG.standard_normal((256, 32, 8)).astype("float32")


def compiled(*hidden: keras.Layer) -> keras.Model:
    """A classifier of ten classes."""
    model = keras.Sequential([*hidden, layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def tiny() -> keras.Model:
    """5,000 weights; a step is mostly the overhead of starting it."""
    hidden = [layers.Dense(64, activation="relu") for _ in range(2)]
    return compiled(layers.Input((32,)), *hidden)


def convolutional() -> keras.Model:
    """A small network on 28 x 28 images; a step fills a core or two."""
    return compiled(
        layers.Input((28, 28, 1)),
        layers.Conv2D(16, 3, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
    )


def recurrent() -> keras.Model:
    """A small LSTM: many short kernels, one after another."""
    return compiled(layers.Input((32, 8)), layers.LSTM(32))


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


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--steps", type=int, default=200)
    given.add_argument("--jobs", nargs="+", choices=sorted(GROUPS), default=list(GROUPS))
    given.add_argument("--without-auto", action="store_true", help="do not ask for auto's way")
    given.add_argument(
        "--streams", action="store_true", help="with mode streams: it takes its devices at once"
    )
    given.add_argument("--json", metavar="FILE")
    options = given.parse_args()
    if options.streams:
        streams_of(3)
    device = devices.visible_devices()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{device}, {cores} cores; {keras.backend.backend()}, Keras {keras.__version__}")
    document = {"device": device.to_dict(), "cores": cores, "groups": {}}
    ways_of_all = (*WAYS, STREAMS) if options.streams else WAYS
    for group in options.jobs:
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
