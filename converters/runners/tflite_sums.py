"""A .tflite file as an ONNX graph in the emulator, where LiteRT's CPU does not compute in FP16."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tfmp.converters.onnx.emulation import GPU, LITERT_CPU, Profile, emulated
from tfmp.converters.onnx.fp16 import prepare, to_fp16
from tfmp.converters.runners.base import HOLDS_FOR, RunnerInfo
from tfmp.converters.runners.onnx import OnnxRunner
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.wording import first_line

if TYPE_CHECKING:
    import onnx_ir as ir

    from tfmp.converters.tflite.file import TFLiteModel

# tf2onnx's newest.
_OPSET = 18


class TFLiteSumsRunner(OnnxRunner):
    """A file of one signature; one that allows sums in FP16 adds so, one term at a time."""

    def __init__(self, path: Path) -> None:
        """Emulates the file.

        Args:
            path: an FP16 .tflite file.

        Raises:
            RunnerError: tf2onnx does not read the file, or ONNX Runtime does not load the graph.
        """
        from tfmp.converters.tflite.file import TFLiteModel, host_scaling

        file = TFLiteModel(path)
        profile = Profile.parse(LITERT_CPU) if file.accumulation == "fp16" else GPU
        details = {"profile": profile.describe(), HOLDS_FOR: profile.runtime}
        info = RunnerInfo("emulated", "CPU", "emulated", details)
        super().__init__(emulated(_as_onnx(file), profile), info)
        self._scaling = host_scaling(file)

    def run(self, batch: Batch) -> Batch:
        """Answers of one call, as the host gives them."""
        from tfmp.converters.tflite.file import scaled_by_host

        return scaled_by_host(super().run(batch), self._scaling)


def _as_onnx(file: "TFLiteModel") -> "ir.Model":
    """The graph of a file's only signature in FP16, with the signature's names."""
    import onnx_ir as ir
    import tensorflow as tf
    from tf2onnx import optimizer, tfonnx

    import tfmp.converters.onnx.export.handlers  # noqa: F401  (registers them)

    name = file.path.name
    if len(file.signatures) > 1:
        raise RunnerError(f"{name}: a file of several signatures is not emulated")
    try:
        with _silent(), tf.Graph().as_default():
            graph = tfonnx.process_tf_graph(None, opset=_OPSET, tflite_path=str(file.path))
            proto = optimizer.optimize_graph(graph).make_model(name)
        model = ir.from_proto(proto)
        prepare(model)
        signature = file.signature()
        for specs, values in (
            (signature.inputs, model.graph.inputs),
            (signature.outputs, model.graph.outputs),
        ):
            for spec, value in zip(specs, values, strict=True):
                value.name = spec.name
        return to_fp16(model, rewritten=())[0]
    except Exception as error:  # tf2onnx raises every kind
        raise RunnerError(f"{name}: tf2onnx cannot read it ({first_line(error)})") from error


@contextmanager
def _silent() -> Iterator[None]:
    logger = logging.getLogger("tf2onnx")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside tf2onnx and TensorFlow
            yield
    finally:
        logger.disabled = before
