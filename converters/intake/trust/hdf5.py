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
            if outside := _outside(opened):
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


def _outside(file: Any) -> str | None:
    """The beginning of a sentence on a link or dataset that leads out of the file."""
    import h5py

    def told(path: str, link: Any) -> str | None:
        if isinstance(link, h5py.SoftLink):
            return None  # leads to a place in this file, which is looked at itself
        if not isinstance(link, h5py.HardLink):
            return f"'/{path}' is a link into another file"
        item = file[path]
        if isinstance(item, h5py.Dataset) and item.external:
            return f"the array '/{path}' is stored in {item.external[0][0]!r}"
        if isinstance(item, h5py.Dataset) and item.is_virtual:
            return f"the array '/{path}' is made of arrays of other files"
        return None

    try:
        return file.visititems_links(told)
    except TypeError:  # a link that h5py has no class for
        return "a link is of a kind that a program registers"
