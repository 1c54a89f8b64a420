"""docs/reports.md and docs/report-contents.md say what the code does."""

import re
from dataclasses import fields

import pytest
import repository

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.drift.metrics import OutputDrift
from tfmp.converters.drift.statistics import binomial_bounds, fewest_samples

DOCS = repository.DOCS / "reports.md"

pytestmark = pytest.mark.skipif(not DOCS.is_file(), reason="needs the checkout's docs/")


def rows(heading: str) -> list[list[str]]:
    """Cells of the table below a heading, without its own head."""
    section = DOCS.read_text(encoding="utf-8").partition(f"{heading}\n")[2]
    lines = re.search(r"(\|.*\n)+", section)[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_limit_is_listed_with_its_default() -> None:
    listed = {name: default for name, default, _ in rows("## The budget")}
    budget = DriftBudget()
    assert listed == {
        item.name: str(getattr(budget, item.name)).lower()
        for item in fields(budget)
        if item.name != "overrides"
    }


def test_every_metric_is_defined() -> None:
    text = (repository.DOCS / "report-contents.md").read_text(encoding="utf-8")
    plain = {"name", "dtype", "samples", "totals"}
    missing = [
        item.name
        for item in fields(OutputDrift)
        if item.name not in plain and f"`{item.name}`" not in text
    ]
    assert missing == []


def test_the_table_of_samples_is_computed() -> None:
    for flips, samples in rows("### How many samples"):
        expected = fewest_samples(
            lambda count, k=int(flips): binomial_bounds(k, count, 0.95)[1] <= 0.01,
            max(1, int(flips)),
        )
        assert int(samples.replace(",", "")) == expected
