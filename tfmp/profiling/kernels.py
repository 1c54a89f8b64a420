"""The kernels that ran on a GPU, and whether they used Tensor Cores, from the profiler's trace.

TensorFlow and JAX write the same kind of trace. XProf, the profiler of TensorBoard, counts the
kernels in it; this needs `pip install "tfmp[profile]"`. PyTorch's traces name kernels themselves.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfmp.shared.backend import current_backend
from tfmp.shared.wording import first_line

# XProf 2.24 knows the kernels of Volta and Turing by name, but does not take the kernels of later
# cards for Tensor Core kernels. Libraries name kernels by the matrix instruction (m8n8k4: 884,
# m16n8k8: 1688, m16n8k16: 16816) or by the generator: cuDNN's xmma on 16 bits or TF32, CUTLASS's
# tensorop, Hopper's wgmma, and cuBLAS's nvjet.
_TENSOR_CORE_KERNEL = re.compile(
    r"[a-z]884(?!\d)|[a-z]1688(?!\d)|16816|16832|hmma|wgmma|gmma|tensorop|^nvjet_"
    r"|xmma_.*(f16f16|bf16bf16|tf32)",
    re.IGNORECASE,
)

_READ = """
import sys
from xprof.convert import raw_to_tool_data

from tfmp.shared.backend import current_backend
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "kernel_stats", {})
sys.stdout.buffer.write(data if isinstance(data, bytes) else (data or "").encode())
"""
_PATIENCE = 600  # seconds; traces of large models have gigabytes


@dataclass(frozen=True)
class Kernel:
    """One kernel that ran for one operation.

    Attributes:
        name: name of the kernel.
        operation: the framework's name of the operation, with the layers that it is in.
        seconds: time of all runs together.
        tensor_core: whether this kernel used Tensor Cores.
    """

    name: str
    operation: str
    seconds: float
    tensor_core: bool


@dataclass(frozen=True)
class KernelUse:
    """The kernels of some steps under one variant.

    Attributes:
        seconds: time of all kernels.
        tensor_core_seconds: time of kernels that used Tensor Cores.
        layers: by path of the layer, the share of its kernels' time on Tensor Cores.
    """

    seconds: float
    tensor_core_seconds: float
    layers: Mapping[str, float]


def parse_kernel_stats(text: str | bytes) -> tuple[Kernel, ...]:
    """Reads XProf's table `kernel_stats`: columns by name, rows of cells.

    Raises:
        ValueError: the text is not this table.
    """
    try:
        table = json.loads(text)
        columns = [column["id"] for column in table["cols"]]
        rows = [[cell["v"] if cell else None for cell in row["c"]] for row in table["rows"]]
        return tuple(_kernel(dict(zip(columns, row, strict=True))) for row in rows)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"Kernel statistics expect XProf's JSON table of kernels, received {text[:60]!r} "
            f"({first_line(error)}). Another version of xprof wrote it: install xprof 2.20 or newer"
        ) from error


def parse_trace(text: str | bytes) -> tuple[Kernel, ...]:
    """Reads a trace of PyTorch's profiler, in which a kernel has the number of its operation.

    Raises:
        ValueError: the text is no such trace.
    """
    try:
        events = [event for event in json.loads(text)["traceEvents"] if event.get("ph") == "X"]
        operations = {
            event["args"].get("External id"): str(event["name"])
            for event in events
            if event.get("cat") == "cpu_op"
        }
        ran = [event for event in events if event.get("cat") == "kernel"]
        rows = (
            {
                "kernel_name": str(event["name"]),
                "op_name": operations.get(event["args"].get("External id")),
                "total_duration_us": event["dur"],
            }
            for event in ran
        )
        return tuple(map(_kernel, rows))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"A trace of PyTorch expects JSON with 'traceEvents', received {text[:60]!r}."
        ) from error


def _kernel(row: Mapping[str, Any]) -> Kernel:
    name, operation = row["kernel_name"], row["op_name"] or ""
    return Kernel(
        name,
        operation,
        seconds=(row["total_duration_us"] or 0.0) / 1e6,
        tensor_core=row.get("is_kernel_using_tensor_core") is True or uses_tensor_cores(name),
    )


def uses_tensor_cores(kernel: str) -> bool:
    """Whether a kernel with this name runs on Tensor Cores."""
    return bool(_TENSOR_CORE_KERNEL.search(kernel))


def kernel_use(kernels: Iterable[Kernel], paths: Sequence[str]) -> KernelUse:
    """Adds kernels up, in total and by layer.

    Args:
        kernels: the kernels of some steps.
        paths: the paths of the model's layers.
    """
    kernels = list(kernels)
    on_layer: dict[str, list[float]] = {}
    for kernel in kernels:
        path = layer_of(kernel.operation, paths)
        if path is not None:
            times = on_layer.setdefault(path, [0.0, 0.0])
            times[0] += kernel.seconds
            times[1] += kernel.seconds * kernel.tensor_core
    return KernelUse(
        seconds=sum(kernel.seconds for kernel in kernels),
        tensor_core_seconds=sum(k.seconds for k in kernels if k.tensor_core),
        layers={path: used / whole for path, (whole, used) in on_layer.items() if whole},
    )


def layer_of(operation: str, paths: Sequence[str]) -> str | None:
    """The layer whose whole path is in an operation's name; of several layers, the longest path."""
    # TensorFlow: gradient_tape/model_1/dense_1/MatMul; JAX: jit(f)/transpose(jvp(dense_1))/dot.
    flat = "/" + operation.replace("(", "/").replace(")", "/") + "/"
    found = [path for path in paths if f"/{path}/" in flat]
    return max(found, key=len, default=None)


def trace(work: Callable[[], object], folder: Path) -> None:
    """Runs some steps under the backend's profiler, which writes a trace into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with current_backend().profiler(folder):
        work()


def read_kernels(folder: Path) -> tuple[Kernel, ...] | None:
    """The kernels of the latest trace in a folder; None if there is none, or no XProf to read it.

    Raises:
        ValueError: XProf cannot read the trace, or it is none of PyTorch's.
    """
    if named := _by_age(folder, "*.pt.trace.json"):
        return parse_trace(named[-1].read_bytes())
    traces = _by_age(folder, "*.xplane.pb")
    if not traces or find_spec("xprof") is None:
        return None
    # In a separate process: XProf logs much to stderr, and brings libraries that TensorFlow and
    # JAX have too, in other versions.
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(traces[-1])], capture_output=True, timeout=_PATIENCE
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ValueError(f"xprof cannot read {traces[-1]}: {said[-1]}")
    return parse_kernel_stats(done.stdout) if done.stdout else None


def _by_age(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern), key=lambda path: path.stat().st_mtime)
