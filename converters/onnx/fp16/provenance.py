"""The origin of an ONNX file, as its `metadata_props` tell it."""

import json

import onnx_ir as ir

from tfmp.converters.onnx.fp16.gaps import ANY, CUDA
from tfmp.converters.onnx.fp16.report import QUANTIZED, Fp16Report
from tfmp.converters.onnx.graph import is_half, nodes_of
from tfmp.shared.packages import installed_versions

# Key of the runtime that a file was converted for; files for any runtime do not have it.
TARGET = "tfmp.target"


# Key of the options of sessions that a file should be run with, by provider of ONNX Runtime.
SESSION_OPTIONS = "tfmp.session_options"

# SkipLayerNormalization adds in FP32 then (`emulation.facts` has the sources).
_STRICT_NORMS = {"CUDAExecutionProvider": {"enable_skip_layer_norm_strict_mode": "1"}}


def describe_origin(
    model: ir.Model,
    precision: str,
    source_sha256: str,
    report: Fp16Report | None = None,
    target: str = ANY,
) -> None:
    """Writes into a file's metadata the model that it came from, and the changes that were made.

    Args:
        model: the file's model, which is changed in place.
        precision: "fp32", "fp16", "bf16" or "mixed".
        source_sha256: hash of the model that the file is made from.
        report: the report of the FP16 pass, if it ran.
        target: runtime that the file is made for, one of `gaps.TARGETS`.

    The values hold no time and no path: the same input gives the same bytes. Some are JSON:
    "tfmp.session_options" of provider options by provider, for files that add and normalize in
    FP16, which ONNX Runtime fuses on CUDA; "tfmp.fp32_nodes" of objects with node, op, layer and
    reason, if nobody quantized them; "tfmp.constants" of name, size, vanished and subnormal.
    """
    properties = model.metadata_props
    # A source tree on the path is not installed.
    properties["tfmp.version"] = installed_versions(["tfmp"]).get("tfmp", "unknown")
    properties["tfmp.source_sha256"] = source_sha256
    properties["tfmp.precision"] = precision
    for key in (TARGET, SESSION_OPTIONS):
        properties.pop(key, None)
    if report is None:
        return
    if target != ANY:
        properties[TARGET] = target
    if target in (ANY, CUDA) and any(map(_normalizes_a_sum, nodes_of(model.graph))):
        properties[SESSION_OPTIONS] = json.dumps(_STRICT_NORMS, separators=(",", ":"))
    properties["tfmp.fp32_nodes"] = _dense_json(
        [
            {"node": i.node, "op": i.op_type, "layer": i.layer, "reason": i.reason}
            for i in report.islands
            if i.reason != QUANTIZED
        ]
    )
    properties["tfmp.constants"] = _dense_json(
        [
            {"name": c.name, "size": c.size, "vanished": c.vanished, "subnormal": c.subnormal}
            for c in report.constants
        ]
    )


def _normalizes_a_sum(node: ir.Node) -> bool:
    """Whether ONNX Runtime may make SkipLayerNormalization of a node and the sum before it."""
    if node.domain != "" or node.op_type not in ("LayerNormalization", "RMSNormalization"):
        return False
    source = node.inputs[0]
    maker = source.producer() if source is not None else None
    return is_half(source) and maker is not None and maker.op_type == "Add"


def _dense_json(entries: list[dict[str, str | int]]) -> str:
    """Without the spaces: in a small model these lists are a percent of the file."""
    return json.dumps(entries, separators=(",", ":"))
