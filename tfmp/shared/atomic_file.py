"""Files that are written whole or not at all, and the traces of runs that were killed at it.

A file is made in a draft, a hidden folder `.tfmp-NUMBER` beside its place, and moved there when it
is complete. For as long as its run lives, the run holds a lock on `.tfmp-NUMBER.lock`. A run that
is killed leaves both, and the lock is free: the next run that writes in the same folder removes
them. Folders for temporary files are drafts in the system's own folder for them.
"""

import mmap
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfmp.shared.wording import full_disk

try:
    import fcntl
except ImportError:  # Windows: drafts without a lock, which no other run removes
    fcntl = None  # type: ignore[assignment]

_LOCK_NAME = re.compile(r"\.tfmp-[0-9a-f]{16}\.lock")
_LOCK_TEXT = "A run of tfmp writes here on boot {}.\nIf none does, remove this and its folder.\n"

# Another machine's lock may not be seen here; no run writes in one draft for so long.
_FORGOTTEN_SECONDS = 7 * 86400.0

# Inside a draft: files beside it that go with it, unless the file that each note names names them.
_UNNAMED = "unnamed"

# Drafts of this process, each with the file that holds its lock.
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
    place = folder / f".tfmp-{os.urandom(8).hex()}"
    try:
        _live[place] = _locked(_lock_of(place))
        with naming(folder):
            place.mkdir(mode=0o700)
            yield place
    finally:
        _drop(place)


def remove_unless_named(place: Path, name: str, by: str) -> None:
    """Has the end of a draft remove a file beside it, unless another one names it then.

    It is removed whether the draft ends in order or its run is killed, so that this can be said
    before the file is there.

    Args:
        place: the draft.
        name: of the file, in the same folder as the draft.
        by: name of the file there that decides.
    """
    notes = place / _UNNAMED
    notes.mkdir(exist_ok=True)
    (notes / name).write_text(by, encoding="utf-8")


def remove_abandoned(folder: Path) -> None:
    """Removes the drafts in `folder` of runs that have ended in any way.

    A draft is left where it may be in use: its lock is held, or cannot be taken, as on some
    network file systems. So is all that has the name of a draft and is none, or somebody else's.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [each.name for each in entries if _LOCK_NAME.fullmatch(each.name)]:
            with suppress(OSError):
                _remove_abandoned(Path(folder, name))


def drop_drafts() -> None:
    """Removes the drafts of this process, which is about to end without more ado."""
    for place in list(_live):
        _drop(place)


def tell_of_drafts(listener: Callable[[Path], None]) -> None:
    """Calls `listener` with every folder that this process makes a draft in, before it does."""
    _listeners.append(listener)


def _lock_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.lock")


def _locked(path: Path) -> int | None:
    """A new file that tells of a run that writes, open and locked.

    None where there are no locks: nothing is written then, and nobody takes the draft for
    abandoned. Where the system can, the file gets its name when it is locked and complete.
    """
    if fcntl is None:
        return None
    text = _LOCK_TEXT.format(_boot()).encode()
    try:
        handle = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
    except (AttributeError, OSError):  # not on this system, or not on this file system
        handle = -1
    if handle >= 0:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.write(handle, text)
            # With a `src_dir_fd`, Python has the link in /proc followed.
            os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle)
            return handle
        os.close(handle)
    with suppress(OSError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.write(handle, text)
        except OSError:
            os.close(handle)
            path.unlink()
            return None
        return handle
    return None


def _boot() -> str:
    """The run of the system, by which its locks are known to be seen; else the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        import platform

        return platform.node()


def _drop(place: Path) -> None:
    """Ends a draft of this process; what cannot be removed stays for the next run."""
    handle = _live.get(place)
    with suppress(OSError):
        _remove(place)
    if handle is not None:
        with suppress(OSError):
            os.close(handle)
    _live.pop(place, None)


def _remove(place: Path) -> None:
    """Removes a draft, then its lock: the lock tells that the draft is a draft."""
    if place.exists():
        _remove_unnamed(place)
        shutil.rmtree(place)
    _lock_of(place).unlink(missing_ok=True)


def _remove_unnamed(place: Path) -> None:
    """Removes the files of `remove_unless_named` that are named by nothing."""
    with suppress(FileNotFoundError):
        for note in list((place / _UNNAMED).iterdir()):
            owner = place.parent / note.read_text(encoding="utf-8")
            if not _names(owner, os.fsencode(note.name)):
                (place.parent / note.name).unlink(missing_ok=True)


def _names(file: Path, name: bytes) -> bool:
    """Whether a file holds a name; a file that cannot be read may."""
    try:
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            return text.find(name) >= 0
    except (FileNotFoundError, ValueError):  # gone, meanwhile, or empty
        return False
    except OSError:
        return True


def _remove_abandoned(lock: Path) -> None:
    """Removes the draft of a lock that nobody holds."""
    handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_nlink != 1:
            return
        text = os.pread(handle, 4096, 0).decode(errors="replace")
        boot = text.partition(" on boot ")[2].partition(".\n")[0]
        if text != _LOCK_TEXT.format(boot):
            return
        if boot != _boot() and time.time() - facts.st_mtime < _FORGOTTEN_SECONDS:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(facts, os.lstat(lock)):  # somebody else removed it, meanwhile
            return
        place = lock.with_suffix("")
        with suppress(FileNotFoundError):
            facts = os.lstat(place)
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
                return
        _remove(place)
    finally:
        os.close(handle)
