"""Logical devices of one card, each with a stream of its own: kernels of jobs at the same time.

A process has one stream for the kernels of a card, on TensorFlow and JAX alike. TensorFlow can
split a card into logical devices, and each of these has a stream. It must be told before it first
uses the card.
"""

import keras

from tfmp.colocation.mode_names import PROCESSES, STREAMS
from tfmp.machine import free_memory

# The part of the card's free memory that is handed out; libraries take some more.
_HANDED_OUT = 0.9


def stream_devices(count: int, memory_limit: int | None = None) -> list[str]:
    """The names of so many logical devices on the first card, or on the CPU where there is none.

    Args:
        count: number of devices.
        memory_limit: bytes for each of them on a card; None shares out the card's free memory.

    Raises:
        ValueError: the backend has no logical devices, TensorFlow has begun with fewer of them, or
            the card's memory is unknown.
    """
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"Mode {STREAMS!r} expects the backend TensorFlow; {keras.backend.backend()} has one "
            f"stream for all jobs of a process. Choose mode {PROCESSES!r}."
        )
    import tensorflow as tf

    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    card = tf.config.list_physical_devices(kind)[0]
    there = tf.config.get_logical_device_configuration(card) or []
    if len(there) < count:
        share = _share(count, memory_limit) if kind == "GPU" else None
        part = tf.config.LogicalDeviceConfiguration(memory_limit=share)
        try:
            tf.config.set_logical_device_configuration(card, [part] * count)
        except RuntimeError as error:
            raise ValueError(
                f"Mode {STREAMS!r} expects {count} logical devices, but TensorFlow has begun with "
                f"{max(1, len(there))}: begin with this mode in a new process, before any other "
                "use of TensorFlow."
            ) from error
    return [device.name for device in tf.config.list_logical_devices(kind)[:count]]


def _share(count: int, memory_limit: int | None) -> int:
    """The MiB of each logical device."""
    free = free_memory()
    if memory_limit is None and free is None:
        raise ValueError(
            f"Mode {STREAMS!r} shares out the card's free memory, but NVIDIA's driver does not "
            "tell how much it is: pass memory_limit, the bytes for each job."
        )
    return (memory_limit or int(_HANDED_OUT * (free or 0) / count)) // 2**20
