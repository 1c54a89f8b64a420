"""Mutations that no test sees: one line of each of the functions with the most branches.

    python benchmarks/mutants.py [--count 100] [--seed 0] [--tests tests] [--only WORD]

A seeded draw changes one condition, comparison, number or returned value in each function, then
runs the quick tests that mirror its file, and of these the files in which the function begins. No
file is changed: a fork of this process, which has imported the frameworks, compiles the module from
the changed syntax tree, so nothing that a test starts as a process of its own sees the change.
Prints a line for each mutation, and the number that no test saw.
"""

import argparse
import ast
import atexit
import builtins
import importlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("tfmp", "converters")
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.BoolOp, ast.comprehension, ast.Try)
_BEGUN = "_tfmp_functions_begun"
_FORK = multiprocessing.get_context("fork")
_FRAMEWORKS = ("tensorflow", "keras", "onnx", "onnxruntime", "tf2onnx", "matplotlib.pyplot")
# For the tests of one mutation, which may have made a loop without an end: CPU seconds beside three
# times those that the tests take, and seconds for one that waits.
_CPU_SECONDS, _SECONDS = 30, 1800
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
    what = f"line {place}: {mutate(node)}"
    return ast.fix_missing_locations(tree), what


def mirrors(path: Path, tests: Path) -> list[str]:
    """Files of tests for a module: `a/test_b*.py` for `a/b.py`, all of `a` where there is none."""
    folder = tests / path.relative_to(ROOT).parent
    own = sorted(folder.glob(f"test_{path.stem}.py")) + sorted(
        folder.glob(f"test_{path.stem}_*.py")
    )
    return [str(file) for file in own or sorted(folder.glob("test_*.py"))]


def watched(path: Path, places: dict[int, int]) -> ast.Module:
    """The syntax tree of a file that notes which of its functions, by their lines, begin."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.lineno in places:
            node.body[:0] = ast.parse(f"{_BEGUN}.add({places[node.lineno]})").body
    return tree


def compiled_from(trees: dict[str, ast.Module]) -> None:
    """Makes this process compile modules from these syntax trees in place of their files."""
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        tree = trees.get(os.path.realpath(loader.path))
        return plain(loader, name) if tree is None else compile(tree, loader.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def run(
    files: Sequence[str],
    tests: Path,
    trees: dict[str, ast.Module],
    limit: int,
    answer: Any = None,
) -> None:
    """In a process of its own: runs the quick tests of files, and exits as pytest does.

    Args:
        files: of tests.
        tests: their folder.
        trees: changed syntax trees of modules.
        limit: in CPU seconds.
        answer: is sent the functions that began, and CPU seconds.
    """
    with open(os.devnull, "w") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    os.chdir(tests.parent)
    compiled_from(trees)
    functions_begun: set[int] = set()
    setattr(builtins, _BEGUN, functions_begun)
    code = pytest.main(["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *files])
    if answer is not None:
        answer.send((functions_begun, time.process_time()))
    sys.stdout.flush()
    os._exit(code)


def users(drawn: list[tuple[Path, str, int]], tests: Path) -> list[dict[str, float]]:
    """The files among the mirroring ones in which each function begins, and their CPU seconds."""
    trees = {
        str(path.resolve()): watched(
            path, {line: index for index, (file, _, line) in enumerate(drawn) if file == path}
        )
        for path, _, _ in drawn
    }
    mirroring = [mirrors(path, tests) for path, _, _ in drawn]
    begun: dict[str, set[int]] = {}
    seconds: dict[str, float] = {}
    for file in sorted({file for files in mirroring for file in files}):
        here, there = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=run, args=([file], tests, trees, 600, there))
        process.start()
        there.close()
        try:
            begun[file], seconds[file] = here.recv()
        except EOFError:
            raise SystemExit(f"{file} ends pytest") from None
        process.join()
        if process.exitcode not in (0, 5):
            print(f"fails without a mutation: {file}", flush=True)
            begun[file] = set()
    return [
        {file: seconds[file] for file in files if index in begun[file]}
        for index, files in enumerate(mirroring)
    ]


def seen(path: Path, line: int, seed: str, files: dict[str, float], tests: Path) -> str:
    """Whether a test sees the mutation: "seen", "unseen", or "no test"."""
    if not files:
        return "no test"
    trees = {str(path.resolve()): changed(path, line, seed)[0]}
    limit = _CPU_SECONDS + int(3 * sum(files.values()))
    process = _FORK.Process(target=run, args=(list(files), tests, trees, limit))
    process.start()
    process.join(_SECONDS)
    if process.exitcode is None:
        os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
    return "unseen" if process.exitcode in (0, 5) else "seen"


def main() -> int:
    """Draws, runs, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="functions; 100 by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="of another checkout")
    parser.add_argument("--only", default="", help="a word of the paths of files")
    options = parser.parse_args()
    tests = options.tests.resolve()
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}
    sys.dont_write_bytecode = False  # pytest keeps the test files that it has prepared
    for name in _FRAMEWORKS:
        importlib.import_module(name)
    # Forks end without tidying up.
    tempfile.tempdir = tempfile.mkdtemp(prefix="mutants-")
    os.environ["TMPDIR"] = tempfile.tempdir
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    drawn = functions(options.count, options.only)
    counts = {"seen": 0, "unseen": 0, "no test": 0}
    for (path, name, line), files in zip(drawn, users(drawn, tests), strict=True):
        seed = f"{options.seed}:{path.relative_to(ROOT)}:{name}"
        _, what = changed(path, line, seed)
        found = seen(path, line, seed, files, tests)
        counts[found] += 1
        print(f"{found:8} {path.relative_to(ROOT)} {name}, {what}", flush=True)
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
