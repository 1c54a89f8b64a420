"""The house: which file may import which, what is packaged, and what loads at import time."""

import ast
import configparser
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Lowest floor first. A file imports from lower floors, and from its own where that makes no circle.
CONVERSION_FLOORS = [
    {"errors", "tensors", "files", "worker", "environment"},
    {"source"},
    {"onnx", "tflite"},
    {"runners"},
    {"drift"},
    {"repair", "report"},
    {"pipeline"},
    {"cli"},
]
TRAINING_FLOORS = [
    {"numerics", "hardware", "registration", "first_op", "value_range", "gradient_report"},
    {
        "policy", "attach", "auto", "dry_run", "graph_walk", "keep", "named_policies",
        "precision_plan", "rules", "structure", "undo",
        "loss_scale", "counters", "gradients", "strategies", "transitions", "wrapping",
    },
    {
        "telemetry", "diagnose", "backward_search", "calibration", "forward_search", "nonfinite",
        "replay",
    },
    {
        "callback", "batch_tap", "fit_session", "preflight", "recorder", "training_report", "watch",
        "doctor", "profiling", "colocate",
    },
    {"cli"},
]  # fmt: skip


def module_name(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"]
    if parts[0] == "converters":
        parts = ["tfmp", *parts]
    return ".".join(parts)


def modules() -> dict[str, Path]:
    paths = [*(ROOT / "tfmp").rglob("*.py"), *(ROOT / "converters").rglob("*.py")]
    return {module_name(path): path for path in paths}


def imports_of(path: Path, known: set[str]) -> set[str]:
    """Project modules that a file imports anywhere in it, functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    return {name for name in found if name in known}


def import_graph() -> dict[str, set[str]]:
    """Imports of every file but the lazy packages' `__init__`, which name all and import none."""
    known = modules()
    lazy = {"tfmp", "tfmp.converters"}
    return {
        name: imports_of(path, set(known)) - lazy
        for name, path in known.items()
        if name not in lazy
    }


def floor_of(name: str) -> tuple[str, int]:
    """(wing, floor) of a module."""
    parts = name.split(".")
    wing, floors = (
        ("conversion", CONVERSION_FLOORS)
        if parts[1] == "converters"
        else ("training", TRAINING_FLOORS)
    )
    room = parts[2] if wing == "conversion" else parts[1]
    for height, rooms in enumerate(floors):
        if room in rooms:
            return wing, height
    raise AssertionError(f"{name} stands on no floor: add it to CONTRIBUTING.md and to this test")


def test_a_file_imports_only_its_own_floor_and_lower_ones():
    wrong = []
    for name, imported in import_graph().items():
        wing, height = floor_of(name)
        for other in imported:
            other_wing, other_height = floor_of(other)
            if other_wing != wing:
                if other != "tfmp.numerics":
                    wrong.append(f"{name} -> {other} (the wings share tfmp.numerics alone)")
            elif other_height > height:
                wrong.append(f"{name} -> {other} (a higher floor)")
    assert not wrong, "\n".join(wrong)


def test_rooms_of_one_floor_do_not_import_each_other():
    wrong = [
        f"{name} -> {other}"
        for name, imported in import_graph().items()
        for other in imported
        if floor_of(name) == floor_of(other)
        and floor_of(name)[0] == "conversion"
        and floor_of(name)[1] > 0
        and name.split(".")[2] != other.split(".")[2]
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
    assert circle_in(import_graph()) is None


def test_the_circle_finder_finds_one():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_the_package_list_equals_the_folders():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    folders = {module_name(path) for path in modules().values() if path.name == "__init__.py"}
    assert listed == folders


def test_every_module_is_in_the_house_of_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    missing = [
        name
        for name, path in modules().items()
        if path.name != "__init__.py" and path.name not in text
    ]
    assert not missing, f"CONTRIBUTING.md does not say what these are for: {missing}"


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
