"""Stage "onnx": ONNX Runtime on CUDA, every model of the corpus, as users run it.

The FP32 file with TF32 off is the reference on the card. Each other way of running is compared with
it, and with every prediction of the emulator. A run is profiled to name the nodes that ran
elsewhere. The outputs are kept: a mended emulator can be held to them without a card.
"""

import ctypes
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from stage import Case

# The case that is ONNX Runtime itself.
RUNTIME = "onnxruntime"

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
_BATCHES = (1, 8, 64, 256)
_WARM, _TIMED = 3, 15
_MOST_INPUT_BYTES = 2**28
# Values of an output that come back.
_MOST_KEPT = 8192


# Ways to run a model: the file, and options of the CUDA provider.
WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "fp32": ("full", {"use_tf32": "0"}),
    "tf32": ("full", {"use_tf32": "1"}),
    "fp16": ("half", {}),
}


def cases(corpus: Path) -> dict[str, Case]:
    """ONNX Runtime itself, then every model of the corpus, in its order."""
    from corpus_files import entries

    return {name: Case(limit_s=90.0) for name in (RUNTIME, *entries(corpus))}


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Runs a model in every way."""
    from comparing import compared
    from corpus_files import complete, entries, read, read_predicted

    if name == RUNTIME:
        return _runtime()
    entry = entries(corpus)[name]
    complete(corpus / name)
    batch, meaning = read(corpus, entry)
    predicted = read_predicted(corpus, entry)
    found: dict[str, Any] = {
        "group": entry["group"],
        "asks": entry["asks"],
        "provider": provider(),
        "ways": {},
    }
    outputs: dict[str, dict[str, np.ndarray]] = {}
    for way_name, (file, options) in WAYS.items():
        try:
            session = Opened(corpus / name / f"{file}.onnx", options)
            outputs[way_name] = session.run(batch)
            found["ways"][way_name] = {"elsewhere": session.elsewhere()}
            if entry["group"] != "probes":
                found["ways"][way_name]["latency"] = session.latency(batch)
            del session
        except Exception as error:  # the way is not open; the others may be
            found["ways"][way_name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    if "fp32" not in outputs:
        raise ValueError(found["ways"]["fp32"]["error"])
    found["reference"] = compared(predicted["reference"], outputs["fp32"], meaning).to_dict()
    for way_name in outputs:
        if way_name == "fp32":
            continue
        told = found["ways"][way_name]
        told["drift"] = compared(outputs["fp32"], outputs[way_name], meaning).to_dict()
        if way_name == "fp16":
            told["from"] = {
                profile: compared(predicted[profile], outputs[way_name]).to_dict()["drift"]
                for profile in entry["predicted"]
            }
    found["predicted"] = entry["predicted"]
    _keep_outputs(name, outputs)
    return found


def _runtime() -> dict[str, Any]:
    """The build, its providers, and why its CUDA library does not load; "" where it does."""
    import onnxruntime

    library = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    try:
        ctypes.CDLL(str(library))
        fault = ""
    except OSError as error:
        fault = str(error).removeprefix(f"{library}: ")
    return {
        "version": onnxruntime.__version__,
        "build": onnxruntime.get_build_info(),
        "providers": onnxruntime.get_available_providers(),
        "cuda_library": fault,
    }


@cache
def provider() -> str:
    """The provider to measure: CUDA where a card is, else the CPU's."""
    from stage import machine

    return CUDA if machine()["gpu"] else CPU


def _keep_outputs(name: str, outputs: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Keeps the first samples' outputs by way; files that come back are limited in size."""
    folder = Path(os.environ["TFMP_GPU_OUTPUTS"]) / "onnx"
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        f"{way}/{key}": _shortened(value)
        for way, one in outputs.items()
        for key, value in one.items()
    }
    np.savez_compressed(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]


def _shortened(value: np.ndarray) -> np.ndarray:
    """The first samples of an output."""
    from comparing import narrowed

    if value.ndim and value.size > _MOST_KEPT:
        value = value[: max(1, _MOST_KEPT * len(value) // value.size)]
    return narrowed(value)


class Opened:
    """A session on the card; its first run is profiled."""

    def __init__(self, path: Path, cuda_options: Mapping[str, str]) -> None:
        """Loads a file.

        Raises:
            RuntimeError: a card is there, and ONNX Runtime does not use it.
        """
        import onnxruntime

        chosen = provider()
        if chosen == CUDA:
            onnxruntime.preload_dlls()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_profiling = True
        self._folder = tempfile.TemporaryDirectory()
        options.profile_file_prefix = str(Path(self._folder.name) / "profile")
        given = (chosen, dict(cuda_options)) if chosen == CUDA else chosen
        self._session = onnxruntime.InferenceSession(str(path), options, providers=[given])
        self._provider = chosen
        if chosen not in self._session.get_providers():
            raise RuntimeError("a card is there, and ONNX Runtime does not load its CUDA provider")
        self._elsewhere: list[str] | None = None

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name."""
        names = [value.name for value in self._session.get_outputs()]
        outputs = dict(zip(names, self._session.run(names, self._feed(batch)), strict=True))
        if self._elsewhere is None:
            events = json.loads(Path(self._session.end_profiling()).read_text(encoding="utf-8"))
            self._elsewhere = sorted({*_elsewhere(events, self._provider)})
            self._folder.cleanup()
        return outputs

    def elsewhere(self) -> list[str]:
        """Op types that gave floats on another provider."""
        return self._elsewhere or []

    def latency(self, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Seconds of a call with inputs and outputs on the card, by batch size.

        Only models whose inputs all have an open first axis are asked for other sizes.
        """
        inputs = self._session.get_inputs()
        is_open = all(value.shape and not isinstance(value.shape[0], int) for value in inputs)
        found = {}
        for size in _BATCHES if is_open else (None,):
            rows = batch if size is None else _resized(batch, size)
            if sum(value.nbytes for value in rows.values()) > _MOST_INPUT_BYTES:
                break
            try:
                seconds = self._timed(self._feed(rows))
            except Exception as error:  # a size that the model or the memory cannot take
                found[str(size)] = {"error": f"{type(error).__name__}: {error}"[:200]}
                break
            found[str(size)] = {
                "seconds": statistics.median(seconds),
                "fastest_s": min(seconds),
                "card_bytes": used_bytes(),
            }
        return found

    def _timed(self, feed: Mapping[str, np.ndarray]) -> list[float]:
        from onnxruntime import OrtValue

        device = "cuda" if self._provider == CUDA else "cpu"
        binding = self._session.io_binding()
        for name, value in feed.items():
            binding.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(value, device, 0))
        for value in self._session.get_outputs():
            binding.bind_output(value.name, device)
        seconds = []
        for _ in range(_WARM + _TIMED):
            start = time.perf_counter()
            self._session.run_with_iobinding(binding)  # waits for the card at its end
            seconds.append(time.perf_counter() - start)
        return seconds[_WARM:]

    def _feed(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from tfmp.converters.shared.sessions import tensor_spec
        from tfmp.converters.shared.tensors import in_dtype

        specs = map(tensor_spec, self._session.get_inputs())
        return {
            spec.name: np.ascontiguousarray(in_dtype(batch[spec.name], spec.dtype))
            for spec in specs
        }


def _resized(batch: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    return {
        name: np.take(value, np.arange(size) % len(value), axis=0) for name, value in batch.items()
    }


def _elsewhere(events: list[dict], chosen: str) -> list[str]:
    """Op types of nodes that gave floats on another provider than the chosen one."""
    return [
        told["op_name"]
        for told in (event.get("args", {}) for event in events if event.get("cat") == "Node")
        if told.get("provider", chosen) != chosen
        and any("float" in kind for shape in told.get("output_type_shape", ()) for kind in shape)
    ]


def used_bytes() -> int | None:
    """Memory of the card that all processes use now; None without a card."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)
    except Exception:  # no library, or no driver
        return None
