"""What C++ libraries write to stderr when they load, held back unless loading fails."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """Keeps what is written to stderr in this block, and shows it only if the block raises.

    TensorFlow greets with lines about oneDNN and CUDA before it reads TF_CPP_MIN_LOG_LEVEL.
    Ctrl-C is no failure: nothing is shown then either.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except Exception:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
