"""A candidate on the other runtimes that it may meet, on as many samples as cost no more time."""

from collections.abc import Callable, Mapping

import numpy as np

from tfmp.converters.comparison.plan import Plan
from tfmp.converters.drift import Comparison
from tfmp.converters.drift.verdict import Elsewhere, failures, judge
from tfmp.converters.runners import OtherRuntime, Runner, laid_out, relative_error
from tfmp.converters.samples import SampleBatch
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.layout import PLAIN, Layout
from tfmp.converters.shared.tensors import Batch


class ElsewhereTrial:
    """One candidate on one other runtime."""

    def __init__(
        self,
        other: OtherRuntime,
        layout: Layout,
        compared: Callable[[], Comparison],
        plan: Plan,
    ) -> None:
        """Opens the file; an error costs the look at this runtime only.

        Args:
            other: the file on the runtime.
            layout: of the samples, by the file's names.
            compared: makes a comparison of the candidate's outputs with the reference's.
            plan: of the validation.
        """
        self._other, self._plan, self._compared = other, plan, compared
        self._error: str | None = None
        self._runner: Runner | None = None
        self._comparison = compared()
        # The candidate's own runner on the same samples, where these are not all of them: few
        # samples may fail a check that all of them pass, and no runtime is to blame for that.
        self._here = compared() if other.share > 1 else None
        self._worst: tuple[float, Batch] | None = None
        self._plain = layout == PLAIN
        try:
            opened = other.open()
            if opened is not None:
                self._plain &= layout.fixed_samples(opened.inputs) in (None, 1)
                self._runner = laid_out(opened, layout)
        except RunnerError as error:
            self._error = str(error)

    def update(
        self,
        batch: SampleBatch,
        fed: Batch,
        expected: Batch,
        here: Batch,
        unread: Mapping[str, np.ndarray],
    ) -> None:
        """Compares some of a batch.

        Args:
            batch: the samples.
            fed: their arrays by the file's input names.
            expected: the reference's outputs on them.
            here: the file's outputs on the candidate's own runner.
            unread: places of outputs that nobody reads, see `Comparison.update`.
        """
        if self._runner is None or self._error is not None:
            return
        rows = _rows(fed, expected, len(batch), self._other.share) if self._plain else None
        if rows is None:
            if int(batch.keys[0]) % self._other.share:
                return
        else:
            fed = {name: array[rows] for name, array in fed.items()}
            expected = {name: array[rows] for name, array in expected.items()}
            if any(len(array) != len(batch) for array in here.values()):
                self._here = None  # its rows are no samples
            here = {name: array[rows] for name, array in here.items()} if self._here else {}
            unread = {name: flags[rows] for name, flags in unread.items()}
        keys = batch.keys if rows is None else batch.keys[rows]
        try:
            received = self._runner.run(fed)
            self._comparison.update(expected, received, keys=keys, unread=unread)
            if self._here is not None:
                self._here.update(expected, here, keys=keys, unread=unread)
        except RunnerError as error:
            self._error = str(error)
            return
        pairs = zip(expected.values(), received.values(), strict=True)
        far = max((relative_error(*pair) for pair in pairs), default=0.0)
        if self._worst is None or far > self._worst[0]:
            self._worst = far, fed

    def start_over(self) -> None:
        """Forgets what was measured, but not what failed."""
        self._comparison, self._worst = self._compared(), None
        self._here = self._compared() if self._here is not None else None

    def found(self) -> Elsewhere:
        """The drift on this runtime, with the place that it begins in where it is a failure."""
        profile = self._other.profile
        name, runtime = str(profile), profile.runtime
        if self._error is not None or self._worst is None:
            return Elsewhere(name, runtime, error=self._error)
        found = Elsewhere(name, runtime, self._comparison.outputs())
        failed = self._failed(found)
        if not failed:
            return found
        if self._here is not None:
            same = Elsewhere(name, runtime, self._here.outputs())
            if failed <= self._failed(same):
                return Elsewhere(name, runtime)
        try:
            place = self._other.place(self._worst[1]) if self._plain else None
        except RunnerError:  # such as inner values that are too many for the memory
            place = None
        if place is None:
            return found
        return Elsewhere(name, runtime, found.outputs, place.text, place.why, place.fix)

    def _failed(self, found: Elsewhere) -> set[tuple[str, str]]:
        """The checks that fail on a runtime, each with its output."""
        budget = self._plan.budget
        checks = failures(found, lambda drifts: judge(drifts, budget=budget).checks)
        return {(check.name, check.output) for check in checks}


def _rows(fed: Batch, expected: Batch, count: int, share: int) -> np.ndarray | None:
    """The samples to run: largest and smallest ones in turns; None if a batch cannot be cut."""
    arrays = [*fed.values(), *expected.values()]
    if any(array.shape[:1] != (count,) for array in arrays):
        return None
    wanted = -(-count // share)
    if wanted == count:
        return np.arange(count)
    numbers = [array.reshape(count, -1) for array in fed.values() if array.dtype.kind in "fiu"]
    if not numbers or not all(array.shape[1] for array in numbers):
        return np.arange(wanted)
    with np.errstate(all="ignore"):
        sizes = sum(np.abs(array.astype(np.float64)).mean(axis=1) for array in numbers)
    order = np.argsort(np.nan_to_num(sizes), kind="stable")
    ends = np.stack([order[::-1], order], axis=1).reshape(-1)
    return np.sort(ends[:wanted])
