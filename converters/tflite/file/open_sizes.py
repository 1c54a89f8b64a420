"""Finds the operators of a .tflite file that add, average or count along a size that may change."""

from collections.abc import Iterator

from tfmp.converters.tflite.file.reader import Operator, Tensor, TFLiteModel

_WHAT = {
    "SUM": "a sum",
    "MEAN": "a mean",
    "BATCH_MATMUL": "a sum",
    "SOFTMAX": "a sum",
    "LOG_SOFTMAX": "a sum",
    "CUMSUM": "a sum",
    "L2_NORMALIZATION": "a norm",
    "RANGE": "positions",
}


def sums_over_open_sizes(model: TFLiteModel) -> Iterator[tuple[str, str, str]]:
    """Operators whose result adds up more numbers where an input is larger.

    Yields:
        Operator, name of its result, and "a sum", "a mean", "a norm" or "positions".
    """
    for operator in model.operators:
        what = _WHAT.get(operator.name)
        if what is None:
            continue
        tensors = model.tensors[operator.subgraph]
        if operator.name == "RANGE":
            grows = any(tensors[index].buffer is None for index in operator.inputs)
        else:
            first = tensors[operator.inputs[0]]
            sizes = first.spec.shape
            grows = any(
                axis and sizes[axis] is None for axis in _added(model, operator, first, tensors)
            )
        if grows:
            yield operator.name, tensors[operator.outputs[0]].spec.name, what


def _added(
    model: TFLiteModel, operator: Operator, first: Tensor, tensors: tuple[Tensor, ...]
) -> list[int]:
    """The axes that an operator adds along."""
    rank = len(first.spec.shape)
    if operator.name in ("SUM", "MEAN", "CUMSUM"):
        axes = tensors[operator.inputs[1]]
        return [] if axes.buffer is None else (model.constant(axes).reshape(-1) % rank).tolist()
    if operator.name == "BATCH_MATMUL":
        graph = model.content.subgraphs[operator.subgraph]
        turned = graph.operators[operator.index].builtinOptions.adjX
        return [rank - 2 if turned else rank - 1]
    return [rank - 1]
