"""Facts about this machine: requirements of a tfmp that is installed, and of one that is not."""

from importlib import metadata

from tfmp.machine.facts import _unmet_requirements


def test_requirements_that_are_not_there(monkeypatch):
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert _unmet_requirements() == {}
    monkeypatch.setattr(metadata, "requires", lambda name: ["nowhere-to-be-found>=7"])
    assert _unmet_requirements() == {"nowhere-to-be-found": "nowhere-to-be-found>=7"}
