"""ONNX files of 16 bits, opened for an explanation."""

from pathlib import Path

import onnx_ir as ir

from tfmp.converters.explain.attribution import Values
from tfmp.converters.explain.onnx_taps import OnnxTaps, by_layer, by_node, single_node
from tfmp.converters.explain.reproduction import ONNX_SCRIPT, save_reproduction
from tfmp.converters.explain.weights import Weights
from tfmp.converters.intake import AnySource
from tfmp.converters.onnx.emulation import Profile, profile_of
from tfmp.converters.onnx.export import export_onnx, without_marks
from tfmp.converters.onnx.fp16 import TARGET, computes_in_half, prepare
from tfmp.converters.onnx.graph import BF16, FP16, HALVES, name_nodes, save_checked
from tfmp.converters.onnx.rewrites import rewrite
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.sessions import read_onnx
from tfmp.converters.shared.tensors import Batch


class OnnxCandidate:
    """See `candidate.Candidate`."""

    def __init__(self, path: Path, profile: Profile | None, source: AnySource) -> None:
        """Reads the file.

        Args:
            path: path of an FP16 or BF16 ONNX file.
            profile: the hardware or runtime that is emulated; None for the file's target.
            source: the reference.

        Raises:
            ConversionError: the file's types contradict each other.
        """
        self._model = read_onnx(path)
        prepare(self._model)
        name_nodes(self._model)
        self._profile = profile or profile_of(self._model.metadata_props.get(TARGET))
        self._groups = by_layer(self._model)
        half = BF16 if computes_in_half(self._model, BF16) else FP16
        self._weights, self._unknown = _weights(source, half)
        graph = self._model.graph
        first = graph.inputs[0].shape if graph.inputs else None
        size = first[0] if first is not None and len(first) else None
        self.batch_size = size if isinstance(size, int) else None
        self.graph = str(graph.name or "")
        self.outputs = {str(value.name): str(value.name) for value in graph.outputs}
        title = HALVES[half].title
        self.computed = (
            f"{title} emulated for {self._profile.runtime}; FP32 with the reference's weights"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(filter(None, [self._unknown, self._weights.note()]))

    def layers(self) -> OnnxTaps:
        return OnnxTaps(self._model, self._groups, self._profile, self._weights)

    def nodes(self, layer: str) -> OnnxTaps:
        return OnnxTaps(self._model, by_node(self._groups, layer), self._profile, self._weights)

    def op(self, node: str) -> str:
        return next(item.op_type for item in self._model.graph if item.name == node)

    def save_node(self, node: str, inputs: Batch, values: Values, folder: Path) -> None:
        model, given, made = single_node(self._model, node, self._profile)
        known = {**inputs, **values.exact}
        arrays = {name: known[original] for name, original in given.items()}
        expected = {name: values.exact[original] for name, original in made.items()}
        save_checked(model, folder / "node.onnx")
        save_reproduction(folder, arrays, expected, ONNX_SCRIPT, f"{self.op(node)} {node!r}")


def _weights(source: AnySource, half: ir.DataType) -> tuple[Weights, str | None]:
    """The reference's weights in the forms that a conversion may give them."""
    try:
        model = export_onnx(source)
        without_marks(model)  # names as in the file
        prepare(model)
        constants = _constants(model)
        rewrite(model, numbers=HALVES[half])
        constants += _constants(model)
    except ConversionError as error:
        return Weights(), f"the reference cannot be exported, so its weights are unknown: {error}"
    return Weights(constants, half.numpy()), None


def _constants(model: ir.Model) -> list:
    return [
        value.const_value.numpy()
        for value in model.graph.initializers.values()
        if value.const_value is not None
    ]
