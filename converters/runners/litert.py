"""TFLite files on LiteRT, each in a process of its own."""

import platform
from dataclasses import replace
from pathlib import Path
from typing import Self

from tfmp.converters.errors import InputError, RunnerError
from tfmp.converters.runners.base import RunnerInfo
from tfmp.converters.tensors import Batch
from tfmp.converters.worker import Worker


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
