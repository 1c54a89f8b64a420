"""The driver of a validation on Ray: reads samples once, hands them out, adds up the answers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfmp.converters.comparison import CandidateFile, Compare, Plan, make_baselines
from tfmp.converters.distributed.cluster import (
    Staffing,
    connected,
    is_ending,
    resources,
    staffing,
)
from tfmp.converters.distributed.dispatch import Dispatch, Lost
from tfmp.converters.distributed.parcel import Files, pack_file, pack_source
from tfmp.converters.distributed.worker import Answer, BenchWorker, Models, PackedCandidate
from tfmp.converters.formats import Format
from tfmp.converters.intake import AnySource
from tfmp.converters.report import Evidence, check_same_run, join
from tfmp.converters.samples import Reading, Samples
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.layout import Layout
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.progress import Progress
from tfmp.shared.wording import first_line

# A Ray that others keep busy lets workers wait for ever; by now one would have started.
_START_S = 600.0

# A worker may be in the middle of a batch that nobody waits for any more.
_CLOSE_S = 2.0

# Answers that are added up at a time: adding goes faster so, and few are held.
_AT_ONCE = 32


@dataclass(frozen=True)
class Task:
    """A batch on its way to a worker.

    Attributes:
        batch: Ray's reference to the samples and their description, which stay with the driver
            until an answer is in.
        done: samples read up to its end.
    """

    batch: Any
    done: int


@contextmanager
def comparing_on_ray(plan: Plan, formats: Collection[Format]) -> Iterator[Compare]:
    """A comparison by Ray's workers, with a Ray that is connected and has room for them.

    The batches are the same as here, every one is compared by a single worker, and what they say
    merges exactly: so does the evidence, wherever a batch ran and however often a worker died.

    Args:
        plan: of the validation, with the address of Ray.
        formats: of the candidates.

    Raises:
        InputError: there is no Ray, or it has no room. The comparison raises it where Ray's
            workers cannot run the models, or one of the samples or labels does not fit.
    """
    with connected(str(plan.ray), plan.workers) as ray:
        gpu_by_default = any(format.gpu_by_default for format in formats)
        staff = staffing(resources(ray), plan.workers, plan.device, gpu_by_default)

        def compare(
            source: AnySource,
            files: Sequence[CandidateFile],
            samples: Samples,
            progress: Progress,
        ) -> Evidence:
            progress("sending the models to Ray")
            paths = {file.name: file.path for file in files}
            crew = RayCrew(ray, staff, _pack(source, files, samples.layout, plan), paths)
            try:
                progress("loading the models on Ray's workers")
                evidence, replaced = _compare(crew, samples, progress)
            finally:
                if not is_ending(str(plan.ray)):
                    crew.dismiss_all()
            here = str(source.origin.path) if source.origin.path else None
            return replace(
                evidence,
                reference=replace(evidence.reference, path=here),
                environment={**evidence.environment, "ray": _described(ray, staff, replaced)},
            )

        yield compare


def _pack(source: AnySource, files: Sequence[CandidateFile], layout: Layout, plan: Plan) -> Models:
    baselines: dict[str, Files | str] = {}
    if plan.split:
        formats = {file.format.name: file.format for file in files}
        with temporary_folder() as folder:
            made = make_baselines(source, [formats[name] for name in sorted(formats)], folder)
            baselines = {
                name: file if isinstance(file, str) else pack_file(file, formats[name])
                for name, file in made.items()
            }
    return Models(
        reference=pack_source(source),
        candidates=tuple(
            PackedCandidate(file.name, pack_file(file.path, file.format), file.known)
            for file in files
        ),
        plan=plan,
        layout=layout,
        baselines=baselines,
    )


def _described(ray: Any, staff: Staffing, replaced: int) -> str:
    text = f"{ray.__version__}, {staff.text}"
    return f"{text}, {replaced} replaced after they died" if replaced else text


def _compare(crew: "RayCrew", samples: Samples, progress: Progress) -> tuple[Evidence, int]:
    """The evidence of all samples, and how many workers were replaced."""
    dispatch = Dispatch(crew)
    reading = samples.read()
    first: Evidence | None = None
    held: list[Evidence] = []
    for task, answer in dispatch.run(_tasks(crew, reading)):
        if first is None:
            progress("comparing on Ray's workers")
            first = answer.evidence
        check_same_run(first, answer.evidence, f"the report of samples up to {task.done}")
        held.append(_with_paths(answer.evidence, crew.paths))
        if len(held) > _AT_ONCE:
            held = [join(held, reading.description)]
        progress.count(task.done, samples.count)
    return join(held, reading.description), dispatch.replaced


def _with_paths(evidence: Evidence, paths: Mapping[str, Path]) -> Evidence:
    """Evidence of a worker, with the files where the driver has them."""
    candidates = []
    for candidate in evidence.candidates:
        there, here = str(candidate.path), str(paths[candidate.name])
        candidates.append(
            replace(
                candidate,
                path=here,
                error=candidate.error and candidate.error.replace(there, here),
                notes=tuple(note.replace(there, here) for note in candidate.notes),
            )
        )
    return replace(evidence, candidates=tuple(candidates))


def _tasks(crew: "RayCrew", reading: Reading) -> Iterator[Task]:
    for batch in reading:
        described = reading.description
        yield Task(crew.put((batch, described)), described.samples)


class RayCrew:
    """Workers on Ray; see `dispatch.Crew`."""

    def __init__(
        self, ray: Any, staff: Staffing, models: Models, paths: Mapping[str, Path]
    ) -> None:
        """Sends the models to Ray; starts nobody yet.

        Args:
            ray: the module, connected.
            staff: the number of workers, and the share of each.
            models: for the workers to open.
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
                "GPUs. `ray status` shows the other jobs on it; ask for fewer workers, or wait."
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
            raise Lost(_reason(cause or error)) from error
        except errors.RayError as error:  # its process, its machine, or the way there
            raise Lost(_reason(error)) from error
        if task is None:
            return None
        self._label_kinds = self._label_kinds or answer.label_kinds
        return task, answer

    def dismiss(self, worker: Any) -> None:
        self._ray.kill(worker)
        self._workers.remove(worker)

    def dismiss_all(self) -> None:
        """Ends all workers, so that a Ray that goes on has its room back."""
        closed = [worker.close.remote() for worker in self._workers]
        if closed:
            self._ray.wait(closed, num_returns=len(closed), timeout=_CLOSE_S, fetch_local=False)
        for worker in list(self._workers):
            self.dismiss(worker)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error).rstrip('.')}"[:300]
