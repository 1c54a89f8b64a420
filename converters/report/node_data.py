"""The errors inside a file as node data of Model Explorer, which shows it on the graph.

The format is that of `node_data_builder.py` in the package ai-edge-model-explorer 0.1.34: for each
graph by its name, a value and a colour for each node. Model Explorer knows nodes of TFLite files by
the name of a result, and nodes of ONNX files by their own.
"""

import json
import math
from collections.abc import Callable, Iterator

from tfmp.converters.report.explanation import Explanation, LayerError
from tfmp.converters.report.figures import error_share, largest_error
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.shared.errors import InputError
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.report_files import JsonObject

# Colours of nodes: an error is between the first two, on its scale.
_SMALL, _LARGE = (255, 255, 255), (245, 158, 66)
_CULPRIT = {"bgColor": "#b3261e", "textColor": "#ffffff"}
_NEAR = {"bgColor": "#f9d27d"}

# The sum of the errors or peaks in a group says nothing.
_NO_SUMS = {"hideAggregatedStats": ["sum", "avg"], "hideInChildrenStatsTable": True}

# Peaks from here on have colour: another batch of samples may well overflow.
_NEARLY = FLOAT16.max / 8


def errors(report: DriftReport) -> str:
    """The error at each node; raises as `_of_graphs` does."""
    return _of_graphs(report, _errors)


def peaks(report: DriftReport) -> str:
    """The largest magnitude at each node in FP32."""
    return _of_graphs(report, _peaks)


def _of_graphs(report: DriftReport, data_of: Callable[[Explanation], JsonObject]) -> str:
    """Node data of all candidates whose layers were measured.

    Raises:
        InputError: nothing was explained, or two candidates have a graph of the same name.
    """
    explained: dict[str, CandidateReport] = {}
    graphs: JsonObject = {}
    for candidate in report.candidates:
        found = candidate.explanation
        if found is None:
            continue
        if found.graph in explained:
            raise InputError(
                f"node data (*.nodes.json) holds one file for each graph, and "
                f"{explained[found.graph].name!r} and {candidate.name!r} both have a graph "
                f"{found.graph!r}. Compare one of them at a time."
            )
        explained[found.graph] = candidate
        if found.layers:
            graphs[found.graph] = data_of(found)
    if not explained:
        raise InputError(
            "node data (*.nodes.json) shows the errors of layers, which this report does not have. "
            "Compare again with --explain (explain=True)."
        )
    return json.dumps(graphs, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _by_node(found: Explanation) -> Iterator[tuple[str, LayerError]]:
    """The errors that are shown at each node: its layer's or, in the culprit, its own."""
    own = {row.layer: row for row in (found.culprit.nodes if found.culprit else ())}
    for layer in found.layers:
        for name in layer.nodes:
            yield name, own.get(name, layer)


def _errors(found: Explanation) -> JsonObject:
    rows = list(_by_node(found))
    largest = largest_error(row for _, row in rows)
    named = found.culprit.node if found.culprit else ""
    results = {
        name: {
            "value": _short(row.cumulative) if math.isfinite(row.cumulative) else "not finite",
            **(
                _CULPRIT
                if name == named
                else {"bgColor": _heat(error_share(row.cumulative, largest))}
            ),
        }
        for name, row in rows
    }
    return {"name": "error", "results": results, **_NO_SUMS}


def _peaks(found: Explanation) -> JsonObject:
    results: JsonObject = {}
    for name, row in _by_node(found):
        high = row.peak > _NEARLY
        colour = _CULPRIT if row.peak > FLOAT16.max else _NEAR if high else {}
        results[name] = {"value": _short(row.peak), **colour}
    return {"name": "peak", "results": results, **_NO_SUMS}


def _short(number: float) -> float:
    """With as many digits as are read on a node."""
    return float(f"{number:.3g}")


def _heat(share: float) -> str:
    mixed = (round(a + (b - a) * share) for a, b in zip(_SMALL, _LARGE, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
