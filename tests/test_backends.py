"""Runs what holds on all of Keras's backends on JAX, with two virtual devices, and on PyTorch.

So are `tests/jax` and `tests/torch`, which hold what is true of one of them alone.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from repository import ROOT

TESTS = ROOT / "tests"

# Has PyTorch where the environment of the tests has not: `make test-slow` makes it.
WITH_TORCH = ROOT / "build" / "torch"

# Minutes of compiling on JAX: the tests of what has code of its own for a backend, or hands states
# through a step: `fit`, the loss scale, the search for what is not finite, and traces.
WHOLE = (
    "fit/test_callback fit/test_callback_adapting fit/test_callback_bad_rows "
    "fit/test_callback_order fit/test_callback_readings fit/test_early_start "
    "fit/test_nonfinite_watch fit/test_preflight fit/test_skipped_steps "
    "loss_scaling/test_attach loss_scaling/test_gauges loss_scaling/test_loss_scaling_guide "
    "nonfinite/test_locate precision/measuring/test_needs_gradients "
    "precision/measuring/test_recording precision/measuring/test_measurement_states"
).split()

# Of these, those that run with the quick tests on TensorFlow.
IN_PART = (
    "calibration/test_measure colocation/test_run fit/test_large_inputs precision/test_policy "
    "precision/measuring/test_measurement precision/measuring/test_needs "
    "profiling/test_profile profiling/test_sweep "
    "roofline/test_counts roofline/test_lowering roofline/test_peaks"
).split()

# Of these, what JAX traces in another way than TensorFlow.
SHORT = (
    "nonfinite/test_locate.py::test_a_loss_scale_that_is_too_high "
    "fit/test_callback.py::test_the_fit_that_it_is_given_to_trains_in_mixed_precision "
    "fit/test_nonfinite_watch.py::test_keep_float32_moves_the_layer_that_overflows_and_goes_on "
    "fit/test_skipped_steps.py::test_a_skipped_step_leaves_no_trace_in_the_states_of_layers "
    "precision/measuring/test_recording.py::"
    "test_a_layer_with_a_raw_float32_constant_stays_in_float32"
).split()

ELSEWHERE = f"{TESTS}/converters/test_elsewhere.py"


def below(names: list[str], suffix: str = ".py") -> list[str]:
    return [f"{TESTS}/tfmp/{name}{suffix}" for name in names]


def environment_of(backend: str, cache: str) -> dict[str, str]:
    if backend == "torch":
        return {"OMP_NUM_THREADS": "1"}  # threads of two frameworks wait for each other
    return {
        "JAX_PLATFORMS": "cpu",
        # Many tests compile the same functions of Keras and of their models again.
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        # Most of the time goes into compiling functions that run once.
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0 "
        "--xla_llvm_disable_expensive_passes=true",
    }


def interpreter_of(backend: str) -> str:
    if backend != "torch" or find_spec("torch"):
        return sys.executable
    if not (WITH_TORCH / ".installed").exists():
        pytest.skip("PyTorch is not installed: `make test-slow` tries, and build/torch.log tells")
    return str(WITH_TORCH / "bin" / "python")


@pytest.mark.parametrize(
    ("backend", "arguments"),
    [
        ("jax", ["-m", "not slow", f"{TESTS}/jax", *below(SHORT, "")]),
        pytest.param("jax", [f"{TESTS}/jax", *below(WHOLE)], marks=pytest.mark.slow),
        pytest.param("jax", ["-m", "not slow", *below(IN_PART), ELSEWHERE], marks=pytest.mark.slow),
        pytest.param(
            "torch",
            ["-m", "not slow", f"{TESTS}/torch", *below(WHOLE), *below(IN_PART), ELSEWHERE],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["jax fast", "jax whole files", "jax files in part", "torch"],
)
def test_everything_passes(backend, arguments, tmp_path):
    done = subprocess.run(
        [interpreter_of(backend), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend, **environment_of(backend, str(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
