"""One way to hear where long work is, made of plain functions, silent by itself."""

import sys
from types import SimpleNamespace

import pytest

from tfmp.shared import progress as module
from tfmp.shared.progress import listening


class Notebook:
    """IPython as a kernel of a notebook has it, and what its cell shows."""

    def __init__(self, kernel: object) -> None:
        self.shown: list[str] = []
        shell = SimpleNamespace(kernel=kernel)
        display = SimpleNamespace(HTML=str, display=self._display)
        self.modules = {
            "IPython": SimpleNamespace(get_ipython=lambda: shell, display=display),
            "IPython.display": display,
        }

    def _display(self, text: str, display_id: bool) -> SimpleNamespace:
        self.shown.append(text)
        return SimpleNamespace(update=self.shown.append)


@pytest.fixture
def notebook(monkeypatch) -> Notebook:
    made = Notebook(kernel=object())
    for name, fake in made.modules.items():
        monkeypatch.setitem(sys.modules, name, fake)
    return made


def test_a_notebook_shows_a_bar_until_the_work_is_done(notebook, monkeypatch):
    now = iter([0.0, 0.0, 0.1, 0.15, 1.0, 1.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(now)))
    with listening() as progress:
        progress("comparing <a>")
        progress.count(1_000, 4_000)
        progress.count(2_000, 4_000)  # too soon
        progress.count(3_000, 4_000)  # too soon
        progress.count(3_500, None)
    assert notebook.shown == [
        "",
        "<progress></progress> comparing &lt;a&gt;",
        '<progress value="1000" max="4000"></progress> comparing &lt;a&gt;: 1,000 of 4,000',
        "<progress></progress> comparing &lt;a&gt;: 3,500",
        "",
    ]


def test_the_bar_is_gone_after_an_error_and_the_end_is_always_told(notebook):
    def fail() -> None:
        with listening(None) as progress:
            progress.count(1, 2)
            progress.count(2, 2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert notebook.shown[-2:] == ['<progress value="2" max="2"></progress> : 2 of 2', ""]


def test_a_caller_who_listens_gets_no_bar(notebook):
    heard: list[str] = []
    with listening(heard.append) as progress:
        progress("comparing")
    with listening(counted=lambda done, total: heard.append(f"{done}")) as progress:
        progress.count(1, 2)
    assert heard == ["comparing", "1"]
    assert notebook.shown == []


def test_ipython_in_a_terminal_gets_no_bar(monkeypatch):
    terminal = Notebook(kernel=None)
    for name, fake in terminal.modules.items():
        monkeypatch.setitem(sys.modules, name, fake)
    with listening() as progress:
        progress("comparing")
    assert terminal.shown == []
