"""The names, shapes and dtypes of a model's inputs and outputs."""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

# What TensorFlow and ONNX call the dtype of texts; in NumPy they are objects.
TEXT = "string"

# What exporters call the signature that is meant to be served; Keras 3 writes it under both names.
USUAL_SIGNATURES = ("serving_default", "serve")


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    Attributes:
        name: its name in the model's signature.
        shape: its sizes, the batch axis first; None for a size that is dynamic.
        dtype: its NumPy dtype, such as "float32"; `TEXT` for texts.
        alias: another name that users may know it by, such as that of Keras's tensor.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    alias: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{self.sizes}"

    @property
    def sizes(self) -> str:
        """The shape in words, such as "[?, 8]"."""
        return f"[{', '.join('?' if size is None else str(size) for size in self.shape)}]"

    def accepts(self, array: np.ndarray) -> bool:
        """Whether `array` has this rank and every fixed size beyond the batch axis."""
        return fits(self.shape[1:], array.shape[1:]) and array.ndim == len(self.shape)

    @property
    def call_bytes(self) -> int:
        """Bytes of an array for a call, with sizes that vary as small as they can be."""
        try:
            each = np.dtype(self.dtype).itemsize
        except TypeError:  # texts, and floats that NumPy does not know
            each = 2
        return each * math.prod(1 if size is None else size for size in self.shape)

    def takes(self, array: np.ndarray) -> bool:
        """Whether `array` has this rank and every fixed size, the batch axis among them."""
        return self.accepts(array) and self.shape[:1] in ((), (None,), array.shape[:1])


def fits(one: Sequence[int | None], other: Sequence[int | None]) -> bool:
    """Whether two shapes have one rank, and no fixed sizes that contradict."""
    return len(one) == len(other) and all(
        None in sizes or sizes[0] == sizes[1] for sizes in zip(one, other, strict=True)
    )


# The inputs or outputs of a model for one batch: arrays by name.
Batch = dict[str, np.ndarray]


def in_pieces(batch: Batch, size: int | None) -> Iterator[tuple[Batch, int]]:
    """A batch in pieces for a model that takes a fixed number of samples.

    Args:
        batch: arrays with the samples first; those without axes belong to all samples.
        size: samples of a piece; None for one piece of all.

    Yields:
        The arrays of a piece, and how many of its samples are real. The last sample fills up the
        last piece.
    """
    cut = {name: array for name, array in batch.items() if array.ndim}
    count = min(map(len, cut.values()), default=1)
    if not cut or size is None or size == count:
        yield batch, count
        return
    for start in range(0, count, size):
        rows = np.minimum(np.arange(start, start + size), count - 1)
        yield (
            {**batch, **{name: array[rows] for name, array in cut.items()}},
            min(size, count - start),
        )


# Values of a large array that are looked at together, so that no second copy of it is made.
_PIECE = 2**20


def flat_pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """All values of an array in their order, in short arrays of rank 1."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        yield flat[start : start + _PIECE]


def in_dtype(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in the dtype of a `TensorSpec`."""
    return texts(array) if dtype == TEXT else array.astype(dtype)


def texts(array: np.ndarray) -> np.ndarray:
    """An array of texts as Python strings; TensorFlow and NumPy also hold texts as bytes."""
    plain = [
        item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
        for item in array.ravel()
    ]
    return np.array(plain, dtype=object).reshape(array.shape)


def relative_l2(expected: np.ndarray, received: np.ndarray) -> float:
    """The length of the difference as a share of the expected length; arrays of one shape.

    Equal values differ by nothing, NaN and infinities too. Zeros expected allow only a difference
    that FP32 could call zero.
    """
    same = (expected == received) | (np.isnan(expected) & np.isnan(received))
    with np.errstate(all="ignore"):
        error = np.where(same, 0.0, expected.astype(np.float64) - received)
        scale = np.linalg.norm(np.where(np.isfinite(expected), expected, 0.0))
        return float(np.linalg.norm(error) / max(scale, np.finfo(np.float32).tiny))


def unique_name(name: str, taken: Set[str | None]) -> str:
    """`name`, with a number behind it if it is taken."""
    count, unique = 1, name
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    return unique


def describe(specs: Sequence[TensorSpec], most: int | None = None) -> str:
    """One line of specs, separated by semicolons; after `most` of them the rest is counted."""
    left = len(specs) - len(specs[:most])
    return "; ".join(map(str, specs[:most])) + (f"; and {left} more" if left else "") or "none"


def synthetic_batch(
    specs: Sequence[TensorSpec], samples: int, seed: int, open_size: int = 8
) -> Batch:
    """Seeded inputs for a signature, where there is no real data.

    Args:
        specs: the inputs.
        samples: size of the batch axis.
        seed: the generator's seed.
        open_size: size of every other axis that varies.

    Returns:
        Standard normal floats; integers 0 and 1, which are valid ids of any vocabulary; texts "a".
    """
    generator = np.random.default_rng(seed)

    def draw(spec: TensorSpec) -> np.ndarray:
        if not spec.shape:
            shape: tuple[int, ...] = ()
        else:
            shape = (spec.shape[0] or samples, *(size or open_size for size in spec.shape[1:]))
        if spec.dtype == TEXT:
            return np.full(shape, "a", dtype=object)
        if np.issubdtype(np.dtype(spec.dtype), np.floating):
            return generator.standard_normal(shape).astype(spec.dtype)
        return generator.integers(0, 2, shape).astype(spec.dtype)

    return {spec.name: draw(spec) for spec in specs}


def are_open(inputs: Sequence[TensorSpec]) -> bool:
    """Whether any size behind that of the samples may change."""
    return any(None in spec.shape[1:] for spec in inputs)
