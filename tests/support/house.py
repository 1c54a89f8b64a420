"""The house: its rooms in order, and who imports whom."""

import ast
from functools import cache
from pathlib import Path

from repository import ROOT

# Lowest first: a file imports from its own room and from rooms that stand before it.
TRAINING = (
    "shared machine precision loss_scaling nonfinite calibration fit checkup roofline profiling "
    "colocation experiment commands registration"
).split()
CONVERSION = (
    "shared intake.trust intake.keras2 intake.saved intake "
    "onnx.graph onnx.export.handlers onnx.export onnx.rewrites onnx.fp16 onnx.emulation "
    "tflite.file tflite.rewriting tflite.export tflite.audit "
    "drift drift.verdict samples onnx.mixed runners report explain "
    "tracking formats onnx.options onnx.format tflite.options tflite.format comparison distributed "
    "elsewhere remedies validation inspection conversion commands"
).split()

# Both wings stand on it.
GROUND = "tfmp.shared"

# Stands on both wings: it trains, and converts what it trained.
BRIDGE = "tfmp.experiment"


@cache
def tree_of(path: Path) -> ast.Module:
    """A file of the project, parsed."""
    return ast.parse(path.read_text())


def module_name(path: Path) -> str:
    """The name a file is imported by."""
    relative = path.relative_to(ROOT).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"]
    if parts[0] == "converters":
        parts = ["tfmp", *parts]
    return ".".join(parts)


def modules() -> dict[str, Path]:
    """Every file of both packages by module name."""
    paths = [*(ROOT / "tfmp").rglob("*.py"), *(ROOT / "converters").rglob("*.py")]
    return {module_name(path): path for path in sorted(paths)}


def folders() -> list[Path]:
    """Every package of both wings."""
    return [path.parent for path in modules().values() if path.name == "__init__.py"]


def room_of(name: str) -> tuple[str, str]:
    """(wing, room): "training" with a room of tfmp, "conversion" with one of tfmp.converters.

    Raises:
        AssertionError: no room of this file is in the order.
    """
    parts = name.split(".")[1:]
    wing, rooms = "training", TRAINING
    if parts[:1] == ["converters"]:
        wing, rooms, parts = "conversion", CONVERSION, parts[1:]
    for end in range(len(parts), 0, -1):
        room = ".".join(parts[:end])
        if room in rooms:
            return wing, room
    raise AssertionError(f"{name} is in no room of the order: add it to tests/support/house.py")


def height_of(name: str) -> tuple[str, int]:
    """(wing, place in the order) of a file."""
    wing, room = room_of(name)
    return wing, (CONVERSION if wing == "conversion" else TRAINING).index(room)


# Tables of names that are looked up only when they are asked for: the classes that files of models
# name, and the formats.
TABLES = ("tfmp.registration", "tfmp.converters.formats")


@cache
def imports_of(path: Path, known: frozenset[str]) -> frozenset[str]:
    """Files and packages of the project that a file imports, anywhere in it.

    A text that is the name of another file, as in `import_module("tfmp.fit.callback")`, is one.
    """
    found = set()
    packages = {name.rpartition(".")[0] for name in known}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name, colon, entry = node.value.partition(":")
            found |= {name} if (entry.isidentifier() if colon else name not in packages) else set()
    return known & found


@cache
def entered_by(path: Path) -> set[tuple[str, str]]:
    """The names that a file takes from packages and modules: (module, name).

    They stand in imports, and in texts such as "tfmp.converters.tflite.file:Interpreter", by which
    a worker process finds its class.
    """
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            module, _, name = node.value.partition(":")
            found.add((module, name))
    return found


def entries_of(package: Path) -> dict[str, str]:
    """What a room's `__init__.pyi` lists: the module of each name."""
    stub = package / "__init__.pyi"
    if not stub.exists():
        return {}
    found = {}
    for node in tree_of(stub).body:
        assert isinstance(node, ast.ImportFrom)
        assert node.level == 1
        for alias in node.names:
            found[alias.name] = node.module or alias.name
    return found
