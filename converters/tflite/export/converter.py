"""TensorFlow's TFLite converter, as it runs in a worker process.

Each conversion leaks memory, and a bad graph can abort the process: the worker keeps both away.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.tflite.file import layer_of
from tfmp.shared.framework_start import DATA, WRAPPED, without

# The converter reads SavedModels: Keras, which TensorFlow imports, is not needed here.
with without("keras", *WRAPPED, *DATA):
    import tensorflow as tf


class Converter:
    """Converts SavedModels; the object that a `Worker` holds."""

    def convert(
        self,
        saved_model: Path,
        output: Path,
        signatures: list[str],
        allow_flex: bool,
        past_2_gib: bool,
    ) -> None:
        """Writes `output`, with float32 constants.

        Args:
            saved_model: a folder with a SavedModel.
            output: path of the file to write.
            signatures: names of the signatures to convert.
            allow_flex: whether TensorFlow ops may stay in the file.
            past_2_gib: whether the weights stand behind the flatbuffer, which cannot hold them.

        Raises:
            ConversionError: the graph needs ops that TFLite does not have, or the converter fails.
        """
        converter = tf.lite.TFLiteConverter.from_saved_model(
            str(saved_model), signature_keys=signatures
        )
        operators = [tf.lite.OpsSet.TFLITE_BUILTINS]
        if allow_flex:
            operators.append(tf.lite.OpsSet.SELECT_TF_OPS)
        converter.target_spec.supported_ops = operators
        converter._experimental_use_buffer_offset = past_2_gib
        try:
            content = converter.convert()
        except Exception as error:
            # The converter raises whatever its passes meet; its text is all there is to go by.
            raise ConversionError(explain_failure(str(error))) from None
        output.write_bytes(content)


def explain_failure(text: str) -> str:
    """The meaning of a converter's error: the ops and layers at fault, and the way out."""
    missing = _listed(text, "TF Select ops")
    custom = _listed(text, "Custom ops")
    errors = [_ERROR.search(line) for line in text.splitlines()]
    if not missing and not custom:
        return _other_failure(next(filter(None, errors), None), text)
    layers: dict[str, set[str]] = {}
    for error in filter(None, errors):
        if error["op"] and (layer := layer_of(error["name"])):
            layers.setdefault(error["op"], set()).add(layer)
    ops = ", ".join(_with_layers(op, layers.get(op, ())) for op in (*missing, *custom))
    message = f"TFLite has no operator for {ops}."
    if custom:
        return message + " Replace the layers that need custom operators: LiteRT has none of them."
    if any(op.startswith("TensorList") for op in missing):
        return message + _FIXED_BATCH
    return f"{message} Replace the layers that need it{_or_onnx(missing)}.{_FLEX}"


def _or_onnx(ops: Iterable[str]) -> str:
    """The other format as a way out, unless ONNX lacks a form of one of these operators, too."""
    from tf2onnx import tfonnx  # noqa: F401  (registers its handlers)
    from tf2onnx.handler import tf_op

    from tfmp.converters.intake import FILLINGS, ONNX_FORMS

    known = {name for handlers in tf_op.get_opsets()[""] for name in handlers}
    own = {op for op in ops if op.startswith("_Fused")}  # of grappler's; tf2onnx takes them apart
    plain = {*ops} <= known | FILLINGS.keys() | ONNX_FORMS.keys() | own
    return " (or try ONNX, `tfmp-convert onnx`)" if plain else ""


def _other_failure(error: re.Match[str] | None, text: str) -> str:
    if error is None:
        reason = next(iter(text.splitlines()), "") or "no reason given"
        return f"TensorFlow's TFLite converter failed: {reason[:500].rstrip('.')}."
    reason = error["reason"].strip().rstrip(".")[:500]
    if _INT8.search(reason):
        reason = _QUANTIZED
    layer = layer_of(error["name"] or "")
    where = f" at {_with_layers(error['op'], [layer] if layer else [])}" if error["op"] else ""
    message = f"TensorFlow's TFLite converter failed{where}: {reason}."
    return message + (_FIXED_BATCH if (error["op"] or "").startswith("TensorList") else "")


# An MLIR error, with the op and its name where the line tells its location.
_ERROR = re.compile(
    r"error: (?:loc\((?:.*?fused\[\"(?P<op>\w+):\", \"(?P<name>[^\"]+)\"\])?.*\): )?(?P<reason>.*)"
)
# The type of a tensor of whole numbers of 8 bits that no scale belongs to.
_INT8 = re.compile(r"tensor<(?:[^>]*x)?i[48]>")
_QUANTIZED = (
    'it multiplies int8 values, as quantize("int8") leaves them, which TFLite takes with its own '
    "scales only. Convert the model as it was before it was quantized, or to ONNX"
)
_FIXED_BATCH = (
    " A recurrent layer needs a fixed batch size: convert with `--batch 1` (`batch_size=1`), or "
    "with `--input-shape NAME=SIZES` where the first axis is not the batch. A tf.TensorArray needs "
    "elements of a known shape: give it element_shape."
)
_FLEX = (
    " With `--allow-flex` (`allow_flex=True`) TensorFlow ops stay in the file: it then runs only "
    "where the TensorFlow (Flex) delegate is linked in, never on a GPU or in plain LiteRT."
)


def _with_layers(op: str, layers: Iterable[str]) -> str:
    return f"{op} (layer {', '.join(sorted(layers))})" if layers else op


def _listed(text: str, heading: str) -> list[str]:
    match = re.search(rf"^{heading}: (.+)$", text, re.MULTILINE)
    return [name.strip() for name in match[1].split(",")] if match else []
