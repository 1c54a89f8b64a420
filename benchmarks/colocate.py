"""Several trainings on one device: every way of `tfmp colocate` against one after another.

    python benchmarks/colocate.py [--rounds 5] [--steps 200] [--json FILE]

Three jobs at three precisions (float32, float64, 16 bits mixed) take the same number of steps in
every mode. A round has each mode once, in an order that rotates, so that drift of the machine hits
all alike; what is compared is the time of the steps within a round. Setting up is told apart: it is
once, and steps are many.
"""

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from scaffold import parser

ROWS = 1024

import keras
import numpy as np
from keras import layers

import tfmp
from tfmp.colocation.mode_names import IN_PROCESS, PROCESSES, SEQUENTIAL
from tfmp.colocation.modes import run_in_process
from tfmp.colocation.processes import run_in_processes
from tfmp.colocation.report import ModeResult
from tfmp.machine import devices
from tfmp.machine.measuring import bytes_text, seconds_text
from tfmp.shared.report_files import plain
from tfmp.shared.reporting import Table

RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((ROWS, 32)).astype("float32")


def tiny() -> keras.Model:
    """5,000 weights; a step is mostly the overhead of starting it."""
    hidden = [layers.Dense(64, activation="relu") for _ in range(2)]
    model = keras.Sequential([layers.Input((32,)), *hidden, layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@dataclass(frozen=True)
class Way:
    """One mode on one group of jobs.

    Attributes:
        mode: its name.
        steps_s: seconds of all jobs' steps, set-up apart: the median over rounds.
        speed: how many times as fast as one after another, in the same round: lowest, median and
            highest.
        setup_s: seconds until all jobs were set up: the median.
        memory: bytes at the worst moment: the largest.
    """

    mode: str
    steps_s: float
    speed: tuple[float, float, float]
    setup_s: float
    memory: int

    def cells(self) -> tuple[str, ...]:
        """For the table."""
        low, median, high = self.speed
        speeds = f"{median:.2f}x", f"{low:.2f}x to {high:.2f}x"
        setup, memory = seconds_text(self.setup_s), bytes_text(self.memory)
        return self.mode, seconds_text(self.steps_s), *speeds, setup, memory


def jobs_of(steps: int) -> list[tfmp.Job]:
    """Precisions side by side, with the 16 bits that this device computes in."""
    narrow = "mixed_float16" if devices.accelerators() else "mixed_bfloat16"
    data = FEATURES, RNG.integers(0, 10, ROWS)
    return [
        tfmp.Job(tiny, data, policy, steps + 1, name=policy)
        for policy in ("float32", "float64", narrow)
    ]


def taken(mode: str, jobs: Sequence[tfmp.Job]) -> ModeResult:
    """One run; raises if a job failed in it."""
    result = run_in_processes(jobs, False) if mode == PROCESSES else run_in_process(mode, jobs)
    if result.failed:
        raise SystemExit(f"{mode}: {result.failed[0].name}: {result.failed[0].error}")
    return result


def compared(jobs: Sequence[tfmp.Job], rounds: int, modes: Sequence[str]) -> list[Way]:
    """Every mode, in rounds whose order rotates."""
    taken(SEQUENTIAL, [replace(job, steps=2) for job in jobs])  # pays for what only the first does
    runs: dict[str, list[ModeResult]] = {mode: [] for mode in modes}
    order = list(modes)
    for _ in range(rounds):
        for mode in order:
            runs[mode].append(taken(mode, jobs))
        order = order[1:] + order[:1]
    return [way_of(mode, runs[mode], runs[SEQUENTIAL]) for mode in modes]


def way_of(mode: str, results: Sequence[ModeResult], alone: Sequence[ModeResult]) -> Way:
    """What the rounds of a mode show beside those of one job after another."""
    seconds, of_alone = (
        [max(job.finished_s for job in result.jobs) for result in group]
        for group in (results, alone)
    )
    speeds = sorted(one / other for one, other in zip(of_alone, seconds, strict=True))
    return Way(
        mode,
        statistics.median(seconds),
        (speeds[0], statistics.median(speeds), speeds[-1]),
        statistics.median(result.setup_s for result in results),
        max(result.memory.bytes if result.memory else 0 for result in results),
    )


def main() -> None:
    """Prints the table."""
    given = parser(__doc__)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--steps", type=int, default=200)
    given.add_argument("--json", metavar="FILE")
    options = given.parse_args()
    modes = [*IN_PROCESS, PROCESSES]
    device = devices.visible_devices()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{device}, {cores} cores; {keras.backend.backend()}, Keras {keras.__version__}")
    print(f"\n{options.steps} steps each, {options.rounds} rounds\n")
    ways = compared(jobs_of(options.steps), options.rounds, modes)
    heading = ("mode", "steps", "speed", "lowest to highest", "set-up", "memory")
    print(Table(heading, tuple(tuple(way.cells()) for way in ways)), flush=True)
    groups = {"tiny": {"ways": [asdict(way) for way in ways]}}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": plain(device), "cores": cores, "groups": groups}, file)


if __name__ == "__main__":
    main()
