"""Numbers that went from one end of their range to the other are errors, unless they are angles."""

from judged_distances import directions, drift, judged

from tfmp.converters.drift.verdict.check import Verdict


def test_other_errors_beside_it_are_none_of_angles():
    exact, received = directions(360.0)
    assert judged(drift(exact, received + 0.15 * exact.std())) is Verdict.FAIL
    away = received.copy()
    away[100:140] -= 120
    assert judged(drift(exact, away)) is Verdict.FAIL
