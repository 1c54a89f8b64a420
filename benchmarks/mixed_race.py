"""Writes docs/fp16-mixed.md: the search for FP32 nodes beside onnxconverter-common's.

All searches get the same float32 ONNX file, the same samples and the same limit for the relative L2
drift: a share of the drift that the model has when all of it is FP16. Each runs in a process of its
own on the same cores. The rival runs twice: as it is, measuring with ONNX Runtime's CPU provider,
and with the emulator in its place, so that it sees the effect of FP16. The emulator also judges
every result.

Run: pip install onnxconverter-common; python benchmarks/mixed_race.py [--limit SECONDS]
"""

import argparse
import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from scaffold import DOCS, distance, figures_of, give_back, parser

EMULATED = "onnxconverter-common, emulated"
TOOLS = ("tfmp", "onnxconverter-common", EMULATED)
SHARE = 0.7  # of the drift of the FP16 model is allowed
SAMPLES = 4


def resnet() -> Any:
    """ResNet50 with random weights."""
    import keras

    return keras.applications.ResNet50(weights=None)


def transformer() -> Any:
    """Twelve blocks, width 256, 32 tokens, with normalizations in front."""
    import keras
    from keras import layers

    tokens = x = keras.Input((32, 256), name="tokens")
    for _ in range(12):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, 64)(y, y)
        y = layers.Dense(1024, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(256)(y)
    return keras.Model(tokens, layers.Dense(10, name="logits")(layers.LayerNormalization()(x)))


MODELS = {"ResNet50": resnet, "transformer": transformer}


def export(name: str, folder: Path) -> None:
    """Writes the float32 file, the samples and the limit."""
    import keras
    import numpy as np
    import onnx_ir as ir

    from tfmp.converters.intake import open_source
    from tfmp.converters.onnx.export.export import export_onnx
    from tfmp.converters.onnx.fp16.rewriter import to_fp16
    from tfmp.converters.onnx.graph.storage import save_checked
    from tfmp.converters.shared.tensors import synthetic_batch

    keras.utils.set_random_seed(0)
    source = open_source(MODELS[name]())
    model = export_onnx(source)
    save_checked(model, folder / "model.onnx")
    batch = synthetic_batch(source.inputs, samples=SAMPLES, seed=0)
    np.savez(folder / "batch.npz", **batch)
    half, _ = to_fp16(ir.load(folder / "model.onnx"))
    limit = SHARE * emulated_drift(folder, ir.to_proto(half), batch)
    (folder / "limit.json").write_text(json.dumps(limit))
    give_back({})


def emulated_drift(folder: Path, half: Any, batch: dict[str, Any]) -> float:
    """The worst relative L2 drift of an FP16 model, emulated."""
    from tfmp.converters.shared.sessions import cpu_session

    names = [value.name for value in half.graph.output]
    expected = cpu_session(folder / "model.onnx").run(names, batch)
    return distance(expected, emulate(half, batch))


def emulate(half: Any, batch: dict[str, Any]) -> list[Any]:
    """The outputs of a model with its FP16 arithmetic emulated."""
    import onnx_ir as ir
    import onnxruntime

    from tfmp.converters.onnx.emulation.emulate import emulated
    from tfmp.converters.onnx.fp16.rewriter import prepare

    wide = ir.from_proto(half)
    prepare(wide)
    proto = ir.to_proto(emulated(wide)).SerializeToString()
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    return session.run(None, batch)


def ours(folder: Path, limit: float, batch: dict[str, Any]) -> tuple[Any, int, int]:
    """The FP16 model, its FP32 nodes and the evaluations it took."""
    import onnx_ir as ir

    from tfmp.converters.drift.budget import DriftBudget
    from tfmp.converters.onnx.emulation.switches import name_nodes
    from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
    from tfmp.converters.onnx.mixed import find_islands
    from tfmp.converters.onnx.rewrites.pipeline import rewrite

    model = ir.load(folder / "model.onnx")
    prepare(model)
    rewritten = rewrite(model)
    name_nodes(model)
    found = find_islands(model, [(batch, None)], DriftBudget(rel_l2=limit, flip_rate=None))
    half, _ = to_fp16(model, keep_nodes=found.islands, rewritten=rewritten)
    return ir.to_proto(half), len(found.islands), found.evaluations


def rival(
    folder: Path, limit: float, batch: dict[str, Any], emulating: bool, seconds: float
) -> tuple[Any, int, int]:
    """The same of onnxconverter-common's search, which gives up after some time."""
    import onnx
    from onnxconverter_common import auto_mixed_precision

    until = time.perf_counter() + seconds
    measure = auto_mixed_precision.get_tensor_values_using_ort

    def run(model: Any, feed: dict[str, Any], *options: Any) -> list[Any]:
        return measure(model, feed, *options) if options else emulate(model, feed)

    if emulating:
        auto_mixed_precision.get_tensor_values_using_ort = run

    attempts = []

    def validate(expected: list[Any], received: list[Any]) -> bool:
        attempts.append(distance(expected, received))
        if time.perf_counter() > until:
            raise TimeoutError(f"not done after {len(attempts)} evaluations")
        return attempts[-1] <= limit

    model = onnx.load(folder / "model.onnx")
    with contextlib.redirect_stdout(io.StringIO()):
        half = auto_mixed_precision.auto_convert_mixed_precision(
            model, batch, validate_fn=validate, keep_io_types=True
        )
    types = {value.name: value.type.tensor_type.elem_type for value in half.graph.value_info}
    kept = sum(
        node.op_type != "Cast" and types.get(node.output[0]) == onnx.TensorProto.FLOAT
        for node in half.graph.node
    )
    return half, kept, len(attempts)


def search(tool: str, folder: Path, seconds: float) -> None:
    """Runs one search here and prints its figures as JSON."""
    import numpy as np
    import onnxruntime

    batch = dict(np.load(folder / "batch.npz"))
    limit = json.loads((folder / "limit.json").read_text())
    sessions = []

    class Counted(onnxruntime.InferenceSession):
        def __init__(self, *args: Any, **options: Any) -> None:
            sessions.append(1)
            super().__init__(*args, **options)

    onnxruntime.InferenceSession = Counted
    figures: dict[str, Any] = {}
    start = time.perf_counter()
    try:
        if tool == "tfmp":
            half, kept, runs = ours(folder, limit, batch)
        else:
            half, kept, runs = rival(folder, limit, batch, tool == EMULATED, seconds)
    except Exception as error:  # what a rival raises is its result
        told = str(error).splitlines()[0].split(" ([")[0]
        figures["fault"] = f"{type(error).__name__}: {told[:120]}"
    figures |= {"seconds": time.perf_counter() - start, "sessions": len(sessions)}
    if "fault" not in figures:
        drift = emulated_drift(folder, half, batch)
        figures |= {"kept": kept, "runs": runs, "drift": drift / limit}
    give_back(figures)


def row(name: str, tool: str, figures: dict[str, Any]) -> str:
    """One line of the table."""
    count = str(figures.get("sessions", ""))
    if "fault" in figures:
        cells = [f"{figures['seconds']:.0f}", count, "", "", figures["fault"]]
    else:
        verdict = "kept" if figures["drift"] <= 1 else "missed"
        outcome = f"{verdict}: {figures['drift']:.2f} of the limit"
        seconds = f"{figures['seconds']:.1f}"
        cells = [seconds, count, str(figures["runs"]), str(figures["kept"]), outcome]
    return f"| {name} | {tool} | " + " | ".join(cells) + " |"


def main() -> None:
    """Measures and writes."""
    given = parser(__doc__)
    given.add_argument("--limit", type=float, default=1200.0, help="seconds for one search")
    given.add_argument("--export", nargs=2, help=argparse.SUPPRESS)
    given.add_argument("--search", nargs=2, help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.export:
        export(options.export[0], Path(options.export[1]))
        return
    if options.search:
        search(options.search[0], Path(options.search[1]), options.limit)
        return
    rows = []
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            figures_of(__file__, "--export", name, folder)
            for tool in TOOLS:
                asked = ("--search", tool, folder, "--limit", str(options.limit))
                figures = figures_of(__file__, *asked)
                rows.append(row(name, tool, figures))
                print(rows[-1], flush=True)
    text = "\n".join([*_HEAD, *rows]) + "\n"
    (DOCS / "fp16-mixed.md").write_text(text)


_HEAD = (
    "# Searches for FP32 nodes compared",
    "",
    "Written by `python benchmarks/mixed_race.py`. The limit is "
    f"{SHARE:.0%} of the relative L2 drift of the model entirely in FP16, on "
    f"{SAMPLES} seeded samples; both models have random weights. The outcome is the emulated drift "
    "of the final file of a search. onnxconverter-common measures with ONNX Runtime's CPU "
    "provider, which computes most of an FP16 graph in FP32 and therefore sees little of the "
    'drift; "emulated" is its search with this project\'s emulator in place of that provider. '
    "If a weight has readers in FP16 and in FP32, onnxconverter-common makes an invalid model, "
    "and its search ends.",
    "",
    "| model | search | seconds | sessions | evaluations | FP32 nodes | outcome |",
    "| --- | --- | ---: | ---: | ---: | ---: | --- |",
)

if __name__ == "__main__":
    main()
