"""The steps of a release that are left to a person, for `make release`.

Run: python release_steps.py; prints them, numbered.
"""

import tomllib
from collections.abc import Sequence

from repository import ROOT
from touched import changed_files


def steps(version: str, changelog: str, uncommitted: Sequence[str]) -> list[str]:
    """What to do, in order, after the files of a release were built and checked."""
    todo = []
    if f"\n## [{version}] - " not in changelog:
        todo.append(f"CHANGELOG.md: write '## [{version}] - DATE' below '## [Unreleased]'")
    if uncommitted:
        todo.append(f"commit or remove {', '.join(uncommitted)}")
    if todo:
        return [*todo, "make release"]
    return [
        f"git tag v{version} && git push origin v{version}",
        f"twine upload dist/tfmp-{version}*",
        "publish build/site as the documentation",
    ]


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    left = steps(project["version"], (ROOT / "CHANGELOG.md").read_text(), changed_files())
    for number, step in enumerate(left, 1):
        print(f"{number}. {step}")  # noqa: T201
