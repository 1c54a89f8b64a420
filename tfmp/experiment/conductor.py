"""compare: runs every arm with every seed in a process of its own, and reports on them."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from pickle import PickleError
from textwrap import shorten
from typing import Any

from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.worker import Worker, WorkerError
from tfmp.experiment.arms import DEFAULT_ARMS, Arm, check_arms
from tfmp.experiment.loading import check_name
from tfmp.experiment.report import ExperimentReport
from tfmp.experiment.results import Folder, Run
from tfmp.experiment.tasks import Task
from tfmp.shared.arguments import check_count
from tfmp.shared.packages import installed_versions
from tfmp.shared.progress import OnCount, OnStage, listening
from tfmp.shared.report_files import check_folder
from tfmp.shared.wording import first_line, shown

_LAB = "tfmp.experiment.lab:Lab"
_PACKAGES = "tfmp keras tensorflow jax torch onnxruntime ai-edge-litert numpy".split()

# Characters of an error: Keras tells all arguments of a layer that fails.
_LONGEST_ERROR = 300

# Training of one arm may take so long.
_LONGEST_RUN_S = 24 * 3600.0


def compare(
    task: str | Task,
    arms: Sequence[str] = DEFAULT_ARMS,
    seeds: int = 3,
    *,
    folder: str | Path = "tfmp-compare",
    progress: OnStage = None,
    count: OnCount = None,
) -> ExperimentReport:
    """Trains, converts and compares one model in several precisions, all arms paired by seed.

    With each seed, all arms begin with the same weights and see the same batches in the same order.
    Every arm runs in a process apart from this one: a crash costs one run. Results and models are
    kept in `folder`, so that an interrupted experiment goes on where it was.

    Args:
        task: a name of `tfmp.experiment.TASKS`, FILE.py:function or package.module:function, whose
            function returns a `tfmp.Task`; or a `Task` whose functions can be pickled.
        arms: "float32", "mixed_float16", "mixed_bfloat16", "float16", "float16_scaled", and files
            such as "float32+onnx" or "mixed_float16+tflite". float32 is always run.
        seeds: number of seeds, from 0.
        folder: folder for results and models.
        progress: called with a short text when a run begins.
        count: called with the number of runs done and of all runs.

    Returns:
        The report; `report.save` writes it as .html, .json or .md.

    Raises:
        TypeError, ValueError: an argument or the task cannot be used.
    """
    chosen = check_arms(arms)
    check_count("seeds", seeds)
    if isinstance(task, str):
        check_name(task)
    elif not isinstance(task, Task):
        raise TypeError(f"task expects a tfmp.Task or a name, received {shown(task)}.")
    place = check_folder("folder", folder, make=False)
    with ExitStack() as stack:
        told = stack.enter_context(listening(progress, count))
        told("preparing the task")
        bench = stack.enter_context(closing(_Bench(task)))
        about = bench.describe()
        kept_runs = _kept(place, about)
        runs: list[Run] = []
        todo = [(arm, seed) for seed in range(seeds) for arm in chosen]
        for done, (arm, seed) in enumerate(todo):
            told.count(done, len(todo))
            run = kept_runs.load(arm.name, seed)
            if run is None:
                told(f"{arm.name}, seed {seed}")
                run = bench.run(arm, seed, kept_runs, runs)
                kept_runs.keep(run)
            runs.append(run)
        told.count(len(todo), len(todo))
    return ExperimentReport(
        task=about,
        arms=tuple(arm.name for arm in chosen),
        seeds=seeds,
        runs=tuple(runs),
        environment=installed_versions(_PACKAGES),
    )


def _kept(path: Path, about: dict[str, Any]) -> Folder:
    """The results that were made of the same task by the same packages."""
    decides = ("name", "epochs", "batch_size", "fingerprint", "backend", "device", "metric")
    return Folder(path, {name: about[name] for name in decides} | installed_versions(_PACKAGES))


class _Bench:
    """A process that trains, and one that makes files; a new one takes a dead one's place."""

    def __init__(self, task: str | Task) -> None:
        self._task = task
        self._workers: dict[bool, Worker] = {}

    def close(self) -> None:
        """Ends both."""
        for worker in self._workers.values():
            worker.close()

    def _worker(self, ships: bool = False) -> Worker:
        """Files are made from TensorFlow's graphs, whatever trained the model."""
        if ships not in self._workers:
            variables = {"KERAS_BACKEND": "tensorflow"} if ships else None
            self._workers[ships] = self._started(variables)
        return self._workers[ships]

    def _started(self, environment: dict[str, str] | None) -> Worker:
        task = self._task
        if isinstance(task, Task) and "__main__" in (task.build.__module__, task.metric.__module__):
            raise ValueError(
                "task expects functions of a module, which another process can import; received "
                "functions of the script or notebook itself. Write them to a file, and name the "
                "task as FILE.py:function."
            )
        try:
            return Worker(
                _LAB,
                task,
                label="experiment",
                timeout_s=_LONGEST_RUN_S,
                environment=environment,
            )
        except (AttributeError, TypeError, PickleError) as error:
            raise ValueError(
                f"task expects functions that can be sent to another process: {first_line(error)}. "
                "Define them at the top of a module, or name the task as FILE.py:function."
            ) from error

    def describe(self) -> dict[str, Any]:
        """See `Lab.describe`.

        Raises:
            ValueError: the task cannot be made.
        """
        try:
            return self._worker().call("describe")
        except WorkerError as error:
            reason = error.reason.removeprefix("ValueError: ").removeprefix("TypeError: ")
            raise ValueError(f"{reason}.") from error
        except RunnerError as error:
            raise ValueError(str(error)) from error

    def run(self, arm: Arm, seed: int, folder: Folder, runs: Sequence[Run]) -> Run:
        """Takes one run; a failure is a result, too."""
        model = folder.place(arm.training, seed, ".keras")
        try:
            if not arm.file:
                return self._worker().call("train", arm.name, seed, str(model))
            key = (arm.training, seed)
            trained = next((run for run in runs if (run.arm, run.seed) == key), None)
            if trained is None or not trained.usable:
                why = trained.error if trained else "it was not trained with this seed"
                why = why or "its predictions or their metric are not finite"
                return Run(arm.name, seed, error=f"{arm.training} has no model to convert: {why}")
            output = folder.place(arm.name, seed, "")
            return self._worker(ships=True).call("ship", arm.name, seed, str(model), str(output))
        except WorkerError as error:
            self._workers.pop(bool(arm.file)).close()
            return Run(arm.name, seed, error=shorten(error.reason, _LONGEST_ERROR))
        except (InputError, ConversionError, RunnerError) as error:
            return Run(arm.name, seed, error=first_line(error))
