"""MixedPrecision under MirroredStrategy, in a process with two virtual CPUs."""

import json
import os
import subprocess
import sys

import pytest
from repository import SUPPORT

SCRIPT = SUPPORT / "mirrored_callback.py"

# The sample of distributed training shows the plan and the wrapped optimizer quickly.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> dict:
    logs = tmp_path_factory.mktemp("logs")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(logs)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = (logs / "tfmp.jsonl").read_text().splitlines()
    return {**json.loads(done.stdout.splitlines()[-1]), "log": [json.loads(x) for x in lines]}


def test_a_nan_on_one_replica_skips_the_step_on_both_and_revert_undoes_all(result):
    assert result["dtypes"] == ["float16", "float32"]
    assert result["iterations"] == 4 + 8 - 2  # float32 epoch, two mixed ones, two skips
    assert result["history"]["skipped_steps"] == [1, 1]
    assert result["history"]["loss_scale"] == [2.0**14, 2.0**13]
    assert result["replicas_agree"]
    assert result["weights_finite"]
    assert "skipped 2 of 8 steps" in result["report"]
    assert [record["step"] for record in result["log"]] == [8, 12]
    assert result["after_revert"] == ["Adam", "float32"]


def test_a_layer_that_overflows_on_the_second_replica_is_found_and_moved(result):
    overflow = result["overflow"]
    assert (overflow["dtypes"]["first"], overflow["dtypes"]["sums"]) == ("float16", "float32")
    assert any("Moved to float32: sums." in text for text in overflow["events"])
    assert overflow["steps"] == 4 * 4  # none is lost to the look at a batch


def test_a_skipped_step_leaves_no_trace_in_the_layers_states_of_any_replica(result):
    own, shared = result["layers_states"]
    # Two steps of three, towards 8.
    assert own == pytest.approx([6.0, 6.0], rel=1e-2)
    assert shared == pytest.approx([6.0, 6.0], rel=1e-2)
