"""`tfmp-convert plan` tells how many samples verdicts need."""

import json

import pytest
from click.testing import CliRunner, Result

from tfmp.converters.commands.cli import main


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def test_without_a_limit_it_tells_of_the_default_flip_rate() -> None:
    result = plan()
    assert result.exit_code == 0, result.output
    assert "flip_rate of at most 0.01 (0.95 confidence)" in result.stdout
    assert "299" in result.stdout
    assert "accuracy_drop" not in result.stdout
    document = json.loads(plan("--confidence", "0.99", "--json").stdout)
    assert document["flip_rate"]["seen"][0]["passes_from"] == 459
    told = "A PASS needs at least 299 samples, and more with each flip among them.\n"
    assert plan("--quiet").output == told
    assert plan("-q", "--flip-rate", "1e-9").output.startswith("100,000,000 samples are too few")


def test_limits_and_samples_that_are_asked_for() -> None:
    result = plan("--flip-rate", "0.02", "--accuracy-drop", "0.01", "--samples", "500")
    text = " ".join(result.stdout.split())
    assert "a PASS has at most 4 flips and a FAIL at least 16 flips; any other number" in text
    assert "a PASS has at most 1 lost answer and a FAIL at least 11 lost answers, if none" in text
    document = json.loads(plan("--accuracy-drop", "0.01", "--json").stdout)
    assert list(document) == ["samples", "accuracy_drop"]
    assert document["accuracy_drop"]["seen"][0]["passes_from"] == 273


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flip-rate", "1.5"], "flip_rate: expected a share of more than 0 and less than 1, suc"),
        (["--flip-rate", "0"], "such as 0.01 for 1 %; received '0'."),
        (["--accuracy-drop", "none"], "accuracy_drop: expected a share of more than 0"),
        (["--accuracy-drop", "few"], "'few' is not a value of accuracy_drop; expected a number"),
        (["--samples", "0"], "samples: expected a whole number of at least 1, received 0."),
    ],
)
def test_mistakes_are_one_message(arguments: list[str], message: str) -> None:
    result = plan(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
