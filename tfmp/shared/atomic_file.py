"""Writes a file as a whole: after a failure, or Ctrl-C, all is as it was before."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary path in the same folder that takes the place of `path` on success.

    The folder is made where there is none; see `making`.
    """
    with making(path.parent):
        handle, name = tempfile.mkstemp(
            prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent
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


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Makes a folder where there is none; after a failure inside, removes all that it made."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # missing still, or in use by somebody else
            for each in missing:
                each.rmdir()
        raise
