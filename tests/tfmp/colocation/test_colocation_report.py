"""The report of `colocate` in words."""

from tfmp.colocation.report import ColocateReport, JobResult, ModeResult
from tfmp.machine import Device


def test_the_errors_and_the_mode_come_first_and_skipped_steps_are_told():
    bad = JobResult("bad", "mixed_float16", 9, 8, 1.0, 1.0, 1.0, error="it broke", skipped_steps=7)
    fine = JobResult("fine", "float32", 9, 8, 1.0, 1.0, 1.0)
    run = ModeResult("threads", (bad, fine), 1.0, 1.0)
    text = str(ColocateReport(Device("cpu", "CPU"), "tensorflow", "threads", "named", run=run))
    assert text.splitlines()[:3] == ["bad ended early: it broke", "threads: named", ""]
    assert "bad skipped 7 of 9 steps: their gradients were not finite" in text
    assert "fine skipped" not in text
