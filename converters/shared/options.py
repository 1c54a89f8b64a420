"""Options of a format: fields of a frozen dataclass that the command line can read, too.

A format declares each option once, with `option`; from these fields come the keywords of
`tfmp.converters.convert`, the flags of `tfmp-convert` and the sentences about wrong values.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tfmp.converters.shared.errors import InputError
from tfmp.shared.arguments import is_whole_number

_KEY = "option"


@dataclass(frozen=True)
class Option:
    """The description of a field for users, and the values that it takes.

    Attributes:
        help: the help text of its flag.
        metavar: placeholder of the flag's value in the help; None for flags without a value.
        flag: the flag's name without dashes; None for the field's own name.
        short: the flag's other name, with its dash.
        path: whether shells complete the name of a file.
        callback: click's, called with the context, the parameter and the value.
        choices: the values that the field takes; empty for any value.
        check: raises `InputError` for a value that cannot be used; None for no check.
    """

    help: str
    metavar: str | None = None
    flag: str | None = None
    short: str = ""
    path: bool = False
    choices: tuple[str, ...] = ()
    check: Callable[[Any], object] | None = None
    callback: Callable[..., object] | None = None


def option(default: Any, help: str, **details: Any) -> Any:
    """A field of a dataclass of options; `details` are more arguments of `Option`."""
    return dataclasses.field(default=default, metadata={_KEY: Option(help, **details)})


def options_of(kind: type) -> list[tuple[dataclasses.Field[Any], Option]]:
    """The fields of a dataclass of options, each with its description for users."""
    return [(field, field.metadata[_KEY]) for field in dataclasses.fields(kind)]


Options = TypeVar("Options")


def read_options(kind: type[Options], given: Mapping[str, Any], purpose: str) -> Options:
    """Options from keywords.

    Args:
        kind: a frozen dataclass whose fields are made by `option`.
        given: values by the name of the field.
        purpose: purpose of the options in messages, such as "a conversion to onnx".

    Raises:
        InputError: a name that is no option, or a value out of range.
    """
    known = {field.name: (field.default, told) for field, told in options_of(kind)}
    read = {}
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"{name} is no option of {purpose}, received {name}={value!r}; its options: "
                f"{', '.join(known)}."
            )
        default, told = known[name]
        if isinstance(default, bool):
            check_flag(name, value)
        if told.choices:
            check_choice(name, value, told.choices)
        if told.check is not None:
            told.check(value)
        # A text is a sequence, too, but of letters.
        read[name] = (value,) if isinstance(default, tuple) and isinstance(value, str) else value
    return kind(**read)


def given_options(options: Any) -> list[str]:
    """Names of the fields that differ from their defaults."""
    return [
        field.name
        for field in dataclasses.fields(options)
        if (getattr(options, field.name) or None) != (field.default or None)
    ]


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises `InputError` unless `value` is one of `choices`."""
    if value not in choices:
        raise InputError(f"{name}: expected one of {', '.join(choices)}, received {value!r}.")


def check_flag(name: str, value: object) -> None:
    """Raises `InputError` unless `value` is True or False: "no" would count as True."""
    if not isinstance(value, bool):
        raise InputError(f"{name}: expected True or False, received {value!r}.")


def check_count(name: str, value: object) -> None:
    """Raises `InputError` unless `value` is a whole number of at least 1."""
    if not (is_whole_number(value) and value >= 1):
        raise InputError(f"{name}: expected a whole number of at least 1, received {value!r}.")
