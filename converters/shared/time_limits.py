"""The time that calls of a model from a file may take, as a loop in it may have no end."""

from contextlib import AbstractContextManager

from tfmp.shared.watched import within

# Large models take some seconds for a sample on a slow machine.
_SECONDS = 30.0
_SECONDS_A_SAMPLE = 10.0


def called_in_time(model: str, samples: int) -> AbstractContextManager[None]:
    """Has a command ended that calls a model with some samples and takes longer; see `within`."""
    return within(_SECONDS + _SECONDS_A_SAMPLE * samples, f"a call of model {model!r}")
