"""Single calls are timed fairly: warm-up left out, enough calls."""

from tfmp.converters.runners import timing


def test_warm_up_is_left_out_and_slow_calls_end_the_timing_early(monkeypatch):
    now = iter(range(10**6))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(now)))
    calls = []
    seconds = timing.time_calls(lambda: calls.append(1))
    assert seconds == [1.0] * 5, "five calls at least, however slow"
    assert len(calls) == 3 + 5
    now = iter(range(10**6))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(now) / 1e3)
    assert len(timing.time_calls(lambda: None)) == 50
