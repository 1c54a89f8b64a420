"""Words for values, lists and other code's errors inside a sentence."""

from collections.abc import Sequence


def shown(value: object) -> str:
    """A value that was received, with its type: "7 of type int"."""
    return f"{value!r} of type {type(value).__name__}"


def listed(names: Sequence[str], most: int) -> str:
    """Names with commas between them; after `most` names the rest is counted: "a, b and 3 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def joined(names: Sequence[str]) -> str:
    """All of the names in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 1 else names)


def first_line(error: BaseException) -> str:
    """The first line of an error's text; the name of its class where it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
