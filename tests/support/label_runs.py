"""Labelled outputs for tests, as `Comparison` takes them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfmp.converters.drift import Comparison, LabelDrift, Task, with_metrics
from tfmp.converters.drift.labels.metric import Metric
from tfmp.converters.shared.tensors import TensorSpec


def keys_of(samples: int, seed: int = 0) -> np.ndarray:
    """Keys as samples have them: random, but always the same."""
    digests = [hashlib.sha256(f"{seed} {i}".encode()).digest()[:8] for i in range(samples)]
    return np.frombuffer(b"".join(digests), np.uint64).copy()


def compared(
    labels: Any,
    reference: np.ndarray,
    candidate: np.ndarray,
    *,
    keys: np.ndarray | None = None,
    order: Sequence[np.ndarray] | None = None,
    task: str | None = None,
    **others: Any,
) -> LabelDrift:
    """The answers of one output, all in one batch or in the order of some batches."""
    spec = TensorSpec("y", (None, *reference.shape[1:]), str(reference.dtype))
    tasks = {"y": Task.of(task, "y")} if task else {}
    comparison = Comparison("c", [spec], [spec], tasks, **others)
    keys = keys_of(len(reference)) if keys is None else keys
    for rows in order or [np.arange(len(reference))]:
        outputs = {"y": reference[rows]}, {"y": candidate[rows]}
        comparison.update(*outputs, labels[rows], keys[rows])
    (found,) = comparison.labels()
    return found


def metrics_of(*arguments: Any, **others: Any) -> dict[str, Metric]:
    """The metrics of one output by name."""
    return {each.name: each for each in with_metrics(compared(*arguments, **others)).metrics}
