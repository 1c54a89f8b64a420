"""The files that choices of FP32 nodes make of a model, run on the emulator."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import onnx_ir as ir

from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.emulation.profiles import GPU, Profile
from tfmp.converters.onnx.fp16 import ANY, Costs, at_edges, decide, split_biases, to_fp16
from tfmp.converters.onnx.graph import is_float, name_nodes, open_session, stores_narrow
from tfmp.converters.shared.frameworks import OrtSession
from tfmp.converters.shared.sessions import tensor_spec
from tfmp.converters.shared.tensors import Batch


class Assignments:
    """A float32 model whose nodes compute in FP32 or FP16, as each file asks.

    Attributes:
        costs: the cost of any choice.
        inputs: inputs of the model.
        outputs: names of the outputs.
        nodes: names of the nodes that can be chosen.
        values: float32 values, made at run time, that each of them in the main graph reads and
            writes.
        storing: names of those with weights that a file may store in FP16 for them.
        specs: signatures of the outputs.
    """

    def __init__(
        self,
        model: ir.Model,
        keep_fp32: Sequence[str] = (),
        target: str = ANY,
        edges: Batch | None = None,
        profile: Profile = GPU,
    ) -> None:
        """Decides about all nodes, and opens the float32 model.

        Args:
            model: a float32 model, prepared by `fp16.prepare`; it is not changed.
            keep_fp32: see `rules.decide`.
            target: see `rules.decide`.
            edges: see `rules.decide`.
            profile: FP16 hardware to emulate, without TF32 in the nodes that stay in FP32.
        """
        model = model.clone()
        if edges is not None:
            split_biases(model)
        name_nodes(model)
        decisions = decide(model, keep_fp32, target=target, edges=edges)
        self._model, self._keep_fp32, self._target = model, keep_fp32, target
        self._profile = replace(profile, tf32=False)
        self._edges = at_edges(decisions)
        self.costs = Costs(model, decisions)
        self.inputs = list(model.graph.inputs)
        self.outputs = [str(value.name) for value in model.graph.outputs]
        nodes = self.costs.nodes
        self.nodes = [str(node.name) for node in nodes]
        self.storing = {str(node.name) for node in nodes if any(map(_is_narrow, node.inputs))}
        self.values = {
            str(node.name): [
                value
                for value in dict.fromkeys((*node.inputs, *node.outputs))
                if value is not None and is_float(value) and value.producer() is not None
            ]
            for node in nodes
            if node.graph is model.graph
        }
        self._exact = open_session(self._with_values())
        own = set(self.outputs)
        self.specs = [tensor_spec(v) for v in self._exact.get_outputs() if v.name in own]

    def _with_values(self) -> ir.Model:
        """A copy of the model with all of `values` among its outputs."""
        copy = self._model.clone()
        made = {value.name: value for node in copy.graph for value in node.outputs}
        names = {str(value.name): None for values in self.values.values() for value in values}
        copy.graph.outputs.extend(made[name] for name in names if name not in self.outputs)
        return copy

    def exact(self, batch: Batch, wanted: Sequence[str]) -> Batch:
        """Outputs, or inner values, of the float32 model by name."""
        return dict(zip(wanted, self._exact.run(list(wanted), batch), strict=True))

    def file(self, fp32: Collection[str], narrow: Collection[str] = ()) -> OrtSession:
        """A session of the file with these nodes in FP32, emulated.

        Args:
            fp32: names of the nodes that compute in FP32; all others compute in FP16.
            narrow: names of those of `fp32` whose weights are stored in FP16.
        """
        kept = {**self._edges, **dict.fromkeys(fp32, "chosen")}
        model, _ = to_fp16(
            *(self._model.clone(), self._keep_fp32),
            keep_nodes=kept,
            rewritten=(),
            target=self._target,
            narrow_weights=narrow,
        )
        return open_session(emulated(model, self._profile))


def _is_narrow(value: ir.Value | None) -> bool:
    return value is not None and is_float(value) and stores_narrow(value)
