"""The driver of a validation on Ray: reads samples once, hands them out, adds up the answers."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfmp.converters.comparison import Plan, make_baselines
from tfmp.converters.distributed.cluster import (
    Staffing,
    check_workers,
    connected,
    resources,
    staffing,
)
from tfmp.converters.distributed.dispatch import Dispatch, Lost
from tfmp.converters.distributed.parcel import Files, pack_file, pack_source
from tfmp.converters.distributed.worker import Answer, BenchWorker, Models
from tfmp.converters.intake import AnySource
from tfmp.converters.report import DriftReport, Findings, Progress, check_same_run, join
from tfmp.converters.samples import Dataset
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError

# A Ray that others keep busy lets workers wait for ever; by now one would have started.
_START_S = 600.0

# Answers that are added up at a time: adding goes faster so, and few are held.
_AT_ONCE = 32


@dataclass(frozen=True)
class Task:
    """A batch on its way to a worker.

    Attributes:
        batch: Ray's reference to its inputs and labels, which stay with the driver until an answer
            is in.
        done: samples read up to its end.
    """

    batch: Any
    done: int


def validate_on_ray(
    source: AnySource,
    files: Mapping[str, Path],
    findings: Sequence[Findings],
    dataset: Dataset,
    plan: Plan,
    address: str,
    workers: int | None,
    progress: Progress,
    count: Callable[[int, int | None], None],
) -> DriftReport:
    """What `validate` reports, computed by Ray's workers.

    The batches are the same, every one is compared by a single worker, and what they say merges
    exactly: so does the report, wherever a batch ran and however often a worker died over it.

    Raises:
        InputError: there is no Ray, it has no room, its workers cannot run the models, or one of
            the samples or labels does not fit.
    """
    check_workers(workers)
    progress("connecting to Ray")
    with connected(address, workers) as ray:
        onnx = any(path.suffix.lower() == ".onnx" for path in files.values())
        staff = staffing(resources(ray), workers, plan.device, onnx)
        progress("sending the models to Ray")
        models = _pack(source, files, findings, plan)
        crew = RayCrew(ray, staff, models, files)
        try:
            progress("loading the models on Ray's workers")
            report, replaced = _compare(crew, dataset, progress, count)
        finally:
            crew.dismiss_all()
    here = str(source.origin.path) if source.origin.path else None
    return replace(
        report,
        reference=replace(report.reference, path=here),
        environment={**report.environment, "ray": _described(ray, staff, replaced)},
    )


def _pack(
    source: AnySource, files: Mapping[str, Path], findings: Sequence[Findings], plan: Plan
) -> Models:
    baselines: dict[str, Files | str] = {}
    if plan.split:
        formats = {path.suffix.lower().removeprefix(".") for path in files.values()}
        with tempfile.TemporaryDirectory(prefix="tfmp-") as folder:
            made = make_baselines(source, sorted(formats), Path(folder))
            baselines = {
                format: file if isinstance(file, str) else pack_file(file)
                for format, file in made.items()
            }
    return Models(
        reference=pack_source(source),
        candidates={name: pack_file(path) for name, path in files.items()},
        findings=tuple(findings),
        plan=plan,
        baselines=baselines,
    )


def _described(ray: Any, staff: Staffing, replaced: int) -> str:
    text = f"{ray.__version__}, {staff.text}"
    return f"{text}, {replaced} replaced after they died" if replaced else text


def _compare(
    crew: "RayCrew",
    dataset: Dataset,
    progress: Progress,
    count: Callable[[int, int | None], None],
) -> tuple[DriftReport, int]:
    """The report on all samples, and how many workers were replaced."""
    dispatch = Dispatch(crew)
    first: DriftReport | None = None
    held: list[DriftReport] = []
    for task, answer in dispatch.run(_tasks(crew, dataset)):
        if first is None:
            progress("comparing on Ray's workers")
            first = answer.report
        check_same_run(first, answer.report, f"the report of samples up to {task.done}")
        held.append(_with_paths(answer.report, crew.paths))
        if len(held) > _AT_ONCE:
            held = [join(held, dataset.description)]
        count(task.done, dataset.samples)
    return join(held, dataset.description), dispatch.replaced


def _with_paths(report: DriftReport, paths: Mapping[str, Path]) -> DriftReport:
    """A worker's report, with the files where the driver has them."""
    candidates = []
    for candidate in report.candidates:
        there, here = str(candidate.path), str(paths[candidate.name])
        candidates.append(
            replace(
                candidate,
                path=here,
                error=candidate.error and candidate.error.replace(there, here),
                notes=tuple(note.replace(there, here) for note in candidate.notes),
            )
        )
    return replace(report, candidates=tuple(candidates))


def _tasks(crew: "RayCrew", dataset: Dataset) -> Iterator[Task]:
    for inputs, labels in dataset.batches():
        described = dataset.description
        yield Task(crew.put((inputs, labels, described)), described.samples)


class RayCrew:
    """Workers on Ray; see `dispatch.Crew`."""

    def __init__(
        self, ray: Any, staff: Staffing, models: Models, paths: Mapping[str, Path]
    ) -> None:
        """Sends the models to Ray; starts nobody yet.

        Args:
            ray: the module, connected.
            staff: how many workers, and what each is given.
            models: what they open.
            paths: of the candidates, by name.
        """
        self._ray = ray
        self.paths = paths
        self.size = staff.workers
        self._needs = staff.each
        self._actor = ray.remote(
            num_cpus=staff.cpus, num_gpus=staff.gpus, max_restarts=0, max_task_retries=0
        )(BenchWorker)
        self._models = ray.put(models)
        self._workers: list[Any] = []
        self._tasks: dict[Any, Task] = {}
        self._label_kinds: Mapping[str, str] = {}
        self._answered = False

    def put(self, batch: Any) -> Any:
        """Ray's reference to a batch."""
        return self._ray.put(batch)

    def hire(self) -> Any:
        worker = self._actor.remote()
        self._workers.append(worker)
        return worker

    def opened(self, worker: Any) -> Any:
        return worker.open.remote(self._models)

    def give(self, worker: Any, task: Task) -> Any:
        ticket = worker.compare.remote(task.batch, self._label_kinds)
        self._tasks[ticket] = task
        return ticket

    def next_done(self, tickets: list[Any]) -> Any:
        patience_s = None if self._answered else _START_S
        done, _ = self._ray.wait(tickets, num_returns=1, timeout=patience_s, fetch_local=False)
        if not done:
            free = self._ray.available_resources()
            raise InputError(
                f"ray: none of {self.size} workers with {self._needs} has started within "
                f"{_START_S:g} s; free are {free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} "
                "GPUs. See what else runs on it with `ray status`, ask for fewer workers, or wait."
            )
        self._answered = True
        return done[0]

    def result(self, ticket: Any) -> tuple[Task, Answer] | None:
        task = self._tasks.pop(ticket, None)
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(ticket)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, InputError | ConversionError | RunnerError):
                raise InputError(str(cause)) from error
            raise Lost(_first_line(cause or error)) from error
        except errors.RayError as error:  # its process, its machine, or the way there
            raise Lost(_first_line(error)) from error
        if task is None:
            return None
        self._label_kinds = self._label_kinds or answer.label_kinds
        return task, answer

    def dismiss(self, worker: Any) -> None:
        self._ray.kill(worker)
        self._workers.remove(worker)

    def dismiss_all(self) -> None:
        """Ends all workers, so that a Ray that goes on has its room back."""
        for worker in list(self._workers):
            self.dismiss(worker)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else 'no text'}"[:300]
