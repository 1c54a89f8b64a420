"""Makes tf2onnx give the same graph for the same model in every process.

tf2onnx walks sets of names and of nodes. Python orders these by hashes, which differ from process
to process, and by memory addresses. The order decides which of two equal nodes survives, and the
names and places of the others. tf2onnx also writes addresses into names. In this module it finds a
`set` that remembers the order and an `id` that counts.
"""

import sys
from collections.abc import Iterable, Iterator, MutableSet
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class OrderedSet(MutableSet[Item]):
    """A set in the order of insertion, with the methods that tf2onnx uses."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items: dict[Item, None] = dict.fromkeys(items) if items else {}

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item) -> None:
        """Adds `item` behind the others."""
        self._items[item] = None

    def discard(self, item: Item) -> None:
        """Removes `item` if it is there."""
        self._items.pop(item, None)

    # Under the names that `set` has for the operators.
    update, union, issubset = MutableSet.__ior__, MutableSet.__or__, MutableSet.__le__
    intersection = MutableSet.__and__


class Numbers:
    """Stands in for `id`: counts objects in the order in which they are asked about.

    Like addresses, the numbers are none that anything else may have: tf2onnx keeps the inputs of a
    product by their position and its steps by `id` in one table, and fails where two meet.
    """

    FIRST = 2**20

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, object]] = {}

    def __call__(self, item: object) -> int:
        # Holding the object keeps its address from being another's.
        return self._known.setdefault(id(item), (self.FIRST + len(self._known), item))[0]


@contextmanager
def reproducible(package: str) -> Iterator[None]:
    """Lets the loaded modules of `package` use these replacements of `set` and `id` inside.

    A name that a module's functions read is looked up in the module before the built-in one.
    """
    replaced = {"set": OrderedSet, "id": Numbers()}
    modules = [
        vars(module)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == package and not replaced.keys() & vars(module).keys()
    ]
    for names in modules:
        names.update(replaced)
    try:
        yield
    finally:
        for names in modules:
            for name in replaced:
                del names[name]
