"""Turns the results of `run.py` into docs/gpu.md: tables, and what surprised.

    python benchmarks/gpu/report.py [--take FOLDER ...]

`--take` adds the files that a call brought back to build/gpu/results. A stage without results has
no section. Results of a machine without a card are a rehearsal: they go to a page of their own
(`--output`), never to docs/gpu.md.
"""

import argparse
import json
import math
import shutil
import statistics
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

from drift_line import fit
from pages import table, write_page
from stage import SCHEMA, STAGES
from training import ARMS

from tfmp.converters.drift import binomial_bounds
from tfmp.machine.measuring import bytes_text, seconds_text

PAGE = ROOT / "docs" / "gpu.md"
RESULTS = ROOT / "build" / "gpu"

_VERDICTS = ("PASS", "INCONCLUSIVE", "FAIL")
# A drift that is foretold this many times too large or too small surprises.
_FAR = 3.0

Document = Mapping[str, Any]

INTRO = """\
# On a GPU, measured

{state}

[benchmarks/gpu](../benchmarks/gpu/README.md) measures everything on this page with one command a
stage, and wrote the page: `python benchmarks/gpu/report.py`.
"""

# To be emptied with the next run.
SINCE = """\
Mended since that run, and not measured by it: 16 bits on PyTorch's CUDA (seven small models have
trained on the card since), LSTM layers in 16 bits on JAX (cuDNN has none there: the plan keeps them
in float32), and memory on JAX, whose peak cannot be reset (a profile reads the compiled step).
"""


def number(value: object) -> float:
    """A drift as the kit writes it: infinity is a text."""
    return math.inf if value == "inf" else float(value)  # type: ignore[arg-type]


def confusion(pairs: Sequence[tuple[str, str]]) -> tuple[list[list[str]], str]:
    """Verdicts foretold (rows) and measured (columns).

    Returns:
        The table, and a sentence about the rate of verdicts PASS that the card would call FAIL.
    """
    counts = Counter(pairs)
    rows = [["foretold \\ measured", *_VERDICTS]]
    rows += [[one, *(str(counts[one, other]) for other in _VERDICTS)] for one in _VERDICTS]
    passed = sum(counts["PASS", other] for other in _VERDICTS)
    wrong = counts["PASS", "FAIL"]
    if not passed:
        return rows, "No model was foretold to pass."
    upper = binomial_bounds(wrong, passed, 0.95)[1]
    return rows, (
        f"{wrong} of {passed} models that were foretold to pass fail on the card; at 95 % "
        f"confidence the rate is at most {100 * upper:.1f} %."
    )


# Sections, one for each stage: they take the stage's document and give Markdown.


def onnx_section(document: Document) -> Iterator[str]:
    """Drift foretold and measured, verdicts, probes, times."""
    cases = {name: case for name, case in measured(document).items() if "ways" in case}
    profiles = list(next(iter(cases.values()))["predicted"]) if cases else []
    real = {name: case for name, case in cases.items() if "drift" in case["ways"].get("fp16", {})}
    whole = {name: case for name, case in real.items() if case["group"] != "seeded"}
    runtime = [profile for profile in profiles if profile.startswith("ort-cuda:")][-1:]
    yield "### Drift, foretold and measured\n"
    yield (
        "The FP16 file against the FP32 file, both on the card, TF32 off; beside it the emulator's "
        "prediction from before the card was seen. A slope and a ratio of 1 are the truth; the "
        "spread is the factor that two thirds of the models are within.\n"
    )
    rows = [["profile", "models", "slope", "foretold / measured", "spread", "values finite alike"]]
    for profile in profiles:
        pairs = [_drifts(case, profile) for case in whole.values() if profile in case["predicted"]]
        found = fit(pairs)
        alike = sum(_finite_alike(case, profile) for case in whole.values())
        rows.append(
            [profile, str(len(pairs)), "", "", "", ""]
            if found is None
            else [
                *(profile, str(found.count), f"{found.slope:.2f}", f"{found.ratio:.2f}"),
                *(f"{found.spread:.2f}x", f"{alike} of {len(whole)}"),
            ]
        )
    yield table(rows) + "\n"
    if runtime:
        yield "### Verdicts, foretold and measured\n"
        verdicts = [
            (case["predicted"][runtime[0]]["verdict"], case["ways"]["fp16"]["drift"]["verdict"])
            for case in whole.values()
        ]
        rows, sentence = confusion(verdicts)
        yield f"Profile `{runtime[0]}`, default budget.\n\n{table(rows)}\n\n{sentence}\n"
        yield (
            "The emulator has learned from these outputs since: how it does now is what "
            "`python benchmarks/gpu/again.py` prints.\n"
        )
    yield from _probe_table(real, profiles)
    yield from _latency_table(cases)
    yield "### Surprises\n"
    found_odd = list(surprises(cases, runtime[0] if runtime else ""))
    yield "\n".join(f"- {line}" for line in found_odd or ["Nothing surprised."]) + "\n"


def _probe_table(real: Mapping[str, Document], profiles: Sequence[str]) -> Iterator[str]:
    rows = [["question", "foretold: gpu", "pessimistic", "runtime", "measured", "nearest profile"]]
    last = profiles[-1:] or [""]
    for name, case in real.items():
        if case["group"] != "probes":
            continue
        told = case["ways"]["fp16"]
        nearest = min(told["from"], key=lambda profile: number(told["from"][profile]))
        drifts = [case["predicted"].get(p, {}).get("drift") for p in ("gpu", "pessimistic", *last)]
        question = case.get("asks") or name
        rows.append([question, *map(_drift, drifts), _drift(told["drift"]["drift"]), nearest])
    if len(rows) > 1:
        yield "### Single facts\n"
        yield (
            "Each row asks one question of a kernel (`benchmarks/gpu/probes.py`); the nearest "
            "profile is the one whose outputs are closest to the card's.\n"
        )
        yield table(rows) + "\n"


def _latency_table(cases: Mapping[str, Document]) -> Iterator[str]:
    """Large models one by one; of small ones, whose calls are mostly launches, the median."""
    rows = [["model", "batch", "FP32", "TF32", "FP16", "FP16 over FP32", "FP16 over TF32"]]
    small: dict[str, list[list[float]]] = {}
    for name, case in cases.items():
        ways = {
            way: case["ways"].get(way, {}).get("latency", {}) for way in ("fp32", "tf32", "fp16")
        }
        for size in ways["fp16"]:
            seconds = [ways[way].get(size, {}).get("seconds") for way in ways]
            if None in seconds:
                continue
            if case["group"] != "seeded":
                small.setdefault(size, []).append(seconds)
                continue
            rows.append([name, size, *map(seconds_text, seconds), *_gains(seconds)])
    for size, found in small.items():
        middle = [statistics.median(column) for column in zip(*found, strict=True)]
        ratios = [[one / times[2] for one in times[:2]] for times in found]
        gains = [f"{statistics.median(column):.2f}x" for column in zip(*ratios, strict=True)]
        label = f"median of {len(found)} small models"
        rows.append([label, size, *map(seconds_text, middle), *gains])
    if len(rows) > 1:
        yield "### Time of a call\n"
        yield "Inputs and outputs stay on the card; the median of 15 calls.\n"
        yield table(rows, words=1) + "\n"


def _gains(seconds: Sequence[float]) -> list[str]:
    return [f"{value / seconds[2]:.2f}x" for value in seconds[:2]]


def surprises(cases: Mapping[str, Document], runtime: str) -> Iterator[str]:
    """Sentences about models that are not as the profile of the runtime foretold."""
    elsewhere: dict[str, list[str]] = {}
    for name, case in cases.items():
        for way, told in case["ways"].items():
            if "error" in told:
                yield f"{name}, {way}: {told['error']}"
        for op in case["ways"].get("fp16", {}).get("elsewhere", ()):
            elsewhere.setdefault(op, []).append(name)
    for op, names in elsewhere.items():
        yield f"{op} ran on the CPU in the FP16 files of {', '.join(names)}"
    for name, case in cases.items():
        told = case["ways"].get("fp16", {})
        foretold = case["predicted"].get(runtime)
        if "drift" not in told or foretold is None:
            continue
        one, other = number(foretold["drift"]), number(told["drift"]["drift"])
        if math.isfinite(one) != math.isfinite(other):
            yield f"{name}: drift {_drift(one)} was foretold, {_drift(other)} measured"
        elif one and other and math.isfinite(one) and not 1 / _FAR < other / one < _FAR:
            yield f"{name}: measured drift is {other / one:.2g} times the foretold one ({one:.1e})"
        if {foretold["verdict"], told["drift"]["verdict"]} == {"PASS", "FAIL"}:
            yield (
                f"{name}: {foretold['verdict']} was foretold, {told['drift']['verdict']} measured: "
                f"{' '.join(told['drift']['reasons'])}"
            )


def training_section(document: Document) -> Iterator[str]:
    """One table for each backend and model."""
    groups: dict[str, dict[str, Document]] = {}
    for name, case in measured(document).items():
        group, _, arm = name.rpartition("/")
        if arm in ARMS:
            groups.setdefault(group, {})[arm] = case
    yield (
        "Same weights, same batches. Loss is the mean of the last steps on the smallest batch; "
        "Tensor Cores: their share of the kernels' time.\n"
    )
    for group, arms in groups.items():
        backend, _, model = group.partition("/")
        sizes = list(dict.fromkeys(size for case in arms.values() for size in case["batches"]))
        yield f"### {model} on {backend}\n"
        rows = [
            [
                *("arm", *(f"step, batch {size}" for size in sizes), "samples/s"),
                *("speed", "memory", "loss", "skipped", "Tensor Cores"),
            ]
        ]
        largest = sizes[-1] if sizes else ""
        base = _rate(arms.get("tf32", arms.get("float32", {})), largest)
        for arm, case in arms.items():
            steps = [case["batches"].get(size, {}).get("step_s") for size in sizes]
            rate = _rate(case, largest)
            peak = max((told.get("peak_bytes", 0) for told in case["batches"].values()), default=0)
            kernels = case["batches"].get(sizes[0], {}).get("kernels", {})
            cores = (
                f"{100 * kernels['tensor_core_seconds'] / kernels['seconds']:.0f} %"
                if kernels.get("seconds")
                else ""
            )
            rows.append(
                [
                    *(arm, *("" if step is None else seconds_text(step) for step in steps)),
                    "" if rate is None else f"{rate:,.0f}",
                    "" if rate is None or not base else f"{rate / base:.2f}x",
                    bytes_text(peak) if peak else "",
                    f"{case['loss'][-1]:.4f}" if case["loss"] else "",
                    "" if case["skipped_steps"] is None else str(case["skipped_steps"]),
                    cores,
                ]
            )
        yield table(rows) + "\n"


def _rate(case: Document, size: str) -> float | None:
    return case.get("batches", {}).get(size, {}).get("samples_per_s")


def sharing_section(document: Document) -> Iterator[str]:
    """The ways of `tfmp colocate`, by backend."""
    rows = [["backend", "jobs", "way of `tfmp colocate`", "steps", "speed"]]
    for name, case in measured(document).items():
        for group, told in case.get("groups", {}).items():
            for way in told["ways"]:
                steps, speed = seconds_text(way["steps_s"]), f"{way['speed'][1]:.2f}x"
                backend = name.partition("/")[2] or "jax"
                rows.append([backend, group, way["mode"], steps, speed])
    yield table(rows, words=3) + "\n"


SECTIONS: dict[str, tuple[Callable[[Document], Iterator[str]], str]] = {
    "onnx": (onnx_section, "Every model of the corpus: drift, time, nodes that fell back."),
    "training": (training_section, "Keras on JAX and on PyTorch, four precisions, three models."),
    "sharing": (sharing_section, "Three jobs on one card, in three precisions."),
}


def measured(document: Document) -> dict[str, Document]:
    """The cases that have a result."""
    return {name: case for name, case in document["cases"].items() if "error" not in case}


def page(documents: Mapping[str, Document]) -> str:
    """The whole page.

    Args:
        documents: by stage, the results; at least one.
    """
    on_card = [document for document in documents.values() if document["machine"]["gpu"]]
    if on_card:
        card = on_card[0]["machine"]["gpu"]
        state = f"Measured on one {card['name']}, driver {card['driver_version']}."
    else:
        state = "A REHEARSAL ON A CPU: no number on this page says anything about a card."
    parts = [INTRO.format(state=state), SINCE] if on_card else [INTRO.format(state=state)]
    parts.append(_origin(documents.values()))
    for stage, document in documents.items():
        section, what = SECTIONS[stage]
        parts.append(f"## {STAGES[stage][2]}\n\n{what}\n")
        parts += section(document)
        without = {
            name: case["error"] for name, case in document["cases"].items() if "error" in case
        }
        without |= dict.fromkeys(document.get("left", ()), "no time was left")
        if without:
            told = "\n".join(f"- {name}: {error}" for name, error in without.items())
            parts.append(f"Cases without a result:\n\n{told}\n")
    return "\n".join(parts)


def _origin(documents: Iterable[Document]) -> str:
    """Dates, devices and versions of all stages, each once."""
    found: dict[str, None] = {}
    for document in documents:
        machine = document["machine"]
        card = machine["gpu"]
        found[machine["date"]] = None
        found[", ".join(card.values()) if card else f"no card, {machine['cores']} cores"] = None
        found[f"Python {machine['python']}"] = None
        found |= {f"{name} {version}": None for name, version in machine["versions"].items()}
    return f"{'; '.join(found)}.\n"


def _drifts(case: Document, profile: str) -> tuple[float, float]:
    return (
        number(case["predicted"][profile]["drift"]),
        number(case["ways"]["fp16"]["drift"]["drift"]),
    )


def _finite_alike(case: Document, profile: str) -> bool:
    """Whether the prediction is finite where the card is."""
    return math.isfinite(number(case["ways"]["fp16"]["from"].get(profile, "inf"))) or (
        not math.isfinite(number(case["ways"]["fp16"]["drift"]["drift"]))
        and not math.isfinite(number(case["predicted"][profile]["drift"]))
    )


def _drift(value: object) -> str:
    if value is None:
        return ""
    drift = number(value)
    return f"{drift:.1e}" if math.isfinite(drift) else "not finite"


def take(folder: Path, results: Path) -> None:
    """Adds the files that a call brought back."""
    for name in ("results", "outputs"):
        (results / name).mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.rglob("*.json")):
        shutil.copyfile(path, results / "results" / path.name)
    for path in sorted(folder.rglob("*-outputs.zip")):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(results / "outputs" / path.name.removesuffix("-outputs.zip"))


def read(results: Path) -> dict[str, Document]:
    """Results by stage."""
    found = {}
    for stage in STAGES:
        path = results / f"{stage}.json"
        if path.is_file():
            document = json.loads(path.read_text(encoding="utf-8"))
            if document.get("schema") != SCHEMA or document.get("stage") != stage:
                raise SystemExit(f"{path.name} expects schema {SCHEMA} and stage {stage}")
            found[stage] = document
    return found


def main() -> int:
    """Takes files, writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--take", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--results", type=Path, default=RESULTS, help="build/gpu by default")
    parser.add_argument("--output", type=Path, default=PAGE, help="docs/gpu.md by default")
    options = parser.parse_args()
    for folder in options.take:
        take(folder, options.results)
    documents = read(options.results / "results")
    if not documents:
        raise SystemExit(f"expected results in {options.results / 'results'}: --take names folders")
    rehearsed = [stage for stage, found in documents.items() if not found["machine"]["gpu"]]
    if rehearsed and options.output == PAGE:
        print(
            f"{', '.join(rehearsed)}: measured without a card, so docs/gpu.md is left as it is. "
            "Name another page with --output to read the rehearsal.",
            file=sys.stderr,
        )
        return 2
    write_page(options.output, page(documents))
    for stage, document in documents.items():
        print(f"{stage}: {len(measured(document))} cases measured")
    return 0


if __name__ == "__main__":
    sys.exit(main())
