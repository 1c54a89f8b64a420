"""The house: which file may import which, what is packaged, and what loads at import time."""

import ast
import configparser
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from house import ROOT, floor_of, module_name, modules, render, room_of


def imports_of(path: Path, known: set[str], on_load: bool) -> set[str]:
    """Project modules that a file imports: anywhere in it, or only where it does while it loads."""
    found = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if on_load else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    return {name for name in found if name in known}


def import_graph(on_load: bool = False) -> dict[str, set[str]]:
    """Imports of every file but the lazy packages' `__init__`, which name all and import none."""
    known = modules()
    lazy = {"tfmp", "tfmp.converters"}
    return {
        name: imports_of(path, set(known), on_load) - lazy
        for name, path in known.items()
        if name not in lazy
    }


# What both wings stand on.
SHARED = ("tfmp.numerics", "tfmp.replacing", "tfmp.stderr", "tfmp.web")


def test_a_file_imports_only_its_own_floor_and_lower_ones():
    wrong = []
    for name, imported in import_graph().items():
        wing, height = floor_of(name)
        for other in imported:
            other_wing, other_height = floor_of(other)
            if other_wing != wing:
                if other not in SHARED:
                    wrong.append(f"{name} -> {other} (the wings share {', '.join(SHARED)} alone)")
            elif other_height > height:
                wrong.append(f"{name} -> {other} (a higher floor)")
    assert not wrong, "\n".join(wrong)


def test_packages_of_one_floor_do_not_import_each_other():
    """ONNX knows nothing of TFLite, and so on."""
    wrong = [
        f"{name} -> {other}"
        for name, imported in import_graph().items()
        for other in imported
        if floor_of(name) == floor_of(other)
        and room_of(name) != room_of(other)
        and name.count(".") > 2
        and other.count(".") > 2
    ]
    assert not wrong, "\n".join(wrong)


def circle_in(graph: dict[str, set[str]]) -> list[str] | None:
    """A path of imports that comes back to where it began, or None."""
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str] | None:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return None
        for other in sorted(graph.get(name, ())):
            found = visit(other, [*trail, name])
            if found:
                return found
        done.add(name)
        return None

    return next(filter(None, (visit(name, []) for name in graph)), None)


def test_there_are_no_import_circles():
    """A renderer that `DriftReport.save` imports when it is called makes none."""
    assert circle_in(import_graph(on_load=True)) is None


def test_the_circle_finder_finds_one():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_the_package_list_equals_the_folders():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    folders = {module_name(path) for path in modules().values() if path.name == "__init__.py"}
    assert listed == folders


def test_contributing_shows_the_house_as_it_is():
    assert render() in (ROOT / "CONTRIBUTING.md").read_text(), "run: python tests/support/house.py"


def test_bare_converters_refuses_to_be_imported():
    run = subprocess.run(
        [sys.executable, "-c", "import converters"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert "this package is `tfmp.converters`" in run.stderr


HEAVY = ("tensorflow", "keras", "onnx", "onnxruntime", "matplotlib", "jinja2", "scipy", "rich")


def loaded_by(statement: str) -> set[str]:
    """Heavy packages that a fresh interpreter has loaded after `statement`."""
    script = f"{statement}\nimport sys; print(*(n for n in {HEAVY!r} if n in sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import tfmp",
        "import tfmp.converters",
        "import tfmp.numerics",
        "import tfmp.cli",
        "import tfmp.converters.cli",
        "from tfmp.converters.cli import main\ntry: main(['onnx', '--help'])\n"
        "except SystemExit: sys = None",
    ],
)
def test_imports_that_must_stay_light(statement: str):
    assert (
        loaded_by(
            "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n "
            + statement.replace("\n", "\n ")
        )
        == set()
    )


def test_the_lightness_test_sees_a_heavy_import():
    assert "scipy" in loaded_by("import scipy")


def test_unknown_public_names_raise_attribute_error():
    import tfmp
    import tfmp.converters

    for package in (tfmp, tfmp.converters):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            _ = package.nonsense


def test_every_public_name_loads_from_where_it_is_defined():
    import tfmp
    import tfmp.converters

    for package in (tfmp, tfmp.converters):
        assert set(package.__all__) <= set(dir(package))
        for name in package.__all__:
            assert getattr(package, name).__name__ == name


def test_scripts_of_the_package_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for target in project["scripts"].values():
        module, _, function = target.partition(":")
        assert module in modules()
        assert f"def {function}(" in modules()[module].read_text()
