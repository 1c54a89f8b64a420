"""Node data for Model Explorer: a value and a colour for each node, in the form that it reads."""

import json
from dataclasses import replace

import pytest

from tfmp.converters.report.model import NODE_DATA, render, suffix_of
from tfmp.converters.shared.errors import InputError

# The fields of GraphNodeData in node_data_builder.py of ai-edge-model-explorer 0.1.34.
FIELDS = {
    "results",
    "name",
    "hideAggregatedStats",
    "hideInChildrenStatsTable",
    "showExpandedSummaryOnGroupNode",
}


@pytest.mark.parametrize(
    ("suffix", "values"),
    [
        (
            ".nodes.json",
            {
                "n/Conv": 0.0002,
                "n/Add": 0.0002,
                "probs/Mul": "not finite",
                "probs/Neg": 0.002,
                "h": 0.5,
            },
        ),
        (
            ".peak.nodes.json",
            {"n/Conv": 3.0, "n/Add": 3.0, "probs/Mul": 9e4, "probs/Neg": 12300.0, "h": 1.0},
        ),
    ],
)
def test_a_node_has_its_layers_number_and_in_the_culprit_its_own(report, suffix, values) -> None:
    document = json.loads(render(report, suffix), parse_constant=pytest.fail)
    assert list(document) == ["graph of probs"]
    (graph,) = document.values()
    assert set(graph) <= FIELDS
    assert graph["name"] == suffix.split(".")[1].replace("nodes", "error")
    results = graph["results"]
    assert {name: result["value"] for name, result in results.items()} == values
    assert {key for result in results.values() for key in result} <= {
        "value",
        "bgColor",
        "textColor",
    }


def test_colours(report) -> None:
    (graph,) = json.loads(render(report, ".nodes.json")).values()
    colours = {name: result["bgColor"] for name, result in graph["results"].items()}
    assert [name for name, result in graph["results"].items() if "textColor" in result] == [
        "probs/Mul"
    ]
    blue = {name: int(colour[5:], 16) for name, colour in colours.items()}
    assert blue["n/Conv"] > blue["probs/Neg"] > blue["h"]
    (graph,) = json.loads(render(report, ".peak.nodes.json")).values()
    colours = {name: result.get("bgColor") for name, result in graph["results"].items()}
    assert colours["n/Conv"] is colours["h"] is None
    assert None is not colours["probs/Neg"] != colours["probs/Mul"] is not None


@pytest.mark.parametrize("suffix", NODE_DATA)
def test_a_report_without_layers_says_how_to_get_them(make_report, suffix) -> None:
    with pytest.raises(InputError, match=r"does not have\. Compare again with --explain"):
        render(make_report(names=("good.onnx",)), suffix)


def test_two_files_with_one_graph_and_layers_that_could_not_be_measured(report) -> None:
    explained = next(c for c in report.candidates if c.explanation is not None)
    twin = replace(explained, name="twin.onnx")
    with pytest.raises(InputError, match=r"'broken.onnx' and 'twin.onnx' both have a graph"):
        render(replace(report, candidates=(explained, twin)), ".nodes.json")
    other = replace(twin, explanation=replace(explained.explanation, graph="main"))
    document = json.loads(render(replace(report, candidates=(explained, other)), ".nodes.json"))
    assert list(document) == ["graph of probs", "main"]
    explained = next(c for c in report.candidates if c.explanation is not None)
    failed = replace(explained.explanation, layers=(), culprit=None, error="out of memory")
    report = replace(report, candidates=(replace(explained, explanation=failed),))
    assert json.loads(render(report, ".nodes.json")) == {}


@pytest.mark.parametrize(
    ("path", "suffix"),
    [
        ("drift.json", ".json"),
        ("out.nodes/drift.json", ".json"),
        ("drift.nodes.json", ".nodes.json"),
        ("a.b.PEAK.nodes.JSON", ".peak.nodes.json"),
        ("precision.nodes.json", ".nodes.json"),
        ("nodes.json", ".json"),
        ("README.card.md", ".card.md"),
        ("card.md", ".md"),
        (".json", ""),
        ("drift.txt", ""),
    ],
)
def test_the_longest_suffix_decides(path: str, suffix: str) -> None:
    assert suffix_of(path) == suffix
