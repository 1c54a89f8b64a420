"""The number of samples that a file takes: which first axes are batches, and which are not."""

from collections.abc import Sequence

import numpy as np

from tfmp.converters.intake import Source, probe
from tfmp.converters.shared.layout import PLAIN
from tfmp.converters.shared.tensors import Batch, TensorSpec, relative_l2

# Rows of the batch whose answers are compared with those of each row by itself.
_ROWS = 3
# Relative L2 between the sums of one model in another order.
_SAME = 1e-3


def batch_size(source: Source, asked: int | None) -> int | None:
    """The batch size of a file: the one that the model fixes, else the one that was asked for.

    Args:
        source: the model.
        asked: samples for a batch axis that is open; None to keep it open.

    Returns:
        None where the first axis stays open, as does one that holds no samples.
    """
    # States and scalars may have sizes of their own.
    given = [spec for spec in source.inputs if spec.shape and spec.name not in source.layout.states]
    sizes = set(map(source.layout.samples_in, given))
    fixed = sizes - {None}
    if None in sizes and asked is None:
        return None
    by_keras = source.origin.format == "keras"
    if len(fixed) == 1 and (by_keras or None not in sizes):
        return fixed.pop()
    if fixed:
        return None
    is_batch = asked != 1 or by_keras or source.layout != PLAIN or _rows_are_samples(source)
    return asked if is_batch else None


def fixed_axes(source: Source, inputs: Sequence[TensorSpec]) -> str:
    """The inputs of a file that are fixed where those of the model are open; "" for none."""
    pairs = zip(source.inputs, inputs, strict=True)
    return "; ".join(f"{own} as {file.sizes}" for own, file in pairs if own.shape != file.shape)


def _rows_are_samples(source: Source) -> bool:
    """Whether rows of the first axis are answered one by one, as those of a batch are.

    A model that cannot run here, or draws random numbers, shows nothing: its open axes then tell.
    """
    if any(spec.shape[:1] != (None,) for spec in source.outputs):
        return False
    try:
        batch = probe(source, _ROWS, seed=0)
        whole, again = source.forward(batch), source.forward(batch)
        if not _alike(whole, again):
            return True
        alone = [source.forward(_row(batch, index)) for index in range(_ROWS)]
    except Exception:  # TensorFlow raises every kind of exception for values that do not fit
        return True
    if any(np.shape(one)[:1] != (1,) for row in alone for one in row.values()):
        return False
    return _alike(whole, {name: np.concatenate([row[name] for row in alone]) for name in whole})


def _row(batch: Batch, index: int) -> Batch:
    return {n: array[index : index + 1] if array.ndim else array for n, array in batch.items()}


def _alike(expected: Batch, received: Batch) -> bool:
    """Whether two answers agree; texts are not compared."""
    return all(
        one.shape == received[name].shape
        and (
            one.dtype.kind not in "fiub" or relative_l2(one.astype(float), received[name]) <= _SAME
        )
        for name, one in expected.items()
    )
