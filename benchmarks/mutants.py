"""Mutations that no test sees: one line of each of the functions with the most branches.

    python benchmarks/mutants.py [--count 100] [--seed 0] [--tests tests] [--only WORD]

A seeded draw changes one condition, comparison, number or returned value in each function, then
runs the quick tests that mirror its file. No file is changed: pytest gets a plug-in that compiles
the module from the changed syntax tree, so nothing that a test starts as a process of its own sees
the change. Prints a line for each mutation, and the number that no test saw.
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("tfmp", "converters")
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.BoolOp, ast.comprehension, ast.Try)
_VARIABLE = "TFMP_MUTANT"
_LONGEST_SECONDS = 300
_OTHER = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def functions(count: int, only: str) -> list[tuple[Path, str, int]]:
    """The functions with the most branches: file, name, line."""
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if only and only not in str(path.relative_to(ROOT)):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    branches = sum(isinstance(child, _BRANCHES) for child in ast.walk(node))
                    found.append((branches, path, node.name, node.lineno))
    found.sort(key=lambda item: (-item[0], str(item[1]), item[3]))
    return [(path, name, line) for _, path, name, line in found[:count]]


def places(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes that `mutate` can change."""
    for node in ast.walk(function):
        single = isinstance(node, ast.Compare) and len(node.ops) == 1
        number = (
            isinstance(node, ast.Constant)
            and isinstance(node.value, (int, float))
            and not isinstance(node.value, bool)
        )
        returns = isinstance(node, ast.Return) and node.value is not None
        if isinstance(node, (ast.If, ast.IfExp, ast.BoolOp)) or single or number or returns:
            yield node


def mutate(node: Any) -> str:
    """Changes a node in place, and tells how."""
    if isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return "condition turned round"
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return "and for or"
    if isinstance(node, ast.Compare):
        node.ops = [_OTHER[type(node.ops[0])]()]
        return "comparison turned round"
    if isinstance(node, ast.Constant):
        node.value += 1
        return "number plus one"
    node.value = ast.Constant(None)
    return "None returned"


def changed(path: Path, line: int, seed: str) -> tuple[ast.Module, str]:
    """The syntax tree of a file with one mutation in the function that begins at a line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    function = next(
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.lineno == line
    )
    node = random.Random(seed).choice(list(places(function)))
    place = getattr(node, "lineno", line)
    return ast.fix_missing_locations(tree), f"line {place}: {mutate(node)}"


def mirrors(path: Path, tests: Path) -> list[str]:
    """Files of tests for a module: `a/test_b*.py` for `a/b.py`, all of `a` where there is none."""
    folder = tests / path.relative_to(ROOT).parent
    own = sorted(folder.glob(f"test_{path.stem}.py")) + sorted(
        folder.glob(f"test_{path.stem}_*.py")
    )
    return [str(file) for file in own or sorted(folder.glob("test_*.py"))]


def pytest_configure(config: Any) -> None:
    """As a plug-in: compiles one module from its changed syntax tree."""
    told = json.loads(os.environ[_VARIABLE])
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if os.path.realpath(loader.path) != told["path"]:
            return plain(loader, name)
        tree, _ = changed(Path(told["path"]), told["line"], told["seed"])
        return compile(tree, told["path"], "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def seen(path: Path, line: int, seed: str, tests: Path) -> str:
    """Whether a test sees the mutation: "seen", "unseen", or "no test"."""
    files = mirrors(path, tests)
    if not files:
        return "no test"
    told = {"path": str(path.resolve()), "line": line, "seed": seed}
    environment = {
        **os.environ,
        _VARIABLE: json.dumps(told),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        ),
    }
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow"),
                *("-p", "mutants", "-p", "no:cacheprovider", *files),
            ],
            cwd=tests.parent,
            env=environment,
            capture_output=True,
            timeout=_LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "seen"  # a loop without an end
    return "unseen" if done.returncode in (0, 5) else "seen"


def main() -> int:
    """Draws, runs, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="functions; 100 by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="of another checkout")
    parser.add_argument("--only", default="", help="a word of the paths of files")
    options = parser.parse_args()
    counts = {"seen": 0, "unseen": 0, "no test": 0}
    for path, name, line in functions(options.count, options.only):
        seed = f"{options.seed}:{path.relative_to(ROOT)}:{name}"
        _, what = changed(path, line, seed)
        found = seen(path, line, seed, options.tests.resolve())
        counts[found] += 1
        print(f"{found:8} {path.relative_to(ROOT)} {name}, {what}", flush=True)
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
