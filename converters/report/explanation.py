"""The explanation of a candidate's drift as data: its layers, and its worst samples."""

from dataclasses import dataclass

from tfmp.shared.report_files import Base64, Count


@dataclass(frozen=True)
class LayerError:
    """The effect of one layer on the error; all numbers are of its worst result.

    Errors are relative L2 errors against the same layer in FP32. An error is infinite if a value is
    not finite that is finite in FP32.

    Attributes:
        layer: name of the layer; an operation that belongs to no layer has its own name.
        ops: types of its operations, in order.
        local: error with only this layer in FP16, on FP32 inputs.
        cumulative: error at its results with the whole model in FP16.
        jump: `cumulative` less the largest error of the layer's inputs.
        nonfinite: number of values of its results that are not finite where FP32 has numbers.
        local_nonfinite: the same number with only this layer in FP16.
        peak: the largest magnitude of its results in FP32.
        nodes: names of its operations in viewers of graphs: of nodes in ONNX files, of first
            results in TFLite files.
    """

    layer: str
    ops: tuple[str, ...]
    local: float
    cumulative: float
    jump: float
    nonfinite: Count = 0
    local_nonfinite: Count = 0
    peak: float = 0.0
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Culprit:
    """The place to look at first.

    Attributes:
        layer: the layer with the first value that is not finite or, if all values are finite, the
            layer that adds most to the error.
        why: the first or the second of these, in words.
        node: the node of that layer with the largest error of its own; "" if no node has an error.
        op: type of that node.
        local: error with only that node in FP16, on the sample where it is largest.
        local_nonfinite: number of its values that are not finite with only that node in FP16, on
            that sample.
        folder: folder with the smallest model and input that show the error; None if they were not
            saved.
        nodes: the nodes of the layer in the order of execution, each with its own errors.
    """

    layer: str
    why: str
    node: str = ""
    op: str = ""
    local: float = 0.0
    local_nonfinite: Count = 0
    folder: str | None = None
    nodes: tuple[LayerError, ...] = ()


@dataclass(frozen=True)
class WorstSample:
    """One of the samples that drifted most.

    Attributes:
        index: position in the data, from 0.
        error: relative L2 error of its worst output; infinite where a value is not finite.
        thumbnail: PNG in base64 where the input is an image; None otherwise.
        answer: the classes that both sides answer, in words; "" where they give no class.
    """

    index: Count
    error: float
    thumbnail: Base64 | None = None
    answer: str = ""


@dataclass(frozen=True)
class Explanation:
    """The origin of a candidate's drift.

    Attributes:
        worst: the samples that drifted most of all that were compared, the worst first.
        samples: number of samples that layers were measured on, those that drifted most.
        computed: the way the layers were computed in FP16 and in FP32, in words.
        baseline: relative L2 error of the FP32 run from the reference on these samples, by its
            worst output: this part is not FP16's doing.
        layers: the layers in the order of execution; empty if they could not be measured.
        first_nonfinite: the first layer whose results are not all finite; if there is none, the
            layer with the largest jump if inner values of it are not finite; None otherwise.
        largest_jump: the layer that adds most to the error; None if no layer adds any.
        culprit: the place to look at first; None if there is no error.
        notes: facts that a reader should know.
        error: reason why the layers could not be measured; None if they were.
        graph: name of the file's graph in viewers of graphs.
    """

    worst: tuple[WorstSample, ...]
    samples: Count = 0
    computed: str = ""
    baseline: float | None = None
    layers: tuple[LayerError, ...] = ()
    first_nonfinite: str | None = None
    largest_jump: str | None = None
    culprit: Culprit | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
    graph: str = ""
