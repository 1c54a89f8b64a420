"""Writes docs/tflite-peers.md: this TFLite export beside Keras's own and ai-edge-quantizer's.

Every Keras model of the corpus (tests/support/corpus.py, the zoo where TFMP_ZOO names it) becomes
an FP16 file by each tool, each in a process of its own. What comes out is run in plain LiteRT on
seeded inputs, by default and with FP16 arithmetic forced. The repair looks at other samples than
the comparison.

ai-edge-quantizer needs other versions than this project: name the Python of an environment that
has it with --quantizer or in AEQ_PYTHON; without one its column says so.

Run: python benchmarks/tflite_peers.py [--quantizer PYTHON] [--slow] [--seconds]
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaffold import DOCS, distance, first_words, parser, versions

PAGE = DOCS / "tflite-peers.md"

import keras
from corpus import Case, corpus
from pages import table, write_page
from tflite_table import FORCED, WRONG, cell

from tfmp.converters import open_source
from tfmp.converters.drift.compare import match
from tfmp.converters.intake.source import Source
from tfmp.converters.runners import LiteRTRunner
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.worker import Worker
from tfmp.converters.tflite.export.export import export_tflite, start_converter

TOOLS = ("tfmp", "tfmp --repair", "Keras", "Keras, batch of 1", "ai-edge-quantizer")

# What runs in the other environment: every operator that its FP16 casting knows.
_QUANTIZE = """
import sys, time
from ai_edge_quantizer import qtyping, quantizer
start = time.perf_counter()
model = quantizer.Quantizer(sys.argv[1])
for name in ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D_TRANSPOSE",
             "EMBEDDING_LOOKUP"):
    model.add_weight_only_config(".*", qtyping.TFLOperationName[name], num_bits=16,
                                 algorithm_key=quantizer.AlgorithmName.FLOAT_CASTING)
model.quantize().export_model(sys.argv[2], overwrite=True)
print(time.perf_counter() - start)
"""


class Peer:
    """Keras's exporter on one model of the corpus; the object that a `Worker` holds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._model: Any = None

    def export(self, path: Path, fixed: bool, fp16: bool) -> float:
        """Writes `path` by `model.export(format="litert")`; the seconds that took.

        Args:
            path: a .tflite file.
            fixed: fix the batch at 1.
            fp16: store weights as FP16.
        """
        import tensorflow as tf

        self._make()
        options: dict[str, Any] = {}
        if fp16:
            options["optimizations"] = [tf.lite.Optimize.DEFAULT]
            options["target_spec"] = {"supported_types": [tf.float16]}
        if fixed:
            options["input_signature"] = _fixed_at_one(self._model)
        start = time.perf_counter()
        self._model.export(path, format="litert", verbose=False, **options)
        return time.perf_counter() - start

    def _make(self) -> None:
        if self._model is None:
            keras.utils.set_random_seed(0)
            made = corpus()[self._name].make()
            self._model = keras.models.load_model(made) if isinstance(made, Path) else made


def _fixed_at_one(model: Any) -> Any:
    """The model's own input signature, with a batch of one sample."""
    from keras.src.export.export_utils import get_input_signature

    def fixed(spec: Any) -> Any:
        return keras.InputSpec(shape=(1, *spec.shape[1:]), dtype=spec.dtype, name=spec.name)

    return keras.tree.map_structure(fixed, get_input_signature(model))


@dataclass
class Result:
    """One tool on one model.

    Attributes:
        fault: why there is no file that runs; "" when there is one.
        seconds: from the model in memory to the file.
        size: bytes.
        default: relative L2 distance on the CPU by default.
        forced: the same with FP16 arithmetic forced.
        named: whether inputs and outputs have the model's names, in its order.
    """

    fault: str = ""
    seconds: float = math.nan
    size: int = 0
    default: float = math.nan
    forced: float = math.nan
    named: bool = False

    @property
    def right(self) -> bool:
        """Whether the file does what the model does where nobody looks at FP16."""
        return not self.fault and self.default <= WRONG

    @property
    def right_in_fp16(self) -> bool:
        """Whether it still does in FP16 arithmetic."""
        return not self.fault and self.forced <= WRONG

    def __str__(self) -> str:
        if self.fault:
            return f"no: {self.fault}"
        return f"{cell(self.default)}, {cell(self.forced)}, {self.size / 1e3:,.0f} kB"


@dataclass
class Bench:
    """What the tools share: a folder, a converter that has started, another environment."""

    folder: Path
    converter: Worker
    quantizer: str | None
    results: dict[str, dict[str, Result]] = field(default_factory=dict)

    def measure(self, case: Case) -> None:
        """All tools on one model."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        made = case.make()
        start = time.perf_counter()
        source = open_source(made)
        opening = time.perf_counter() - start
        if isinstance(made, Path):  # loading is no part of an export
            opening = math.nan
        batch = case.batch(source)
        expected = source.forward(batch)
        own = {}
        for tool in TOOLS[:2]:
            own[tool] = self._ours(source, case, tool == "tfmp --repair", opening)
        self.results[case.name] = {
            tool: self._judged(tool, outcome, source, batch, expected)
            for tool, outcome in (own | self._peers(case)).items()
        }

    def _ours(self, source: Source, case: Case, repair: bool, opening: float) -> float | str:
        from tfmp.converters.tflite.rewriting.repair import repair_model

        start = time.perf_counter()
        try:
            if repair:
                other = case.batch(source, samples=8, seed=1)
                source = repair_model(source, lambda: [other]).source
            path = self.path("tfmp --repair" if repair else "tfmp")
            export_tflite(source, path, converter=self.converter)
        except (ConversionError, InputError) as error:
            return first_words(str(error))
        return opening + time.perf_counter() - start

    def _peers(self, case: Case) -> dict[str, float | str]:
        outcome: dict[str, float | str] = {}
        full = self.folder / "full.tflite"
        with Worker("tflite_peers:Peer", case.name, label="Keras", timeout_s=1200.0) as worker:
            for tool in TOOLS[2:4]:
                fixed = tool != "Keras"
                outcome[tool] = _attempt(
                    lambda tool=tool, fixed=fixed: worker.call(
                        "export", self.path(tool), fixed, True
                    )
                )
            base = _attempt(lambda: worker.call("export", full, True, False))
        if isinstance(base, str):
            outcome[TOOLS[4]] = f"no float32 file to start from ({base})"
        else:
            cast = self._quantized(full)
            outcome[TOOLS[4]] = cast if isinstance(cast, str) else base + cast
        return outcome

    def _quantized(self, full: Path) -> float | str:
        if self.quantizer is None:
            return "not installed"
        command = [self.quantizer, "-c", _QUANTIZE, str(full), str(self.path(TOOLS[4]))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return first_words((done.stderr.strip().splitlines() or ["ended"])[-1])
        return float(done.stdout.split()[-1])

    def _judged(
        self, tool: str, outcome: float | str, source: Source, batch: Batch, expected: Batch
    ) -> Result:
        if isinstance(outcome, str):
            return Result(fault=outcome)
        path = self.path(tool)
        result = Result(seconds=outcome, size=path.stat().st_size)
        for mode in ("default", "forced"):
            try:
                with LiteRTRunner(path, mode == "forced") as runner:
                    fed = match(source.inputs, runner.inputs, tool, "input").names
                    given = match(source.outputs, runner.outputs, tool).names
                    received = runner.run({fed[name]: array for name, array in batch.items()})
                    ours = [received[given[name]] for name in expected]
                    setattr(result, mode, distance(expected.values(), ours))
                    result.named = [s.name for s in (*runner.inputs, *runner.outputs)] == [
                        s.name for s in (*source.inputs, *source.outputs)
                    ]
            except (RunnerError, InputError) as error:
                if mode == "default":
                    return Result(fault=first_words(str(error)))
        return result

    def path(self, tool: str) -> Path:
        """Where the tool's file is."""
        return self.folder / f"{TOOLS.index(tool)}.tflite"


def _attempt(export: Callable[[], float]) -> float | str:
    """Seconds, or the reason in a few words."""
    try:
        return export()
    except (ConversionError, InputError, RunnerError) as error:
        text = str(error)
        missing = next((line for line in text.splitlines() if "ops:" in line), None)
        return first_words((missing or text).removeprefix("Keras: "))


def commands(path: Path, folder: Path) -> dict[str, float]:
    """Seconds from nothing to a file, imports and all: the best of three of each command."""
    keras_export = (
        "import sys, keras, tensorflow as tf; "
        "keras.models.load_model(sys.argv[1]).export(sys.argv[2], format='litert', verbose=False, "
        "optimizations=[tf.lite.Optimize.DEFAULT], "
        "target_spec={'supported_types': [tf.float16]})"
    )
    output = str(folder / "command.tflite")
    command_line = "from tfmp.converters.commands.cli import main; main()"
    ours = [sys.executable, "-c", command_line, "tflite", str(path), "-o", output]
    tried = {
        "tfmp": [*ours, "--force", "--quiet"],
        "Keras": [sys.executable, "-c", keras_export, str(path), output],
    }
    best: dict[str, float] = {}
    for _ in range(3):
        for tool, command in tried.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            best[tool] = min(best.get(tool, math.inf), time.perf_counter() - start)
    return best


def page(results: dict[str, dict[str, Result]], seconds: list[str], options: str) -> str:
    """The page; `options` are the options of the run."""
    packages = versions(("tensorflow", "keras", "ai-edge-litert"))
    text = [
        "# FP16 TFLite compared",
        "",
        f"Written by `python benchmarks/tflite_peers.py{options}` with",
        f'{packages}. *Keras* is `model.export(format="litert")` with FP16 weights, once as it is',
        "and once with the batch fixed at one sample; ai-edge-quantizer casts Keras's float32 file",
        "with the fixed batch to FP16. A file counts as *right* if plain LiteRT runs it and its",
        f"outputs are within {WRONG:g} (relative L2) of the model's.",
        "",
        table([("", *TOOLS), *_summary(results)]),
        "",
        *seconds,
        "## Model by model",
        "",
        f"Each cell holds the drift on the CPU by default, the drift under {FORCED}, and the",
        "file size.",
        "",
    ]
    rows = [(name, *(str(row[tool]) for tool in TOOLS)) for name, row in results.items()]
    text.append(table([("model", *TOOLS), *rows], words=1 + len(TOOLS)))
    return "\n".join(text) + "\n"


def _summary(results: dict[str, dict[str, Result]]) -> list[list[str]]:
    rows = list(results.values())
    counts = {
        f"right on the CPU, of {len(rows)}": lambda r: r.right,
        f"right in {FORCED}": lambda r: r.right_in_fp16,
        "names and order kept": lambda r: r.named and not r.fault,
    }
    text = [
        [title, *(str(sum(test(row[tool]) for row in rows)) for tool in TOOLS)]
        for title, test in counts.items()
    ]
    # Means only over models that every tool converted, so that they compare the same things.
    shared = [row for row in rows if all(row[tool].right_in_fp16 for tool in TOOLS)]
    if shared:
        figures: dict[str, Callable[[Result], float]] = {
            f"drift in {FORCED}, geometric mean of {len(shared)}": lambda r: max(r.forced, 1e-6),
            "bytes, geometric mean": lambda r: r.size,
            "seconds, geometric mean": lambda r: r.seconds,
        }
        for title, of in figures.items():
            known = [row for row in shared if not any(math.isnan(of(row[t])) for t in TOOLS)]
            means = (statistics.geometric_mean(of(row[tool]) for row in known) for tool in TOOLS)
            text.append([title, *(f"{mean:,.3g}" for mean in means)])
    return text


def main() -> None:
    """Measures and writes."""
    asked = parser(__doc__)
    asked.add_argument("--quantizer", default=os.environ.get("AEQ_PYTHON"), metavar="PYTHON")
    asked.add_argument("--slow", action="store_true", help="also large applications")
    asked.add_argument("--seconds", action="store_true", help="also time whole commands")
    options = asked.parse_args()
    cases = corpus(options.slow, groups="keras zoo applications")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(folder, stack.enter_context(start_converter()), options.quantizer)
        for case in cases.values():
            bench.measure(case)
            shown = " | ".join(str(result) for result in bench.results[case.name].values())
            print(f"{case.name}: {shown}", file=sys.stderr, flush=True)
        seconds = _timed(cases, folder) if options.seconds else []
    given = [f" --{name}" for name in ("slow", "seconds") if getattr(options, name)]
    write_page(PAGE, page(bench.results, seconds, "".join(given)))


def _timed(cases: dict[str, Case], folder: Path) -> list[str]:
    """A table of whole commands."""
    text = [
        "The next table compares the seconds of `tfmp-convert tflite` with a script that loads",
        "the model and exports it with Keras (best of three runs). tfmp starts TensorFlow a",
        "second time, in a process where the converter may leak or crash; this costs a few",
        "seconds for any model.",
        "",
    ]
    rows = [["model", "tfmp", "Keras", "ratio"]]
    for name in ("dense", "MobileNetV2", "ResNet50"):
        path = folder / f"{name}.keras"
        cases[name].make().save(path)
        best = commands(path, folder)
        ratio = best["tfmp"] / best["Keras"]
        rows.append([name, f"{best['tfmp']:.1f}", f"{best['Keras']:.1f}", f"{ratio:.2f}"])
    return [*text, table(rows), ""]


if __name__ == "__main__":
    main()
