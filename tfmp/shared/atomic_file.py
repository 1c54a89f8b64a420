"""Files that are written whole or not at all, and the traces of runs that were killed at it.

A file is made in a draft, a hidden folder `.tfmp-BOOT-NUMBER` beside its place, and moved there
when it is complete. For as long as its run lives, the run holds a lock on this folder. A run that
is killed leaves the folder, and the lock is free: the next run that writes beside it removes it.
Folders for temporary files are drafts in the system's own folder for them.
"""

import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfmp.shared.wording import full_disk

try:
    import fcntl
except ImportError:  # Windows: drafts without a lock, which no other run removes
    fcntl = None  # type: ignore[assignment]

# The run of the system is in the name: the locks of another one, or machine, are not seen here.
_NAME = re.compile(r"\.tfmp-[0-9a-f]{8}-[0-9a-f]{16}")

# No run writes in one draft for so long.
_FORGOTTEN_SECONDS = 7 * 86400.0

# Drafts of this process, each with the number of its open folder, which holds the lock.
_live: dict[Path, int | None] = {}

# Told of each folder that gets a draft.
_listeners: list[Callable[[Path], None]] = []


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives the path of a draft that takes the place of `path` on success.

    After a failure, or Ctrl-C, all is as it was before. The folder is made where there is none;
    see `making`.
    """
    with making(path.parent), draft(path.parent) as folder, naming(path):
        yield folder / path.name
        (folder / path.name).replace(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Has an error of a full disk name the file or folder that is written inside.

    The system tells the name of a file that cannot be opened, but not of one that is open.
    """
    try:
        yield
    except Exception as error:
        if full_disk(error) and getattr(error, "filename", None) is None:
            error.filename = str(path)  # type: ignore[attr-defined]
        raise


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


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of one's own among the system's temporary files, for as long as the block lasts."""
    import tempfile

    with draft(Path(tempfile.gettempdir())) as folder:
        yield folder


@contextmanager
def draft(folder: Path) -> Iterator[Path]:
    """A folder of one's own in `folder`; it is removed at the end with all that is still in it.

    Raises:
        OSError: it cannot be made.
    """
    folder = folder.absolute()
    for listener in _listeners:
        listener(folder)
    remove_abandoned(folder)
    place = folder / f".tfmp-{_boot()}-{os.urandom(8).hex()}"
    try:
        with naming(folder):
            _live[place] = _locked(place)
            yield place
    finally:
        _drop(place)


def remove_abandoned(folder: Path) -> None:
    """Removes the drafts in `folder` of runs that have ended in any way.

    A draft is left where it may be in use: its lock is held, or cannot be taken. So is all that has
    the name of a draft and is none, or somebody else's.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [each.name for each in entries if fcntl and _NAME.fullmatch(each.name)]:
            with suppress(OSError):
                _remove_abandoned(Path(folder, name))


def drop_drafts() -> None:
    """Removes the drafts of this process, which is about to end without more ado."""
    for place in list(_live):
        _drop(place)


def tell_of_drafts(listener: Callable[[Path], None]) -> None:
    """Calls `listener` with every folder that this process makes a draft in, before it does."""
    _listeners.append(listener)


def _locked(place: Path) -> int | None:
    """Makes a draft, and gives the number of its open folder, which is locked.

    None where there are no locks.
    """
    while True:
        place.mkdir(mode=0o700, exist_ok=True)
        if fcntl is None:
            return None
        with suppress(FileNotFoundError):  # another run found it before it was locked
            handle = os.open(place, os.O_RDONLY)
            with suppress(OSError):  # not on this file system: then nobody gets the lock
                fcntl.flock(handle, fcntl.LOCK_EX)
            if place.exists():
                return handle
            os.close(handle)


def _boot() -> str:
    """The run of the system, by which its locks are known to be seen; else the machine."""
    try:
        told = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        import platform

        told = platform.node()
    return f"{zlib.crc32(told.encode()):08x}"


def _drop(place: Path) -> None:
    """Ends a draft of this process; what cannot be removed stays for the next run."""
    handle = _live.get(place)
    with suppress(OSError):
        shutil.rmtree(place)
    if handle is not None:
        with suppress(OSError):
            os.close(handle)
    _live.pop(place, None)


def _remove_abandoned(place: Path) -> None:
    """Removes a draft whose lock nobody holds."""
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(handle)
        seen = place.name.startswith(f".tfmp-{_boot()}-")
        recent = time.time() - facts.st_mtime < _FORGOTTEN_SECONDS
        if facts.st_uid == os.geteuid() and (seen or not recent):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place)
    finally:
        os.close(handle)
