"""Names that TensorFlow takes for a scope; Keras takes any, such as "my layer" or "caché"."""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

# TensorFlow's rule for names of nodes (it lets scopes break it), and what substitutes leave out.
_SCOPE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./-]*(>[A-Za-z0-9.][A-Za-z0-9_./-]*)*")
_OTHERS = re.compile(r"[^A-Za-z0-9_.\-/]")


@contextmanager
def scope_names(named: Iterable[object], attribute: str, suffix: str = "") -> Iterator[None]:
    """Gives objects whose names are no scopes others for a while, each one of its own.

    Args:
        named: layers or variables.
        attribute: the attribute that holds the name.
        suffix: the end of each name that is no part of the scope.
    """
    odd: dict[str, tuple[object, str]] = {}
    for each in named:
        name = vars(each)[attribute]
        if not _SCOPE.fullmatch(name.removesuffix(suffix)):
            plain = f"named_{len(odd)}_{_OTHERS.sub('_', name.removesuffix(suffix))}{suffix}"
            odd[plain] = each, name
            vars(each)[attribute] = plain  # not setattr: Keras tracks what is set on a layer
    try:
        yield
    finally:
        for each, name in odd.values():
            vars(each)[attribute] = name


def variable_names(variables: Iterable[object]) -> AbstractContextManager[None]:
    """`scope_names` for TensorFlow's variables."""
    return scope_names(variables, "_handle_name", ":0")
