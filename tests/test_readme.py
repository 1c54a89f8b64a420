"""What README and docs say: commands exist and parse, links lead somewhere, code runs."""

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from repository import ROOT, blocks

from tfmp.commands.cli import main as training
from tfmp.converters.commands.cli import main

README = (ROOT / "README.md").read_text()
PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "samples/*.md")
    for path in ROOT.glob(pattern)
)


def test_readme_is_short_and_shows_code_at_once():
    lines = README.splitlines()
    assert len(lines) <= 60
    assert any(line.startswith("```") for line in lines[:10])
    heading = blocks(README, "text")[0].splitlines()[0]
    assert heading.split() == ["Candidate", "Verdict", "Decided", "by", "Drift", "Size", "Runtime"]


def test_readme_counts_what_exports_as_its_page_does():
    page = (ROOT / "docs" / "support.md").read_text()
    rows = re.findall(r"^\| \w+ \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    models, ours, keras = (sum(map(int, column)) for column in zip(*rows, strict=True))
    text = " ".join(README.split())
    assert f"Of [{models} models](docs/support.md)" in text
    assert f"{ours} export to ONNX as Keras computes them; {keras} do with Keras's own" in text


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_relative_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        # `make docs` makes the demo's reports.
        if not target.startswith(("http://", "https://", "demo/", "../demo/")):
            assert (ROOT / page.parent / target).exists(), f"{page} links to {target}"


def test_the_walks_through_the_house_name_files_that_are_there():
    walks = (ROOT / "docs" / "architecture.md").read_text().partition("## Two walks")[2]
    for wing, steps in re.findall(r"are below `(\w+/)`:\n\n((?:\d+\. .*\n)+)", walks):
        for step in steps.splitlines():
            folder, names = ROOT / wing, re.findall(r"`([\w/]+\.py)`", step)
            assert names, step
            for name in names:
                folder = folder if "/" not in name else (ROOT / wing / name).parent
                assert (folder / Path(name).name).is_file(), f"{name} in {step!r}"
    assert walks.count("\n1. ") == 2


def commands(page: Path, program: str) -> list[list[str]]:
    lines = "\n".join(blocks((ROOT / page).read_text(), "bash")).replace("\\\n", " ")
    found = (shlex.split(line, comments=True) for line in lines.splitlines())
    return [words for words in found if words and words[0] == program]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_make_targets_exist(page: Path):
    makefile = (ROOT / "Makefile").read_text()
    for _, target, *_ in commands(page, "make"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page}: make {target}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_parse(page: Path):
    for program, group in (("tfmp-convert", main), ("tfmp", training)):
        for _, name, *arguments in commands(page, program):
            command = group.get_command(click.Context(group), name)
            command.make_context(name, arguments, resilient_parsing=False)
    named = set(re.findall(r"`tfmp (\w+)", (ROOT / page).read_text()))
    named.discard("mixed")  # a column of docs/fp16-onnx-peers.md
    assert named <= set(training.list_commands(None))


def test_the_command_test_sees_a_wrong_option():
    with pytest.raises(click.NoSuchOption):
        main.commands["onnx"].make_context("onnx", ["m.keras", "--sped"])


def test_the_readme_diff_trains():
    import keras

    lines = [
        line[1:] for line in blocks(README, "diff")[0].splitlines() if not line.startswith("-")
    ]
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    x = np.random.default_rng(0).standard_normal((32, 4), dtype=np.float32)
    exec("\n".join(lines), {"model": model, "x": x, "y": np.argmax(x[:, :3], axis=-1)})
    assert np.isfinite(model.history.history["loss"]).all()
    assert "skipped_steps" in model.history.history  # the callback was there
