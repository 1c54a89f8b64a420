"""Facts about this machine: requirements of a tfmp that is installed, and of one that is not."""

from importlib import metadata

from tfmp.machine.facts import _unmet_requirements


def test_a_folder_on_the_path_declares_no_requirements(monkeypatch):
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert _unmet_requirements() == {}


def test_a_requirement_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: ["nowhere-to-be-found>=7"])
    assert _unmet_requirements() == {"nowhere-to-be-found": "nowhere-to-be-found>=7"}
