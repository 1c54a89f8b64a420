"""The house: which file may import which, what is packaged, and what loads at import time."""

import configparser
import importlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from house import (
    BRIDGE,
    GROUND,
    ROOT,
    TABLES,
    entered_by,
    entries_of,
    folders,
    height_of,
    imports_of,
    module_name,
    modules,
)

WINGS = ("tfmp", "tfmp.converters")


def import_graph() -> dict[str, set[str]]:
    """Imports of every file, deferred ones too; a room's `__init__` imports by its stub."""
    known = modules()
    graph = {name: set(imports_of(path, frozenset(known))) for name, path in known.items()}
    for table in TABLES:
        graph[table] = {other for other in graph[table] if height_of(other) <= height_of(table)}
    # What a file takes from a room comes from the module that the room's list names.
    entries = {module_name(folder / "__init__.py"): entries_of(folder) for folder in folders()}
    for name, path in known.items():
        graph[name] |= {
            f"{package}.{entries[package][entry]}"
            for package, entry in entered_by(path)
            if entry in entries.get(package, ())
        }
        graph[name].discard(name)  # the text by which a worker process finds its file
    return {
        name: {other for other in imported if other in known and other not in entries}
        for name, imported in graph.items()
        if name not in entries
    }


def imports_upward(graph: dict[str, set[str]]) -> list[str]:
    """Imports of rooms that stand later in the order, or in the other wing."""
    wrong = []
    for name, imported in graph.items():
        wing, height = height_of(name)
        for other in imported:
            other_wing, other_height = height_of(other)
            if other_wing != wing:
                if not other.startswith(f"{GROUND}.") and not name.startswith(f"{BRIDGE}."):
                    wrong.append(f"{name} -> {other} (the wings share {GROUND} and nothing else)")
            elif other_height > height:
                wrong.append(f"{name} -> {other} (a later room)")
    return wrong


def test_no_file_imports_upward():
    wrong = imports_upward(import_graph())
    assert not wrong, "\n".join(wrong)
    assert imports_upward({"tfmp.shared.numerics": {"tfmp.fit.callback"}})
    assert imports_upward({"tfmp.fit.callback": {"tfmp.converters.drift.exact"}})
    assert not imports_upward({"tfmp.fit.callback": {"tfmp.shared.numerics"}})


@pytest.mark.parametrize(
    "statement",
    [
        "from tfmp.fit.callback import MixedPrecision",
        "import tfmp.fit.callback",
        "import_module('tfmp.fit.callback')",
        "return {'callback': 'tfmp.fit.callback:MixedPrecision'}",
    ],
)
def test_an_import_is_seen_in_every_form(statement: str, tmp_path: Path):
    path = tmp_path / "rules.py"
    path.write_text(f'"""Not tfmp.fit.callback."""\n\n\ndef later():\n    {statement}\n')
    assert imports_of(path, frozenset(modules())) == {"tfmp.fit.callback"}


def test_neither_format_knows_the_other():
    rooms = {"tfmp.converters.onnx", "tfmp.converters.tflite"}
    wrong = [
        f"{name} -> {other}"
        for name, imported in import_graph().items()
        for other in imported
        if {".".join(name.split(".")[:3]), ".".join(other.split(".")[:3])} == rooms
    ]
    assert not wrong, "\n".join(wrong)


# Rooms whose work is TensorFlow's own: its graphs, its logical devices, what starts it.
TENSORFLOWS = {
    "tfmp.commands.session",
    "tfmp.fit.batch_tap",
    "tfmp.loss_scaling.telemetry",
    "tfmp.machine.cuda_versions",
    "tfmp.precision.graph_rewriting",
    "tfmp.shared.framework_start",
}

CHOOSES = re.compile(
    r"backend\(\)\s*[!=]=|\.backend\.backend\(\)|^\s+import (tensorflow|jax|torch)\b", re.M
)


def test_only_the_classes_of_backends_do_what_backends_do_in_their_own_way():
    wrong = [
        f"{name}: {found[0].strip()}"
        for name, path in modules().items()
        if name.startswith("tfmp.")
        and not name.startswith(("tfmp.converters", "tfmp.shared.backend"))
        if name not in TENSORFLOWS and (found := CHOOSES.search(path.read_text(encoding="utf-8")))
    ]
    assert not wrong, "\n".join(wrong)
    assert CHOOSES.search('    if keras.backend.backend() == "jax":')
    assert CHOOSES.search("    import torch\n")


def test_a_room_is_entered_by_the_names_that_it_lists():
    """The ground floors are entered module by module: they are loaded before any framework."""
    known = modules()
    ground = ("tfmp.shared", "tfmp.converters.shared")
    packages = {module_name(folder / "__init__.py") for folder in folders()}
    wrong = []
    for name, path in known.items():
        for other in imports_of(path, frozenset(known)) - {name}:
            if name in TABLES or (name.startswith(BRIDGE) and other in WINGS):
                continue
            room = other if other in packages else other.rpartition(".")[0]
            own = name if name in packages else name.rpartition(".")[0]
            if room in WINGS and height_of(other):  # a file that is a room by itself
                continue
            listed = entries_of(known[room].parent)
            is_entry = (
                other in packages
                or listed.get(other.rpartition(".")[2]) == (other.rpartition(".")[2])
            )
            if room != own and room not in ground and not is_entry:
                wrong.append(f"{name} -> {other}")
    assert not wrong, "\n".join(wrong)


def test_every_listed_name_is_there_and_entered_by_somebody():
    """A name that no other room takes is no entry."""
    public = {*entries_of(ROOT / "tfmp"), *entries_of(ROOT / "converters")}
    paths = [*modules().values(), *(folder / "__init__.pyi" for folder in folders())]
    taken = set().union(*(entered_by(path) for path in paths if path.exists()))
    for folder in folders():
        package = module_name(folder / "__init__.py")
        for name in entries_of(folder):
            assert hasattr(importlib.import_module(package), name), (package, name)
            assert (package, name) in taken or name in public, f"{package}.{name} is unused"


# Deferred imports that close a circle, and are meant: a report is data, and `save` or `print` of it
# asks the renderer, which reads that data, only when it is called.
RENDERED = {
    "tfmp.converters.report.model": [
        "contents",
        "jsonio",
        "junit",
    ],
}


def circles_in(graph: dict[str, set[str]]) -> list[list[str]]:
    """Paths of imports that come back to where they began."""
    done: set[str] = set()
    found: list[list[str]] = []

    def visit(name: str, trail: list[str]) -> None:
        if name in trail:
            found.append([*trail[trail.index(name) :], name])
            return
        if name in done:
            return
        for other in sorted(graph.get(name, ())):
            visit(other, [*trail, name])
        done.add(name)

    for name in graph:
        visit(name, [])
    return found


def test_there_are_no_import_circles():
    """Neither when modules load nor when functions run, but for reports and their renderers."""
    graph = import_graph()
    for name, renderers in RENDERED.items():
        for renderer in renderers:
            graph[name].remove(f"{name.rpartition('.')[0]}.{renderer}")
            assert circles_in(
                {**graph, name: graph[name] | {f"{name.rpartition('.')[0]}.{renderer}"}}
            )
    assert circles_in(graph) == []
    assert circles_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c", "b"]]


MOST_FILES = 14


def test_a_folder_is_read_at_a_glance():
    for folder in folders():
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(files) <= MOST_FILES, f"{folder}: {len(files)} files are more than {MOST_FILES}"


def lines_by_room(rooms: Iterable[str]) -> dict[str, Counter[str]]:
    """Lines of Python by room and file; a file belongs to the longest room that its path is in."""
    found: dict[str, Counter[str]] = {room: Counter() for room in rooms}
    for top in dict.fromkeys(room.partition("/")[0] for room in found):
        for path in (ROOT / top).rglob("*.py"):
            file = path.relative_to(ROOT).as_posix()
            room = max((room for room in found if file.startswith(f"{room}/")), key=len)
            found[room][file] = len(path.read_text(encoding="utf-8").splitlines())
    return found


def past_budget(lines: Mapping[str, Counter[str]], budgets: Mapping[str, int]) -> list[str]:
    """A sentence for each room that has more lines than its budget, with its largest files."""
    return [
        f"{room} has {files.total():,} lines, {files.total() - budgets[room]:,} more than its "
        f"budget; its largest files: {', '.join(f'{f} ({n})' for f, n in files.most_common(5))}. "
        "Lose an idea there, or raise the budget in a commit of its own that says why."
        for room, files in lines.items()
        if files.total() > budgets[room]
    ]


def test_no_room_is_past_its_budget():
    budgets = tomllib.loads((ROOT / "tests" / "budgets.toml").read_text(encoding="utf-8"))["lines"]
    wrong = past_budget(lines_by_room(budgets), budgets)
    assert not wrong, "\n".join(wrong)


def test_every_room_has_a_budget_and_one_past_it_is_named_with_its_largest_files():
    budgets = tomllib.loads((ROOT / "tests" / "budgets.toml").read_text(encoding="utf-8"))["lines"]
    rooms = {path.relative_to(ROOT).as_posix() for path in folders() if path.parent.parent == ROOT}
    assert rooms <= set(budgets)
    counted = {"tfmp/a": Counter({"tfmp/a/one.py": 70, "tfmp/a/two.py": 40}), "tfmp": Counter()}
    assert lines_by_room(["tfmp/shared", "tfmp"])["tfmp"]["tfmp/__init__.py"] > 0
    (told,) = past_budget(counted, {"tfmp/a": 100, "tfmp": 100})
    assert told.startswith("tfmp/a has 110 lines, 10 more than its budget; its largest files: ")
    assert "tfmp/a/one.py (70), tfmp/a/two.py (40)" in told


def test_no_module_is_named_like_a_name_of_its_package():
    """Imported, it would take the name's place in the package."""
    for folder in folders():
        inside = {path.stem for path in folder.iterdir()}
        entries = entries_of(folder)
        trapped = {name for name in inside & set(entries) if entries[name] != name}
        stub = folder / "__init__.pyi"
        text = stub.read_text() if stub.exists() else ""
        # A module may be listed itself, but not a function of its own name.
        trapped |= {name for name in inside & set(entries) if f"from .{name} import {name}" in text}
        assert not trapped, f"{folder}: {trapped}"


def test_every_test_mirrors_a_module_or_a_folder():
    """`tests/a/test_b_c.py` is for `a/b.py`, `a/b/`, or for `a` itself if `b` is its name."""
    lost = []
    for wing in ("tfmp", "converters"):
        for path in (ROOT / "tests" / wing).rglob("test_*.py"):
            folder = ROOT / path.parent.relative_to(ROOT / "tests")
            stem = path.stem.removeprefix("test_")
            names = [folder.name, *(item.stem for item in folder.glob("[!_]*"))]
            if not folder.is_dir() or not any(
                stem == name or stem.startswith(f"{name}_") for name in names
            ):
                lost.append(str(path.relative_to(ROOT)))
    assert not lost, "\n".join(lost)


def test_the_package_list_equals_the_folders():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    folders = {module_name(path) for path in modules().values() if path.name == "__init__.py"}
    assert listed == folders


def test_bare_converters_refuses_to_be_imported():
    run = subprocess.run(
        [sys.executable, "-c", "import converters"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert "this package is `tfmp.converters`" in run.stderr


HEAVY = (
    "tensorflow", "keras", "onnx", "onnxruntime", "matplotlib", "jinja2", "scipy", "rich",
    "ai_edge_litert", "onnx_ir", "tf2onnx", "tf_keras", "ray",
)  # fmt: skip


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
        "import tfmp.shared.numerics",
        "import tfmp.commands.cli",
        "import tfmp.converters.commands.cli",
        "from tfmp.converters.commands.cli import main\ntry: main(['onnx', '--help'])\n"
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


@pytest.mark.slow
def test_training_loads_no_runtime_of_the_converters():
    script = """
import keras, sys
before = {name for name in HEAVY if name in sys.modules}
import numpy, tfmp
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = numpy.ones((8, 4), "float32")
model.fit(x, x[:, :1], verbose=0, callbacks=[tfmp.MixedPrecision("mixed_float16")])
for name in before:
    del sys.modules[name]
"""
    assert loaded_by(f"HEAVY = {HEAVY!r}{script}") == set()


def test_the_lightness_test_sees_a_heavy_import():
    assert "scipy" in loaded_by("import scipy")


def test_every_public_name_loads_from_where_it_is_defined():
    import tfmp
    import tfmp.converters

    for package in (tfmp, tfmp.converters):
        with pytest.raises(AttributeError, match="attribute nonsense"):
            _ = package.nonsense
        assert set(package.__all__) <= set(dir(package))
        for name in set(package.__all__) - {"__version__"}:
            assert getattr(package, name).__name__ == name


def test_scripts_of_the_package_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for target in project["scripts"].values():
        module, _, function = target.partition(":")
        assert module in modules()
        assert f"def {function}(" in modules()[module].read_text()
