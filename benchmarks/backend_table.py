"""What works on which of Keras's backends, each thing done once, small, on each of them.

    build/torch/bin/python benchmarks/backend_table.py

An interpreter with PyTorch runs it: `make test-slow` makes that one. Takes five minutes of
one core, and writes the table of docs/backends.md.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pages import line, write_part
from scaffold import DOCS, ROOT, figures_of, first_words, give_back, parser, versions

BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
MODES = ("sequential", "interleaved", "threads", "processes", "fused")


def _model() -> Any:
    import colocated_jobs

    return colocated_jobs.small()


def _data() -> tuple[Any, Any]:
    from colocated_jobs import X, Y

    return X, Y


def _fitted(**options: Any) -> Any:
    import tfmp

    x, y = _data()
    callback = tfmp.MixedPrecision("mixed_float16", **options)
    model = _model()
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[callback])
    assert callback.report is not None
    assert model.layers[0].compute_dtype == "float16"
    return model


def _plan() -> None:
    import tfmp

    tfmp.plan(_model(), "mixed_float16", data=_data()).apply()


def _scaled(scale: Callable[[Any], Any]) -> Callable[[], None]:
    def fit() -> None:
        import tfmp

        _fitted(loss_scale=scale(tfmp))

    return fit


def _revert() -> None:
    import tfmp

    model = tfmp.revert(_fitted())
    assert {layer.compute_dtype for layer in model.layers} == {"float32"}


def _calibrate() -> None:
    import tfmp

    assert tfmp.calibrate(_model(), _data()).recommended_scale > 1


def _locate() -> None:
    import tfmp

    x, y = _data()
    model = _model()
    tfmp.plan(model, "mixed_float16").apply()
    assert tfmp.locate_nonfinite(model, x[:8] * 1e6, y[:8]) is not None


def _report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "training.html"
        _fitted(report=path)
        assert path.stat().st_size


def _profile() -> None:
    import tfmp

    report = tfmp.profile_training(_model(), _data(), rounds=2, steps=2, batch_size=8)
    assert not any(row.error for row in report.variants)


def _doctor() -> None:
    import tfmp

    assert tfmp.doctor(_model())


def _compare() -> None:
    import tfmp

    with tempfile.TemporaryDirectory() as folder:
        arms = ("float32", "mixed_float16", "mixed_float16+onnx")
        report = tfmp.compare("tiny_task:task", arms, seeds=1, epochs=1, folder=folder)
        failed = [run.error for run in report.runs if run.error]
        assert not failed, failed[0]


def _colocated(mode: str) -> Callable[[], None]:
    def run() -> None:
        import colocated_jobs

        import tfmp

        jobs = [
            tfmp.Job(colocated_jobs.small, _data(), policy, 2, name=policy, batch_size=8)
            for policy in ("float32", "mixed_float16")
        ]
        tfmp.colocate(jobs, mode, measure_steps=0)

    return run


def _rewrite() -> None:
    import keras

    import tfmp

    tfmp.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(0.1))
    tfmp.disable_mixed_precision_graph_rewrite()


def _convert() -> None:
    from tfmp.converters import convert

    with tempfile.TemporaryDirectory() as folder:
        for to in ("onnx", "tflite"):
            assert convert(_fitted(), to, folder + os.sep).size_bytes


ROWS: dict[str, Callable[[], None]] = {
    "`tfmp.plan`, with measured layers": _plan,
    "`tfmp.MixedPrecision`, dynamic loss scale": _fitted,
    "static loss scale": _scaled(lambda tfmp: tfmp.StaticLossScale(1024.0)),
    "scheduled loss scale": _scaled(lambda tfmp: tfmp.ScheduledLossScale({0: 64.0, 4: 1024.0})),
    "`tfmp.revert`": _revert,
    "`tfmp.calibrate`": _calibrate,
    "`tfmp.locate_nonfinite`": _locate,
    "training report": _report,
    "`tfmp.profile_training`": _profile,
    "`tfmp.doctor`": _doctor,
    "`tfmp.compare`, with a file": _compare,
    **{f"`tfmp.colocate`, mode {mode!r}": _colocated(mode) for mode in MODES},
    "TensorFlow's graph rewrite": _rewrite,
    "`convert` of a live model, ONNX and TFLite": _convert,
}


def results() -> dict[str, str]:
    """What came of every row on the backend of this process: "yes", or why not."""
    found = {}
    for name, run in ROWS.items():
        try:
            with contextlib.redirect_stdout(sys.stderr):
                run()
            found[name] = "yes"
        except Exception as error:  # whatever a row raises is its result
            found[name] = first_words(f"no: {error}" if str(error) else type(error).__name__, 160)
    return found


def shared_tests() -> str:
    """The test files that run on all three backends, in words."""
    sys.path.insert(0, str(ROOT / "tests"))
    from test_backends import ELSEWHERE, IN_PART, NOT_ON_TORCH, WHOLE

    files = len([*WHOLE, *IN_PART, ELSEWHERE])
    less = f"{len(NOT_ON_TORCH)} tests whose models or assertions are of other backends"
    return f"{files} files of tests run on all three backends, on PyTorch without {less}"


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--here", action="store_true", help="only on the backend of this process")
    if given.parse_args().here:
        give_back(results())
        return
    columns = {}
    for backend in BACKENDS:
        os.environ["KERAS_BACKEND"] = backend
        columns[backend] = figures_of(__file__, "--here")
    rows = [line(("", *BACKENDS.values())), line(["---"] * (1 + len(BACKENDS)))]
    rows += [line((name, *(columns[backend][name] for backend in BACKENDS))) for name in ROWS]
    with_versions = versions(["tfmp", "keras", "tensorflow", "jax", "torch"])
    told = f"With {with_versions}, on a processor. {shared_tests()} (`tests/test_backends.py`)."
    write_part(DOCS / "backends.md", "backend_table.py", "\n".join([told, "", *rows]))


if __name__ == "__main__":
    main()
