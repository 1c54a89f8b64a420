"""Samples of sizes that the data lacks, made of its values."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tfmp.converters.intake import Sizes
from tfmp.converters.samples.data import Samples
from tfmp.converters.samples.sources import stream_of_arrays
from tfmp.converters.shared.errors import InputError


def sizes_text(sizes: Mapping[str, tuple[int, ...]]) -> str:
    """The sizes as `--sizes` writes them."""
    return " ".join(f"{name}={','.join(map(str, shape))}" for name, shape in sizes.items())


def of_sizes(samples: Samples, sizes: Mapping[str, tuple[int, ...]]) -> Samples:
    """Samples of these sizes, whose values are those of the first samples, repeated or cut.

    Args:
        samples: the data.
        sizes: of inputs by name, the number of samples first; other inputs keep those of the data.

    Raises:
        InputError: no such input, a size of an axis that is not open, different numbers of samples,
            or data that can be read only once.
    """
    text = sizes_text(sizes)
    where = f"sizes (--sizes) {text}"
    any_samples = [replace(x, shape=(None, *x.shape[1:])) if x.shape else x for x in samples.inputs]
    try:
        Sizes(input_shapes=sizes).of(any_samples)
    except InputError as error:
        raise InputError(error.refusal.at(where)) from error
    rows, *others = {shape[0] for shape in sizes.values()}
    if others:
        raise InputError(
            "the inputs have different numbers of samples",
            "Give one number first everywhere",
            where=where,
        )
    if samples.stream.once:
        raise InputError(
            "sizes (--sizes) reads the data once more, received data that can be read only once",
            "Pass arrays or a function that makes a new iterator",
        )
    arrays = _first(samples, sizes, rows)
    stream = stream_of_arrays(f"{samples.stream.name} as {text}", arrays)
    return replace(samples, stream=stream, labels=None, synthetic=True)


def _first(
    samples: Samples, sizes: Mapping[str, tuple[int, ...]], rows: int
) -> dict[str, np.ndarray]:
    """Arrays of so many samples, in these sizes or in those of the first batch."""
    parts: list[dict[str, np.ndarray]] = []
    count = 0
    for batch in samples.read():
        first = parts[0] if parts else batch.inputs
        parts.append(
            {
                name: _repeated(array, sizes.get(name, first[name].shape)[1:], start=1)
                for name, array in batch.inputs.items()
            }
        )
        count += len(batch)
        if count >= rows:
            break
    return {
        name: _repeated(np.concatenate([part[name] for part in parts]), (rows,))
        if array.ndim
        else array
        for name, array in parts[0].items()
    }


def _repeated(array: np.ndarray, sizes: tuple[int, ...], start: int = 0) -> np.ndarray:
    """The array with these sizes from an axis on: its values over and over, or the first ones."""
    for axis, size in enumerate(sizes, start):
        array = array.take(np.arange(size) % array.shape[axis], axis)
    return array
