"""How long one call of a file takes, as the report tells it."""

import numpy as np

from tfmp.converters.report import Latency
from tfmp.converters.runners import TimedCalls


def latency_of(timed: TimedCalls) -> Latency:
    """Median and spread of single calls."""
    low, median, high = (float(value) for value in np.percentile(timed.seconds, [5, 50, 95]) * 1e3)
    info = timed.info
    return Latency(median, low, high, len(timed.seconds), timed.rows, info.name, info.device)
