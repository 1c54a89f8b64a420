"""The drift that is allowed: declared before the run and written into the report."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from tfmp.converters.shared.errors import InputError

# Limits of views.
VIEWS = (
    *("between_samples", "between_columns", "between_places", "between_outputs"),
    *("wrong_samples", "near_end"),
)


@dataclass(frozen=True)
class DriftBudget:
    """The limits a candidate must keep. None switches a limit off.

    Attributes:
        rel_l2: largest relative L2 error of an output. 1e-2 is about 20 times FP16's rounding
            error (2**-11); sound deep models stay under it and broken ones do not.
        max_abs: largest absolute error of any value; off by default, because its scale is the
            model's.
        sample_rel_l2: error that a single sample may have, relative to its own size; ten times
            what the output as a whole may have. Outputs that are numbers have this limit, and at
            most `flip_rate` of the samples may be over it. If no sample is, `min_samples` samples
            are proof enough.
        between_samples: error of what differs between samples, of all columns together, of each,
            and of each place, over its own size: root mean squares both.
        between_columns: the same of the difference between two columns.
        between_places: the same of the difference between two neighbouring places of a sample.
        between_outputs: the same of the difference between two outputs of one shape.
        wrong_samples: share of samples of which a column may be off by 0.3 of what it varies by.
        near_end: share of samples with a number whose distance from 0 or 1 may be off by 0.3 of
            itself, where all numbers are within 0.01 of it.
        flip_rate: share of decisions that may change: answers of samples, classes of tokens or
            pixels, labels, detections. An exact bound proves it: even without a flip, 299 samples
            are needed to prove 1 % at 95 % confidence.
        class_flip_rate: share of the decisions for a single class that may change; it fails a
            candidate only beyond doubt, and needs no number of samples to pass.
        accuracy_drop: largest drop of accuracy, F1, IoU, ROC AUC or a metric of your own.
        accuracy_ratio: smallest ratio of the candidate's to the reference's value of these, such
            as MLPerf's 0.999; where given, it takes the place of `accuracy_drop`.
        error_increase: largest relative growth of an error, such as the mean absolute error
            (regression labels).
        error_floor: error, in standard deviations of the labels, that may be added to the model's
            own. Squares add, so it is all that a perfect model
            may gain, and little of what a poor one may. At 0.005 a model explains 99.997 % of the
            labels' variance; FP16's rounding alone makes an error of 0.0005 where values are about
            as large as they vary, and of 0.005 where they are twenty times as large.
        error_added: largest growth of an error in its own unit, such as 0.002 of a word error
            rate; where given, it takes the place of `error_increase` and `error_floor`.
        confidence: one-sided confidence of every bound.
        min_samples: smallest number of distinct samples that certifies anything. With 59 samples
            the worst one seen bounds 95 % of all inputs with 95 % confidence (Wilks 1941:
            0.95**59 < 0.05).
        overrides: limits of single outputs, such as {"embedding": {"flip_rate": None}}.
    """

    rel_l2: float | None = 1e-2
    max_abs: float | None = None
    sample_rel_l2: float | None = 0.1
    between_samples: float | None = 0.1
    between_columns: float | None = 0.1
    between_places: float | None = 0.1
    between_outputs: float | None = 0.1
    wrong_samples: float | None = 0.01
    near_end: float | None = 0.01
    flip_rate: float | None = 0.01
    class_flip_rate: float | None = 0.05
    accuracy_drop: float | None = 0.01
    accuracy_ratio: float | None = None
    error_increase: float | None = 0.01
    error_floor: float | None = 0.005
    error_added: float | None = None
    confidence: float = 0.95
    min_samples: int = 59
    overrides: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _PER_OUTPUT:
            _check_limit(name, getattr(self, name))
        for output, limits in self.overrides.items():
            for name, value in limits.items():
                if name not in _PER_OUTPUT:
                    raise InputError(
                        f"output {output!r} cannot have its own {name!r}; expected one of "
                        f"{', '.join(_PER_OUTPUT)}."
                    )
                _check_limit(f"{output}.{name}", value)
        if not (_is_number(self.confidence) and 0.5 < self.confidence < 1):
            raise InputError(
                f"confidence must lie between 0.5 and 1, received {self.confidence!r}. "
                "Use 0.95, or 0.99 for a stricter proof."
            )
        whole = isinstance(self.min_samples, int) and not isinstance(self.min_samples, bool)
        if not whole or self.min_samples < 1:
            raise InputError(
                f"min_samples must be a whole number of at least 1, received {self.min_samples!r}."
            )

    def for_output(self, name: str) -> Self:
        """The budget of one output: this one with the overrides that name the output."""
        changes: dict[str, Any] = {**self.overrides.get(name, {}), "overrides": {}}
        return replace(self, **changes)

    @classmethod
    def parse(cls, texts: str | Iterable[str], base: "DriftBudget | None" = None) -> "DriftBudget":
        """Reads "NAME=VALUE" texts, as on the command line.

        Args:
            texts: limits such as "rel_l2=0.005", "flip_rate=none" or, for one output,
                "logits.rel_l2=0.02".
            base: the budget that they change; the defaults if None.

        Raises:
            InputError: there is no such limit, or it cannot have this value.
        """
        budget = base if base is not None else cls()
        for text in [texts] if isinstance(texts, str) else texts:
            budget = _with(budget, text)
        return budget


# Limits that may be switched off, and differ from one output to the next.
_PER_OUTPUT = tuple(item.name for item in fields(DriftBudget) if item.type == float | None)


def _with(budget: DriftBudget, text: str) -> DriftBudget:
    target, equals, value_text = text.rpartition("=")
    output, dot, name = target.strip().rpartition(".")
    names = [item.name for item in fields(DriftBudget) if item.name != "overrides"]
    if not equals or name not in names:
        raise InputError(
            f"budget {text!r} names no limit; expected NAME=VALUE or OUTPUT.NAME=VALUE, such as "
            f"rel_l2=0.005 or logits.rel_l2=0.02, where NAME is one of {', '.join(names)}."
        )
    value = _value(text, name, value_text.strip())
    changes: dict[str, Any] = {name: value}
    if not dot:
        return replace(budget, **changes)
    limits = {**budget.overrides.get(output, {}), **changes}
    return replace(budget, overrides={**budget.overrides, output: limits})


def _value(text: str, name: str, value: str) -> float | int | None:
    if value.lower() == "none" and name in _PER_OUTPUT:
        return None
    try:
        return int(value) if name == "min_samples" else float(value)
    except ValueError:
        expected = "a whole number" if name == "min_samples" else "a number, such as 0.01"
        per_output = name in _PER_OUTPUT
        off = ", or none to switch the limit off" if per_output else ""
        raise InputError(
            f"budget {text!r}: {value!r} is not a value of {name}; expected {expected}{off}."
        ) from None


def _check_limit(name: str, value: object) -> None:
    if value is None:
        return
    if not _is_number(value) or not (math.isfinite(value) and value >= 0):  # type: ignore[arg-type,operator]
        raise InputError(
            f"{name} must be a finite number of at least 0, or none to switch it off; received "
            f"{value!r} ({type(value).__name__})."
        )
    if name.rpartition(".")[2] == "accuracy_ratio" and not 0 < value <= 1:  # type: ignore[operator]
        raise InputError(
            f"{name} is a ratio of the candidate's value to the reference's: expected more than 0 "
            f"and at most 1, such as 0.999, received {value!r}. For a difference, limit "
            "accuracy_drop."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
