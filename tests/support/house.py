"""The house: its floors, and the part of CONTRIBUTING.md that shows them.

Run `python tests/support/house.py` after adding or renaming a module: it writes the first sentence
of every module's docstring into CONTRIBUTING.md.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BEGIN, END = "<!-- house: written by tests/support/house.py -->", "<!-- end of house -->"

# Lowest floor first. A file imports from lower floors, and from its own where that makes no circle.
TRAINING_FLOORS = {
    "Facts": (
        "numerics hardware nvidia cuda_versions onnx_providers registration first_op value_range "
        "gradient_report measuring graph_rewriting replacing stderr web"
    ),
    "Plans and scales": (
        "structure evidence named_policies keep rules auto graph_walk dry_run precision_plan undo "
        "policy strategies counters transitions tracing gradients wrapping loss_scale attach"
    ),
    "Watching": ("telemetry replay nonfinite forward_search backward_search diagnose calibration"),
    "In `fit`, and around it": (
        "batch_tap preflight recorder training_report watch fit_session callback machine "
        "tensor_cores checkup_report checkup_cuda checkup_model checkup profiling_copies "
        "profiling_runs profiling_layers profiling_batches profiling_kernels profiling_report "
        "profiling_tables profiling_page profiling colocation_checkpoint colocation_job "
        "colocation_training colocation_fused colocation_report colocation_modes "
        "colocation_processes colocation_choice colocation"
    ),
    "Commands": (
        "cli_session command_inputs doctor_command calibrate_command profile_command "
        "colocate_command cli"
    ),
}
CONVERSION_FLOORS = {
    "Ground": "errors tensors files worker sessions environment",
    "Models in": "source intake float64",
    "Formats": "onnx tflite",
    "Running": "runners",
    "Measuring": "drift",
    "Judging, repairing and telling": "report repair",
    "Work": (
        "artifact choices devices latency split trials bench validation explain distributed "
        "pipeline"
    ),
    "Commands": "cli_config cli_options cli_session cli_inputs cli cli_docs",
}


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


def room_of(name: str) -> tuple[str, str]:
    """(wing, room): "training" with a module of tfmp, "conversion" with one of tfmp.converters."""
    parts = name.split(".")
    return ("conversion", parts[2]) if parts[1] == "converters" else ("training", parts[1])


def floor_of(name: str) -> tuple[str, int]:
    """(wing, height) of a module."""
    wing, room = room_of(name)
    floors = CONVERSION_FLOORS if wing == "conversion" else TRAINING_FLOORS
    for height, rooms in enumerate(floors.values()):
        if room in rooms.split():
            return wing, height
    raise AssertionError(f"{name} stands on no floor: add it to tests/support/house.py")


def first_sentence(path: Path) -> str:
    """What a module says it is."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def render() -> str:
    """Both wings as Markdown, the highest floor first."""
    lines = []
    for wing, floors in (("tfmp/", TRAINING_FLOORS), ("converters/", CONVERSION_FLOORS)):
        lines += [f"### `{wing}`", ""]
        for title, rooms in reversed(floors.items()):
            lines += [f"**{title}**", ""]
            for room in rooms.split():
                lines += _room(ROOT / wing / room)
            lines.append("")
    return "\n".join(lines)


def _room(path: Path) -> list[str]:
    file = path.with_suffix(".py")
    if file.exists():
        return [f"- `{file.name}`: {first_sentence(file)}"]
    if not path.is_dir():
        return []
    lines = [f"- `{path.name}/`: {first_sentence(path / '__init__.py')}"]
    for inner in sorted(path.rglob("*.py")):
        if inner.name != "__init__.py":
            lines.append(f"  - `{inner.relative_to(path)}`: {first_sentence(inner)}")
    return lines


def main() -> None:
    """Rewrites the house in CONTRIBUTING.md."""
    page = ROOT / "CONTRIBUTING.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{render()}\n{END}{after}")


if __name__ == "__main__":
    main()
