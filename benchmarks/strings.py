"""Writes build/strings.md: every sentence that a user can see, file by file, to be read in one go.

A sentence is a text of three words or more in code, docstrings of commands included and other
docstrings left out; what is filled in later stands as {}.

Run: python benchmarks/strings.py
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "build" / "strings.md"
LEAST_WORDS = 3


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each sentence of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shown = path.parent.name == "commands"
    skipped = {id(part) for node in ast.walk(tree) for part in _parts_of(node, shown)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in skipped:
            text = " ".join(_text(node).split())
            if len(text.split()) >= LEAST_WORDS:
                yield node.lineno, text


def _parts_of(node: ast.AST, shown: bool) -> list[ast.AST]:
    """Docstrings, where no help shows them, and the pieces of texts with places to fill."""
    if isinstance(node, ast.JoinedStr):
        return list(node.values)
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
        told = shown and isinstance(node, ast.FunctionDef) and node.decorator_list
        return [] if told else [node.body[0].value]  # type: ignore[attr-defined]
    return []


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(_text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def main() -> None:
    """Writes the page."""
    lines = ["# Every sentence that a user can see"]
    for path in sorted([*ROOT.glob("tfmp/**/*.py"), *ROOT.glob("converters/**/*.py")]):
        found = [f"- {line}: {text}" for line, text in sorted(sentences(path))]
        lines += ["", f"## {path.relative_to(ROOT)}", "", *found] if found else []
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {sum(line[:2] == '- ' for line in lines)} sentences")


if __name__ == "__main__":
    main()
