"""`inspect`: the values of a model that overflow or vanish in FP16, before it is converted."""

from dataclasses import replace
from typing import Any

from tfmp.converters.comparison import Plan
from tfmp.converters.report import nonfinite_notes
from tfmp.converters.tflite.audit import Audit, audit_model
from tfmp.converters.validation import open_model, open_samples
from tfmp.shared.progress import Progress


def inspect_model(model: Any, data: Any, progress: Progress) -> Audit:
    """Looks at a model's constants, and at its activations on samples.

    Args:
        model: see `validate`.
        data: samples; None for a look at constants alone.
        progress: told of the stages.

    Raises:
        InputError: the model or the samples cannot be used.
    """
    source = open_model(model, progress, data)
    if data is None:
        return audit_model(source, None, progress)
    samples = open_samples(source, data, None, Plan())
    reading = samples.read()
    audit = audit_model(source, (batch.inputs for batch in reading), progress, samples.calls)
    blame = "; the data may be the cause of values behind it that are not finite"
    told = (note + blame for note in nonfinite_notes(reading.description))
    return replace(audit, unknown=(*told, *audit.unknown))
