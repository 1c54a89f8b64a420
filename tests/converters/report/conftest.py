"""A report with a candidate that passes, one that fails, one that is open and one that crashed."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.drift.compare import Comparison
from tfmp.converters.report.explanation import Culprit, Explanation, LayerError, WorstSample
from tfmp.converters.report.model import CandidateEvidence, DriftReport, Evidence, ReferenceReport
from tfmp.converters.runners import RunnerInfo
from tfmp.converters.samples.data import open_data
from tfmp.converters.shared.tensors import TensorSpec

SAMPLES = 450
INPUT = TensorSpec("image", (None, 4), "float32")

# What a hostile model or file might be called.
HOSTILE = "<script>alert(1)</script>|`*[x](http://evil)\x1b[31m\u202e&amp;"

MakeReport = Callable[..., DriftReport]


def scores(samples: int = SAMPLES) -> np.ndarray:
    generator = np.random.default_rng(0)
    logits = (
        generator.standard_normal((samples, 10)).astype(np.float32)
        + 5 * np.eye(10, dtype=np.float32)[np.arange(samples) % 10]
    )
    shares = np.exp(logits)
    return shares / shares.sum(axis=1, keepdims=True)


def broken(reference: np.ndarray) -> np.ndarray:
    candidate = reference.copy()
    candidate[3, 2] = np.nan
    return candidate


def two_flips(reference: np.ndarray) -> np.ndarray:
    candidate = reference.copy()
    for row in (0, 1):
        best, second = np.argsort(reference[row])[[-1, -2]]
        middle = (reference[row, best] + reference[row, second]) / 2
        candidate[row, best], candidate[row, second] = middle * 0.999, middle * 1.001
    return candidate


CANDIDATES = {
    "good.onnx": ("emulated", lambda reference: reference.astype(np.float16).astype(np.float32)),
    "broken.onnx": ("native", broken),
    "open.tflite": ("weights-only", two_flips),
}


# One grey pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)


def explanation(layer: str) -> Explanation:
    """A layer that overflows between two good ones, with its worst samples."""
    layers = (
        LayerError("stem", ("Conv", "Add"), 2e-4, 2e-4, 2e-4, peak=3.0, nodes=("n/Conv", "n/Add")),
        LayerError(
            *(layer, ("Mul", "Neg"), math.inf, math.inf, math.inf, 7, 7, 9e4),
            nodes=(f"{layer}/Mul", f"{layer}/Neg"),
        ),
        LayerError("head", ("MatMul",), 3e-4, 0.5, 0.0, peak=1.0, nodes=("h",)),
    )
    culprit = Culprit(
        *(layer, "first value that is not finite", f"{layer}/Mul", "Mul", math.inf, 7),
        folder=f"out/{layer}",
        nodes=(
            LayerError(f"{layer}/Mul", ("Mul",), math.inf, math.inf, math.inf, 7, 7, 9e4),
            LayerError(f"{layer}/Neg", ("Neg",), 1e-4, 2e-3, 0.0, peak=12_345.0),
        ),
    )
    return Explanation(
        worst=(
            WorstSample(3, math.inf, PIXEL, "class 1, candidate 2"),
            WorstSample(11, 0.25),
        ),
        samples=8,
        computed="FP16 emulated; FP32 by this file's own graph",
        baseline=1e-7,
        layers=layers,
        first_nonfinite=layer,
        largest_jump=layer,
        culprit=culprit,
        notes=(f"a note on {layer}",),
        graph=f"graph of {layer}",
    )


@pytest.fixture(scope="session")
def make_report() -> MakeReport:
    """Makes the report on some of the samples, with names of choice."""

    def make(
        part: slice = slice(None),
        output: str = "probs",
        names: tuple[str, ...] = (*CANDIDATES, "crashed.onnx"),
        budget: DriftBudget | None = None,
    ) -> DriftReport:
        budget = budget or DriftBudget(rel_l2=0.05)
        spec = TensorSpec(output, (None, 10), "float32")
        reference, labels = scores(), np.arange(SAMPLES) % 10
        inputs = np.arange(SAMPLES * 4, dtype=np.float32).reshape(SAMPLES, 4)
        inputs[7, 0] = np.nan
        dataset = open_data({"image": inputs[part], "labels": labels[part]}, [INPUT])
        reading = dataset.read()
        keys = np.zeros(SAMPLES, np.uint64)
        keys[part] = np.concatenate([batch.keys for batch in reading])
        candidates = []
        for name, (kind, change) in zip(names, CANDIDATES.values(), strict=False):
            comparison = Comparison(name, [spec], [spec])
            changed = change(reference)
            comparison.update(
                {output: reference[part]}, {output: changed[part]}, labels[part], keys[part]
            )
            candidates.append(
                CandidateEvidence(
                    name=name,
                    format=name.rpartition(".")[2],
                    path=f"out/{name}",
                    sha256="ab" * 32,
                    size_bytes=40_000,
                    runner=RunnerInfo("onnxruntime", "CPU", kind, {"onnxruntime": "1.26.0"}),
                    outputs=comparison.outputs(),
                    labels=comparison.labels(),
                    notes=("outputs matched by position",) if kind == "weights-only" else (),
                    explanation=explanation(output) if kind == "native" else None,
                )
            )
        if len(names) > len(CANDIDATES):
            runner = RunnerInfo("none", "none", None)
            error = "ONNX Runtime cannot load the model: bad node"
            candidates.append(CandidateEvidence(names[-1], "onnx", runner, error=error))
        evidence = Evidence(
            ReferenceReport(
                "digits",
                "keras",
                RunnerInfo("keras", "CPU", None),
                path="digits.keras",
                sha256="cd" * 32,
                size_bytes=180_000,
            ),
            tuple(candidates),
            reading.description,
            {"python": "3.11.7", "tensorflow": "2.21.0"},
        )
        return DriftReport.judged(evidence, budget)

    return make


@pytest.fixture(scope="session")
def report(make_report: MakeReport) -> DriftReport:
    return make_report()


@pytest.fixture(scope="session")
def hostile_report(make_report: MakeReport) -> DriftReport:
    """Every name that comes from outside is hostile."""
    return make_report(output=HOSTILE, names=tuple(f"{HOSTILE}{i}.onnx" for i in range(4)))
