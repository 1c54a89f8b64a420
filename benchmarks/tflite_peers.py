"""Writes docs/tflite-peers.md: this TFLite export beside Keras's own and ai-edge-quantizer's.

Every Keras model of the corpus (tests/support/corpus.py, the zoo where TFMP_ZOO names it) becomes
an FP16 file by each tool. What comes out is run in plain LiteRT on seeded inputs, by default and
with FP16 arithmetic forced. The repair looks at other samples than the comparison.

ai-edge-quantizer needs other versions than this project: name the Python of an environment that
has it with --quantizer or in AEQ_PYTHON; without one its column says so.

Run: python benchmarks/tflite_peers.py [--quantizer PYTHON] [--slow] [--only WORD]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaffold import DOCS, distance, figures_of, first_words, give_back, parser, versions

PAGE = DOCS / "tflite-peers.md"

import keras
from corpus import Case, corpus
from pages import table, write_page
from tflite_table import FORCED, WRONG, cell

from tfmp.converters.drift.compare import match
from tfmp.converters.intake.source import Source
from tfmp.converters.runners import LiteRTRunner
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.worker import Worker
from tfmp.converters.tflite.export.export import export_tflite, start_converter
from tfmp.converters.tflite.rewriting.repair import repair_model

# By tool of Keras: whether the batch is fixed at 1, and whether weights are FP16.
KERAS = {"Keras": (False, True), "Keras, batch of 1": (True, True), "float32": (True, False)}
QUANTIZER = "ai-edge-quantizer"
TOOLS = ("tfmp", "tfmp --repair", "Keras", "Keras, batch of 1", QUANTIZER)
CASES = "keras zoo applications"

# What runs in the other environment: every operator that its FP16 casting knows.
_QUANTIZE = """
import sys
from ai_edge_quantizer import qtyping, quantizer
model = quantizer.Quantizer(sys.argv[1])
for name in ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D_TRANSPOSE",
             "EMBEDDING_LOOKUP"):
    model.add_weight_only_config(".*", qtyping.TFLOperationName[name], num_bits=16,
                                 algorithm_key=quantizer.AlgorithmName.FLOAT_CASTING)
model.quantize().export_model(sys.argv[2], overwrite=True)
"""


@dataclass
class Result:
    """One tool on one model.

    Attributes:
        fault: why there is no file that runs; "" when there is one.
        size: bytes.
        default: relative L2 distance on the CPU by default.
        forced: the same with FP16 arithmetic forced; infinite if that cannot be run.
        named: whether inputs and outputs have the model's names, in its order.
    """

    fault: str = ""
    size: int = 0
    default: float = float("inf")
    forced: float = float("inf")
    named: bool = False

    def __str__(self) -> str:
        if self.fault:
            return f"no: {self.fault}"
        return f"{cell(self.default)}, {cell(self.forced)}, {self.size / 1e3:,.0f} kB"


def results_of(
    case: Case, folder: Path, converter: Worker, quantizer: str | None
) -> dict[str, Result]:
    """All tools on one model."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    source = case.open()
    other = case.batch(source, samples=8, seed=1)
    files = {tool: folder / f"{index}.tflite" for index, tool in enumerate((*TOOLS, "float32"))}
    for file in files.values():
        file.unlink(missing_ok=True)
    faults: dict[str, str] = {}
    for tool in TOOLS[:2]:
        try:
            given = repair_model(source, lambda: [other]).source if "repair" in tool else source
            export_tflite(given, files[tool], converter=converter)
        except (ConversionError, InputError) as error:
            faults[tool] = first_words(str(error))
    paths = (str(files[tool]) for tool in KERAS)
    faults |= figures_of(__file__, "--keras", case.name, *paths)
    if "float32" in faults:
        faults[QUANTIZER] = f"no float32 file to start from ({faults['float32']})"
    elif fault := quantized(quantizer, files["float32"], files[QUANTIZER]):
        faults[QUANTIZER] = fault
    batch = case.batch(source)
    return {
        tool: Result(faults[tool]) if tool in faults else judged(files[tool], source, batch)
        for tool in TOOLS
    }


def keras_exports(name: str, *paths: str) -> None:
    """Exports a model by `model.export(format="litert")`, in a process of its own; gives faults."""
    import tensorflow as tf
    from keras.src.export.export_utils import get_input_signature

    def fixed(spec: Any) -> Any:
        return keras.InputSpec(shape=(1, *spec.shape[1:]), dtype=spec.dtype, name=spec.name)

    keras.utils.set_random_seed(0)
    made = corpus(groups=CASES)[name].make()
    model = keras.models.load_model(made) if isinstance(made, Path) else made
    faults = {}
    for (tool, (at_one, fp16)), path in zip(KERAS.items(), paths, strict=True):
        options: dict[str, Any] = {}
        if fp16:
            options["optimizations"] = [tf.lite.Optimize.DEFAULT]
            options["target_spec"] = {"supported_types": [tf.float16]}
        if at_one:
            signature = keras.tree.map_structure(fixed, get_input_signature(model))
            options["input_signature"] = signature
        try:
            model.export(path, format="litert", verbose=False, **options)
        except Exception as error:  # whatever it raises is the result
            missing = (line for line in str(error).splitlines() if "ops:" in line)
            faults[tool] = first_words(next(missing, str(error)))
    give_back(faults)


def quantized(python: str | None, full: Path, output: Path) -> str:
    """Casts a float32 file to FP16 in the other environment; the reason if that fails, else ""."""
    if python is None:
        return "not installed"
    command = [python, "-c", _QUANTIZE, str(full), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (done.stderr.strip().splitlines() or ["ended"])[-1]
    return first_words(said) if done.returncode else ""


def judged(path: Path, source: Source, batch: Batch) -> Result:
    """Runs a file by default and in forced FP16."""
    expected = source.forward(batch)
    result = Result(size=path.stat().st_size)
    for mode in ("default", "forced"):
        try:
            with LiteRTRunner(path, mode == "forced") as runner:
                fed = match(source.inputs, runner.inputs, path.stem, "input").names
                given = match(source.outputs, runner.outputs, path.stem).names
                received = runner.run({fed[name]: array for name, array in batch.items()})
                ours = [received[given[name]] for name in expected]
                setattr(result, mode, distance(expected.values(), ours))
                theirs = [spec.name for spec in (*runner.inputs, *runner.outputs)]
                result.named = theirs == [s.name for s in (*source.inputs, *source.outputs)]
        except (RunnerError, InputError) as error:
            if mode == "default":
                return Result(fault=first_words(str(error)))
    return result


def page(results: dict[str, dict[str, Result]], options: str) -> str:
    """The page; `options` are the options of the run."""
    counts: dict[str, Callable[[Result], bool]] = {
        f"right on the CPU, of {len(results)}": lambda r: not r.fault and r.default <= WRONG,
        f"right in {FORCED}": lambda r: not r.fault and r.forced <= WRONG,
        "names and order kept": lambda r: r.named and not r.fault,
    }
    summary = [
        [title, *(str(sum(test(row[tool]) for row in results.values())) for tool in TOOLS)]
        for title, test in counts.items()
    ]
    rows = [(name, *(str(row[tool]) for tool in TOOLS)) for name, row in results.items()]
    text = [
        "# FP16 TFLite compared",
        "",
        f"Written by `python benchmarks/tflite_peers.py{options}` with",
        f"{versions(('tensorflow', 'keras', 'ai-edge-litert'))}. "
        '*Keras* is `model.export(format="litert")` with FP16 weights, once as it is',
        "and once with the batch fixed at one sample; ai-edge-quantizer casts Keras's float32 file",
        "with the fixed batch to FP16. A file counts as *right* if plain LiteRT runs it and its",
        f"outputs are within {WRONG:g} (relative L2) of the model's.",
        "",
        table([("", *TOOLS), *summary]),
        "",
        "## Model by model",
        "",
        f"Each cell holds the drift on the CPU by default, the drift under {FORCED}, and the",
        "file size.",
        "",
        table([("model", *TOOLS), *rows], words=1 + len(TOOLS)),
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Measures and writes."""
    asked = parser(__doc__)
    asked.add_argument("--quantizer", default=os.environ.get("AEQ_PYTHON"), metavar="PYTHON")
    asked.add_argument("--slow", action="store_true", help="also large applications")
    asked.add_argument("--only", default="", help="models whose names have this; no page")
    asked.add_argument("--keras", nargs="+", help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.keras:
        keras_exports(*options.keras)
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder, start_converter() as converter:
        for name, case in corpus(options.slow, groups=CASES).items():
            if options.only in name:
                found = results_of(case, Path(folder), converter, options.quantizer)
                results[name] = found
                print(name, *found.values(), sep=" | ", file=sys.stderr, flush=True)
    text = page(results, " --slow" if options.slow else "")
    if options.only:
        print(text)
    else:
        write_page(PAGE, text)


if __name__ == "__main__":
    main()
