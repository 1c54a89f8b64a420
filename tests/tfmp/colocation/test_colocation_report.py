"""The report of `colocate` in words."""

from tfmp.colocation.report import ColocateReport, JobResult, ModeResult
from tfmp.machine import Device


def test_the_errors_and_the_mode_come_first_and_the_tables_tell_what_was_measured():
    bad = JobResult("bad", "mixed_float16", 9, error="it broke", skipped_steps=7)
    fine = JobResult("fine", "float32", 9, 8, 1.0, 1.0, 1.0)
    run = ModeResult("threads", (bad, fine), 1.0, 1.0)
    slow = JobResult("slow", "float32", 9, 8, 1.0, 3.0, 2.0, slowdown=1.5)
    probe = ModeResult("threads", (slow, fine), 1.0, 1.0, predicted_s=4.0)
    device = Device("cpu", "CPU")
    text = str(ColocateReport(device, "tensorflow", "threads", "named", (probe,), run))
    assert "threads  4 s             250 ms, 125 ms" in text  # not a slow-down of other steps
    assert "1.50x" not in text
    assert text.splitlines()[:3] == ["bad ended early: it broke", "Mode threads: named", ""]
    assert "bad skipped 7 of 9 steps: their gradients were not finite" in text
    assert "fine skipped" not in text
