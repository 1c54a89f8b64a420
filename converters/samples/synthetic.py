"""Samples made up from a model's signature, where there are no real ones."""

import zlib
from collections.abc import Sequence

import numpy as np

from tfmp.converters.samples.data import Samples
from tfmp.converters.samples.fit import kind_of
from tfmp.converters.samples.sources import stream_of_arrays
from tfmp.converters.shared.layout import PLAIN
from tfmp.converters.shared.tensors import TensorSpec, synthetic_batch

# Sizes chosen where a signature leaves them open.
_OPEN_IMAGE_SIDE = 64
_OPEN_LENGTH = 16
_SAMPLES = 64


def made_up(inputs: Sequence[TensorSpec]) -> Samples:
    """Samples made up from the signature: they can show that a model is broken, never that it is
    sound.

    Floats are standard normal and in [0, 1) by turns of samples, integers 0 or 1 (inside
    any vocabulary), texts "a". Open sizes are 64 for images and 16 elsewhere. The same signature
    gives the same 64 samples; there are more where a fixed batch size would leave some out.
    """
    fixed = PLAIN.fixed_samples(inputs) or 1
    samples = -(-_SAMPLES // fixed) * fixed
    arrays = {spec.name: _made_up(spec, samples) for spec in inputs}
    stream = stream_of_arrays("synthetic (seed 0)", arrays)
    return Samples(stream, tuple(inputs), synthetic=True)


def _made_up(spec: TensorSpec, samples: int) -> np.ndarray:
    size = _OPEN_IMAGE_SIDE if len(spec.shape) == 4 else _OPEN_LENGTH
    floats = kind_of(spec.dtype) == "f"
    shape = (None, *spec.shape[1:]) if spec.shape else ()
    drawn = TensorSpec(spec.name, shape, "float32" if floats else spec.dtype)
    array = synthetic_batch([drawn], samples, zlib.crc32(spec.name.encode()), size)[spec.name]
    if floats and array.ndim:
        array[1::2] = np.abs(array[1::2]) % 1.0
    return array
