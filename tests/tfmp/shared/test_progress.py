"""One way to hear where long work is, made of plain functions, silent by itself."""

from tfmp.shared.progress import SILENT, Told


def test_plain_functions_hear_stages_and_counts():
    heard: list[object] = []
    progress = Told(heard.append, lambda done, total: heard.append((done, total)))
    progress("comparing")
    progress.count(2, 5)
    progress.count(3, None)
    assert heard == ["comparing", (2, 5), (3, None)]


def test_a_half_that_nobody_listens_to_is_silent(capfd):
    heard: list[str] = []
    progress = Told(heard.append)
    progress.count(1, 2)
    progress("writing")
    SILENT("writing")
    SILENT.count(1, None)
    assert heard == ["writing"]
    assert capfd.readouterr() == ("", "")
