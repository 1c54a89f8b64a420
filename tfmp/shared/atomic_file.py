"""Writes a file as a whole: after a failure, or Ctrl-C, the old file is still there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary path in the same folder that takes the place of `path` on success."""
    handle, name = tempfile.mkstemp(
        prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent or Path(".")
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes it private
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
