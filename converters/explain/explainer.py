"""Explains one candidate: its worst samples, its layers, and the node to look at first."""

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from tfmp.converters.drift import Totals, drift_of, measure, merge
from tfmp.converters.explain.attribution import (
    Attribution,
    Values,
    first_nonfinite,
    largest_jump,
    worst_alone,
)
from tfmp.converters.explain.candidate import Candidate
from tfmp.converters.explain.samples import ROWS, Sample, SampleKeeper, batched
from tfmp.converters.explain.thumbnail import thumbnail
from tfmp.converters.report import Culprit, Explanation, LayerError, WorstSample
from tfmp.converters.shared.errors import ConversionError, RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.atomic_file import draft, making
from tfmp.shared.numerics import FLOAT16

NONFINITE = "first value that is not finite"
JUMP = "largest jump of the error"


class Explainer:
    """Keeps the samples that matter while the data streams by, and explains them in the end."""

    def __init__(
        self,
        open_candidate: Callable[[], Candidate] | str,
        inputs: dict[str, str],
        outputs: dict[str, str],
        folder: Path | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            open_candidate: opens the candidate; or the reason why no layers can be told.
            inputs: the candidate's input names by the reference's.
            outputs: the candidate's output names by the reference's.
            folder: folder for the smallest model that shows the error; None to save no model.
        """
        self._open = open_candidate
        self._inputs, self._outputs = inputs, outputs
        self._folder = folder
        self._keeper = SampleKeeper()

    def update(self, inputs: Batch, expected: Batch, received: Batch) -> None:
        """Sees one batch; all arrays are by the reference's names."""
        self._keeper.update(inputs, expected, received)

    def explanation(self, classes: Collection[str] = ()) -> Explanation:
        """The explanation; its `error` tells of a failure.

        Args:
            classes: names of outputs whose answer is the class with the highest score.
        """
        samples = self._keeper.worst()
        worst = tuple(
            WorstSample(
                sample.index, sample.error, thumbnail(sample.inputs), _answer(sample, classes)
            )
            for sample in samples
            if sample.error > 0
        )
        if isinstance(self._open, str):
            return Explanation(worst, notes=(self._open,))
        try:
            return self._attributed(worst, samples)
        except (RunnerError, ConversionError) as error:
            return Explanation(worst, error=str(error))
        except Exception as error:  # whatever a graph may hold, it must not cost the report
            return Explanation(worst, error=f"{type(error).__name__}: {error}")

    def _attributed(self, worst: tuple[WorstSample, ...], samples: list[Sample]) -> Explanation:
        assert not isinstance(self._open, str)
        candidate = self._open()
        layers, baseline = self._layers(candidate, samples)
        broken, jump = first_nonfinite(layers), largest_jump(layers)
        culprit = None
        if found := broken or jump:
            culprit = self._culprit(candidate, found, broken is not None, samples)
        return Explanation(
            worst=worst,
            samples=len(samples),
            computed=candidate.computed,
            baseline=baseline,
            layers=layers,
            first_nonfinite=culprit.layer if culprit and culprit.why == NONFINITE else None,
            largest_jump=jump.layer if jump else None,
            culprit=culprit,
            notes=candidate.notes,
            graph=candidate.graph,
        )

    def _layers(
        self, candidate: Candidate, samples: list[Sample]
    ) -> tuple[tuple[LayerError, ...], float | None]:
        """The errors of all layers, and the distance of their FP32 run from the reference."""
        taps = candidate.layers()
        attribution = Attribution(taps.parts)
        totals = {name: Totals() for name in self._outputs}
        together = min(ROWS, self._keeper.largest_batch)
        for inputs, expected, rows in batched(samples, candidate.batch_size, together):
            values = taps.run(self._named(inputs))
            attribution.update(values)
            for name, before in totals.items():
                exact = values.exact.get(candidate.outputs.get(self._outputs[name], ""))
                if exact is not None and exact[:rows].shape == expected[name].shape:
                    totals[name] = merge(before, measure(expected[name], exact[:rows]))
        drifts = [drift_of(name, found).rel_l2 for name, found in totals.items()]
        return attribution.layers(), max((d for d in drifts if d is not None), default=None)

    def _named(self, inputs: Batch) -> Batch:
        return {self._inputs[name]: array for name, array in inputs.items()}

    def _culprit(
        self, candidate: Candidate, layer: LayerError, broken: bool, samples: list[Sample]
    ) -> Culprit:
        """Looks inside the layer: a value that is lost there need not show in its results."""
        taps = candidate.nodes(layer.layer)
        whole = Attribution(taps.parts)
        each: list[tuple[Batch, tuple[LayerError, ...]]] = []
        for inputs, _, _ in batched(samples, candidate.batch_size, rows=1):
            fed = self._named(inputs)
            values = taps.run(fed)
            whole.update(values)
            one = Attribution(taps.parts)
            one.update(values)
            each.append((fed, one.layers()))
        nodes = whole.layers()
        why = NONFINITE if broken or first_nonfinite(nodes) else JUMP
        node = worst_alone(nodes)
        if node is None:
            return Culprit(layer.layer, why, nodes=nodes)
        # The sample that is saved: its script prints the numbers that are reported.
        number = nodes.index(node)
        alone = [(fed, parts[number]) for fed, parts in each]
        fed, worst = max(alone, key=lambda pair: (pair[1].local_nonfinite, pair[1].local))
        folder = self._save(candidate, node.layer, fed, taps.run(fed))
        return Culprit(
            layer=layer.layer,
            why=why,
            node=node.layer,
            op=candidate.op(node.layer),
            local=worst.local,
            local_nonfinite=worst.local_nonfinite,
            folder=str(folder) if folder is not None else None,
            nodes=nodes,
        )

    def _save(self, candidate: Candidate, node: str, inputs: Batch, values: Values) -> Path | None:
        if self._folder is None:
            return None
        with making(self._folder), draft(self._folder) as made:
            candidate.save_node(node, inputs, values, made)
            for file in made.iterdir():
                file.replace(self._folder / file.name)
        return self._folder


def harm_of(found: Explanation | None) -> tuple[str, ...]:
    """The first layer that FP16 makes infinite, or mostly zero, in words."""
    if found is None or (culprit := found.culprit) is None:
        return ()
    number = [layer.layer for layer in found.layers].index(culprit.layer)
    broken = culprit.why == NONFINITE
    for layer in found.layers[0 if broken else number : number + 1]:
        if layer.peak < FLOAT16.smallest_normal and 0.5 <= layer.local < np.inf:
            return (f"vanishes in FP16: layer {layer.layer!r}, up to {layer.peak:.3g}",)
    if not broken:
        return ()
    inside = [node for node in culprit.nodes if node.layer == culprit.node and node.local_nonfinite]
    place = inside[0] if inside else found.layers[number]
    if place.peak < FLOAT16.overflow_threshold:
        return (f"not finite in FP16: layer {culprit.layer!r} first",)
    return (f"overflows in FP16: layer {culprit.layer!r} reaches {place.peak:.3g}",)


def _answer(sample: Sample, classes: Collection[str]) -> str:
    """The classes, or the single numbers, that both sides answer for a sample."""
    answers = []
    for name, one in sample.expected.items():
        other = sample.received[name]
        if one.size == 1 and name not in classes:
            answers.append(f"{one.item():.4g}, candidate {other.item():.4g}")
        elif one.ndim == 1 and name in classes:
            ours, theirs = f"class {one.argmax()}", f"class {other.argmax()}"
            theirs = theirs if np.isfinite(other).all() else "no finite score"
            answers.append(f"{ours} in both" if ours == theirs else f"{ours}, candidate {theirs}")
    return "; ".join(answers)
