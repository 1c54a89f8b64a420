"""Samples that lead models of the adversarial set out of FP16's range, or keep them in it."""

from collections.abc import Callable
from functools import partial

import numpy as np

from tfmp.converters.shared.tensors import Batch

Generator = np.random.Generator
Draw = Callable[[Generator, int], Batch]


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0, names: str = "x") -> Draw:
    """Normal numbers of inputs, whose names have a letter each."""

    def draw(generator: Generator, samples: int) -> Batch:
        return {
            name: (generator.standard_normal((samples, *shape)) * scale + shift).astype(np.float32)
            for name in names
        }

    return draw


pair = partial(normal, names="xs")


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, own: bool = False) -> Draw:
    """Uniform numbers; `own` gives each sample a largest one of its own."""

    def draw(generator: Generator, samples: int) -> Batch:
        values = generator.uniform(low, high, (samples, *shape))
        if own:
            values *= generator.uniform(0.2, 1, (samples, *[1] * len(shape)))
        return {"x": values.astype(np.float32)}

    return draw


def whole(*shape: int, below: int, dtype: str = "int64") -> Draw:
    """Whole numbers, in float32 as some exporters hand indices on."""

    def draw(generator: Generator, samples: int) -> Batch:
        return {"x": generator.integers(0, below, (samples, *shape)).astype(dtype)}

    return draw


def with_zeros(draw: Draw, every: int) -> Draw:
    """Every so manieth sample of x is zero."""

    def zeroed(generator: Generator, samples: int) -> Batch:
        batch = draw(generator, samples)
        batch["x"][::every] = 0
        return batch

    return zeroed


def with_dead_rows(generator: Generator, samples: int) -> Batch:
    x = generator.standard_normal((samples, 64)).astype(np.float32)
    x[::7] = -np.abs(x[::7])
    return {"x": x}


def regions(scale: float, shift: float) -> Draw:
    """Images with texture, every third one nearly flat on a shift."""

    def draw(generator: Generator, samples: int) -> Batch:
        x = generator.standard_normal((samples, 3, 16, 16))
        x[::3] *= scale
        return {"x": (x + shift).astype(np.float32)}

    return draw


def kept(generator: Generator, samples: int) -> Batch:
    lengths = generator.integers(2, 9, samples)
    keep = (np.arange(8) < lengths[:, None]).astype(np.float32)[:, None]
    return {"x": generator.standard_normal((samples, 8, 8)).astype(np.float32), "keep": keep}
