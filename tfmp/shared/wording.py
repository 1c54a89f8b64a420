"""Words for values, lists and other code's errors inside a sentence, and tables of words."""

import errno
import os
import re
from collections.abc import Sequence
from itertools import takewhile

# Errors of a place that takes no more, by their words: those of TensorFlow and of NumPy, which
# says how much of an array was written, have no number.
_DISK_FULL = {os.strerror(number): number for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
_FULL = re.compile("|".join([*map(re.escape, _DISK_FULL), r"\d+ requested and \d+ written"]))

# More sentences than this are not read one by one where they say the same of many places.
_READ_EACH = 3

# Lines of an error that only say where it came from.
_WHERE = re.compile(
    r"Graph execution error:|Exception encountered when calling |Detected at node |"
    r"<stack trace unavailable>|  File \""
)
# Colours, and the names that TensorFlow gives to the place of an error.
_DRESS = re.compile(r"\x1b\[[\d;]*m|\{\{\w+ [^}]*\}\} ?| \[Op:\w+\](?: name: ?)?")

# A name or a number: in quotes, behind "in" or "layer", or with a digit or a sign of paths.
_VARIABLE = re.compile(r"'[^']*'|(?<=\bin )\S+|(?<=\blayer )\S+|\S*[\d_/]\S*")
_DTYPE = re.compile(r"\W*b?(FP|float)\d+\W*")


def shown(value: object) -> str:
    """A value that was received, with its type: "7 of type int"."""
    return f"{value!r} of type {type(value).__name__}"


def listed(names: Sequence[str], most: int) -> str:
    """Names with commas between them; after `most` names the rest is counted: "a, b and 3 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 flip", "1,000 flips"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def joined(names: Sequence[str]) -> str:
    """All of the names in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 1 else names)


def first_line(error: BaseException) -> str:
    """The first line of an error's text; the name of its class where it has no text.

    A line that begins with a small letter belongs to the line before. Lines of Keras and TensorFlow
    that only say where an error came from do not count, if there are others.
    """
    lines = [line for line in _DRESS.sub("", str(error)).splitlines() if line.strip()]
    telling = [line for line in lines if not _WHERE.match(line)] or lines
    if not telling:
        return type(error).__name__
    rest = takewhile(lambda line: line[0].islower(), telling[1:])
    return " ".join(line.strip() for line in (telling[0], *rest))


def one_line(error: BaseException) -> str:
    """All of an error's text on one line, without colours."""
    return " ".join(_DRESS.sub("", str(error)).split())


def full_disk(error: BaseException) -> OSError | None:
    """The system's own error of a place that takes no more, from any error; None for another one.

    It has the name of the place if the error, or one that it came from, has it as `filename`.
    """
    number = error.errno if isinstance(error, OSError) else None
    if not number and (found := _FULL.search(str(error))):
        number = _DISK_FULL.get(found[0], errno.ENOSPC)
    if not number or number not in _DISK_FULL.values():
        return None
    place: str | None = None
    cause: BaseException | None = error
    while place is None and cause is not None:
        place, cause = getattr(cause, "filename", None), cause.__cause__
    return OSError(number, os.strerror(number), place)


def refused(error: OSError) -> str:
    """What the system refused, and where, in a sentence, with the next step."""
    reason = error.strerror or str(error) or type(error).__name__
    if isinstance(error.filename, str | bytes):
        place = f"{os.fsdecode(error.filename)}: "
    else:
        place = "stdout or a file without a name: " if full_disk(error) else ""
    steps = {
        errno.ENOSPC: "Free space there, or choose another place; for temporary files, name one in "
        "the variable TMPDIR",
        errno.EDQUOT: "Free space there, or choose another place",
        errno.EFBIG: "Allow larger files (ulimit -f), or choose another place",
        errno.ENAMETOOLONG: "Choose a shorter name",
        errno.EMFILE: "Allow more open files (ulimit -n)",
        errno.ENOMEM: "Free memory, or choose a smaller model or batch",
    }
    step = steps.get(error.errno or 0, "Check the path and its rights")
    return f"{place}the system refuses this ({reason}). {step}."


def alike_once(sentences: Sequence[str]) -> list[str]:
    """Sentences in their order; many that differ in names or numbers only are one with a count."""
    groups: dict[str, list[str]] = {}
    for sentence in sentences:
        groups.setdefault(_VARIABLE.sub(_placeholder, sentence), []).append(sentence)
    told = []
    for group in groups.values():
        if len(group) <= _READ_EACH:
            told += group
        else:
            more = f"{len(group) - 1} notes more that differ in names or numbers only"
            told.append(f"{group[0]} (and {more})")
    return told


def _placeholder(found: re.Match[str]) -> str:
    """FP16 and FP32 are no names: sentences about them differ in what they say."""
    return found[0] if _DTYPE.fullmatch(found[0]) else "…"
