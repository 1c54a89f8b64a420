"""Mixed precision: searches for the fewest FP32 nodes that keep a drift budget.

Every assignment that it tries is the file that would be written, on the emulator.

1. One instrumented run in float32 shows which nodes meet numbers that FP16 cannot hold. They are
   tried first: no other node is a cheaper place to fix an overflow.
2. If drift remains, segments of the graph are switched to FP32 in turn, the cheapest first, until
   one is enough. Rounding errors of different nodes are independent, so their squares add up: the
   share that a segment takes away is its contribution. As few segments as are needed are joined.
3. The search then leaves out parts of the joined nodes, the costliest half first, down to single
   nodes.

The cost counts the multiplications of FP32 nodes, the data that they move, and the casts around
them (`fp16.cost`): a node between FP32 nodes stays in FP32 if casts would cost more than it does.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from tfmp.converters.drift import Comparison, DriftBudget, Labels, OutputDrift
from tfmp.converters.drift.verdict import Check, Verdict, judge
from tfmp.converters.onnx.emulation import GPU, Assignments, Profile
from tfmp.converters.onnx.fp16 import ANY
from tfmp.converters.onnx.rewrites import scale_down
from tfmp.converters.shared.tensors import Batch, TensorSpec
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.progress import SILENT, Progress
from tfmp.shared.wording import counted

# Each is one pass over the data; what is left after the ranking goes into taking nodes away.
MAX_EVALUATIONS = 60
# The same in samples: 30 passes over 256 of them.
_MAX_SAMPLES = 30 * 256
_SEGMENTS = 16

# Rounding errors are as good as random: among many assignments near the limit some keep it only by
# chance, and not with another order of the same sums. So the search stops short of the limit.
_MARGIN = 0.9

# An assignment that is over a limit by this factor on the first batch is over it on all of them.
_FAR = 4.0

# Segments that only help together have no share of the drift that is worth a number.
_SHARE = 0.01


Compare = Callable[[Sequence[TensorSpec]], Comparison]


@dataclass(frozen=True)
class MixedSearch:
    """The result of the search.

    Attributes:
        islands: reasons by the names of the nodes to keep in FP32.
        met: whether the budget is met with them, on the samples of the search.
        before: drift of each output with every node in FP16.
        after: drift of each output with the islands.
        evaluations: number of passes over the samples, the instrumented one included.
        samples: number of samples of the search.
        kept_flops: share of the switchable nodes' multiplications that stays in FP32.
        casts: number of values that are needed in both precisions.
        casts_before: the same number with every node in FP16.
        narrow: names of the islands whose weights are stored in FP16.
        rewrites: a sentence for each product that was scaled down.
    """

    islands: dict[str, str]
    met: bool
    before: tuple[OutputDrift, ...]
    after: tuple[OutputDrift, ...]
    evaluations: int
    samples: int
    kept_flops: float
    casts: int = 0
    casts_before: int = 0
    narrow: frozenset[str] = frozenset()
    rewrites: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """Facts that a user should know, one sentence each."""
        kept, added = len(self.islands), self.casts - self.casts_before
        found = (
            f"mixed precision: {counted(kept, 'node')} ({self.kept_flops:.1%} of the "
            f"multiplications) {'stays' if kept == 1 else 'stay'} in FP32, with "
            f"{counted(abs(added), 'cast')} {'fewer' if added < 0 else 'more'}{self._stored()}; "
            f"worst rel_l2 {_worst(self.before):.2g} -> "
            f"{_worst(self.after):.2g}, found in {self.evaluations} evaluations of "
            f"{self.samples} samples"
        )
        if self.met:
            return [found]
        return [
            found,
            "mixed precision: no assignment that was tried meets the budget; this is the closest. "
            "The rest of the drift comes from nodes that always compute in FP16, or needs a larger "
            "budget",
        ]

    def _stored(self) -> str:
        return f", {len(self.narrow)} with their weights stored in FP16" if self.narrow else ""


def _worst(outputs: Sequence[OutputDrift]) -> float:
    return max((output.rel_l2 or 0.0 for output in outputs), default=0.0)


def find_islands(
    model: ir.Model,
    samples: Sequence[tuple[Batch, Labels | None]],
    budget: DriftBudget,
    keep_fp32: Sequence[str] = (),
    progress: Progress = SILENT,
    target: str = ANY,
    profile: Profile = GPU,
    compare: Compare | None = None,
    edges: Batch | None = None,
) -> MixedSearch:
    """Searches for the nodes to keep in FP32.

    Args:
        model: a float32 model, prepared by `fp16.prepare`, with nodes named by `name_nodes`;
            products that overflow are scaled down in it where that changes no result.
        samples: inputs to measure drift on, and their labels.
        budget: the limits; a measured rate counts here without its statistical proof, and a check
            that fails counts, too.
        keep_fp32: see `rules.decide`.
        progress: told of the stages.
        target: see `rules.decide`.
        profile: FP16 hardware on which the budget is to be met.
        compare: a comparison with outputs of these signatures; None for one of the model's
            outputs that knows nothing of what they mean.
        edges: see `rules.decide`.
    """
    progress("mixed precision: looking at ranges")
    assignments = Assignments(model, keep_fp32, target, edges, profile)
    trial = _Trial(assignments, samples, budget, compare)
    scaled = scale_down(model, trial.results, keep_fp32) if trial.unfit else []
    if scaled:
        options = target, profile, compare, edges
        again = find_islands(model, samples, budget, keep_fp32, progress, *options)
        return replace(again, rewrites=(*scaled, *again.rewrites))
    found = _search(trial, progress)
    narrow = _narrow(trial, found)
    return MixedSearch(
        islands=found,
        met=trial.excess(found, narrow) <= 1,
        before=trial.drift(()),
        after=trial.drift(found, narrow),
        evaluations=trial.evaluations,
        samples=trial.samples,
        kept_flops=trial.costs.share(found),
        casts=trial.costs.casts(found),
        casts_before=trial.costs.casts(()),
        narrow=narrow,
    )


class _Trial:
    """The measurements of assignments, and the excess of each over the budget."""

    def __init__(
        self,
        assignments: Assignments,
        samples: Sequence[tuple[Batch, Labels | None]],
        budget: DriftBudget,
        compare: Compare | None,
    ) -> None:
        self._budget = budget
        self._batches = [batch for batch, _ in samples]
        self._labels = [labels for _, labels in samples]
        self._files, self.costs = assignments, assignments.costs
        self.nodes, self.storing = assignments.nodes, assignments.storing
        specs = assignments.specs
        self._comparison = compare(specs) if compare else Comparison("the search", specs, specs)
        self.samples = sum(map(_rows, self._batches))
        self.evaluations, self._run = 0, 0  # and the samples that they ran
        self._measured: dict[
            tuple[frozenset[str], frozenset[str]], tuple[tuple[OutputDrift, ...], float, bool]
        ] = {}
        self.unfit: dict[str, str] = {}
        self.results: dict[str, float] = {}
        self._references = list(self._instrumented())
        # What the float32 outputs themselves leave open is no matter of precision.
        self._open: dict[tuple[str, str], float] = {}
        for check in self._judged(iter(self._references), 0, len(self._batches))[1]:
            known = self._open.get(_question(check), 0.0)
            self._open[_question(check)] = max(known, _check_excess(check))

    def _instrumented(self) -> Iterator[Batch]:
        """The float32 run: reference outputs, ranges and sizes of every value."""
        self.evaluations += 1
        values = {str(v.name): v for found in self._files.values.values() for v in found}
        peaks = dict.fromkeys(values, 0.0)
        lost = dict.fromkeys(values, True)
        sizes: dict[ir.Value, int] = {}
        outputs = self._files.outputs
        wanted = list(dict.fromkeys([*outputs, *values]))
        for batch in self._batches:
            arrays = self._files.exact(batch, wanted)
            sizes |= {v: batch[str(v.name)].size for v in self._files.inputs if v.name in batch}
            for name, value in values.items():
                magnitude = np.abs(arrays[name])
                finite = magnitude[np.isfinite(magnitude)]
                peaks[name] = max(peaks[name], float(np.max(finite, initial=0.0)))
                held = bool(np.any(finite > FLOAT16.smallest_subnormal / 2)) or not finite.any()
                lost[name] = lost[name] and not held
                sizes[value] = magnitude.size
            yield {name: arrays[name] for name in outputs}
        self.costs.measure(sizes)
        for node, found in self._files.values.items():
            names = [str(value.name) for value in found]
            self.results[node] = peaks[names[-1]] if names else 0.0
            peak = max((peaks[name] for name in names), default=0.0)
            if peak >= FLOAT16.overflow_threshold:
                self.unfit[node] = f"reaches {peak:.3g} on the data, past FP16's {FLOAT16.max:.0f}"
            elif any(lost[name] for name in names):
                self.unfit[node] = "works on numbers that all become zero in FP16"

    def drift(
        self, fp32: Sequence[str] | dict[str, str], narrow: frozenset[str] = frozenset()
    ) -> tuple[OutputDrift, ...]:
        """The drift with these nodes in FP32, measured once."""
        return self._found(fp32, narrow, whole=True)[0]

    def excess(
        self, fp32: Sequence[str] | dict[str, str], narrow: frozenset[str] = frozenset()
    ) -> float:
        """The largest measured drift as a multiple of its limit; infinite for lost values.

        Args:
            fp32: names of the nodes in FP32.
            narrow: names of those whose weights are stored in FP16.
        """
        return self._found(fp32, narrow)[1]

    def _found(
        self, fp32: Sequence[str] | dict[str, str], narrow: frozenset[str], whole: bool = False
    ) -> tuple[tuple[OutputDrift, ...], float]:
        """The drift and the excess of an assignment.

        One that is far over the limit on the first batch is not looked at on the others, unless the
        `whole` of it is asked for.
        """
        kept = frozenset(fp32)
        key = kept, narrow
        known = self._measured.get(key)
        if known is None or (whole and not known[2]):
            self.evaluations += known is None
            names, file = self._files.outputs, self._files.file(kept, narrow)
            found_in = (file.run(names, batch) for batch in self._batches)
            runs = (dict(zip(names, arrays, strict=True)) for arrays in found_in)
            self._comparison.start_over(self._comparison.label_kinds or None)
            found = self._measure(runs, 0, 1)
            complete = whole or len(self._batches) == 1 or found[1] <= _FAR
            if complete and len(self._batches) > 1:
                found = self._measure(runs, 1, len(self._batches))
            self._measured[key] = known = (*found, complete)
        return known[:2]

    def _measure(
        self, candidates: Iterator[Batch], first: int, last: int
    ) -> tuple[tuple[OutputDrift, ...], float]:
        """The drift and the excess after some more batches."""
        outputs, checks = self._judged(candidates, first, last)
        over = [self._output_excess(output) for output in outputs]
        for check in checks:
            excess = _check_excess(check)
            over += [excess] if excess > self._open.get(_question(check), 0.0) else []
        return outputs, max(over, default=0.0)

    def _judged(
        self, candidates: Iterator[Batch], first: int, last: int
    ) -> tuple[tuple[OutputDrift, ...], tuple[Check, ...]]:
        """The drift of a candidate's outputs after some more batches, and the checks of it."""
        for index in range(first, last):
            rows = _rows(self._batches[index])
            self._run += rows
            start = sum(map(_rows, self._batches[:index]))
            keys = np.arange(start, start + rows, dtype=np.uint64)
            labels, expected = self._labels[index], self._references[index]
            self._comparison.update(expected, next(candidates), labels, keys)
        outputs, labels_of = self._comparison.outputs(), self._comparison.labels()
        # A metric that needs all samples at once takes a bootstrap, which is too long for a search.
        quick = [label for label in labels_of if not label.totals.kept.nbytes]
        return outputs, judge(outputs, quick, self._budget).checks

    def _output_excess(self, output: OutputDrift) -> float:
        if output.nonfinite or output.infinite_lost or output.saturated or output.collapsed:
            return math.inf
        budget = self._budget.for_output(output.name)
        limits = (output.rel_l2, budget.rel_l2), (output.max_abs, budget.max_abs)
        return max(
            (
                _ratio(measured, limit)
                for measured, limit in limits
                if measured is not None and limit is not None
            ),
            default=0.0,
        )

    def meets(self, fp32: Sequence[str] | dict[str, str]) -> bool:
        """Whether this assignment keeps the budget."""
        return self.excess(fp32) <= 1

    def left(self) -> int:
        """Evaluations that may still be spent."""
        passes = (_MAX_SAMPLES - self._run) // max(self.samples, 1)
        return min(MAX_EVALUATIONS - self.evaluations, passes)


def _rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _question(check: Check) -> tuple[str, str]:
    return check.name, check.output


# Of a check that does not pass whatever its number is.
_UNMET = 2.0


def _check_excess(check: Check) -> float:
    """A check's number as a multiple of its limit; 0 for one that passes."""
    if check.verdict is Verdict.PASS:
        return 0.0
    ratio = 0.0
    if check.measured is not None and check.limit is not None:
        ratio = _ratio(check.measured, check.limit)
    thin = check.verdict is Verdict.INCONCLUSIVE and check.p is not None  # more samples decide
    return ratio if ratio > 1 or thin else _UNMET


def _ratio(measured: float, limit: float) -> float:
    if measured == 0:
        return 0.0
    return measured / limit if limit > 0 and math.isfinite(measured) else math.inf


def _search(trial: _Trial, progress: Progress) -> dict[str, str]:
    if trial.meets(()):
        return {}
    found = dict(trial.unfit)
    if not found or not trial.meets(found):
        progress("mixed precision: ranking nodes by their share of the drift")
        found = _add_segments(trial, found)
    if trial.meets(found):
        progress("mixed precision: leaving out nodes that are not needed")
        found = _shrink(trial, found)
    return found


def _narrow(trial: _Trial, found: dict[str, str]) -> frozenset[str]:
    """The islands whose weights lose nothing that the budget sees where they are stored in FP16.

    All of them, or else those that are there for the range of their values.
    """
    limit = max(_MARGIN, trial.excess(found))
    storing = frozenset(trial.storing.intersection(found))
    for narrow in (storing, storing.intersection(trial.unfit)):
        if not narrow or trial.excess(found, narrow) <= limit:
            return narrow
    return frozenset()


def _add_segments(trial: _Trial, base: dict[str, str]) -> dict[str, str]:
    """Joins segments to `base`, those with the largest contribution first, until it is enough."""
    rest = [node for node in trial.nodes if node not in base]
    if not rest:
        return base
    count = min(_SEGMENTS, len(rest))
    segments = [list(part) for part in np.array_split(np.array(rest, dtype=object), count)]
    start = trial.excess(base)
    gains = [0.0] * count

    def with_parts(chosen: Iterable[int]) -> dict[str, str]:
        found = dict(base)
        for index in chosen:
            known = math.isfinite(start) and gains[index] >= _SHARE
            share = f", {gains[index]:.0%} of the drift" if known else ""
            reason = f"in the part of the graph whose rounding matters most{share}"
            found |= dict.fromkeys(segments[index], reason)
        return found

    prices = [trial.costs.total([*base, *segment]) for segment in segments]
    for index in sorted(range(count), key=prices.__getitem__):
        excess = trial.excess([*base, *segments[index]])
        gains[index] = _gain(start, excess)
        if excess <= _MARGIN:  # enough, and the segments that are left cost more
            return with_parts([index])
    alone = trial.costs.total(base)

    def worth(index: int) -> tuple[bool, float]:
        # Next to FP32 parts a segment may save casts; what does not help comes last.
        return gains[index] > 0, gains[index] / max(prices[index] - alone, 1.0)

    order = sorted(range(count), key=worth, reverse=True)

    def joined(number: int) -> dict[str, str]:
        return with_parts(order[:number])

    low, high = 0, count
    if trial.excess(joined(count)) > _MARGIN:
        return min((joined(n) for n in (0, count // 2, count)), key=trial.excess)
    while high - low > 1:
        middle = (low + high) // 2
        if trial.excess(joined(middle)) <= _MARGIN:
            high = middle
        else:
            low = middle
    return joined(high)


def _gain(before: float, after: float) -> float:
    """Share of the squared drift that went away."""
    if not math.isfinite(before):
        return 1.0 if math.isfinite(after) else 0.0
    return 1 - (after / before) ** 2 if math.isfinite(after) else 0.0


def _shrink(trial: _Trial, found: dict[str, str]) -> dict[str, str]:
    """Takes away halves, then quarters, down to single nodes, while the budget is still met."""
    cost, limit = trial.costs.total(found), max(_MARGIN, trial.excess(found))
    parts = [sorted(found, key=lambda node: trial.costs.total([node]), reverse=True)]
    while parts and trial.left() > 0:
        part = [node for node in parts.pop(0) if node in found]
        without = {node: reason for node, reason in found.items() if node not in part}
        cheaper = trial.costs.total(without)
        if cheaper < cost and trial.excess(without) <= limit:
            found, cost = without, cheaper
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
    return found
