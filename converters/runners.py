"""One interface to everything that executes a model, and proof of what it computed in.

A runner is a context manager: it holds a session or a worker process from `with` to its end.
"""

import platform
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from tfmp.converters.errors import InputError, RunnerError
from tfmp.converters.sessions import cpu_session
from tfmp.converters.source import AnySource, OnnxSource
from tfmp.converters.tensors import Batch, TensorSpec
from tfmp.converters.worker import Worker


@dataclass(frozen=True)
class RunnerInfo:
    """What executed a model.

    Attributes:
        name: the runner, such as "onnxruntime" or "emulated".
        device: where it ran, such as "CPU".
        fp16: "native" (FP16 arithmetic), "emulated" (FP32 arithmetic, every FP16 tensor rounded),
            "weights-only" (FP16 weights, FP32 arithmetic), or None for a float32 model.
        details: versions, settings and the proof of the above, for the report.
    """

    name: str
    device: str
    fp16: str | None
    details: dict[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """Executes one model, batch by batch."""

    info: RunnerInfo
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def run(self, batch: Batch) -> Batch:
        """Arrays by input name to arrays by output name; raises `RunnerError` on failure."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class _Held:
    """Context-manager half of a runner that has nothing to release."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class SourceRunner(_Held):
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


class OnnxRunner(_Held):
    """A float32 or FP16 ONNX file on ONNX Runtime's CPU provider.

    The CPU provider has hardly any FP16 kernels: it lifts FP16 regions to FP32 between casts, so
    an FP16 file shows its rounded weights and I/O here, not its arithmetic.
    """

    def __init__(self, model: Any, info: RunnerInfo | None = None) -> None:
        import onnxruntime

        self._session = _open(model)
        self.inputs = tuple(_spec(value) for value in self._session.get_inputs())
        self.outputs = tuple(_spec(value) for value in self._session.get_outputs())
        self.info = info or RunnerInfo(
            "onnxruntime", "CPU", "weights-only", {"onnxruntime": onnxruntime.__version__}
        )

    def run(self, batch: Batch) -> Batch:
        feed = {spec.name: batch[spec.name].astype(spec.dtype) for spec in self.inputs}
        names = [spec.name for spec in self.outputs]
        try:
            return dict(zip(names, self._session.run(names, feed), strict=True))
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise RunnerError(f"ONNX Runtime: {str(error).splitlines()[0]}") from error


def open_runner(path: Path) -> Runner:
    """The runner that shows most of what a file does on hardware with FP16 arithmetic.

    Raises:
        RunnerError: the file cannot be loaded.
    """
    if path.suffix.lower() == ".tflite":
        return litert_runner(path)
    return onnx_runner(path)


class LiteRTRunner:
    """A .tflite file on LiteRT's CPU backend (XNNPACK), in a process of its own.

    By default XNNPACK widens FP16 weights and computes in FP32, as most phones' CPUs do. Forced,
    every tensor it computes is FP16, as on a GPU; x86 has no such arithmetic and emulates it.
    """

    def __init__(
        self,
        path: Path,
        force_fp16: bool,
        signature: str | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        """Loads the file.

        Args:
            path: a .tflite file.
            force_fp16: compute in FP16.
            signature: the entry point to run; the first if None.
            timeout_s: the longest one batch may take, in seconds.

        Raises:
            RunnerError: LiteRT cannot load or prepare it, or dies of it.
        """
        from tfmp.converters.tflite.reader import TFLiteModel

        try:
            file = TFLiteModel(path)
        except InputError as error:
            raise RunnerError(str(error)) from error
        chosen = file.signature(signature)
        # Larger and smaller batches than the file's are cut and filled up.
        self.inputs = tuple(replace(s, shape=(None, *s.shape[1:])) for s in chosen.inputs)
        self.outputs = tuple(replace(s, shape=(None, *s.shape[1:])) for s in chosen.outputs)
        weights = "weights-only" if file.has_fp16_weights else None
        self._worker = Worker(
            "tfmp.converters.tflite.interpreter:Interpreter",
            path,
            force_fp16,
            signature,
            label=f"LiteRT with {path.name}",
            timeout_s=timeout_s,
        )
        try:
            details = self._worker.call("describe")
        except RunnerError:
            self._worker.close()
            raise
        if force_fp16:
            details["arithmetic"] = _XNNPACK_FP16
        self.info = RunnerInfo(
            name="litert-fp16" if force_fp16 else "litert",
            device="CPU",
            fp16="native" if force_fp16 else weights,
            details=details,
        )

    def run(self, batch: Batch) -> Batch:
        outputs, on_grid = self._worker.call("run", batch)
        if self.info.fp16 == "native":
            off = [name for name, every in on_grid.items() if not every]
            self.info.details["proof"] = (
                f"{', '.join(off)}: values that FP16 cannot hold, so part of it was FP32"
                if off
                else "every output value is an FP16 number"
            )
        return outputs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._worker.close()


_XNNPACK_FP16 = (
    "FP16, emulated by XNNPACK: this CPU has no FP16 arithmetic"
    if platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
    else "FP16 (XNNPACK)"
)


def litert_runner(path: Path) -> LiteRTRunner:
    """The runner that shows most of what a .tflite file does where FP16 is computed in.

    Raises:
        RunnerError: the file cannot be loaded.
    """
    from tfmp.converters.tflite.reader import TFLiteModel

    try:
        half = TFLiteModel(path).has_fp16_weights
    except InputError as error:
        raise RunnerError(str(error)) from error
    return LiteRTRunner(path, force_fp16=half)


def onnx_runner(path: Path, emulate: bool = True) -> OnnxRunner:
    """The runner that shows most of what an ONNX file does on hardware with FP16 kernels.

    Args:
        path: an ONNX file.
        emulate: round every FP16 tensor (False: what ONNX Runtime's CPU provider makes of it).

    Returns:
        For a float32 file, ONNX Runtime itself with `info.fp16` None.

    Raises:
        RunnerError: the file is no ONNX model or cannot be loaded.
    """
    import onnx_ir as ir
    import onnxruntime

    from tfmp.converters.onnx.emulate import emulated
    from tfmp.converters.onnx.fp16 import computes_in_fp16, prepare

    versions = {"onnxruntime": onnxruntime.__version__}
    try:
        model = ir.load(path)
        prepare(model)
        half = computes_in_fp16(model)
        if not half:
            return OnnxRunner(path, RunnerInfo("onnxruntime", "CPU", None, versions))
        if not emulate:
            return OnnxRunner(path)
        rounded = emulated(model)
    except RunnerError:
        raise
    except Exception as error:  # protobuf, ONNX and onnx-ir each raise their own
        raise RunnerError(f"{path} is not a usable ONNX model ({error}).") from error
    details = {
        "profile": "gpu: FP32 accumulation, every FP16 tensor rounded where a kernel writes it",
        **versions,
    }
    return OnnxRunner(rounded, RunnerInfo("emulated", "CPU", "emulated", details))


def _open(model: Any) -> Any:
    """An ONNX Runtime CPU session; raises `RunnerError` when it refuses the model."""
    from tfmp.converters.onnx.storage import open_session

    try:
        return cpu_session(model) if isinstance(model, Path | bytes) else open_session(model)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        raise RunnerError(
            f"ONNX Runtime cannot load the model: {str(error).splitlines()[0]}"
        ) from error


_NUMPY_DTYPES = {"float": "float32", "double": "float64"}


def _spec(value: Any) -> TensorSpec:
    element = value.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    return TensorSpec(value.name, shape, str(np.dtype(_NUMPY_DTYPES.get(element, element))))
