"""Progress on a terminal, and silence elsewhere."""

import io
import itertools
import sys

import pytest
from rich.console import Console

from tfmp.shared.commands import progress_bar


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal would show of stderr."""
    shown = io.StringIO()

    def console(stderr: bool) -> Console:
        assert stderr, "progress belongs on stderr"
        return Console(file=shown, force_terminal=True, width=100, color_system=None)

    monkeypatch.setattr("rich.console.Console", console)
    return shown


def test_a_terminal_sees_stage_count_rate_and_time_left(terminal, monkeypatch):
    seconds = itertools.count(0.0, 0.5)
    with progress_bar(False, "samples") as progress:
        monkeypatch.setattr(progress._display, "get_time", lambda: next(seconds))
        progress("comparing")
        for done in range(32, 321, 32):
            progress.count(done, 640)
            progress._display.refresh()
    text = terminal.getvalue()
    assert "comparing" in text
    assert "320/640 samples" in text
    assert "/s" in text
    assert "0:" in text.rpartition("/s")[2]


def test_samples_of_unknown_number_are_counted_and_quiet_shows_nothing(terminal):
    with progress_bar(True) as progress:
        progress("comparing")
        progress.count(1, 2)
    assert terminal.getvalue() == ""
    with progress_bar(False, "samples") as progress:
        progress("comparing")
        progress.count(1234, None)
        progress._display.refresh()
    assert "1,234 samples" in terminal.getvalue()


def test_results_stay_on_a_stdout_that_is_no_terminal(terminal, capsys):
    with progress_bar(False) as progress:
        progress("comparing")
        sys.stdout.write("a line of the user's model\n")
    assert capsys.readouterr().out == "a line of the user's model\n"
