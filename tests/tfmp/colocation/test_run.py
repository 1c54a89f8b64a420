"""colocate: jobs side by side, each with the result it has alone; on every backend."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from colocated_jobs import X, Y, batches, jobs, other, small
from quick import quick

import tfmp
from tfmp.colocation.choice import judged, predicted_seconds, recommend
from tfmp.colocation.job import Job
from tfmp.colocation.mode_names import IN_PROCESS
from tfmp.colocation.modes import Together, run_in_process
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.colocation.run import colocate
from tfmp.machine.measuring import DEVICE_MEMORY, Memory
from tfmp.shared.backend import current_backend

OWN = current_backend()
ON_JAX = OWN.name == "jax"
# Dropout draws from one generator in all threads on PyTorch.
TOGETHER = [m for m in IN_PROCESS[1:] if m != "threads" or not OWN.threads_share_randomness]


@pytest.fixture(scope="module", autouse=True)
def reproducible():
    """Bit for bit, with float64 on every backend; as it was afterwards."""
    if ON_JAX:
        import jax

        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)
        yield
        jax.config.update("jax_enable_x64", before)
    else:
        import tensorflow as tf
        from tensorflow.python.framework import config

        tf.config.experimental.enable_op_determinism()
        yield
        config.disable_op_determinism()


@pytest.fixture(scope="module")
def alone() -> dict[str, JobResult]:
    return {job.name: run_in_process("sequential", [job]).jobs[0] for job in jobs()}


def assert_same(result: JobResult, expected: JobResult) -> None:
    assert result.error == ""
    assert result.history == expected.history
    for one, two in zip(result.weights, expected.weights, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("mode", quick(TOGETHER))
def test_every_job_ends_as_it_does_alone(mode, alone):
    result = run_in_process(mode, jobs())
    for job, expected in zip(result.jobs, jobs(), strict=True):
        assert job.steps == expected.steps
        assert_same(job, alone[job.name])


def test_each_precision_is_really_its_own(alone):
    assert alone["single"].weights[0].dtype == np.float32
    assert alone["double"].weights[0].dtype == np.float64
    assert {v.dtype for v in alone["double"].model.trainable_variables} == {"float64"}
    assert alone["double"].model._compile_loss.dtype == "float64"
    assert alone["half"].model.layers[1].compute_dtype == "float16"
    assert isinstance(alone["half"].model.optimizer, tfmp.LossScaleOptimizer)
    assert alone["brain"].model.layers[1].compute_dtype == "bfloat16"
    # float64 to the end: weights that float32 cannot hold
    kernel = alone["double"].weights[0]
    assert (kernel.astype("float32") != kernel).any()


@pytest.mark.slow
def test_nothing_of_the_jobs_leaks(alone):
    import random

    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        random.seed(5)
        np.random.seed(5)
        expected = random.random(), np.random.rand()
        random.seed(5)
        np.random.seed(5)
        mode = "threads" if "threads" in TOGETHER else "interleaved"
        result = run_in_process(mode, jobs()[:2])
        assert (random.random(), np.random.rand()) == expected
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
        assert keras.config.floatx() == "float32"
    finally:
        keras.config.set_dtype_policy("float32")
    for job in result.jobs:  # nor the other way round
        assert_same(job, alone[job.name])


@pytest.mark.parametrize("mode", TOGETHER[-1:])
def test_a_job_that_raises_ends_alone(mode, alone):
    def tripping(error: Exception) -> Job:
        def raises(batch, logs):
            if batch == 2:
                raise error

        callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=raises)]
        name = type(error).__name__
        return Job(small, (X, Y), steps=9, name=name, batch_size=8, callbacks=callbacks)

    def no_model() -> keras.Model:
        raise RuntimeError("no such architecture")

    def empty() -> list[tuple[np.ndarray, np.ndarray]]:
        return []

    found = [
        jobs()[0],
        tripping(OSError("disk full")),
        tripping(MemoryError("OOM when allocating tensor with shape[8,6]")),
        Job(no_model, (X, Y), name="no model"),
        Job(small, empty, name="data"),
        jobs()[2],
    ]
    result = run_in_process(mode, found)
    single, tripped, starved, no_model_, data, half = result.jobs
    assert_same(single, alone["single"])
    assert_same(half, alone["half"])
    assert (tripped.error, tripped.steps) == ("OSError: disk full", 2)
    assert starved.error.startswith("out of memory: ")
    assert starved.out_of_memory
    assert no_model_.error == "RuntimeError: no such architecture"
    assert data.error.startswith("ValueError: Job 'data' expects batches, but its data gave")
    assert [job.name for job in result.failed] == [job.name for job in found[1:5]]
    assert tripped.model is None


def test_callbacks_see_what_they_see_in_fit():
    seen = []

    class Seeing(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen.append(("epoch", epoch))

        def on_train_batch_end(self, batch, logs=None):
            seen.append(("batch", batch, float(logs["loss"]) > 0))

        def on_epoch_end(self, epoch, logs=None):
            seen.append(("end", epoch, sorted(logs), int(self.model.optimizer.iterations)))
            self.model.stop_training = epoch == 1

        def on_train_end(self, logs=None):
            seen.append("over")

    job = Job(
        other, (X, Y), steps=6, name="a", batch_size=8, steps_per_epoch=2, callbacks=[Seeing()]
    )
    result = run_in_process("sequential", [job]).jobs[0]
    assert seen == [
        ("epoch", 0),
        ("batch", 0, True),
        ("batch", 1, True),
        ("end", 0, ["loss"], 2),
        ("epoch", 1),
        ("batch", 0, True),
        ("batch", 1, True),
        ("end", 1, ["loss"], 4),
        "over",
    ]
    assert (result.steps, len(result.history["loss"])) == (4, 2)


def test_the_weights_are_those_of_fit():
    """The same batches, seeds and policy: nothing is lost against Keras's own loop."""
    job = Job(other, (X, Y), steps=5, name="a", batch_size=8, shuffle=False, seed=7)
    found = run_in_process("sequential", [job]).jobs[0]
    keras.utils.set_random_seed(7)
    model = other()
    model.fit(X, Y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    for one, two in zip(found.weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert found.history["loss"] == pytest.approx(model.history.history["loss"], rel=1e-6)


def test_ctrl_c_while_a_checkpoint_is_written_leaves_the_one_before(tmp_path, monkeypatch, alone):
    savez = np.savez

    def write_half(path, *values, **named):
        savez(path, *values, **named)
        if written:
            path.write_bytes(path.read_bytes()[:100])
            raise KeyboardInterrupt
        written.append(path)

    written = []
    folder = tmp_path / "backup"
    job = Job(
        *(other, batches, "mixed_float16", 8, "half"), seed=3, steps_per_epoch=2, checkpoint=folder
    )
    monkeypatch.setattr(np, "savez", write_half)
    with pytest.raises(KeyboardInterrupt):
        run_in_process("sequential", [job])
    monkeypatch.undo()
    (other_model,) = run_in_process("sequential", [replace(job, model=small)]).jobs
    assert "is of another model: remove it" in other_model.error
    result = run_in_process("sequential", [job]).jobs[0]
    assert (result.error, result.steps, len(result.history["loss"])) == ("", 8, 3)
    for one, two in zip(result.weights, alone["half"].weights, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not folder.exists()


def test_a_function_that_gives_batches_once_does_for_one_pass():
    called = []

    def once():
        called.append(1)
        return (batch for batch in batches())

    job = Job(other, once, steps=5, name="a")
    assert run_in_process("sequential", [job]).jobs[0].error == ""
    assert called == [1]
    longer = run_in_process("sequential", [Job(other, once, steps=6, name="a")]).jobs[0]
    assert longer.steps == 5
    assert "no batch a second time. Pass arrays, a list" in longer.error


def test_processes_on_a_card_are_measured_in_processes(monkeypatch):
    """This process would take the card's memory from them."""
    from tfmp.colocation import choice, run
    from tfmp.machine.devices import Device

    def in_processes(found, keep, memory_limit=None, progress=None):
        return row("processes", {job.name: job.seed + 1.0 for job in found})

    def in_process(*_):
        raise AssertionError("the card was used")

    for module in (run, choice):
        monkeypatch.setattr(module, "run_in_processes", in_processes)
    monkeypatch.setattr(run, "run_in_process", in_process)
    monkeypatch.setattr(choice, "Together", in_process)
    monkeypatch.setattr(run.devices, "accelerators", lambda: (Device("gpu", "A100", (8, 0)),))
    report = colocate(jobs()[2:], "processes")
    assert [result.mode for result in report.measured] == ["sequential"]
    assert report.measured[0].predicted_s == 2 * 2 + 8 * 4 + 6 * 5
    assert report["half"].slowdown == pytest.approx(1.0)


def test_measuring_leaves_no_trace(tmp_path):
    made = []
    options = {"callbacks": lambda: made.append(1) or [], "checkpoint": tmp_path / "b"}
    job = Job(other, batches, steps=4, name="a", **options)
    report = colocate([job], "sequential", train=False, measure_steps=2)
    assert (report.run, report.jobs, made) == (None, (), [])
    assert not (tmp_path / "b").exists()


def row(mode: str, seconds: dict[str, float], failed: tuple[str, ...] = ()) -> ModeResult:
    """A short run of ten steps with known seconds a step."""
    found = tuple(
        JobResult(
            n, "float32", 11, 10, 1.0, 10 * s, 10 * s, slowdown=1.0, error="x" * (n in failed)
        )
        for n, s in seconds.items()
    )
    return ModeResult(mode, found, 2.0, 5.0)


def test_the_prediction_goes_on_alone_when_one_job_is_left():
    alone = row("sequential", {"a": 1.0, "b": 1.0})
    together = row("threads", {"a": 1.5, "b": 1.5})
    assert predicted_seconds(alone, alone, {"a": 10, "b": 30}, 2.0) == 2 + 10 + 30
    # 10 steps of both at 1.5, then 20 of one at 1
    assert predicted_seconds(together, alone, {"a": 10, "b": 30}, 2.0) == pytest.approx(2 + 15 + 20)


def test_who_sets_up_first_does_not_decide():
    """The first run pays for what later ones find ready; a mode's own compiling does count."""

    class Steps:
        def __init__(self, name: str) -> None:
            self.name, self.steps = name, 100

    def slow(result: ModeResult, setup_s: float) -> ModeResult:
        found = tuple(replace(job, setup_s=setup_s) for job in result.jobs)
        return replace(result, jobs=found, setup_s=2 * setup_s)

    alone = slow(row("sequential", {"a": 0.10, "b": 0.10}), 9.0)
    turns = slow(row("interleaved", {"a": 0.21, "b": 0.21}), 1.0)
    fused = slow(row("fused", {"a": 0.18, "b": 0.18}), 1.5)
    fused = replace(fused, setup_s=fused.setup_s + 4.0)
    found = judged([alone, turns, fused], [Steps("a"), Steps("b")])
    assert [result.predicted_s for result in found] == pytest.approx([2 + 20, 2 + 21, 2 + 4 + 18])
    assert recommend(found)[0] == "sequential"


def test_close_modes_are_measured_again(monkeypatch):
    """The faster run of each counts, so that one disturbance does not decide."""
    from tfmp.colocation import choice

    paces = {
        "sequential": [0.10, 0.10, 0.09],
        "interleaved": [0.21, 0.20],
        "threads": [0.22, 0.12],
    }
    taken: list[str] = []
    set_up: list[int] = []

    class Together:
        def __init__(self, found):
            self.names = [job.name for job in found]
            set_up.append(len(self.names))

        def measure(self, mode, rounds):
            if rounds == 1:  # to compile
                return None
            taken.append(mode)
            found = row(mode, dict.fromkeys(self.names, paces[mode].pop(0)))
            needs = Memory(len(taken), DEVICE_MEMORY)
            return replace(found, setup_s=float(len(self.names)), memory=needs)

    monkeypatch.setattr(choice, "Together", Together)
    monkeypatch.setattr(choice, "_why_not_processes", lambda *_: "there are two jobs")
    report = colocate(jobs()[2:], train=False)
    assert taken == ["sequential", *IN_PROCESS, "threads", "interleaved", "sequential"]
    assert set_up == [1, 1, 2]  # all modes share the models
    assert report.mode == "threads"
    assert report.measured[2].jobs[0].step_s == pytest.approx(0.12)
    first = [2, 3, 4]
    assert [mode.memory.bytes for mode in report.measured] == first  # of the first runs


def test_a_mode_that_fails_with_used_models_gets_new_ones(monkeypatch):
    """As with data that gives its batches once, or memory that the mode before did not free."""
    from tfmp.colocation import choice

    class Together:
        def __init__(self, found):
            self.names, self.runs = [job.name for job in found], 0

        def measure(self, mode, rounds):
            self.runs += 1
            failed = tuple(self.names) if self.runs > 2 else ()
            return row(mode, dict.fromkeys(self.names, 0.1), failed)

    monkeypatch.setattr(choice, "Together", Together)
    report = colocate(jobs()[2:], train=False)
    assert [mode.mode for mode in report.measured] == list(IN_PROCESS)
    assert not any(mode.failed for mode in report.measured)


def test_stages_and_steps_are_told_of_each_job_and_of_all():
    stages, counts, told = [], [], []
    both = [Job(small, (X, Y), steps=steps, name=name) for name, steps in (("a", 3), ("b", 2))]
    options = {"stage": stages.append, "count": lambda *now: counts.append(now)}
    options["progress"] = lambda *news: told.append(news)
    colocate(both, "interleaved", measure_steps=1, **options)
    assert told == [("a", 1, 3), ("b", 1, 2), ("a", 2, 3), ("b", 2, 2), ("a", 3, 3)]
    assert stages == ["measuring each job alone", "training in mode interleaved"]
    assert counts == [(done, 5) for done in range(1, 6)]


@pytest.mark.parametrize(
    ("seconds", "failed", "mode", "reason"),
    [
        ((40.0, 20.0), (), "threads", "2.00 times as fast as one job after another: all steps"),
        ((40.0, 39.0), (), "sequential", "no other mode is 1.05 times as fast ("),
        ((40.0, 20.0), ("a",), "sequential", "no other mode could run all jobs"),
    ],
)
def test_the_recommendation_and_its_reason(seconds, failed, mode, reason):
    both = {"a": 1.0, "b": 1.0}
    alone, together = row("sequential", both), row("threads", both, failed)
    measured = [replace(r, predicted_s=s) for r, s in zip((alone, together), seconds, strict=True)]
    found = recommend(measured)
    assert found[0] == mode
    assert found[1].startswith(reason)
    (_, one) = recommend([replace(row("sequential", {"a": 1.0}), predicted_s=1.0)])
    assert one == "there is only one job"


@pytest.mark.skipif(not ON_JAX, reason="TensorFlow compiles in the first step only")
def test_nothing_compiles_in_a_short_run():
    import jax

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
    )
    together = Together([Job(small, (X, Y), batch_size=len(X) // 3).measured(100)])
    assert compiled
    compiled.clear()
    assert not together.measure("sequential", 7).failed  # with the ends of two epochs
    assert compiled == []


GOOD = Job(small, (X, Y), name="good")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: colocate([]), ValueError, "at least one job; received an empty list"),
        (lambda: colocate(GOOD), TypeError, r"expects a list of tfmp\.Job, received Job"),
        (lambda: colocate([GOOD, GOOD]), ValueError, r"'good' comes 2 times\. Pass name="),
        (lambda: colocate([GOOD], "both"), ValueError, "'processes'; received 'both'"),
        (lambda: colocate([GOOD], measure_steps=0), ValueError, "Mode 'auto' chooses by measuring"),
        (
            lambda: colocate([GOOD], "threads", measure_steps=0, train=False),
            ValueError,
            "1 or more; received 0 of type int. With train=False nothing would be done",
        ),
        (
            lambda: colocate([GOOD], "threads", memory_limit=2**30),
            ValueError,
            "mode 'threads' has no processes",
        ),
        (
            lambda: colocate([Job(lambda: small(), (X, Y))], "processes"),
            ValueError,
            "Define its functions at the top of a module",
        ),
        (lambda: Job(small, (X, Y), "fp16"), ValueError, "received 'fp16'"),
        (lambda: Job(small, (X, Y), steps=0), ValueError, r"steps=\.\.\.\) expects a whole number"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_float64_on_jax_needs_its_64_bit_types():
    if not ON_JAX:
        pytest.skip("JAX only")
    import jax

    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(ValueError, match="JAX_ENABLE_X64=1"):
            colocate([Job(small, (X, Y), "float64")])
    finally:
        jax.config.update("jax_enable_x64", True)
