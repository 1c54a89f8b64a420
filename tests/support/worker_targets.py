"""Objects that `test_worker.py` holds in worker processes."""

import os
import sys
import time

import numpy as np

from tfmp.converters.shared.errors import ConversionError


class Target:
    """Behaves and misbehaves on request."""

    def __init__(self, start: int = 0) -> None:
        self.total = start

    def add(self, values: np.ndarray) -> np.ndarray:
        self.total += int(values.sum())
        return values + self.total

    def modules(self) -> list[str]:
        return list(sys.modules)

    def identity(self) -> int:
        return os.getpid()

    def print_to_everything(self) -> str:
        print("python output")  # noqa: T201  what a library might do
        os.write(1, b"native output\n")
        os.write(2, b"native error stream\n")
        return "clean"

    def refuse(self) -> None:
        raise ConversionError("layer 'norm': cannot be converted", "Use another one")

    def divide(self) -> float:
        return 1 / (self.total - self.total)

    def unpicklable(self) -> object:
        return lambda: None

    def abort(self) -> None:
        os.write(2, b"INFO: all is well\nE0000 cuda_dnn.cc: Unable to register\n")
        os.write(2, b"F0000 kernel.cc:12] Check failed: rank == 4\nFatal Python error\n")
        os.abort()

    def leave(self) -> None:
        os._exit(7)

    def hang(self) -> None:
        time.sleep(600)
