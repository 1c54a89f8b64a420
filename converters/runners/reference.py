"""The original model, which candidates are compared with."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from tfmp.converters.intake import AnySource, OnnxSource
from tfmp.converters.runners.base import Held, RunnerInfo
from tfmp.converters.shared.sessions import holds
from tfmp.converters.shared.tensors import Batch


class SourceRunner(Held):
    """The original model in float32, through its own `forward`."""

    def __init__(self, source: AnySource, info: RunnerInfo) -> None:
        """Takes an open model.

        Args:
            source: the original.
            info: the runner that `source.forward` stands for, in words.
        """
        self._source = source
        self.inputs, self.outputs = source.inputs, source.outputs
        half = isinstance(source, OnnxSource) and holds(source.model, "FLOAT16", "BFLOAT16")
        self.info = replace(info, fp16="weights-only") if half else info

    def run(self, batch: Batch) -> Batch:
        return self._source.forward(batch)


class TensorFlowRunner(SourceRunner):
    """The original model in float32 on TensorFlow, with TF32 off on a GPU."""

    def __init__(self, source: AnySource, gpu: bool = False) -> None:
        """Takes an open model.

        Args:
            source: the original.
            gpu: whether to run it on a GPU, if TensorFlow has one.
        """
        import tensorflow as tf

        name = "keras" if source.origin.format == "keras" else "tensorflow"
        details = {"tensorflow": tf.__version__}
        found = bool(tf.config.list_physical_devices("GPU"))
        if gpu and not found:
            details["device"] = "TensorFlow sees no GPU: the reference ran on the CPU"
        self._device = "/GPU:0" if gpu and found else "/CPU:0"
        if gpu and found:
            details["tf32"] = "off"
        device = "GPU" if gpu and found else "CPU"
        super().__init__(source, RunnerInfo(name, device, None, details))

    def run(self, batch: Batch) -> Batch:
        import tensorflow as tf

        with tf.device(self._device):
            return super().run(batch)

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
