"""Runs ONNX files on ONNX Runtime's CPU provider, as they are or with FP16 emulated."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tfmp.converters.onnx.emulation import Profile
from tfmp.converters.runners.base import HOLDS_FOR, Held, RunnerInfo
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.frameworks import OrtSession
from tfmp.converters.shared.sessions import cpu_session, read_onnx, tensor_spec
from tfmp.converters.shared.tensors import Batch, in_dtype
from tfmp.shared.wording import first_line

if TYPE_CHECKING:
    import onnx_ir as ir


class OnnxRunner(Held):
    """A float32 or FP16 ONNX file on ONNX Runtime's CPU provider.

    The CPU provider has hardly any FP16 kernels: it lifts FP16 regions to FP32 between casts. An
    FP16 file shows its rounded weights and I/O here, but not its arithmetic.
    """

    def __init__(
        self,
        model: "Path | bytes | ir.Model",
        info: RunnerInfo | None = None,
        alone: bool = False,
    ) -> None:
        """Loads the model.

        Args:
            model: a file, or a model in memory.
            info: what reports say of this runner.
            alone: whether runs follow each other, as where their time is measured; see
                `cpu_session`.
        """
        import onnxruntime

        self._session = _open(model, alone)
        self.inputs = tuple(map(tensor_spec, self._session.get_inputs()))
        self.outputs = tuple(map(tensor_spec, self._session.get_outputs()))
        self.info = info or RunnerInfo(
            "onnxruntime", "CPU", "weights-only", {"onnxruntime": onnxruntime.__version__}
        )

    def run(self, batch: Batch) -> Batch:
        for spec in self.inputs:
            if not spec.takes(batch[spec.name]):
                raise RunnerError(
                    f"input {spec} received an array of shape {list(batch[spec.name].shape)}. "
                    "Compare with a model of the same sizes, or convert it for these sizes "
                    "(--input-shape)"
                )
        feed = {spec.name: in_dtype(batch[spec.name], spec.dtype) for spec in self.inputs}
        names = [spec.name for spec in self.outputs]
        try:
            return dict(zip(names, self._session.run(names, feed), strict=True))
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise RunnerError(f"ONNX Runtime: {first_line(error)}") from error


def onnx_runner(path: Path, profile: Profile | None = None) -> OnnxRunner:
    """The runner that shows most of an ONNX file's behaviour on hardware with FP16 kernels.

    Args:
        path: an ONNX file.
        profile: the hardware or runtime to emulate; None for the target that the file was
            converted for.

    Returns:
        A runner; `info.fp16` is None for a float32 file, which ONNX Runtime itself runs.

    Raises:
        RunnerError: the file is not an ONNX model or cannot be loaded.
    """
    import onnxruntime

    from tfmp.converters.onnx.emulation import FP32_INSIDE, emulated, profile_of
    from tfmp.converters.onnx.fp16 import TARGET, computes_in_half
    from tfmp.converters.onnx.graph import BF16, HALVES, fault_of

    versions = {"onnxruntime": onnxruntime.__version__}
    model = prepared_model(path)
    if not computes_in_half(model):
        return OnnxRunner(path, RunnerInfo("onnxruntime", "CPU", None, versions))
    fault = fault_of(model)
    chosen = profile or profile_of(model.metadata_props.get(TARGET))
    types = [half for half in HALVES if computes_in_half(model, half)]
    if BF16 in types and not chosen.takes_bf16:
        raise RunnerError(
            f"{path} computes in bfloat16, which {chosen.runtime} has no kernels for. Emulate "
            "another runtime, or convert with --precision fp16."
        )
    title = " and ".join(HALVES[half].title for half in types)
    with _usable(path):
        rounded = emulated(model, chosen)
    details = {"profile": chosen.describe(title), HOLDS_FOR: chosen.runtime, **versions}
    if rounded.metadata_props.get(FP32_INSIDE):
        details["in FP32 inside"] = rounded.metadata_props[FP32_INSIDE]
    name = "emulated" if BF16 not in types else f"emulated {title}"
    runner = OnnxRunner(rounded, RunnerInfo(name, "CPU", "emulated", details))
    runner.notes = (fault,) if fault else ()
    return runner


def onnx_weights_runner(path: Path) -> OnnxRunner:
    """A runner that computes in FP32 with the rounded weights of a file of 16 bits.

    Raises:
        RunnerError: the file is not an ONNX model or cannot be loaded.
    """
    import onnxruntime

    from tfmp.converters.onnx.fp16 import computes_in_half
    from tfmp.converters.onnx.graph import BF16, widen

    model = prepared_model(path)
    if not computes_in_half(model, BF16):
        return OnnxRunner(path)  # the CPU provider lifts FP16 to FP32 itself
    widen(model)
    versions = {"onnxruntime": onnxruntime.__version__}
    return OnnxRunner(model, RunnerInfo("onnxruntime", "CPU", "weights-only", versions))


def prepared_model(path: Path) -> "ir.Model":
    """An ONNX file with its values named and typed, see `fp16.prepare`.

    Raises:
        RunnerError: the file is not an ONNX model.
    """
    from tfmp.converters.onnx.fp16 import prepare

    with _usable(path):
        model = read_onnx(path)
        prepare(model)
        return model


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # protobuf, ONNX and onnx-ir each raise their own
        raise RunnerError(
            f"{path} is not a usable ONNX model ({error}). Copy or convert it again."
        ) from error


def _open(model: "Path | bytes | ir.Model", alone: bool) -> OrtSession:
    """An ONNX Runtime CPU session; raises `RunnerError` when it refuses the model."""
    from tfmp.converters.onnx.graph import open_session

    try:
        if isinstance(model, Path):
            return cpu_session(model, alone=alone, disabled=_left_out(model))
        if isinstance(model, bytes):
            return cpu_session(model, alone=alone)
        return open_session(model, alone)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        raise RunnerError(f"ONNX Runtime cannot load the model: {first_line(error)}") from error


def _left_out(path: Path) -> tuple[str, ...]:
    """Optimizers that the process would not survive."""
    from tfmp.converters.onnx.graph import FAULTY_OPTIMIZER, fault_of

    return (FAULTY_OPTIMIZER,) if fault_of(read_onnx(path)) else ()
