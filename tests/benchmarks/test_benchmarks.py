"""The scripts of benchmarks/ and samples/ fit this package, and their pages fit every machine."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest
from repository import BENCHMARKS, DOCS, ROOT

SCRIPTS = sorted([*BENCHMARKS.rglob("*.py"), *(ROOT / "samples").rglob("*.py")])


def missing_names(text: str) -> list[str]:
    """What a script takes from this package and the package does not have."""
    missing = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tfmp":
            module = importlib.import_module(str(node.module))
            for name in (alias.name for alias in node.names):
                whole = f"{node.module}.{name}"
                if not hasattr(module, name) and importlib.util.find_spec(whole) is None:
                    missing.append(whole)
    return missing


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_name_that_a_script_imports_is_there(script: Path):
    assert missing_names(script.read_text()) == []


def test_a_name_that_is_gone_is_noticed():
    assert missing_names("from tfmp.converters import convert, no_such_name") == [
        "tfmp.converters.no_such_name"
    ]


# Folders that hold what belongs to one machine or one person.
LOCAL = re.compile(r"(?<![\w.])/(?:tmp|home|root|work|mnt|opt|var|Users|usr/local)/\w")


PAGES = sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.csv")])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_page_names_a_folder_of_one_machine(page: Path):
    assert LOCAL.findall(page.read_text()) == []


@pytest.mark.parametrize("script", ["tflite_table", "support_table"])
def test_a_reason_in_a_table_names_the_file_and_not_its_folder(script: str, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    first_words = importlib.import_module(script).first_words
    reason = first_words("LiteRT cannot load /tmp/tfmp-x1/model.tflite: no such operator")
    assert not LOCAL.search(reason)
    assert "model.tflite" in reason
