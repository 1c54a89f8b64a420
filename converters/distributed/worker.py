"""The work of a process of Ray's: models, opened once, and comparisons of single batches."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfmp.converters.samples import DataReport, SampleBatch
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.progress import SILENT

if TYPE_CHECKING:
    from tfmp.converters.comparison import Bench, Plan
    from tfmp.converters.distributed.parcel import Files, Model
    from tfmp.converters.report import Evidence, FileNotes
    from tfmp.converters.shared.layout import Layout


@dataclass(frozen=True)
class PackedCandidate:
    """A candidate on its way to a worker.

    Attributes:
        name: the one that the report gives it.
        files: begin with the candidate itself.
        known: the findings of its conversion; None for a file that was not converted here.
    """

    name: str
    files: "Files"
    known: "FileNotes | None"


@dataclass(frozen=True)
class Models:
    """Everything that a worker opens.

    Attributes:
        reference: the original.
        candidates: in the order of the report.
        plan: of the validation.
        layout: of the samples.
        baselines: the original as FP32 files, by format, where the drift is to be split; the text
            is why there is none.
    """

    reference: "Model"
    candidates: tuple[PackedCandidate, ...]
    plan: "Plan"
    layout: "Layout"
    baselines: Mapping[str, "Files | str"]


@dataclass(frozen=True)
class Answer:
    """The result of one batch.

    Attributes:
        evidence: of these samples alone.
        label_kinds: how their labels were read, by output.
    """

    evidence: "Evidence"
    label_kinds: Mapping[str, str]


class BenchWorker:
    """A bench in a process of its own; it keeps nothing of a batch once that is answered."""

    def __init__(self) -> None:
        """Opens nothing: an error in a constructor reaches the driver as a dead worker."""
        self._stack = ExitStack()
        self._bench: Bench | None = None

    def open(self, models: Models) -> None:
        """Writes the models to a folder of its own and opens them.

        Raises:
            InputError: this machine cannot run them as planned.
        """
        # As on the command line: TensorFlow traces, whatever backend this machine is set to.
        os.environ["KERAS_BACKEND"] = "tensorflow"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        from tfmp.converters.comparison import Bench, CandidateFile
        from tfmp.converters.distributed.parcel import unpack, unpack_source
        from tfmp.converters.formats import format_of

        folder = self._stack.enter_context(temporary_folder())
        source = unpack_source(models.reference, folder / "reference")
        files = []
        for number, candidate in enumerate(models.candidates):
            path = unpack(candidate.files, folder / str(number))
            files.append(CandidateFile(candidate.name, path, format_of(path), candidate.known))
        baselines = {
            format: files if isinstance(files, str) else unpack(files, folder / format)
            for format, files in models.baselines.items()
        }
        placing = models.plan.place({file.format for file in files})
        self._bench = Bench(
            source, files, models.layout, models.plan, placing, self._stack, baselines
        )

    def compare(
        self, batch: tuple[SampleBatch, DataReport], label_kinds: Mapping[str, str] | None
    ) -> Answer:
        """Runs one batch.

        Args:
            batch: the samples, and the description of samples that the report is to carry.
            label_kinds: see `Bench.start_over`.

        Raises:
            InputError: labels that fit no output.
        """
        assert self._bench is not None
        samples, data = batch
        self._bench.start_over(label_kinds)
        self._bench.update(samples)
        return Answer(self._bench.evidence(data, SILENT), dict(self._bench.label_kinds))

    def close(self) -> None:
        """Ends what it has opened and removes its folder; Ray's own end of a worker is a kill."""
        self._stack.close()

    def identity(self) -> int:
        """The number of the process."""
        return os.getpid()
