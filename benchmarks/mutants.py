"""Mutations that no test sees: one line of each of the functions with the most branches.

    python benchmarks/mutants.py [--count 100] [--seed 0] [--only WORD]

A seeded draw changes one condition, comparison, number or returned value in each function, then
runs the quick tests that mirror its file until one fails. No file is changed: the tests are
collected once, and a fork of this process gives the function its changed code, so nothing that a
test starts as a process of its own sees the change. Prints a line for each mutation, and the number
that no test saw.
"""

import argparse
import ast
import atexit
import gc
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
ROOMS = ("tfmp", "converters")
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.BoolOp, ast.comprehension, ast.Try)
_FRAMEWORKS = ("tensorflow", "keras", "onnx", "onnxruntime", "tf2onnx", "matplotlib.pyplot")
# For the tests of one mutation, which may have made a loop without an end, or wait.
_CPU_SECONDS, _SECONDS = 120, 900
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


def changed(path: Path, line: int, seed: str) -> tuple[CodeType, str]:
    """A module's code with one mutation in the function that begins at a line, and which one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    function = next(
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.lineno == line
    )
    node = random.Random(seed).choice(list(places(function)))
    what = f"line {getattr(node, 'lineno', line)}: {mutate(node)}"
    return compile(ast.fix_missing_locations(tree), str(path), "exec"), what


def mirrors(path: Path) -> list[Path]:
    """Files of tests for a module: `a/test_b*.py` for `a/b.py`, all of `a` where there is none."""
    folder = TESTS / path.relative_to(ROOT).parent
    own = [*folder.glob(f"test_{path.stem}.py"), *folder.glob(f"test_{path.stem}_*.py")]
    return own or list(folder.glob("test_*.py"))


def codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The code of all functions inside, by name and line."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield (inner.co_qualname, inner.co_firstlineno), inner
            yield from codes(inner)


def in_a_fork(
    module: CodeType, live: list[FunctionType], items: list[pytest.Item], failed: list[str]
) -> bool:
    """Whether a test fails in a process whose functions have a module's changed code."""
    child = os.fork()
    if not child:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        with open(os.devnull, "w") as nothing:
            for stream in (1, 2):
                os.dup2(nothing.fileno(), stream)
        code = dict(codes(module))
        for function in live:
            mine = function.__code__
            function.__code__ = code.get((mine.co_qualname, mine.co_firstlineno), mine)
        for item in items:
            runtestprotocol(item, nextitem=None)
            if failed:
                break
        os._exit(bool(failed))
    end = time.monotonic() + _SECONDS
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.05)
    return found[1] != 0


class Mutations:
    """A plug-in of pytest that runs the collected tests once for each mutation."""

    def __init__(self, drawn: list[tuple[Path, str, int]], seed: int) -> None:
        self.drawn, self.seed = drawn, seed
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = defaultdict(list)
        for item in session.items:
            items[item.path].append(item)
        gc.unfreeze()
        live = defaultdict(list)
        for function in gc.get_objects():
            if isinstance(function, FunctionType):
                live[os.path.realpath(function.__code__.co_filename)].append(function)
        gc.freeze()
        counts = {"seen": 0, "unseen": 0}
        for path, name, line in self.drawn:
            module, what = changed(path, line, f"{self.seed}:{path.relative_to(ROOT)}:{name}")
            tests = [item for file in mirrors(path) for item in items[file]]
            seen = in_a_fork(module, live[str(path)], tests, self.failed)
            counts["seen" if seen else "unseen"] += 1
            place = f"{path.relative_to(ROOT)} {name}, {what}"
            print(f"{'seen' if seen else 'unseen':8} {place}", file=sys.stderr, flush=True)
        print(", ".join(f"{n} {word}" for word, n in counts.items()), file=sys.stderr)
        return True


def main() -> int:
    """Draws, runs, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="functions; 100 by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a word of the paths of files")
    options = parser.parse_args()
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}
    for name in _FRAMEWORKS:
        importlib.import_module(name)
    # Forks end without tidying up.
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="mutants-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    drawn = functions(options.count, options.only)
    files = sorted({str(file) for path, _, _ in drawn for file in mirrors(path)})
    arguments = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no", *files]
    return int(pytest.main(arguments, plugins=[Mutations(drawn, options.seed)]))


if __name__ == "__main__":
    sys.exit(main())
