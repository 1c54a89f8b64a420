"""The driver of a validation on Ray: reads samples once, hands them out, adds up the answers."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tfmp.converters.comparison import (
    CandidateFile,
    Compare,
    Plan,
    also_with_sizes,
    compare_here,
    make_baselines,
)
from tfmp.converters.distributed.cluster import (
    Staffing,
    connected,
    is_ending,
    staffing,
)
from tfmp.converters.distributed.parcel import Files, pack_file, pack_source
from tfmp.converters.distributed.worker import BenchWorker, Models
from tfmp.converters.formats import Format
from tfmp.converters.intake import AnySource
from tfmp.converters.report import Evidence, check_same_run, join
from tfmp.converters.samples import Reading, Samples
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.shared.layout import Layout
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.progress import Progress
from tfmp.shared.wording import first_line

# A Ray that others keep busy lets workers wait for ever; by now one would have started.
_START_S = 600.0

# A worker may be in the middle of a batch that nobody waits for any more.
_CLOSE_S = 2.0

# A batch that ends this many workers is to blame itself, and so are models.
_ATTEMPTS = 3

# Batches for each worker that are read ahead of the oldest unfinished one: this bounds memory.
_AHEAD = 4

# Answers that are added up at a time: adding goes faster so, and few are held.
_AT_ONCE = 32


@contextmanager
def comparing(plan: Plan, formats: Collection[Format]) -> Iterator[Compare]:
    """The comparison that a plan asks for, where it will run: found before anything is loaded.

    Args:
        plan: of the validation; a Ray that it names stays connected for the length of the block.
        formats: of the candidates.

    Raises:
        InputError: there is no such device or Ray, or it cannot run files of these formats.
    """
    if plan.ray is None:
        here = partial(compare_here, plan=plan, placing=plan.place(formats))
        yield also_with_sizes(here, plan.sizes)
        return
    with _comparing_on_ray(plan, formats) as compare:
        yield also_with_sizes(compare, plan.sizes)


@contextmanager
def _comparing_on_ray(plan: Plan, formats: Collection[Format]) -> Iterator[Compare]:
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
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        staff = staffing(nodes, plan.workers, plan.device, gpu_by_default)

        def compare(
            source: AnySource,
            files: Sequence[CandidateFile],
            samples: Samples,
            progress: Progress,
        ) -> Evidence:
            progress("sending the models to Ray")
            crew = Crew(ray, staff, _pack(source, files, samples.layout, plan))
            try:
                progress("loading the models on Ray's workers")
                crew.open()
                progress("comparing on Ray's workers")
                evidence = _compare(crew, files, samples, progress)
            finally:
                if not is_ending(str(plan.ray)):
                    crew.end()
            here = str(source.origin.path) if source.origin.path else None
            return replace(
                evidence,
                reference=replace(evidence.reference, path=here),
                environment={**evidence.environment, "ray": _described(ray, staff, crew)},
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
            (replace(file, profile=None), pack_file(file.path, file.format)) for file in files
        ),
        plan=plan,
        layout=layout,
        baselines=baselines,
    )


def _described(ray: Any, staff: Staffing, crew: "Crew") -> str:
    text = f"{ray.__version__}, {staff.text}"
    return f"{text}, {crew.replaced} replaced after they died" if crew.replaced else text


def _compare(
    crew: "Crew", files: Sequence[CandidateFile], samples: Samples, progress: Progress
) -> Evidence:
    """The evidence of all samples."""
    paths = {file.name: file.path for file in files}
    reading = samples.read()
    first: Evidence | None = None
    held: list[Evidence] = []
    for done, evidence in crew.answers(reading):
        first = first or evidence
        check_same_run(first, evidence, f"the report of samples up to {done}")
        held.append(_with_paths(evidence, paths))
        if len(held) > _AT_ONCE:
            held = [join(held, reading.description)]
        progress.count(done, samples.stream.samples)
    return join(held, reading.description)


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


class Crew:
    """Workers on Ray, which starts one that dies again, and gives it its batches again.

    A worker keeps nothing of a batch: its answer is complete, and is taken once. So no batch counts
    twice, whoever dies.
    """

    def __init__(self, ray: Any, staff: Staffing, models: Models) -> None:
        """Sends the models to Ray, and starts the workers.

        Args:
            ray: the module, connected.
            staff: the number of workers, and the share of each.
            models: for the workers to open.
        """
        self._ray, self._staff = ray, staff
        actor = ray.remote(
            num_cpus=staff.cpus,
            num_gpus=staff.gpus,
            max_restarts=-1,
            max_task_retries=_ATTEMPTS - 1,
        )(BenchWorker)
        sent = ray.put(models)
        self._workers = [actor.remote(sent) for _ in range(staff.workers)]
        self._processes: set[int] = set()

    @property
    def replaced(self) -> int:
        """How many workers died and were started again."""
        return max(0, len(self._processes) - len(self._workers))

    def open(self) -> None:
        """Waits until all workers hold the models.

        Raises:
            InputError: they do not start, or cannot run the models as planned.
        """
        tickets = [worker.open.remote() for worker in self._workers]
        for ticket in tickets:
            if not self._ray.wait([ticket], timeout=_START_S, fetch_local=False)[0]:
                free = self._ray.available_resources()
                raise InputError(
                    f"ray: {self._staff.text} have not started within {_START_S:g} s; free are "
                    f"{free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs. `ray status` "
                    "shows the other jobs on it; ask for fewer workers, or wait."
                )
            self._processes.add(self._answer(ticket, "loading the models"))

    def answers(self, reading: Reading) -> Iterator[tuple[int, Evidence]]:
        """The evidence of each batch in order, and the samples that were read up to its end.

        The first is in before the second batch is given: it decides how labels are read.
        """
        given: deque[tuple[int, Any]] = deque()
        label_kinds: Mapping[str, str] = {}

        def oldest() -> tuple[int, Evidence]:
            nonlocal label_kinds
            done, ticket = given.popleft()
            evidence, kinds, process = self._answer(ticket, f"the batch up to sample {done:,}")
            self._processes.add(process)
            label_kinds = label_kinds or kinds
            return done, evidence

        for count, batch in enumerate(reading):
            worker = self._workers[count % len(self._workers)]
            described = reading.description
            task = self._ray.put((batch, described))
            given.append((described.samples, worker.compare.remote(task, label_kinds)))
            if count == 0 or len(given) == _AHEAD * len(self._workers):
                yield oldest()
        while given:
            yield oldest()

    def _answer(self, ticket: Any, what: str) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(ticket)
        except errors.RayTaskError as error:
            if isinstance(error.cause, InputError | RunnerError):
                raise InputError(str(error.cause)) from error
            why: BaseException = error.cause or error
        except errors.RayError as error:  # its process, its machine, or the way there
            why = error
        raise InputError(
            f"ray: {what} failed on {_ATTEMPTS} workers in a row, the last with "
            f"{type(why).__name__}: {first_line(why).rstrip('.')[:300]}. Install the same tfmp on "
            "every machine; where memory is short, take fewer workers for each machine or smaller "
            "batches."
        ) from why

    def end(self) -> None:
        """Ends all workers, so that a Ray that goes on has its room back."""
        closed = [worker.close.remote() for worker in self._workers]
        self._ray.wait(closed, num_returns=len(closed), timeout=_CLOSE_S, fetch_local=False)
        for worker in self._workers:
            self._ray.kill(worker)
