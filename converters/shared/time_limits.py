"""The time that a model from a file may take: a loop in it, or in its damage, may have no end."""

from contextlib import AbstractContextManager
from pathlib import Path

from tfmp.shared.watched import within

# Large models take some seconds for a sample on a slow machine.
_SECONDS = 30.0
_SECONDS_A_SAMPLE = 10.0

# HDF5 may look for a damaged value for ever. Large models take Keras a while, and slow disks of
# networks give more than this.
_READING_SECONDS = 60.0
_BYTES_A_SECOND = 2e6


def called_in_time(model: str, samples: int) -> AbstractContextManager[None]:
    """Has a command ended that calls a model with some samples and takes longer; see `within`."""
    return within(_SECONDS + _SECONDS_A_SAMPLE * samples, f"a call of model {model!r}")


def read_in_time(path: Path, size: int) -> AbstractContextManager[None]:
    """Has a command ended that reads a file or folder of this many bytes for longer."""
    return within(_READING_SECONDS + size / _BYTES_A_SECOND, f"the reading of {path}")
