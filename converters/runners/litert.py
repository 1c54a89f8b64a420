"""Runs TFLite files on LiteRT, each in a process of its own."""

import re
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from tfmp.converters.runners.base import HOLDS_FOR, RunnerInfo
from tfmp.converters.runners.probes import SUM_TERMS, tflite_probe
from tfmp.converters.shared.errors import InputError, MachineError, RunnerError
from tfmp.converters.shared.tensors import Batch, TensorSpec, describe
from tfmp.converters.shared.worker import Worker, WorkerError
from tfmp.shared.atomic_file import temporary_folder

if TYPE_CHECKING:
    from tfmp.converters.runners.tflite_sums import TFLiteSumsRunner
    from tfmp.converters.runners.vulkan import Adapter, Vulkan
    from tfmp.converters.tflite.file import TFLiteModel

_INTERPRETER = "tfmp.converters.tflite.file:Interpreter"
_TIMEOUT_S = 600.0


class _Interpreted:
    """The common part of the runners: a worker that holds the file, and the proof of its runs."""

    info: RunnerInfo

    def __init__(self, file: "TFLiteModel", signature: str | None) -> None:
        from tfmp.converters.tflite.export import clamped
        from tfmp.converters.tflite.file import host_scaling

        self._scaling = host_scaling(file)
        told = (f"the host gives output {name!r} {one}" for name, one in self._scaling.items())
        chosen = file.signature(signature)
        self.notes = (*told, *(map(str, clamped(file)) if _is_fp16(file) else ()))
        self.inputs, self.outputs = chosen.inputs, chosen.outputs
        if not chosen.takes_whole_calls:
            # Larger and smaller batches than the file's are cut and filled up.
            self.inputs, self.outputs = map(_with_any_samples, (chosen.inputs, chosen.outputs))
        self._held = ExitStack()

    def _start(self, *arguments: object, path: Path, **options: object) -> Worker:
        worker = Worker(
            _INTERPRETER,
            path,
            *arguments,
            label=f"LiteRT with {path.name}",
            timeout_s=_TIMEOUT_S,
            **options,  # type: ignore[arg-type]
        )
        self._worker = self._held.enter_context(worker)
        return worker

    def run(self, batch: Batch) -> Batch:
        from tfmp.converters.tflite.file import scaled_by_host

        outputs, off_grid = self._worker.call("run", batch)
        if self.info.fp16 in ("native", "emulated"):
            self.info.details["proof"] = (
                f"{', '.join(off_grid)} holds values that FP16 cannot hold, so a part was computed "
                "in FP32"
                if off_grid
                else "every output value is an FP16 number"
            )
        return scaled_by_host(outputs, self._scaling)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.close()


class LiteRTRunner(_Interpreted):
    """A .tflite file on LiteRT's CPU backend, XNNPACK.

    By default XNNPACK widens FP16 weights and computes in FP32, as most phones' CPUs do. Forced,
    every tensor it computes is FP16, as on a GPU. CPUs with FP16 arithmetic (AVX512-FP16, ARM) also
    hold sums in FP16; others compute in FP32 and round the results. A probe tells which it is.
    """

    def __init__(self, path: Path, force_fp16: bool, signature: str | None = None) -> None:
        """Loads the file.

        Args:
            path: a .tflite file.
            force_fp16: whether to compute in FP16.
            signature: name of the entry point to run; the first one if None.

        Raises:
            RunnerError: LiteRT cannot load or prepare the file, or the process ends.
        """
        file = _read(path)
        super().__init__(file, signature)
        mode = "fp16" if force_fp16 else "cpu"
        with self._held:
            worker = self._start(mode, signature, path=path)
            version, whole = worker.call("describe")
            exact, arithmetic = _arithmetic(worker) if force_fp16 else (False, {})
            self._held = self._held.pop_all()
        details = {
            "litert": version,
            "xnnpack": "every operator" if whole else "part of the operators",
            **arithmetic,
        }
        self.info = RunnerInfo(
            name="litert-fp16" if force_fp16 else "litert",
            device="CPU",
            fp16=_kind(file, exact) if force_fp16 else _weights_only(file),
            details=details,
        )


def _kind(file: "TFLiteModel", exact: bool) -> str:
    """A file that allows sums in FP16 is only emulated by a CPU that holds them in FP32."""
    return "emulated" if exact and file.accumulation == "fp16" else "native"


def _arithmetic(worker: Worker) -> tuple[bool, dict[str, str]]:
    """Whether this CPU holds sums in FP32 where XNNPACK is forced to FP16, and that in words."""
    with temporary_folder() as folder:
        path = folder / "sum.tflite"
        path.write_bytes(tflite_probe())
        (total,) = worker.call("answer", path, {"x": np.ones((1, SUM_TERMS), np.float32)}).values()
    exact = bool((total == SUM_TERMS).all())
    held = "held in FP32, and results rounded" if exact else "held in FP16"
    return exact, {
        "arithmetic": f"FP16 by XNNPACK: sums are {held}",
        HOLDS_FOR: f"LiteRT on CPUs that add in {'FP32' if exact else 'FP16'}, as this one does",
    }


class LiteRTGpuRunner(_Interpreted):
    """A .tflite file on LiteRT's GPU backend, through WebGPU and Vulkan.

    It computes in FP16 if the adapter can. SwiftShader, the adapter in software for machines
    without a GPU, cannot: it shows the operators that a GPU takes, not the effect of FP16.
    """

    def __init__(self, path: Path, signature: str | None = None) -> None:
        """Loads the file; see `LiteRTRunner`.

        Raises:
            MachineError: there is no adapter, or LiteRT cannot use it.
            RunnerError: LiteRT cannot load the file, or the process ends.
        """
        file = _read(path)
        super().__init__(file, signature)
        with self._held:
            vulkan = self._held.enter_context(litert_vulkan())
            worker = self._start(
                *("gpu", signature, vulkan.loader), path=path, environment=vulkan.environment
            )
            try:
                version, whole = worker.call("describe")
            except WorkerError as error:
                _check_vulkan(vulkan)  # the machine is to blame if this fails as well
                raise _static_only(error, path, file) from error
            self._held = self._held.pop_all()
        native = vulkan.adapter.fp16
        self.info = RunnerInfo(
            name="litert-gpu",
            device=str(vulkan.adapter),
            fp16="native" if native else _weights_only(file),
            details={
                "litert": version,
                "accelerated": "every operator" if whole else _left_out(worker.log()),
                "arithmetic": "FP16" if native else "FP32: the adapter's shaders have no FP16",
            },
        )


def _with_any_samples(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    return tuple(replace(spec, shape=(None, *spec.shape[1:])[: len(spec.shape)]) for spec in specs)


def litert_runner(
    path: Path, gpu: bool = False, signature: str | None = None
) -> "LiteRTRunner | LiteRTGpuRunner | TFLiteSumsRunner":
    """The runner that shows most of a .tflite file's behaviour under FP16 arithmetic.

    Args:
        path: a .tflite file.
        gpu: run it on a GPU, instead of the CPU that is forced to FP16.
        signature: name of the entry point to run, if the file has one of that name.

    Raises:
        MachineError: there is no GPU, or LiteRT does not start.
        RunnerError: the file cannot be loaded.
    """
    file = _read(path)
    entry = file.entry_point(signature) or None  # "" where the file has no signature at all
    if gpu:
        return LiteRTGpuRunner(path, entry)
    if not _is_fp16(file):
        return LiteRTRunner(path, force_fp16=False, signature=entry)
    try:
        runner = LiteRTRunner(path, force_fp16=True, signature=entry)
        runner.run(_zeros(file, entry))  # LiteRT prepares its kernels in the first run
        return runner if runner.info.fp16 == "native" else _emulated(runner, path)
    except RunnerError as error:
        # XNNPACK lacks FP16 kernels for some products, and LiteRT does not hand out outputs of any
        # size. A file that is at fault fails again.
        runner = LiteRTRunner(path, force_fp16=False, signature=entry)
        reason = f"LiteRT's CPU cannot prepare the file for FP16 ({_last_reason(error)})"
        return _emulated(runner, path, reason)


def _emulated(
    runner: LiteRTRunner, path: Path, reason: str = ""
) -> "LiteRTRunner | TFLiteSumsRunner":
    """The emulation of a file whose arithmetic this CPU lacks; the runner if there is none."""
    from tfmp.converters.runners.tflite_sums import TFLiteSumsRunner

    try:
        emulated = TFLiteSumsRunner(path)
    except RunnerError as error:
        reason = "; ".join(filter(None, (reason, f"FP16 is not emulated: {error}")))
        details = {**runner.info.details, "fallback": reason}
        runner.info = replace(runner.info, fp16="weights-only", details=details)
        return runner
    if reason:
        emulated.info.details["fallback"] = reason
    runner.__exit__()
    return emulated


def _zeros(file: "TFLiteModel", signature: str | None) -> Batch:
    """One call of a file; an open size is one."""
    specs = file.signature(signature).inputs
    return {
        spec.name: np.zeros([size or 1 for size in spec.shape], np.dtype(spec.dtype))
        for spec in specs
    }


def check_litert_gpu() -> None:
    """Runs a product on the GPU.

    Raises:
        MachineError: there is no adapter, or LiteRT cannot use it.
    """
    with litert_vulkan() as vulkan:
        _check_vulkan(vulkan)


def litert_vulkan() -> AbstractContextManager["Vulkan"]:
    """The way to the best adapter that LiteRT takes; see `find_vulkan`."""
    from tfmp.converters.runners.vulkan import find_vulkan

    return find_vulkan(_takes)


# Whether LiteRT takes an adapter does not change while a process runs, and takes seconds to find.
_taken: "dict[tuple[str, Adapter], bool]" = {}


def _takes(vulkan: "Vulkan") -> bool:
    key = (vulkan.loader, vulkan.adapter)
    if key not in _taken:
        try:
            _check_vulkan(vulkan)
            _taken[key] = True
        except MachineError:
            _taken[key] = False
    return _taken[key]


def _check_vulkan(vulkan: "Vulkan") -> None:
    with temporary_folder() as folder:
        path = folder / "probe.tflite"
        path.write_bytes(tflite_probe())
        try:
            with Worker(
                _INTERPRETER,
                path,
                "gpu",
                None,
                vulkan.loader,
                label="LiteRT",
                timeout_s=_TIMEOUT_S,
                environment=vulkan.environment,
            ) as worker:
                worker.call("run", {"x": np.ones((1, SUM_TERMS), np.float32)})
        except MachineError:
            raise
        except RunnerError as error:
            raise MachineError(
                f"LiteRT cannot run even one product on {vulkan.adapter}, so its Vulkan driver is "
                f"broken or too old ({_last_reason(error)})"
            ) from error


def _last_reason(error: RunnerError) -> str:
    """The innermost of LiteRT's nested errors."""
    last = str(error).strip().splitlines()[-1].lstrip("└ ").rpartition("(ERROR: ")[2]
    return re.sub(r"^.*\[[\w./]+:\d+\] ", "", last).rstrip(".)")


def weights_only_runner(path: Path, signature: str | None = None) -> LiteRTRunner:
    """The runner of a .tflite file on a CPU that computes in FP32; see `litert_runner`."""
    return LiteRTRunner(path, False, _read(path).entry_point(signature) or None)


def _read(path: Path) -> "TFLiteModel":
    from tfmp.converters.tflite.file import TFLiteModel

    try:
        return TFLiteModel(path)
    except InputError as error:
        raise RunnerError(str(error)) from error


def _is_fp16(file: "TFLiteModel") -> bool:
    """Whether a file was converted to FP16; a file without weights is known by its promise."""
    return file.has_fp16_weights or file.accumulation is not None


def _weights_only(file: "TFLiteModel") -> str | None:
    return "weights-only" if _is_fp16(file) else None


def _static_only(error: WorkerError, path: Path, file: "TFLiteModel") -> RunnerError:
    """The same error, in plain words if its cause are open sizes."""
    found = re.search(r"\(tensor#(\d+) is a dynamic-sized tensor\)", error.log)
    tensors = file.tensors[0]
    if found is not None and int(found[1]) < len(tensors):
        which = f"the size of {tensors[int(found[1])].spec.name!r} is known only while it runs"
    elif any(None in spec.shape for spec in file.inputs):
        which = f"the inputs leave sizes open ({describe(file.inputs)})"
    else:
        return error
    return RunnerError(
        f"{path.name}: LiteRT's GPU backend takes tensors of fixed size only, and {which}. Fix the "
        "input sizes with --batch and --input-shape; some recurrent layers cannot run there at all."
    )


def _left_out(log: str) -> str:
    """The operators that stay on the CPU, from LiteRT's log."""
    lines = re.findall(r"^([A-Z][A-Z0-9_]+): (.*)$", log, re.MULTILINE)
    names = dict.fromkeys(
        f"{name} ({reason.strip().rstrip('.')})" if reason.strip() else name
        for name, reason in lines
        if name not in ("ERROR", "INFO", "WARNING", "VERBOSE")
    )
    return f"part of the operators; on the CPU: {', '.join(names) or 'unknown ones'}"
