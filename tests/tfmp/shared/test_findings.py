"""A finding reads as a sentence or two."""

from tfmp.shared.findings import Finding


def test_a_finding_reads_as_message_and_fix():
    finding = Finding("XLA", "note", "Steps are not compiled", "Set jit_compile=True")
    assert str(finding) == "Steps are not compiled. Set jit_compile=True."
    assert str(Finding("XLA", "ok", "Steps are compiled")) == "Steps are compiled."
