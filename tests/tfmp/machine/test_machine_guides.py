"""docs/profiling.md and docs/doctor.md: their code runs from top to bottom, options exist."""

import inspect
import re

import pytest
from repository import DOCS, blocks

from tfmp import profile_training
from tfmp.commands.profile import command as profile
from tfmp.commands.sweep import command as sweep


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        pytest.param("profiling.md", "mixed_float16 is", marks=pytest.mark.slow),
        ("doctor.md", "of them float32 under"),
    ],
)
def test_the_code_runs_from_top_to_bottom(page, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in blocks((DOCS / page).read_text(), "python"):
        exec(code, names)
    assert printed in capsys.readouterr().out


def test_every_option_named_is_one():
    text = (DOCS / "profiling.md").read_text()
    parameters = [*profile.params, *sweep.params]
    options = {name for each in parameters for name in (*each.opts, *each.secondary_opts)}
    assert set(re.findall(r"(--[a-z][a-z-]+)", text)) <= options
    arguments = inspect.signature(profile_training).parameters
    assert set(re.findall(r"`(\w+)=(?:True|False)?`", text)) <= {*arguments, "jit_compile"}
