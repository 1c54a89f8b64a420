"""The facts of a release agree: version, Pythons, citation, issue templates, last steps."""

import tomllib

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from release_steps import steps
from repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"]
    assert citation["authors"] == [{"name": "The tfmp maintainers"}]
    for theirs, ours in {
        "title": "name",
        "version": "version",
        "abstract": "description",
        "license": "license",
        "keywords": "keywords",
    }.items():
        assert citation[theirs] == PROJECT[ours]


def test_the_classifiers_are_the_pythons_that_it_installs_on():
    head = "Programming Language :: Python :: "
    named = {entry.removeprefix(head) for entry in PROJECT["classifiers"] if head in entry}
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert named == {f"3.{minor}" for minor in range(30) if f"3.{minor}" in allowed}


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_issue_forms_ask_for_the_doctor(form):
    fields = {field["id"]: field for field in yaml.safe_load(form.read_text())["body"]}
    asked = fields["doctor"]
    assert "`tfmp doctor --json`" in asked["attributes"]["label"]
    assert asked["validations"]["required"] is True
    for field in fields.values():
        assert field["type"] == "textarea"
        assert {"label", "description"} <= set(field["attributes"])


def test_there_are_issue_forms_and_the_doctor_speaks_json():
    from tfmp.commands.doctor import command

    assert len(FORMS) == 2
    assert "--json" in [option for each in command.params for option in each.opts]


def test_the_steps_of_a_release():
    assert steps("1.2.0", "# Changelog\n\n## [Unreleased]\n", ["README.md"]) == [
        "CHANGELOG.md: write '## [1.2.0] - DATE' below '## [Unreleased]'",
        "commit or remove README.md",
        "make release",
    ]
    left = steps("1.2.0", "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2031-05-06\n", [])
    assert left[0].startswith("git tag v1.2.0")
    assert "twine upload dist/tfmp-1.2.0*" in left
