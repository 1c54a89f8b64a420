"""Stage "sharing": two models on one card, in one process, in two, and under MPS.

`benchmarks/colocate.py` measures the ways that tfmp offers, on JAX. PyTorch adds the ways that
need CUDA itself: a stream for each model, and NVIDIA's Multi-Process Service, which lets kernels of
two processes run at the same time.
"""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stage import Case

SMALL = bool(os.environ.get("TFMP_GPU_SMALL"))
_WIDTH, _ROWS = (32, 16) if SMALL else (2048, 512)
_SECONDS = 0.2 if SMALL else 2.0
_COLOCATE = Path(__file__).resolve().parents[1] / "colocate.py"

# Pairs of precisions that share the card.
PAIRS = {"float32+float64": ("float32", "float64"), "float32+mixed": ("float32", "mixed")}


def cases(corpus: Path) -> dict[str, Case]:
    """The ways of tfmp, then those of CUDA."""
    jax = {
        "KERAS_BACKEND": "jax",
        "JAX_ENABLE_X64": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    found = {
        f"{way}/{pair}": Case(fresh=True, limit_s=60.0)
        for way in ("streams", "processes", "mps")
        for pair in PAIRS
    }
    return {"colocate": Case(jax, fresh=True, limit_s=120.0), **found}


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Steps a second of each model alone, and beside the other."""
    if name == "colocate":
        return _colocate()
    way, _, pair = name.partition("/")
    if way == "streams":
        return _streams(PAIRS[pair])
    if way == "processes":
        return _processes(PAIRS[pair])
    with _mps() as why_not:
        return {"absent": why_not} if why_not else _processes(PAIRS[pair])


def _colocate() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ways.json"
        sizes = ["--rounds", "1", "--steps", "5"] if SMALL else ["--rounds", "3"]
        done = subprocess.run(
            [
                *(sys.executable, str(_COLOCATE), "--jobs", "tiny", "--without-auto", *sizes),
                *("--json", str(path)),
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return json.loads(path.read_text(encoding="utf-8"))


def _trainer(precision: str) -> Callable[[], None]:
    """A function that takes one training step of a network of three layers."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    dtype = torch.float64 if precision == "float64" else torch.float32
    layers: list[Any] = []
    for _ in range(3):
        layers += [torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).to(device, dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    x = torch.randn(_ROWS, _WIDTH, device=device, dtype=dtype)
    half = torch.float16 if device == "cuda" else torch.bfloat16

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, half, enabled=precision == "mixed"):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()

    return step


def _synchronize() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _rate(step: Callable[[], None], seconds: float) -> float:
    """Calls a second."""
    for _ in range(3):
        step()
    _synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(5):
            step()
        _synchronize()
        count += 5
    return count / (time.perf_counter() - start)


def _streams(pair: tuple[str, str]) -> dict[str, Any]:
    """Both models in one process: a step each in turn, on one stream and on two."""
    import torch

    steps = [_trainer(precision) for precision in pair]
    alone = [_rate(step, _SECONDS) for step in steps]

    def in_turn() -> None:
        for step in steps:
            step()

    found = {"alone": alone, "in_turn": _rate(in_turn, _SECONDS)}
    if torch.cuda.is_available():
        streams = [torch.cuda.Stream() for _ in steps]

        def at_once() -> None:
            for step, stream in zip(steps, streams, strict=True):
                with torch.cuda.stream(stream):
                    step()

        found["streams"] = _rate(at_once, _SECONDS)
    return found


def _child(precision: str, ready: Any, answer: Any) -> None:
    step = _trainer(precision)
    step()
    _synchronize()
    ready.wait(60)
    answer.put((precision, _rate(step, _SECONDS)))


def _processes(pair: tuple[str, str]) -> dict[str, Any]:
    """A process for each model: alone, then both at the same time."""
    alone = [_together((precision,))[0] for precision in pair]
    return {"alone": alone, "together": _together(pair)}


def _together(precisions: tuple[str, ...]) -> list[float]:
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(len(precisions)), context.Queue()
    children = [
        context.Process(target=_child, args=(precision, ready, answers)) for precision in precisions
    ]
    for child in children:
        child.start()
    rates = dict(answers.get(timeout=50) for _ in children)
    for child in children:
        child.join()
    return [rates[precision] for precision in precisions]


@contextmanager
def _mps() -> Iterator[str]:
    """NVIDIA's Multi-Process Service for this block; gives the reason where there is none."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield "nvidia-cuda-mps-control is not on the PATH"
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.environ["CUDA_MPS_LOG_DIRECTORY"] = folder
        started = subprocess.run([control, "-d"], capture_output=True, text=True)
        try:
            said = (started.stderr or started.stdout).strip()
            yield said or "the service did not start" if started.returncode else ""
        finally:
            subprocess.run([control], input="quit\n", capture_output=True, text=True, timeout=20)
