"""The audit for people: terminal, JSON and HTML."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tfmp.converters.report.audit import headline, print_audit, save_audit
from tfmp.converters.shared.errors import InputError
from tfmp.converters.tflite.audit.audit import ActivationFinding, Audit
from tfmp.converters.tflite.export.constants import ConstantFinding


def activation(status: str = "fits", **changes: object) -> ActivationFinding:
    fields: dict[str, object] = {
        "name": "m_1/norm_1/Mean",
        "layer": "norm",
        "op": "MEAN",
        "peak": 2.0,
        "smallest": 0.5,
        "accumulator": 0.0,
        "accumulator_of": "",
        "operand": None,
        "vanishing": 0.0,
        "nonfinite": 0,
        "status": status,
    }
    return ActivationFinding(**{**fields, **changes})


CLAMPED = ConstantFinding("big/kernel", "big", 9, 2, 0, 0, 1e6, 1e-3)


def example(*activations: ActivationFinding, constants: tuple = (), name: str = "model") -> Audit:
    samples = 5 if activations else 0
    return Audit(name, constants, activations, samples, ("what other data would do",))


def printed(audit: Audit, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    print_audit(audit, console, verbose=verbose)
    return console.file.getvalue()


def test_the_terminal_shows_status_layer_peak_and_headroom() -> None:
    found = activation("overflows", peak=1e5, accumulator=65504.0 * 8, accumulator_of="sum")
    text = printed(example(found, activation(), constants=(CLAMPED,)))
    assert "✗ constant 'big/kernel' (layer big): 2 of 9 values clamp to 65504" in text
    assert "✗ overflows norm  MEAN          0.5 1e+05 5.24e+05 sum   2^-3.0" in text
    assert "✓ fits" in text
    assert "Not known from this audit\n  what other data would do" in text
    assert text.startswith("model: 2 values that FP16 cannot hold, on 5 samples")
    many = example(*[activation()] * 20, constants=(CLAMPED,) * 17)
    assert printed(many, verbose=True).count("✓ fits") == 20
    text = printed(many)
    assert "5 more activations are in less danger." in text
    assert "2 more constants lose less." in text


@pytest.mark.parametrize(
    ("audit", "text"),
    [
        (example(), "model: FP16 loses none of its constants; activations were not"),
        (example(constants=(CLAMPED,)), "model: FP16 loses 1 of its constants"),
        (example(activation()), "model: no value overflows or vanishes in FP16, on 5 samples"),
        (example(activation("vanishes")), "model: 1 value that FP16 cannot hold, on 5 samples"),
    ],
)
def test_the_headline_never_says_more_than_was_looked_at(audit: Audit, text: str) -> None:
    assert headline(audit).startswith(text)


def test_it_is_saved_by_suffix(tmp_path: Path) -> None:
    result = example(activation(), constants=(CLAMPED,))
    save_audit(result, tmp_path / "audit.json")
    save_audit(result, tmp_path / "audit.html")
    assert json.loads((tmp_path / "audit.json").read_text())["model"] == "model"
    page = (tmp_path / "audit.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Not known from this audit" in page
    with pytest.raises(InputError, match=r"has suffix '.md'; expected one of .json, .html\."):
        save_audit(result, tmp_path / "audit.md")
