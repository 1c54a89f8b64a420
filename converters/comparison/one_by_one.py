"""Models whose samples can be told apart only when they run one at a time.

A non-maximum suppression keeps any number of boxes, and a model may answer without a batch axis at
all: nothing in the answer to a batch says which sample a row belongs to.
"""

import numpy as np

from tfmp.converters.intake import AnySource, Source
from tfmp.converters.samples import SampleBatch, Samples
from tfmp.converters.shared.errors import InputError, running_on_samples
from tfmp.converters.shared.tensors import Batch, TensorSpec

# Two answers of these sizes to as many samples have a batch axis, or the sizes agree by chance.
_TRIED = (1, 5)


def needs_one_by_one(source: AnySource, samples: Samples, first: SampleBatch | None) -> bool:
    """Whether the samples have to run one at a time.

    Args:
        source: the model.
        samples: that it will run on.
        first: the first of them, for a try; None where they can be read only once.

    Raises:
        InputError: the model cannot run on these samples.
    """
    if samples.fixed_batch is not None:
        return False  # the model's own size, which is 1 where samples cannot be told apart
    layout = samples.layout
    outputs = layout.outputs(source.outputs)
    open_inputs = any(None in own.shape[1:] for own in samples.inputs)
    doubtful = any(_doubtful(spec, open_inputs) for spec in outputs)
    if doubtful and not _all_fixed(source):
        return True
    if first is None:
        return False
    rows = len(first)
    with running_on_samples(source.name):
        for count in sorted({min(size, rows) for size in _TRIED}):
            answers = layout.run(source.forward, source.inputs, _rows(first.inputs, count))
            if any(np.shape(array)[:1] != (count,) for array in answers.values()):
                return True
    return False


def check_batch_axis(outputs: Batch, samples: int) -> None:
    """Raises `InputError` where a batch was answered with another number of rows."""
    for name, array in outputs.items():
        if samples > 1 and np.shape(array)[:1] != (samples,):
            raise InputError(
                f"the reference answers {samples} samples with an output {name!r} of shape "
                f"{np.shape(array)}, whose first size is not the number of samples. Fix its batch "
                "size at 1 (--batch 1)."
            )


def _doubtful(spec: TensorSpec, open_inputs: bool) -> bool:
    """Whether an output's shape has no batch axis, or an open size that may depend on values."""
    if not spec.shape or spec.shape[0] is not None:
        return True
    return None in spec.shape[1:] and not open_inputs


def _all_fixed(source: AnySource) -> bool:
    """Whether every size follows from the number of samples: TensorFlow just lost track of it."""
    if not isinstance(source, Source):
        return False
    try:
        traced = source.trace(2)
    except Exception:  # a model that takes one sample only raises anything
        return False
    return all(
        value.shape.is_fully_defined() and value.shape.rank and value.shape[0] == 2
        for value in traced.outputs
    )


def _rows(batch: Batch, count: int) -> Batch:
    return {name: array[:count] if array.ndim else array for name, array in batch.items()}
