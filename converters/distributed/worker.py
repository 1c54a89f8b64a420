"""The work of a process of Ray's: models, opened once, and comparisons of single batches."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfmp.converters.samples import DataReport, SampleBatch
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.progress import SILENT

if TYPE_CHECKING:
    from tfmp.converters.comparison import Bench, CandidateFile, Plan
    from tfmp.converters.distributed.parcel import Files, Model
    from tfmp.converters.report import Evidence
    from tfmp.converters.shared.layout import Layout


@dataclass(frozen=True)
class Models:
    """Everything that a worker opens.

    Attributes:
        reference: the original.
        candidates: in the order of the report, each with its files, of which it is the first.
        plan: of the validation.
        layout: of the samples.
        baselines: the original as FP32 files, by format, where the drift is to be split; the text
            is why there is none.
    """

    reference: "Model"
    candidates: "tuple[tuple[CandidateFile, Files], ...]"
    plan: "Plan"
    layout: "Layout"
    baselines: Mapping[str, "Files | str"]


class BenchWorker:
    """A bench in a process of its own; it keeps nothing of a batch once that is answered."""

    def __init__(self, models: Models) -> None:
        """Opens nothing: an error in a constructor reaches the driver as a dead worker."""
        self._stack = ExitStack()
        self._models = models
        self._bench: Bench | None = None

    def open(self) -> int:
        """Opens the models, and gives the number of the process.

        Raises:
            InputError: this machine cannot run them as planned.
        """
        self._bench = self._bench or self._opened()
        return os.getpid()

    def _opened(self) -> "Bench":
        # As on the command line: TensorFlow traces, whatever backend this machine is set to.
        os.environ["KERAS_BACKEND"] = "tensorflow"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        from tfmp.converters.comparison import Bench
        from tfmp.converters.distributed.parcel import unpack, unpack_source
        from tfmp.converters.formats import format_of

        models = self._models
        folder = self._stack.enter_context(temporary_folder())
        source = unpack_source(models.reference, folder / "reference")
        files = []
        for number, (file, content) in enumerate(models.candidates):
            path = unpack(content, folder / str(number))
            files.append(replace(file, path=path, format=format_of(path)))
        baselines = {
            format: files if isinstance(files, str) else unpack(files, folder / format)
            for format, files in models.baselines.items()
        }
        placing = models.plan.place({file.format for file in files})
        return Bench(source, files, models.layout, models.plan, placing, self._stack, baselines)

    def compare(
        self, batch: tuple[SampleBatch, DataReport], label_kinds: Mapping[str, str] | None
    ) -> "tuple[Evidence, Mapping[str, str], int]":
        """Runs one batch.

        Args:
            batch: the samples, and the description of samples that the report is to carry.
            label_kinds: see `Bench.start_over`.

        Returns:
            The evidence of these samples alone, how their labels were read by output, and the
            number of the process.

        Raises:
            InputError: labels that fit no output.
        """
        process = self.open()  # again, where the process is a new one
        assert self._bench is not None
        samples, data = batch
        self._bench.start_over(label_kinds)
        self._bench.update(samples)
        return self._bench.evidence(data, SILENT), dict(self._bench.label_kinds), process

    def close(self) -> None:
        """Ends what it has opened and removes its folder; Ray's own end of a worker is a kill."""
        self._stack.close()
