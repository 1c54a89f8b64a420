"""Profiles and `colocate` on PyTorch: work, traces, the random generator."""

from types import SimpleNamespace

import keras
import torch
from colocated_jobs import X, Y, jobs
from keras import layers

import tfmp
from tfmp.colocation import modes
from tfmp.colocation.modes import run_in_process


def test_a_job_leaves_the_generator_of_the_process_as_it_was():
    before = torch.get_rng_state()
    run_in_process("sequential", jobs()[:1])
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_whose_states_cross_leave_it_as_it_was():
    before = torch.get_rng_state()
    modes._in_threads([SimpleNamespace(run=lambda: torch.manual_seed(5))])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_profile_counts_traces_and_reports(tmp_path):
    model = keras.Sequential([layers.Input((6,)), layers.Dense(16), layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(True))
    without = "_log_softmax, nll_loss_forward, nll_loss_backward and 1 more"
    options = {"rounds": 2, "steps": 2, "batch_size": 8, "log_dir": tmp_path}
    report = tfmp.profile_training(model, (X, Y), **options)
    assert report.notes == tuple(
        f"the step in {name}, FLOPs without {without}" for name in ("float32", "mixed_float16")
    )
    assert {row.error for row in report.variants} == {""}
    step = report.roofline.steps["float32"]
    forward = 2 * 8 * (6 * 16 + 16 * 3)
    assert step.work.products == {"float32": 2 * forward + 2 * 8 * 16 * 3}  # no gradient of x
    assert len(list(tmp_path.rglob("*.pt.trace.json"))) == 2
    assert report.backend == "torch"
    assert "XLA" not in str(report)
