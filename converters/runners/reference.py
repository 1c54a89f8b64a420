"""The original model, which candidates are compared with."""

from tfmp.converters.runners.base import Held, RunnerInfo
from tfmp.converters.source import AnySource, OnnxSource
from tfmp.converters.tensors import Batch


class SourceRunner(Held):
    """The original model in float32: TensorFlow, or ONNX Runtime for an ONNX file."""

    def __init__(self, source: AnySource) -> None:
        self._source = source
        self.inputs, self.outputs = source.inputs, source.outputs
        if isinstance(source, OnnxSource):
            import onnxruntime

            self.info = RunnerInfo(
                "onnxruntime", "CPU", None, {"onnxruntime": onnxruntime.__version__}
            )
        else:
            import tensorflow as tf

            name = "keras" if source.origin.format == "keras" else "tensorflow"
            self.info = RunnerInfo(name, "CPU", None, {"tensorflow": tf.__version__})

    def run(self, batch: Batch) -> Batch:
        return self._source.forward(batch)
