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
                    f"the values of {outside!r} lie in other files, and would become a weight",
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
    """The first place whose values lie elsewhere."""
    import h5py

    def leads_out(path: str, link: Any) -> str | None:
        if isinstance(link, h5py.SoftLink):
            return None  # leads to a place in this file, which is looked at itself
        item = file[path] if isinstance(link, h5py.HardLink) else None
        held = not isinstance(item, h5py.Dataset) or not (item.external or item.is_virtual)
        return None if item is not None and held else path

    try:
        return file.visititems_links(leads_out)
    except TypeError:  # a link that h5py has no class for
        return "a link that a program registers"
