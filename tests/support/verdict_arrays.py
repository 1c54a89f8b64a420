"""Verdict cases on their arrays: compared and judged as `validate` does it, without any model."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from verdict_case import Case, Outputs, Table

from tfmp.converters.drift import Comparison, DriftBudget, read_tasks
from tfmp.converters.intake import OutputHint
from tfmp.converters.intake.hints import traced_hints
from tfmp.converters.report import CandidateEvidence, CandidateReport
from tfmp.converters.runners import RunnerInfo
from tfmp.converters.samples import open_in_layout
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.layout import PLAIN
from tfmp.converters.shared.tensors import TEXT, Batch, TensorSpec

BATCH = 256

# TensorFlow's operators by what Keras calls them as activations, where the names differ.
OPERATORS = {None: "MatMul", "linear": "MatMul", "exponential": "Exp"}


def judged_on_arrays(case: Case) -> CandidateReport:
    """Judges the candidate of a case with the default budget.

    Args:
        case: the case.
    """
    outputs = case.outputs()
    reference, candidate = (
        _specs(outputs, each) for each in (outputs.reference, outputs.candidate)
    )
    comparison = Comparison(
        case.name,
        reference,
        candidate,
        tasks=read_tasks(case.tasks),
        hints=hints_of(case, list(outputs.reference)),
    )
    sample = TensorSpec("sample", (1 if of_any_length(outputs.reference) else None,), "int32")
    samples = open_in_layout(in_batches(outputs), outputs.labels, [sample], reference, PLAIN)
    reading, error = samples.read(), None
    try:
        for batch in reading:
            rows = batch.inputs["sample"]
            answers = (
                _answers(outputs, each, rows) for each in (outputs.reference, outputs.candidate)
            )
            comparison.update(*answers, batch.labels, batch.keys)
        drifts = comparison.outputs()
    except RunnerError as raised:
        error, drifts = str(raised), ()
    evidence = CandidateEvidence(
        name=case.name,
        format="onnx",
        runner=RunnerInfo("arrays", "CPU", "emulated"),
        outputs=drifts,
        labels=() if error else comparison.labels(),
        error=error,
    )
    return evidence.judged(reading.description, DriftBudget())


def in_batches(outputs: Outputs) -> Any:
    """The input of each sample, its row in the tables; in larger batches than by default."""
    samples = np.arange(len(next(iter(outputs.reference.values()))), dtype=np.int32)
    if of_any_length(outputs.reference):
        return samples
    return [samples[start : start + BATCH] for start in range(0, len(samples), BATCH)]


def of_any_length(tables: Mapping[str, Table]) -> bool:
    """Whether an output has another length for each sample."""
    return any(isinstance(table, list) for table in tables.values())


def by_output(fact: Any, name: str) -> Any:
    """A fact of an output, such as its loss, where a case may tell one for all."""
    return fact.get(name) if isinstance(fact, Mapping) else fact


def hints_of(case: Case, names: list[str]) -> dict[str, OutputHint]:
    """What the Keras model of a case says of its outputs, as it is read from a model."""
    if case.loss is None and case.activation is None:
        return {}
    activations = [by_output(case.activation, name) for name in names]
    last = [OPERATORS.get(each, str(each).capitalize()) for each in activations]
    tensors = [
        SimpleNamespace(op=SimpleNamespace(type=each), shape=SimpleNamespace(rank=None))
        for each in last
    ]
    losses = {name: by_output(case.loss, name) for name in names}
    return traced_hints(names, SimpleNamespace(outputs=tensors), losses)


def _specs(outputs: Outputs, tables: Mapping[str, Table]) -> list[TensorSpec]:
    specs = []
    for name, table in tables.items():
        if isinstance(table, list):
            first: tuple[int | None, ...] = (1, None) if outputs.batched else (None,)
            specs.append(TensorSpec(name, (*first, *table[0].shape[1:]), str(table[0].dtype)))
        else:
            dtype = TEXT if table.dtype.kind in "OU" else str(table.dtype)
            size = 1 if of_any_length(tables) else None
            specs.append(TensorSpec(name, (size, *table.shape[1:]), dtype))
    return specs


def _answers(outputs: Outputs, tables: Mapping[str, Table], rows: np.ndarray) -> Batch:
    return {
        name: (table[rows[0]][None] if outputs.batched else table[rows[0]])
        if isinstance(table, list)
        else table[rows]
        for name, table in tables.items()
    }
