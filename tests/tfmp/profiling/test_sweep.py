"""profile_sweep: a row for every size and policy, whatever becomes of its process."""

from dataclasses import replace

import numpy as np
import pytest
import sized_models

from tfmp import profile_sweep
from tfmp.machine.child_process import ApartError
from tfmp.machine.devices import CPU, Device
from tfmp.machine.measuring import DEVICE_MEMORY, Memory, Timing
from tfmp.profiling import sweep
from tfmp.profiling.sweep import look

DATA = (np.ones((6, 4), np.float32), np.ones((6, 1), np.float32))
LIMIT = 100


class Machine:
    """A machine that needs a byte for each sample and weight; float32 needs two."""

    def __init__(self):
        self.device = CPU
        self.jobs = []

    def call(self, function, *arguments, memory_limit, variables):
        self.variables = variables
        if function is look:
            return self.device
        job = arguments[0]
        self.jobs.append(job)
        rows = tuple(self.row(job, variant) for variant in job.variants)
        # All of them are there together.
        if sum(row.memory.bytes for row in rows if row.memory) > LIMIT:
            raise ApartError("out of memory", out_of_memory=True)
        return rows, "sized"

    def row(self, job, variant):
        size = job.batch_size
        needed = Memory(size * (2 if variant.policy == "float32" else 1), DEVICE_MEMORY)
        speed = 8 if variant.policy == "float32" else max(1, 12 - job.batch_size / 4)
        step = Timing((float(speed),) * job.rounds) if job.rounds else None
        measured = {"step": step, "steps": 1, "compile_s": 0.1, "memory": needed}
        return replace(job.row(variant), parameters=size, **measured)


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    monkeypatch.setattr(sweep, "call_apart", made.call)
    return made


def swept(model=sized_models.small, **options):
    """A sweep of one batch size in one mode, and of what is asked for."""
    few = {"batch_sizes": (4,), "modes": ("train",), "rounds": 1}
    return profile_sweep(model, DATA, **{**few, **options})


def test_every_size_has_a_row_and_takes_turns_in_one_process(machine):
    report = swept(batch_sizes=(16, 4), rounds=6)
    places = [(row.batch_size, row.variant) for row in report.rows]
    assert places == [(b, name) for b in (4, 16) for name in ("float32", "mixed_float16")]
    assert [len(job.variants) for job in machine.jobs] == [2, 2]
    assert report.model == "sized"
    assert "80% of the memory that was free" in report.limit
    assert [each.text for each in report.crossovers] == [
        "training: mixed_float16 is slower than float32 at batch 4",
    ]


def test_what_does_not_fit_together_is_tried_alone(machine):
    report = swept(batch_sizes=(16, 40, 60, 120), modes=("predict",), rounds=6)
    assert {row.error for row in report.rows} == {"", "out of memory"}
    lost = [(row.batch_size, row.policy) for row in report.rows if row.error]
    assert sorted(lost) == [(60, "float32"), (120, "float32"), (120, "mixed_float16")]
    assert len(report.rows) == 8
    (found,) = report.crossovers
    assert found.text.startswith("predict: mixed_float16 is faster than float32 from batch 40 on (")


def test_the_largest_that_fit(machine):
    report = swept(largest_batch=True)
    assert 50 - 3 <= report.largest["float32"].fits <= 50
    assert 100 - 6 <= report.largest["mixed_float16"].fits <= 100
    assert all(not job.rounds for job in machine.jobs[1:])
    assert machine.variables["TF_ENABLE_ONEDNN_OPTS"] == "0"  # its pool would hide the memory


def test_a_search_begins_at_the_largest_size_that_ran(machine):
    swept(policies=("mixed_float16",), batch_sizes=(4, 48), largest_batch=True)
    assert [job.batch_size for job in machine.jobs[2:5]] == [48, 96, 192]


@pytest.mark.parametrize(
    "end",
    ["ValueError: not a multiple of 4", ApartError("its process was ended by SIGABRT")],
)
def test_a_search_that_fails_for_another_reason_is_told(machine, monkeypatch, end):
    def row(job, variant):
        if job.rounds:
            return Machine.row(machine, job, variant)
        if isinstance(end, ApartError):
            raise end
        return job.row(variant, end)

    monkeypatch.setattr(machine, "row", row)
    report = swept(largest_batch=True)
    assert report.largest == {}
    told = "the largest batch in float32 is unknown: "
    assert report.notes[0].startswith(told + str(end))


def test_tf32_and_xla_are_variants(machine, monkeypatch):
    machine.device = Device("gpu", "NVIDIA A100", (8, 0))
    report = swept(rounds=6, xla=True)
    names = [row.variant for row in report.rows]
    plain = ["float32", "float32 (TF32)", "mixed_float16"]
    told = {
        "jax": ("JAX always compiles with XLA: there is no step without it",),
        "torch": ("PyTorch has no XLA: each step was measured as Keras runs it",),
    }
    if report.backend in told:
        assert (names, report.notes) == (plain, told[report.backend])
        return
    assert names == [f"{name}, {how}" for how in ("no XLA", "XLA") for name in plain]
    assert [(each.variant, each.base) for each in report.crossovers] == [
        ("mixed_float16, no XLA", "float32 (TF32), no XLA"),
        ("mixed_float16, XLA", "float32 (TF32), XLA"),
        ("float32, XLA", "float32, no XLA"),
        ("float32 (TF32), XLA", "float32 (TF32), no XLA"),
        ("mixed_float16, XLA", "mixed_float16, no XLA"),
    ]
    assert report.limit.startswith("the device's memory, and ")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"batch_sizes": ()}, ValueError, "batch_sizes expects at least one size"),
        ({"batch_sizes": "8,32"}, TypeError, "batch_sizes expects whole numbers, such as"),
        ({"modes": ()}, ValueError, "modes expects one or more of train, predict"),
        ({"model": 3}, TypeError, "a compiled Keras model or a function that returns one, rec"),
    ],
)
def test_mistakes(machine, changed, error, message):
    arguments = {"model": sized_models.small, "data": DATA, **changed}
    with pytest.raises(error, match=message):
        profile_sweep(**arguments)
    assert machine.jobs == []


def test_nothing_at_all_that_runs_is_a_mistake(machine):
    with pytest.raises(ValueError, match="No size could be measured; the first one: out of memory"):
        swept(batch_sizes=(500,))


@pytest.mark.slow
def test_real_processes_measure_and_tell_of_sizes_that_fail():
    report = swept(sized_models.small, batch_sizes=(4, 13), rounds=2, steps=1)
    *ran, failed, same = report.rows
    for row in ran:
        assert len(row.step.seconds) == 2
        assert row.parameters == 8 * 4 + 8 + 8 + 1
        assert row.memory.bytes > 4 * row.parameters
    assert failed.error == same.error == "13 brings bad luck"
