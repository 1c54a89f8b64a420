"""How long one call of a file or a model takes, as the report tells it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tfmp.converters.intake import AnySource, Source
from tfmp.converters.report import Latency
from tfmp.converters.runners import RunnerInfo, TimedCalls, time_in_worker
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.atomic_file import temporary_folder

# The model as it was trained, and as Keras's mixed precision runs it.
_POLICIES = ("float32", "mixed_float16")


def latency_of(timed: TimedCalls) -> Latency:
    """Median and spread of single calls."""
    low, median, high = (float(value) for value in np.percentile(timed.seconds, [5, 50, 95]) * 1e3)
    info = timed.info
    return Latency(
        *(median, low, high, len(timed.seconds), timed.rows, info.name, info.device),
        memory_bytes=timed.memory_bytes,
    )


def keras_latencies(
    source: AnySource, calls: Mapping[int, Batch], device: str
) -> tuple[tuple[Latency, ...], tuple[str, ...]]:
    """A Keras model in float32 and in mixed precision, each call in a process of its own.

    Args:
        source: the model; of one that Keras 3 has not opened, nothing is measured.
        calls: by number of samples, the arrays of a call by input name.
        device: "CPU" or "GPU".

    Returns:
        The latencies, and a note where they could not be measured.
    """
    if not isinstance(source, Source) or source.keras_model is None:
        return (), ()
    found = []
    info = RunnerInfo("keras", device, None)
    with temporary_folder() as folder:
        path = folder / "model.keras"
        try:
            source.keras_model.save(path)
            for policy in _POLICIES:
                for rows, call in calls.items():
                    timed = time_in_worker("keras", path, call, rows, info, policy, device)
                    found.append(replace(latency_of(timed), policy=policy))
        except RunnerError as error:
            return tuple(found), (f"latency of Keras not measured: {error}",)
        except Exception as error:  # whatever a custom layer raises when it is saved
            note = f"latency of Keras not measured, as the model cannot be saved: {error}"
            return (), (note,)
    return tuple(found), ()
