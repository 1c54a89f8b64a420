"""The fewest nodes that have to stay in FP32 for a drift budget, found in one session.

1. One instrumented run in float32 shows which nodes meet numbers that FP16 cannot hold. They are
   tried first: an overflow is never cheaper mended elsewhere.
2. If drift remains, every segment of the graph is switched to FP32 once. Rounding errors of
   different nodes are independent, so their squares add up: what a segment takes away is its
   contribution. Segments join in that order, as few as are needed.
3. What was joined is tried without, the costliest half first, down to single nodes.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.drift.fit import count_batch
from tfmp.converters.drift.metrics import OutputAccumulator, OutputDrift
from tfmp.converters.onnx.gaps import ANY
from tfmp.converters.onnx.precision import Decisions, decide
from tfmp.converters.onnx.switches import SwitchedSession, name_nodes
from tfmp.converters.tensors import Batch
from tfmp.numerics import FLOAT16

# Each is one pass over the data; what is left after the ranking goes into taking nodes away.
MAX_EVALUATIONS = 60
_SEGMENTS = 16

# More samples hardly move a relative L2 error, and the file is validated on all of them anyway.
SEARCH_SAMPLES = 256


@dataclass(frozen=True)
class Repair:
    """What the search found.

    Attributes:
        islands: name of each node to keep in FP32, with the reason.
        met: whether the budget is met with them, on the samples searched.
        before: drift of each output with every node in FP16.
        after: drift of each output with the islands.
        evaluations: passes over the samples, the instrumented one included.
        samples: how many were searched on.
        kept_flops: share of the multiplications of the switchable nodes that stays in FP32.
    """

    islands: dict[str, str]
    met: bool
    before: tuple[OutputDrift, ...]
    after: tuple[OutputDrift, ...]
    evaluations: int
    samples: int
    kept_flops: float

    def notes(self) -> list[str]:
        """What a user should know, one sentence each."""
        found = (
            f"mixed precision: {len(self.islands)} nodes ({self.kept_flops:.1%} of the "
            f"multiplications) stay in FP32; worst rel_l2 {_worst(self.before):.2g} -> "
            f"{_worst(self.after):.2g}, found in {self.evaluations} evaluations of "
            f"{self.samples} samples in one session"
        )
        if self.met:
            return [found]
        return [
            found,
            "mixed precision: no assignment that was tried meets the budget; this is the closest. "
            "What remains is the rounding of nodes that always compute in FP16, or drift that "
            "only a larger budget allows",
        ]


def _worst(outputs: Sequence[OutputDrift]) -> float:
    return max((output.rel_l2 or 0.0 for output in outputs), default=0.0)


def find_islands(
    model: ir.Model,
    batches: Sequence[Batch],
    budget: DriftBudget,
    keep_fp32: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
    target: str = ANY,
) -> Repair:
    """Searches for the nodes to keep in FP32.

    Args:
        model: float32, prepared by `onnx.fp16.prepare`, nodes named by `switches.name_nodes`;
            not changed.
        batches: inputs to measure drift on.
        budget: the limits; those that need a statistical proof count as measured here.
        keep_fp32: see `precision.decide`.
        progress: called with a short text when a stage begins.
        target: see `precision.decide`.
    """
    copy = model.clone()
    name_nodes(copy)
    decisions = decide(copy, keep_fp32, target=target)
    trial = _Trial(copy, decisions, batches, budget)
    progress("mixed precision: looking at ranges")
    found = _search(trial, progress)
    return Repair(
        islands=found,
        met=trial.excess(found) <= 1,
        before=trial.drift(()),
        after=trial.drift(found),
        evaluations=trial.evaluations,
        samples=trial.samples,
        kept_flops=trial.share(found),
    )


class _Trial:
    """The session, what it has measured, and how far each assignment is over the budget."""

    def __init__(
        self,
        model: ir.Model,
        decisions: Decisions,
        batches: Sequence[Batch],
        budget: DriftBudget,
    ) -> None:
        self._budget = budget
        self._batches = batches
        self._session = SwitchedSession(model, decisions)
        self.nodes = self._session.nodes
        self.samples = sum(len(next(iter(batch.values()))) for batch in batches)
        self.evaluations = 0
        self._measured: dict[frozenset[str], tuple[OutputDrift, ...]] = {}
        self.unfit: dict[str, str] = {}
        self._flops = dict.fromkeys(self.nodes, 1.0)
        self._kinds = {str(node.name): node for node in model.graph.all_nodes()}
        self._references = list(self._instrumented())

    def _instrumented(self) -> Iterator[Batch]:
        """The float32 run: reference outputs, ranges and sizes of every value."""
        self.evaluations += 1
        values = {str(v.name): v for found in self._session.values.values() for v in found}
        peaks = dict.fromkeys(values, 0.0)
        lost = dict.fromkeys(values, True)
        sizes: dict[str, int] = {}
        outputs = self._session.outputs
        wanted = list(dict.fromkeys([*outputs, *values]))
        for batch in self._batches:
            arrays = self._session.run(batch, set(self.nodes), wanted)
            for name in values:
                magnitude = np.abs(arrays[name])
                finite = magnitude[np.isfinite(magnitude)]
                peaks[name] = max(peaks[name], float(np.max(finite, initial=0.0)))
                held = bool(np.any(finite > FLOAT16.smallest_subnormal / 2)) or not finite.any()
                lost[name] = lost[name] and not held
                sizes[name] = magnitude.size
            yield {name: arrays[name] for name in outputs}
        for node, found in self._session.values.items():
            self._flops[node] = _flops(self._kinds[node], sizes)
            names = [str(value.name) for value in found]
            peak = max((peaks[name] for name in names), default=0.0)
            if peak >= FLOAT16.overflow_threshold:
                self.unfit[node] = f"reaches {peak:.3g} on the data, past FP16's {FLOAT16.max:.0f}"
            elif any(lost[name] for name in names):
                self.unfit[node] = "works on numbers that all become zero in FP16"

    def drift(self, fp32: Sequence[str] | dict[str, str]) -> tuple[OutputDrift, ...]:
        """The drift with these nodes in FP32, measured once."""
        key = frozenset(fp32)
        if key not in self._measured:
            self.evaluations += 1
            names = self._session.outputs
            accumulators = [OutputAccumulator(name) for name in names]
            for batch, expected in zip(self._batches, self._references, strict=True):
                received = self._session.run(batch, key, names)
                for accumulator in accumulators:
                    name = accumulator.name
                    accumulator.update(expected[name], received[name])
            self._measured[key] = tuple(accumulator.result() for accumulator in accumulators)
        return self._measured[key]

    def excess(self, fp32: Sequence[str] | dict[str, str]) -> float:
        """The largest measured drift as a multiple of its limit; infinite for lost values."""
        return max((self._output_excess(output) for output in self.drift(fp32)), default=0.0)

    def _output_excess(self, output: OutputDrift) -> float:
        if output.nonfinite or output.infinite_lost or output.saturated or output.collapsed:
            return math.inf
        budget = self._budget.for_output(output.name)
        flips = None if output.flips is None else output.flips / max(output.samples, 1)
        limits = (
            (output.rel_l2, budget.rel_l2),
            (output.max_abs, budget.max_abs),
            (flips, budget.flip_rate),
        )
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
        return MAX_EVALUATIONS - self.evaluations

    def cost(self, nodes: Sequence[str]) -> float:
        """Multiplications of these nodes."""
        return sum(self._flops[node] for node in nodes)

    def share(self, nodes: Sequence[str] | dict[str, str]) -> float:
        """The same as a share of all."""
        return self.cost(list(nodes)) / max(self.cost(self.nodes), 1.0)


def _ratio(measured: float, limit: float) -> float:
    if measured == 0:
        return 0.0
    return measured / limit if limit > 0 and math.isfinite(measured) else math.inf


def _flops(node: ir.Node, sizes: dict[str, int]) -> float:
    """Multiplications of a node, from the sizes of its results: good for comparing nodes."""
    made = sum(sizes.get(str(value.name), 0) for value in node.outputs) or 1
    if node.op_type not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        return float(made)
    right = node.inputs[1]
    # An operand chosen at run time stands behind a Where; its exact form has the shape.
    shape = right.shape if right is not None else None
    known = [size for size in shape or () if isinstance(size, int)]
    if not known:
        return float(made)
    last = known[-1] if node.op_type in ("MatMul", "Gemm") else known[0]
    return made * float(np.prod(known)) / max(last, 1)


def _search(trial: _Trial, progress: Callable[[str], None]) -> dict[str, str]:
    if trial.meets(()):
        return {}
    found = dict(trial.unfit)
    if not found or not trial.meets(found):
        progress("mixed precision: ranking nodes by their share of the drift")
        found = _add_segments(trial, found)
    if trial.meets(found):
        progress("mixed precision: taking away what is not needed")
        found = _shrink(trial, found)
    return found


def _add_segments(trial: _Trial, base: dict[str, str]) -> dict[str, str]:
    """Joins segments to `base`, those with the largest contribution first, until it is enough."""
    rest = [node for node in trial.nodes if node not in base]
    if not rest:
        return base
    count = min(_SEGMENTS, len(rest))
    segments = [list(part) for part in np.array_split(np.array(rest, dtype=object), count)]
    start = trial.excess(base)
    gains = [_gain(start, trial.excess([*base, *segment])) for segment in segments]
    order = sorted(range(count), key=lambda i: gains[i] / trial.cost(segments[i]), reverse=True)
    order.sort(key=lambda i: gains[i] <= 0)  # what does not help comes last

    def joined(number: int) -> dict[str, str]:
        found = dict(base)
        for index in order[:number]:
            share = f", {gains[index]:.0%} of the drift" if math.isfinite(start) else ""
            reason = f"in the part of the graph whose rounding matters most{share}"
            found |= dict.fromkeys(segments[index], reason)
        return found

    low, high = 0, count
    if not trial.meets(joined(count)):
        return min((joined(n) for n in (0, count // 2, count)), key=trial.excess)
    while high - low > 1:
        middle = (low + high) // 2
        if trial.meets(joined(middle)):
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
    parts = [sorted(found, key=lambda node: trial.cost([node]), reverse=True)]
    while parts and trial.left() > 0:
        part = parts.pop(0)
        without = {node: reason for node, reason in found.items() if node not in part}
        if trial.meets(without):
            found = without
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
    return found


def search_batches(batches: Iterable[Batch]) -> list[Batch]:
    """As many of the first batches as the search looks at."""
    chosen: list[Batch] = []
    samples = 0
    for batch in batches:
        if samples >= SEARCH_SAMPLES:
            break
        chosen.append(batch)
        samples += count_batch(batch, "data")
    return chosen
