"""A .tflite file that allows sums in FP16, as CPUs with FP16 arithmetic compute it.

Few machines have such a CPU. The file becomes an ONNX graph in FP16, which the emulator runs.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tfmp.converters.onnx.emulation import LITERT_CPU, Profile
from tfmp.converters.onnx.fp16 import prepare, to_fp16
from tfmp.converters.runners.base import Runner
from tfmp.converters.runners.elsewhere import OtherRuntime, share_of
from tfmp.converters.shared.errors import RunnerError
from tfmp.shared.wording import first_line

if TYPE_CHECKING:
    import onnx_ir as ir

    from tfmp.converters.tflite.file import TFLiteModel

# tf2onnx's newest.
_OPSET = 18


class TFLiteSums(OtherRuntime):
    """See `OtherRuntime`, which it is of the ONNX graph."""

    def __init__(self, path: Path) -> None:
        """Reads the file's sizes only.

        Args:
            path: an FP16 .tflite file.
        """
        from tfmp.converters.tflite.file import TFLiteModel

        self._file = TFLiteModel(path)
        self.profile = Profile.parse(LITERT_CPU)
        weights = sum(constant.nbytes for constant in self._file.constants()) // 2
        self.share = share_of(weights, self.profile)

    def open(self) -> Runner | None:
        """A runner of the file; None where nothing in it adds up.

        Raises:
            RunnerError: tf2onnx does not read the file, or ONNX Runtime does not load the graph.
        """
        super().__init__(_as_onnx(self._file), self.profile)
        return super().open()


def _as_onnx(file: "TFLiteModel") -> "ir.Model":
    """The graph of a file's only signature in FP16, with the signature's names."""
    import onnx_ir as ir
    import tensorflow as tf
    from tf2onnx import optimizer, tfonnx

    name = file.path.name
    if len(file.tensors) > 1 or len(file.signatures) > 1:
        raise RunnerError(f"{name}: loops, branches and further signatures are not emulated")
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
