"""The original model, which candidates are compared with."""

from contextlib import ExitStack
from typing import Self

from tfmp.converters.intake import AnySource, OnnxSource
from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.shared.tensors import Batch


def reference_runner(source: AnySource, gpu: bool = False) -> Runner:
    """What runs the original in float32.

    Args:
        source: the original.
        gpu: run it on a GPU where its framework has one; TF32 is off there.
    """
    if gpu and isinstance(source, OnnxSource) and source.origin.path is not None:
        from tfmp.converters.runners.cuda import CudaRunner

        return CudaRunner(source.origin.path)
    return SourceRunner(source, gpu)


class SourceRunner:
    """The original model in float32: TensorFlow, or ONNX Runtime for an ONNX file."""

    notes: tuple[str, ...] = ()

    def __init__(self, source: AnySource, gpu: bool = False) -> None:
        """See `reference_runner`."""
        self._source = source
        self._device: str | None = None
        self.inputs, self.outputs = source.inputs, source.outputs
        if isinstance(source, OnnxSource):
            import onnxruntime

            details = {"onnxruntime": onnxruntime.__version__}
            self.info = RunnerInfo("onnxruntime", "CPU", None, details)
            return
        import tensorflow as tf

        name = "keras" if source.origin.format == "keras" else "tensorflow"
        details = {"tensorflow": tf.__version__}
        found = bool(tf.config.list_physical_devices("GPU"))
        if gpu and not found:
            details["device"] = "TensorFlow sees no GPU: the reference ran on the CPU"
        self._device = "/GPU:0" if gpu and found else "/CPU:0"
        if gpu and found:
            details["tf32"] = "off"
        self.info = RunnerInfo(name, "GPU" if gpu and found else "CPU", None, details)

    def run(self, batch: Batch) -> Batch:
        if self._device is None:
            return self._source.forward(batch)
        import tensorflow as tf

        with tf.device(self._device):
            return self._source.forward(batch)

    def __enter__(self) -> Self:
        self._held = ExitStack()
        if self._device == "/GPU:0":
            import tensorflow as tf

            switch = tf.config.experimental.enable_tensor_float_32_execution
            before = tf.config.experimental.tensor_float_32_execution_enabled()
            self._held.callback(switch, before)
            switch(False)
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.close()
