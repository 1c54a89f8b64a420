"""Comparing on this machine: every batch through the reference and all candidates."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tfmp.converters.comparison.bench import Bench
from tfmp.converters.comparison.devices import Placing
from tfmp.converters.comparison.plan import Plan
from tfmp.converters.comparison.trials import CandidateFile
from tfmp.converters.intake import AnySource
from tfmp.converters.report import Evidence
from tfmp.converters.samples import Samples
from tfmp.shared.progress import Progress

# Measures how far candidate files are from a reference, on samples, wherever it runs.
Compare = Callable[[AnySource, Sequence[CandidateFile], Samples, Progress], Evidence]


def compare_here(
    source: AnySource,
    files: Sequence[CandidateFile],
    samples: Samples,
    plan: Plan,
    placing: Placing,
    progress: Progress,
) -> Evidence:
    """Measures how far candidates are from the reference.

    Args:
        source: the reference.
        files: the candidates.
        samples: read once.
        plan: what to measure.
        placing: what runs where.
        progress: told of the stages and of every batch.

    Raises:
        InputError: one of the samples or labels does not fit.
    """
    with ExitStack() as stack:
        progress("loading the candidates")
        bench = Bench(source, files, samples.layout, plan, placing, stack)
        progress("comparing")
        reading = samples.read()
        for batch in reading:
            bench.update(batch)
            progress.count(reading.description.samples, samples.count)
        if plan.latency:
            progress("timing calls")
            bench.measure_latency()
        return bench.evidence(reading.description, progress)
