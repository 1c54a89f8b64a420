"""Comparing on this machine: every batch through the reference and all candidates."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tfmp.converters.comparison.bench import Bench
from tfmp.converters.comparison.devices import Placing
from tfmp.converters.comparison.plan import Plan
from tfmp.converters.comparison.trials import CandidateFile
from tfmp.converters.intake import AnySource
from tfmp.converters.report import Evidence
from tfmp.converters.samples import Samples, of_sizes, sizes_text
from tfmp.converters.shared.memory import free_graphs
from tfmp.shared.progress import Progress

# Measures how far candidate files are from a reference, on samples, wherever it runs.
Compare = Callable[[AnySource, Sequence[CandidateFile], Samples, Progress], Evidence]


def compare_here(
    source: AnySource,
    files: Sequence[CandidateFile],
    samples: Samples,
    progress: Progress,
    plan: Plan,
    placing: Placing,
) -> Evidence:
    """Measures how far candidates are from the reference.

    Args:
        source: the reference.
        files: the candidates.
        samples: read once.
        progress: told of the stages and of every batch.
        plan: what to measure.
        placing: what runs where.

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
            progress.count(reading.description.samples, samples.stream.samples)
        if plan.latency:
            progress("timing calls")
            bench.measure_latency()
        evidence = bench.evidence(reading.description, progress)
    free_graphs(max(candidate.size_bytes or 0 for candidate in evidence.candidates))
    return evidence


def also_with_sizes(compare: Compare, sizes: Sequence[Mapping[str, tuple[int, ...]]]) -> Compare:
    """A comparison that also judges each file on samples of other sizes, each by itself.

    Args:
        compare: the comparison on the data.
        sizes: see `Plan.sizes`.
    """

    def on_all(
        source: AnySource, files: Sequence[CandidateFile], samples: Samples, progress: Progress
    ) -> Evidence:
        made = {sizes_text(each): of_sizes(samples, each) for each in sizes}
        evidence = compare(source, files, samples, progress)
        found = list(evidence.candidates)
        for text, own in made.items():
            progress(f"comparing with {text}")
            named = [replace(file, name=f"{file.name} ({text}, synthetic)") for file in files]
            judged = compare(source, named, own, progress).candidates
            told = {note for each in found for note in each.notes}
            found += [
                replace(
                    each,
                    synthetic_sizes=text,
                    notes=tuple(note for note in each.notes if note not in told),
                )
                for each in judged
            ]
        return replace(evidence, candidates=tuple(found))

    return on_all
