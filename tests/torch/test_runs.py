"""Profiles and `colocate` on PyTorch: traces, the random generator."""

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


def test_a_profile_times_traces_and_reports(tmp_path):
    model = keras.Sequential([layers.Input((6,)), layers.Dense(16), layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(True))
    options = {"rounds": 2, "steps": 2, "batch_size": 8, "log_dir": tmp_path}
    report = tfmp.profile_training(model, (X, Y), **options)
    assert report.notes == ("PyTorch has no XLA, which counts the work for a roofline",)
    assert {row.error for row in report.variants} == {""}
    assert report.roofline is None
    assert len(list(tmp_path.rglob("*.pt.trace.json"))) == 2
    assert report.backend == "torch"
