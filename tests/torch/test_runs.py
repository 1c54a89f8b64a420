"""Profiles and `colocate` on PyTorch: work, traces, the random generator."""

import keras
import pytest
import torch
from colocated_jobs import X, Y, jobs
from keras import layers

import tfmp
from tfmp.colocation.modes import run_in_process


@pytest.mark.parametrize("mode", ["sequential", "interleaved", "threads"])
def test_the_generator_of_the_process_is_as_before(mode):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    run_in_process(mode, jobs()[:2])
    assert torch.rand(1) == expected


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
