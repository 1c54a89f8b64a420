"""Named ranges on the timeline of Nsight Systems, by NVIDIA's package `nvtx`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any, TypeAlias

# A function that gives the block that begins and ends a range with a name.
Mark: TypeAlias = Callable[[str], AbstractContextManager[Any]]

# The domain of these ranges; libraries have their own.
DOMAIN = "tfmp"


def nvtx_marks(on: bool) -> Mark:
    """Ranges in the domain "tfmp" if they are asked for, and blocks that do nothing otherwise.

    Raises:
        ValueError: they are asked for, but the package `nvtx` is not installed.
    """
    if not on:
        return nullcontext
    if find_spec("nvtx") is None:
        raise ValueError(
            "NVTX ranges need the package nvtx, which is not installed. Run: pip install "
            '"tfmp[profile]"'
        )
    import nvtx

    return lambda name: nvtx.annotate(name, domain=DOMAIN)
