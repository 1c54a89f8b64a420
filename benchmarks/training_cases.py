"""Writes docs/training-cases.md: public reports of mixed-precision training, rebuilt and run again.

Every case of `tests/support/training_threads.py` is run with Keras alone and with tfmp; those that
need JAX in a process of their own.

Run: python benchmarks/training_cases.py
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from scaffold import DOCS, parser, versions

PAGE = DOCS / "training-cases.md"

import keras
from pages import line, write_page
from quiet import quiet
from training_case import Outcome, TrainingCase, run
from training_threads import training_cases


@dataclass(frozen=True)
class Row:
    """One case with its results.

    Attributes:
        thread: the report.
        keras: the outcome with Keras alone.
        tfmp: the outcome with this package.
    """

    thread: str
    keras: Outcome
    tfmp: Outcome


NOT_RUN = Outcome(False, "not run")


def rows_here(cases: list[TrainingCase], alone: bool = True) -> Iterator[Row]:
    """Runs the cases for the backend of this process, in an empty folder.

    Args:
        cases: of all backends.
        alone: run them with Keras alone, too.
    """
    if keras.backend.backend() == "tensorflow":
        _two_cpus()
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for case in cases:
                if case.backend == keras.backend.backend():
                    with quiet(), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        of_keras = run(case.keras) if alone else NOT_RUN
                        row = Row(case.thread, of_keras, run(case.tfmp))
                    yield row
        finally:
            os.chdir(before)


def _two_cpus() -> None:
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def rows_elsewhere(backend: str) -> list[Row]:
    """The rows of another backend, from a process of its own with the same options."""
    done = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], "--json", "--here"],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=True,
    )
    return [_row(**json.loads(line)) for line in done.stdout.splitlines() if line[:1] == "{"]


def _row(thread: str, keras: dict, tfmp: dict) -> Row:
    return Row(thread, Outcome(**keras), Outcome(**tfmp))


def page(rows: list[Row]) -> str:
    """The page."""
    cases = {case.thread: case for case in training_cases()}
    lines = ["# Training cases", "", *_introduction(rows), ""]
    lines += [
        "| # | report | the trouble | Keras today | tfmp |",
        "| ---: | --- | --- | --- | --- |",
    ]
    for number, row in enumerate(rows, 1):
        case = cases[row.thread]
        cells = f"[{case.thread}]({case.link})", case.title, str(row.keras), str(row.tfmp)
        lines.append(line([str(number), *cells]))
    return "\n".join(lines) + "\n"


def _introduction(rows: list[Row]) -> list[str]:
    packages = versions(("keras", "tensorflow", "jax"))
    return [
        f"Written by `python benchmarks/training_cases.py` with {packages}, on a CPU.",
        "",
        f"{len(rows)} public reports of trouble with mixed-precision training in Keras and "
        "TensorFlow, each rebuilt small and run with Keras's policy and wrapper of today, and with "
        'tfmp. "yes" says that users get the result that the report asks for: the training is '
        "finite and learns, states survive their file, or a sentence names the mistake. Many of "
        'these reports are years old, and Keras has mended them since; a "no" is today\'s result.',
        "",
        f"- Keras alone: yes for {sum(row.keras.good for row in rows)} of {len(rows)}.",
        f"- With tfmp: yes for {sum(row.tfmp.good for row in rows)} of {len(rows)}.",
    ]


def main() -> None:
    """Runs and writes."""
    given = parser(__doc__)
    given.add_argument("--only", default="", help="cases whose names have this; no page")
    given.add_argument("--here", action="store_true", help="only the backend of this process")
    given.add_argument("--tfmp", action="store_true", help="not with Keras alone; no page")
    given.add_argument("--json", action="store_true", help="a JSON object for each row; no page")
    options = given.parse_args()
    cases = [case for case in training_cases() if options.only in case.thread]
    rows = []
    for row in rows_here(cases, not options.tfmp):
        rows.append(row)
        shown = (
            json.dumps(asdict(row)) if options.json else f"{row.thread} | {row.keras} | {row.tfmp}"
        )
        print(shown, flush=True)
    here = keras.backend.backend()
    for backend in sorted({case.backend for case in cases} - {here}) if not options.here else ():
        for row in rows_elsewhere(backend):
            rows.append(row)
            print(json.dumps(asdict(row)) if options.json else f"{row.thread} | {row.tfmp}")
    order = [case.thread for case in cases]
    rows.sort(key=lambda row: order.index(row.thread))
    if not (options.only or options.tfmp or options.json or options.here):
        write_page(PAGE, page(rows))


if __name__ == "__main__":
    main()
