"""Which layer of a candidate its drift comes from, as data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerError:
    """What one layer does to the error; of several results, the worst.

    Errors are relative L2 errors against the same layer in FP32. They are infinite where a value
    is not finite that is finite in FP32.

    Attributes:
        layer: its name; an operation that belongs to no layer has its own.
        ops: types of its operations, in order.
        local: error of the layer alone in FP16, on FP32 inputs.
        cumulative: error at its results with the whole model in FP16.
        jump: `cumulative` less the largest error among what the layer reads.
        nonfinite: values of its results that are not finite where FP32 has numbers.
        local_nonfinite: the same with the layer alone in FP16.
        peak: the largest magnitude of its results in FP32.
    """

    layer: str
    ops: tuple[str, ...]
    local: float
    cumulative: float
    jump: float
    nonfinite: int = 0
    local_nonfinite: int = 0
    peak: float = 0.0


@dataclass(frozen=True)
class Culprit:
    """Where to look first.

    Attributes:
        layer: that holds the first value that is not finite or, if all are, that adds most to
            the error.
        why: which of the two.
        node: the node of that layer with the largest error of its own; "" if none has any.
        op: its type.
        local: error of that node alone in FP16.
        local_nonfinite: its values that are not finite alone in FP16.
        folder: where the smallest model and input that show it were saved; None if they were not.
    """

    layer: str
    why: str
    node: str = ""
    op: str = ""
    local: float = 0.0
    local_nonfinite: int = 0
    folder: str | None = None


@dataclass(frozen=True)
class WorstSample:
    """One of the samples that drifted most.

    Attributes:
        index: position in the data, from 0.
        error: relative L2 error of its worst output; infinite where a value is not finite.
        thumbnail: PNG in base64 where the input is an image; None otherwise.
    """

    index: int
    error: float
    thumbnail: str | None = None


@dataclass(frozen=True)
class Explanation:
    """Where a candidate's drift arises.

    Attributes:
        worst: the samples that drifted most of all that were compared, the worst first.
        samples: how many the layers were measured on: those in `worst` and the first of the data.
        computed: how the layers were computed in FP16 and in FP32.
        baseline: relative L2 error of the FP32 run from the reference on these samples, by its
            worst output: what is not FP16's doing.
        layers: in the order of execution; empty if they could not be measured.
        first_nonfinite: the first layer whose results are not all finite, or without one the
            layer with the largest jump if values inside it are not; None otherwise.
        largest_jump: the layer that adds most to the error; None if none adds any.
        culprit: where to look first; None where there is no error.
        notes: what a reader should know.
        error: why the layers could not be measured; None if they were.
    """

    worst: tuple[WorstSample, ...]
    samples: int = 0
    computed: str = ""
    baseline: float | None = None
    layers: tuple[LayerError, ...] = ()
    first_nonfinite: str | None = None
    largest_jump: str | None = None
    culprit: Culprit | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
