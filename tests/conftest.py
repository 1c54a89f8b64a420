"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

# Before any test imports TensorFlow: its start-up chatter is no part of a result.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of real trained models named by TFMP_ZOO."""
    folder = os.environ.get("TFMP_ZOO")
    if not folder:
        pytest.skip("TFMP_ZOO is not set: it names the folder of trained models")
    return Path(folder)
