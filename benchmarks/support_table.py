"""Writes docs/support.md and its table: what converts to ONNX, and what Keras's exporter does.

Every row of tests/support/sweep.py is exported by tfmp and by `model.export(format="onnx")`, run
in ONNX Runtime on the same seeded batch, and compared with Keras.

Run: python benchmarks/support_table.py [--every-application]
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scaffold import DOCS, distance, first_words, parser

PAGE = DOCS / "support.md"

import keras
import sweep
from pages import table, write_page
from quiet import quiet

from tfmp.converters.intake import open_source
from tfmp.converters.intake.source import Source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.sessions import cpu_session
from tfmp.converters.shared.tensors import synthetic_batch

NOT_SWEPT = "not swept: "


@dataclass(frozen=True)
class Outcome:
    """`difference` to Keras (relative L2), or the reason why there is none."""

    difference: float | None
    reason: str = ""

    def __str__(self) -> str:
        if self.difference is None:
            return f"no: {self.reason}"
        return f"{self.difference:.0e}" if self.difference else "0"


def ours(model: keras.Model) -> Outcome:
    """Exports with tfmp."""
    try:
        source = open_source(model)
        return Outcome(check_export(export_onnx(source), source))
    except ConversionError as error:
        return Outcome(None, first_words(str(error)))


def try_open(model: keras.Model) -> Source | None:
    """The model as a source, or None where it cannot be traced."""
    try:
        return open_source(model)
    except ConversionError:
        return None


def each(row: sweep.Row, index: int, export) -> Outcome:
    """Builds a row and exports it."""
    if index % 50 == 0:
        print(f"row {index}", file=sys.stderr, flush=True)
    outcome = export(row.build())
    keras.backend.clear_session()
    return outcome


def keras_own(model: keras.Model, source: Source | None) -> Outcome:
    """Exports with Keras, and runs what comes out on the batch that ours was checked on."""
    if source is None:
        return Outcome(None, "the model cannot be traced")
    with tempfile.TemporaryDirectory() as folder, quiet():
        path = Path(folder, "model.onnx")
        try:
            model.export(path, format="onnx", verbose=False)
            session = cpu_session(path)
            batch = synthetic_batch(source.inputs, samples=2, seed=0)
            arrays = list(batch.values())
            names = [value.name for value in session.get_inputs()]
            if len(names) != len(arrays):
                return Outcome(None, f"{len(names)} inputs instead of {len(arrays)}")
            received = session.run(None, dict(zip(names, arrays, strict=True)))
            expected = source.forward(batch).values()
        except Exception as error:
            return Outcome(None, first_words(str(error) or type(error).__name__))
    worst = distance(expected, received)
    return Outcome(worst) if worst < 1e-4 else Outcome(None, f"wrong by {worst:.1g}")


def main() -> None:
    """Sweeps and writes."""
    given = parser(__doc__)
    given.add_argument("--every-application", action="store_true", help="not one of each family")
    options = given.parse_args()
    rows = sweep.all_rows(options.every_application)
    # Keras first: our handlers, once loaded, would help its exporter too.
    theirs = [
        each(row, index, lambda m: keras_own(m, try_open(m))) for index, row in enumerate(rows)
    ]
    mine = [each(row, index, ours) for index, row in enumerate(rows)]
    write(list(zip(rows, mine, theirs, strict=True)))


def write(results: list[tuple[sweep.Row, Outcome, Outcome]]) -> None:
    """Writes the page and its table."""
    lines = [
        "# Models that convert to ONNX",
        "",
        "Written by `python benchmarks/support_table.py`. A number of the table is the largest",
        "relative L2 difference from Keras on a seeded batch; `0` means equal bit for bit. The",
        f'last column is the result of `model.export(format="onnx")` of Keras {keras.__version__}',
        "for the same model.",
        "",
    ]
    counts = [["group", "models", "tfmp", "Keras"]]
    for group in dict.fromkeys(row.group for row, _, _ in results):
        mine = [(a, b) for row, a, b in results if row.group == group]
        right, theirs = (sum(pair[i].difference is not None for pair in mine) for i in (0, 1))
        counts.append([group, *map(str, (len(mine), right, theirs))])
    rows = [(row.group, row.name, str(mine), str(theirs)) for row, mine, theirs in results]
    for group, names in sweep.NOT_SWEPT.items():
        rows += [(group, name, f"{NOT_SWEPT}{reason}", "") for name, reason in names.items()]
    whole = table([("group", "model", "tfmp", "Keras"), *rows], words=4)
    write_page(PAGE, "\n".join([*lines, table(counts), "", whole]) + "\n")
    worse = [str(row) for row, a, b in results if a.difference is None and b.difference is not None]
    print("rows where Keras's exporter is right and ours is not:", worse or "none")


if __name__ == "__main__":
    main()
