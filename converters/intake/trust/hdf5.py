"""HDF5 files whose values lie in the file itself.

A dataset of HDF5 may keep its values in other files, by their names (external storage), or be put
together from datasets of other files (virtual), and a link may lead into another file. Whoever
reads such a file reads whatever lies at these places.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tfmp.converters.shared.errors import InputError
from tfmp.shared.wording import one_line


@contextmanager
def open_hdf5(file: Path | IO[bytes]) -> Iterator[Any]:
    """The `h5py.File`, to read; every reader of a file from elsewhere opens it first in this way.

    Args:
        file: the path, or the bytes.

    Raises:
        InputError: it refers to values outside of itself, or it is damaged.
    """
    import h5py

    try:
        with h5py.File(file, "r") as opened:
            outside = next(_outside(opened), None)
            if outside is not None:
                raise InputError(
                    f"{outside}, and what lies there would become a weight",
                    "If those files are yours, load the model in Python and save it again, which "
                    "copies them into it",
                )
            yield opened
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(
            f"HDF5 cannot read this file ({one_line(error)[:300]})",
            "It is damaged: copy or save the model again",
        ) from error


def _outside(file: Any) -> Iterator[str]:
    """A beginning of a sentence for each link and dataset that leads out of the file."""
    from h5py import h5d, h5g, h5l, h5o

    waiting, seen = [("", file.id)], set()
    while waiting:
        path, group = waiting.pop()
        for name in group:
            link = f"{path}/{name.decode(errors='replace')}"
            kind = group.links.get_info(name).type
            if kind == h5l.TYPE_SOFT:
                continue  # leads to a place in this file, which is looked at itself
            if kind != h5l.TYPE_HARD:
                yield f"{link!r} is a link into another file"
                continue
            item = h5o.open(group, name)
            if isinstance(item, h5d.DatasetID):
                stored = item.get_create_plist()
                if stored.get_external_count():
                    yield f"the array {link!r} is stored in {_place(stored)!r}"
                elif stored.get_layout() == h5d.VIRTUAL:
                    yield f"the array {link!r} is made of arrays of other files"
            elif isinstance(item, h5g.GroupID):
                place = h5o.get_info(item).addr
                if place not in seen:
                    seen.add(place)
                    waiting.append((link, item))


def _place(stored: Any) -> str:
    """The first of the files that an array is stored in."""
    name = stored.get_external(0)[0]
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
