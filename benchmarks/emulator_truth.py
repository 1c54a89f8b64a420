"""Writes docs/emulator-truth.md: drift that the emulator predicts, against other programs' float16.

Models of tests/support (the corpus, the adversarial set), the trained ones of the zoo where
TFMP_ZOO names it, and the digits of samples/ become FP16 ONNX files. Each file runs emulated in the
profile "gpu" and on oracles that share no code with tfmp (tests/support/fp16_oracles.py): NumPy,
TensorFlow, JAX, and ONNX Runtime's WebGPU provider where TFMP_WEBGPU names a Python that has it
(benchmarks/webgpu_python.sh makes one). benchmarks/gpu measures CUDA.

Run: python benchmarks/emulator_truth.py [--rows FILE] [--only WORD]
A FILE of rows keeps each model's results; models that it has are not measured again.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scaffold import DOCS, ROOT, parser, versions

PAGE = DOCS / "emulator-truth.md"
sys.path.append(str(ROOT / "samples"))

import numpy as np
import onnx
from adversarial import ADVERSARIES
from corpus import corpus
from drift_line import fit
from fp16_oracles import ORACLES
from oracle_verdicts import Measured, measured, oracle_rows
from pages import line, table, write_page

from tfmp.converters import convert, open_source
from tfmp.converters.drift import binomial_bounds
from tfmp.converters.intake.source import AnySource
from tfmp.converters.onnx.emulation import Profile
from tfmp.converters.runners import onnx_runner
from tfmp.converters.shared.tensors import Batch

# The emulator's profile that an oracle is the truth for.
MATCHING = "NumPy, FP32 inside"
# Profiles of the runtimes among the oracles; "gpu" is held against all others.
PROFILES = {"WebGPU": "webgpu"}
# Emulated over measured drift has to lie between them on every sound model, for `MATCHING`.
BOUNDS = (0.6, 1.5)
# A smaller drift is the rounding of float32 itself, and nothing that FP16 made.
LEAST = 1e-5
# A larger one leaves nothing of the numbers.
LOST = 1.0
# Samples of a model with data of its own.
MOST = 320
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        name: unique.
        kind: "adversarial", "trained" or a group of the corpus.
        verdict: of `convert` by default.
        emulated: drift in the profile "gpu", on the samples of the oracles.
        foretold: drift in the profile of `PROFILES`, by oracle, where the oracle ran.
        drifts: by oracle; None where it does not run the file.
        verdicts: by oracle.
    """

    name: str
    kind: str
    verdict: str
    emulated: float
    foretold: dict[str, float] = field(default_factory=dict)
    drifts: dict[str, float | None] = field(default_factory=dict)
    verdicts: dict[str, str | None] = field(default_factory=dict)

    def ratio(self, oracle: str) -> float | None:
        """Emulated over measured drift; None where one of them is no drift of a sound model."""
        truth = self.drifts.get(oracle)
        predicted = self.foretold.get(oracle, self.emulated)
        if truth is None or self.verdicts.get(oracle) == "FAIL":
            return None
        if not (LEAST < truth < np.inf and LEAST < predicted < LOST):
            return None
        return predicted / truth


def models() -> Iterator[tuple[str, str]]:
    """Names and kinds of all models."""
    for name, case in corpus(slow=False, groups="keras onnx zoo").items():
        yield name, "trained" if case.group == "zoo" else case.group
    yield "digits", "trained"
    for adversary in ADVERSARIES:
        yield adversary.name, "adversarial"


def opened(name: str, kind: str, folder: Path) -> tuple[AnySource, Batch, bool]:
    """A model, its samples, and whether it takes these as one batch."""
    if kind == "adversarial":
        adversary = next(one for one in ADVERSARIES if one.name == name)
        path = folder / "model.onnx"
        onnx.save(adversary.make(), path)
        return open_source(path), adversary.batch(), True
    if name == "digits":
        return _digits()
    case = corpus(slow=False, groups="keras onnx zoo")[name]
    source = case.open()
    return source, case.batch(source, 64), False


def _digits() -> tuple[AnySource, Batch, bool]:
    import keras
    from digits_end_to_end import build
    from sklearn.datasets import load_digits

    keras.utils.set_random_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
    model = build()
    model.fit(images[:1400], labels[:1400], batch_size=32, epochs=8, verbose=0)
    return open_source(model), {"image": images[1400:]}, True


def row_of(name: str, kind: str) -> Row:
    """Converts one model and runs it everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        source, batch, real = opened(name, kind, Path(folder))
        data = batch if real else [batch]
        path, asked = Path(folder, "half.onnx"), {"fp16_edges": True, "target": "all"}
        artifact = convert(source, output=path, data=data, **asked)
        few = {key: array[:MOST] if real and array.ndim else array for key, array in batch.items()}
        expected = source.forward(few)
        found = dict(oracle_rows(source, onnx.load(artifact.path), few, tuple(ORACLES)))
        emulated, *foretold = (
            _emulated(source, artifact.path, few, expected, Profile.parse(name)).drift
            for name in ("gpu", *(PROFILES[oracle] for oracle in found if oracle in PROFILES))
        )
    return Row(
        name,
        kind,
        artifact.report.verdict.value,
        emulated,
        dict(zip((oracle for oracle in found if oracle in PROFILES), foretold, strict=True)),
        {key: None if one.verdict is None else one.drift for key, one in found.items()},
        {key: one.verdict.value if one.verdict else None for key, one in found.items()},
    )


def _emulated(
    source: AnySource, path: Path, batch: Batch, expected: Batch, profile: Profile
) -> Measured:
    return measured(source, expected, onnx_runner(path, profile).run(batch))


def page(rows: Sequence[Row]) -> str:
    """The text of docs/emulator-truth.md."""
    oracles = list(dict.fromkeys(key for row in rows for key in row.drifts))
    lost = {row.name for row in rows if "FAIL" in row.verdicts.values()}
    false_pass = [row.name for row in rows if row.name in lost and row.verdict == "PASS"]
    false_fail = [row.name for row in rows if row.name not in lost and row.verdict == "FAIL"]
    _, bound = binomial_bounds(len(false_pass), len(lost), CONFIDENCE)
    return "\n".join(
        [
            "# The emulator against the truth",
            "",
            "Written by `python benchmarks/emulator_truth.py` with "
            f"{versions(('onnx', 'numpy', 'tensorflow', 'jax'))}; {len(rows)} models.",
            "",
            f"Of the {len(lost)} files that an oracle loses, {len(false_pass)} get a PASS by "
            f"default{_listed(false_pass)}: the rate of such PASSes is at most {bound:.1%} "
            f"({CONFIDENCE:.0%} confidence). Of the {len(rows) - len(lost)} files that no oracle "
            f"loses, {len(false_fail)} get a FAIL{_listed(false_fail)}.",
            "",
            *_explained(oracles),
            "## Drift, predicted and measured",
            "",
            "Sound models only: files whose outputs the oracle's own verdict does not fail, and "
            f"whose drift is past {LEAST:.0e}. The slope is of a line through the logarithms; two "
            "of three models lie within the spread about it, as a factor. The ratio is a median.",
            "",
            table([_FITTED, *(row for oracle in oracles for row in _fitted(rows, oracle))]),
            "",
            "## Verdicts",
            "",
            table([_JUDGED, *(row for one in oracles for row in _confusion(rows, one))], words=2),
            "",
            "The columns are tfmp's verdicts by default: for any runtime, on CUDA and WebGPU, too. "
            "An oracle's verdict is by the same rules, on its outputs for up to 320 samples.",
            "",
            "## Models",
            "",
            table([(*_MODEL, *oracles), *(_cells(row, oracles) for row in rows)], words=3),
            "",
        ]
    )


def _explained(oracles: Sequence[str]) -> list[str]:
    told = {
        "NumPy": "`onnx.reference` in NumPy's float16: every step inside an op is rounded (a "
        "softmax is rounded three times, a step of an LSTM a dozen times); sums are held in "
        "float32 and rounded before they are divided",
        MATCHING: "the same, with each op in float32 and its results rounded, as GPU kernels "
        "promise; states of recurrent ops are rounded after each step. The profile `gpu` "
        "foretells this oracle",
        "TensorFlow": "its float16 kernels for a CPU (products, reductions, softmax, "
        "exponentials), NumPy for the rest",
        "JAX": "likewise with JAX's kernels",
        "WebGPU": "ONNX Runtime's WebGPU provider (onnxruntime-webgpu 1.27) in FP16 on Mesa 25.0's "
        "adapter in software: the shaders that a browser runs, compiled for a CPU. The profile "
        "`webgpu` foretells it. Rows without a number are files that the provider computes wrongly "
        "in FP32, too",
    }
    return [*(f"- {oracle}: {told[oracle]}." for oracle in oracles), ""]


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _fitted(rows: Sequence[Row], oracle: str) -> Iterator[list[str]]:
    sound = [row for row in rows if row.ratio(oracle) is not None]
    ratios = [row.ratio(oracle) or 0.0 for row in sound]
    truth = [row.drifts[oracle] or 0.0 for row in sound]
    line = fit((ratio * drift, drift) for ratio, drift in zip(ratios, truth, strict=True))
    if line is not None:
        figures = (line.ratio, min(ratios), max(ratios), line.slope, line.spread)
        yield [oracle, str(line.count), *(f"{figure:.2f}" for figure in figures)]


def _confusion(rows: Sequence[Row], oracle: str) -> Iterator[list[str]]:
    counted = Counter((row.verdicts.get(oracle), row.verdict) for row in rows)
    for truth in _JUDGED[2:]:
        yield [oracle, truth, *(str(counted[truth, own]) for own in _JUDGED[2:])]


def _cells(row: Row, oracles: Sequence[str]) -> list[str]:
    cells = [row.name, row.kind, row.verdict, f"{row.emulated:.1e}"]
    for oracle in oracles:
        drift = row.drifts.get(oracle)
        lost = " (FAIL)" if row.verdicts.get(oracle) == "FAIL" else ""
        cells.append("" if drift is None else f"{drift:.1e}{lost}")
    return cells


# Headings of the page's tables.
_FITTED = "oracle, models, predicted / measured, smallest, largest, slope, spread".split(", ")
_JUDGED = ("oracle", "its verdict", "PASS", "INCONCLUSIVE", "FAIL")
_MODEL = ("model", "kind", "verdict", "emulated")


def main() -> None:
    """Measures and writes the page."""
    given = parser(__doc__)
    given.add_argument("--rows", type=Path, help="file that keeps the results")
    given.add_argument("--only", default="", help="print rows whose name has this, write no page")
    options = given.parse_args()
    kept = {}
    if options.rows and options.rows.exists():
        kept = {row["name"]: Row(**row) for row in map(json.loads, options.rows.open())}
    rows = []
    for name, kind in models():
        if options.only not in name:
            continue
        if name not in kept:
            try:
                kept[name] = row_of(name, kind)
            except Exception as error:  # a model that this machine cannot run is left out, aloud
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                continue
            if options.rows:
                with options.rows.open("a") as file:
                    file.write(json.dumps(asdict(kept[name])) + "\n")
        rows.append(kept[name])
        print(line(_cells(kept[name], list(kept[name].drifts))), file=sys.stderr, flush=True)
    if not options.only:
        write_page(PAGE, page(rows))


if __name__ == "__main__":
    main()
