"""The documentation site, its tutorials, and the step of action.yml."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import repository
import yaml
from repository import ROOT

DOCS = ROOT / "docs"
# MkDocs builds with Python names in its configuration, which safe YAML does not know.
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text().replace("!!python/name:", ""))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
GATE = ROOT / "samples" / "ci_gate.sh"


def leaves(nav: list[dict]) -> list[str]:
    values = [value for entry in nav for value in entry.values()]
    return [
        page for value in values for page in ([value] if isinstance(value, str) else leaves(value))
    ]


def test_every_page_is_in_the_navigation_once():
    pages = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert sorted(leaves(CONFIG["nav"])) == pages


def test_no_page_needs_the_network():
    assert CONFIG["theme"]["font"] is False
    for path in DOCS.rglob("*.md"):
        assert not re.findall(r"(?:src=\"|!\[[^\]]*\]\()https?://", path.read_text()), path


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site.py")
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    return site


def test_the_page_of_tables_has_every_row_below_the_anchor_that_links_lead_to():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="tables.md"))
    text = hooks().on_page_markdown((DOCS / "tables.md").read_text(), page)
    names = [path.stem for path in sorted((DOCS / "tables").glob("*.csv"))]
    assert re.findall(r"^## \S+ \{ #(\S+) \}$", text, re.M) == names
    assert set(re.findall(r"\(tables\.md#([a-z0-9-]+)\)", text)) == set(names)
    rows = len(re.findall(r"^\| ", text.partition("<script>")[2], re.M))
    assert rows == sum(len(repository.table(name)) + 2 for name in names)


def test_drawings_have_the_pictures_of_their_text():
    site = hooks()
    drawings = site.drawings()
    assert len(drawings) >= 3
    assert {site.drawn(drawing) for drawing in drawings} == set(site.PICTURES.glob("drawing-*.svg"))


def test_the_reference_names_everything_that_is_public():
    import tfmp
    import tfmp.converters

    found = re.findall(
        r"^::: (\S+)$", "\n".join(p.read_text() for p in (DOCS / "reference").glob("*")), re.M
    )
    own = {f"tfmp.{name}" for name in tfmp.__all__}
    own |= {f"tfmp.converters.{name}" for name in tfmp.converters.__all__}
    assert own - set(found) - {"tfmp.__version__"} == set()
    assert set(found) - own == set()


# --- the gate ---


@pytest.fixture
def gate(tmp_path: Path):
    """Runs the gate with a tfmp-convert that writes its arguments, a summary, and ends as told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "tfmp-convert"
    command.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" > arguments\n'
        '[ "$STATUS" = 2 ] || echo "# report" > "tfmp/drift.md"\nexit "$STATUS"\n'
    )
    command.chmod(0o755)

    def run(status: int, **environment: str) -> tuple[int, str, str, list[str]]:
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = subprocess.run(
            ["bash", GATE],
            cwd=tmp_path,
            env={
                "PATH": f"{folder}:{os.environ['PATH']}",
                "STATUS": str(status),
                **{name: str(path) for name, path in files.items()},
                **environment,
            },
            capture_output=True,
            text=True,
        )
        told = [path.read_text() if path.exists() else "" for path in files.values()]
        given = tmp_path / "arguments"
        return done.returncode, *told, given.read_text().splitlines() if given.exists() else []

    return run


@pytest.mark.parametrize(
    ("status", "verdict", "lenient"),
    [(0, "PASS", 0), (1, "FAIL", 1), (2, "", 2), (3, "INCONCLUSIVE", 0)],
)
def test_the_gate_ends_as_the_command_does_but_may_let_too_little_data_pass(
    gate, status, verdict, lenient
):
    code, output, summary, _ = gate(status, MODEL="m.keras")
    assert code == status
    assert output == f"verdict={verdict}\n"
    assert summary == ("" if status == 2 else "# report\n")
    assert gate(status, MODEL="m", INCONCLUSIVE="pass")[0] == lenient


def test_the_gate_hands_on_what_it_is_given_and_says_what_is_missing(gate):
    assert gate(0) == (2, "", "", [])
    assert gate(0, MODEL="m", INCONCLUSIVE="maybe")[0] == 2
    *_, arguments = gate(
        0, MODEL="my model.keras", DATA="x.npz", TO="onnx", OPTIONS="--precision mixed"
    )
    assert arguments[:2] == ["onnx", "my model.keras"]
    assert arguments[-2:] == ["--precision", "mixed"]
    assert arguments[5:7] == ["--data", "x.npz"]
    reports = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--report"]
    assert reports == [f"tfmp/drift.{suffix}" for suffix in ("html", "json", "md", "xml")]


def test_the_action_hands_each_input_to_the_gate():
    steps = {step["name"]: step for step in ACTION["runs"]["steps"]}
    step = steps["Convert and compare"]
    kept = steps["Keep files and reports"]["with"]
    handed = {*step["env"].values(), *kept.values()}
    for name in ACTION["inputs"]:
        assert f"${{{{ inputs.{name} }}}}" in handed, name
    text = GATE.read_text()
    for name in step["env"]:
        assert re.search(rf"\${{?{name}\b|{name}:[=?]", text), name
    assert step["run"].endswith('samples/ci_gate.sh"')
    page = (DOCS / "tutorials" / "gate.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == set(ACTION["inputs"])


# --- the tutorials ---


def run_blocks(page: str, folder: Path) -> str:
    """Runs the code of a page from top to bottom, as a reader does; gives what it prints."""
    text = (DOCS / "tutorials" / page).read_text()
    commands: list[list[str]] = []
    for language, code in re.findall(r"```(python|bash)\n(.*?)```", text, re.DOTALL):
        if language == "bash":
            commands.append(["bash", "-ec", code])
        elif commands and commands[-1][0] == sys.executable:
            commands[-1][-1] += code  # one session
        else:
            commands.append([sys.executable, "-c", code])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    printed = ""
    for command in commands:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        printed += done.stdout
    return printed


@pytest.mark.slow
def test_the_tutorial_on_training_runs(tmp_path: Path):
    printed = run_blocks("train.md", tmp_path)
    assert "output: the loss sees it" in printed
    assert "loss_scale" in printed
    accuracies = dict(re.findall(r"^(float32|mixed) (0\.\d+)$", printed, re.M))
    assert all(float(value) > 0.8 for value in accuracies.values())
    assert set(accuracies) == {"float32", "mixed"}
    assert (tmp_path / "training.html").exists()
    assert (tmp_path / "digits.keras").exists()


@pytest.mark.slow
def test_the_tutorial_on_shipping_and_the_gate_run(tmp_path: Path):
    printed = run_blocks("ship.md", tmp_path)
    assert printed.count("PASS") >= 4
    assert (tmp_path / "drift.html").exists()
    job = tmp_path / "job"
    job.mkdir()
    (tmp_path / "digits.keras").rename(job / "model.keras")
    (tmp_path / "held_out.npz").rename(job / "held_out.npz")
    (job / "samples").symlink_to(ROOT / "samples")
    run_blocks("gate.md", job)
    assert (job / "drift.xml").exists()
    assert (job / "files" / "drift.xml").exists()
