"""Time and memory of a float32 ONNX export, against `model.export(format="onnx")` of Keras.

Each measurement runs in a process of its own, both exporters in turn on the same model. Peak
memory is what the process reached beyond the loaded model and libraries.

Run: python benchmarks/onnx_export.py [--quick]
"""

import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from scaffold import figures_of, give_back

APPLICATIONS = ("ResNet50", "ConvNeXtTiny")
MIB = 2**20


def build(name: str):
    """A `keras.applications` model, or "chain-LAYERS-WIDTH": dense layers in a row."""
    import keras

    keras.utils.set_random_seed(0)
    if name.startswith("chain"):
        count, width = (int(part) for part in name.split("-")[1:])
        layers = [keras.layers.Dense(width, activation="relu") for _ in range(count)]
        model = keras.Sequential([keras.Input((width,)), *layers])
    else:
        model = getattr(keras.applications, name)(weights=None)
    model(keras.ops.zeros((1, *model.input_shape[1:])))  # Keras exports what was called
    return model


def measure(exporter: str, name: str) -> None:
    """Runs one export here and prints its figures as JSON."""
    export(exporter, build("chain-2-4"))  # loads the libraries that either exporter needs
    model = build(name)
    weights = sum(variable.value.numpy().nbytes for variable in model.variables)
    before = peak_rss()
    start = time.perf_counter()
    export(exporter, model)
    seconds = time.perf_counter() - start
    give_back({"seconds": seconds, "peak": peak_rss() - before, "weights": weights})


def export(exporter: str, model) -> None:
    """Writes `model` to a temporary file, all checks included."""
    from tfmp.converters.intake import open_source
    from tfmp.converters.onnx.export.export import check_export, export_onnx
    from tfmp.converters.onnx.graph.storage import save_checked

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        if exporter == "keras":
            model.export(path, format="onnx", verbose=False)
            return
        source = open_source(model)
        exported = export_onnx(source)
        check_export(exported, source)
        save_checked(exported, path)


def peak_rss() -> int:
    """The most memory this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(exporter: str, name: str) -> dict[str, float]:
    """One measurement in a fresh process."""
    return figures_of(__file__, "--measure", exporter, name)


def compare(repeats: int) -> None:
    """The paired comparison on real architectures."""
    print("| model | tfmp s | Keras s | ratio | tfmp peak MiB | Keras peak MiB | weights MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in APPLICATIONS:
        pairs = [(run("tfmp", name), run("keras", name)) for _ in range(repeats)]
        ours, theirs = (statistics.median(p[i]["seconds"] for p in pairs) for i in (0, 1))
        ratio = statistics.median(b["seconds"] / a["seconds"] for a, b in pairs)
        peaks = [statistics.median(p[i]["peak"] for p in pairs) / MIB for i in (0, 1)]
        weights = pairs[0][0]["weights"] / MIB
        print(
            f"| {name} | {ours:.1f} | {theirs:.1f} | {ratio:.1f} | {peaks[0]:.0f} | "
            f"{peaks[1]:.0f} | {weights:.0f} |",
            flush=True,
        )


def main() -> None:
    """Prints the table."""
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:4])
        return
    compare(repeats=1 if "--quick" in sys.argv else 3)


if __name__ == "__main__":
    main()
