"""Options of `tfmp-convert` from and to TOML files.

Keys are the long names of options. Those at the top hold for every command that has them, those in
a table named like a command for that command alone, which overrules the top:

    report = ["drift.html", "drift.json"]
    budget = ["rel_l2=0.005"]

    [onnx]
    opset = 17
"""

import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tfmp.converters.shared.errors import InputError

if TYPE_CHECKING:
    from tfmp.converters.report import CandidateReport, DriftReport

# A command for another try has these of its own, or leaves them to its user.
_OF_ONE_RUN = (
    *("output", "force", "data", "report", "json", "quiet", "verbose"),
    *("explain", "split", "reproduce", "latency", "latency-batch-sizes"),
)

# They say where settings are kept, and are none themselves.
_ABOUT_FILES = ("config", "save-config", "help", "version")


def load_config(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Makes the settings in a TOML file the defaults of the command that is being read."""
    if path is None:
        return
    try:
        settings = read_config(path, context)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    context.default_map = {**(context.default_map or {}), **settings}


def read_config(path: str, context: click.Context) -> dict[str, Any]:
    """The settings that a file has for a command, by parameter name.

    Raises:
        InputError: no such file, not TOML, or a key or a value that no option has.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError, too
        why = (error.strerror or error) if isinstance(error, OSError) else error
        raise InputError(
            f"--config {path}: cannot be read as TOML ({why}). --save-config writes a file as an "
            "example."
        ) from error
    commands = {name: _options(command) for name, command in _commands(context).items()}
    known: dict[str, click.Option] = {}
    for options in commands.values():
        known |= options
    own = commands[context.info_name or ""]
    # `report` is a command and an option: a table is for the command.
    named = [name for name in commands if isinstance(document.get(name), dict)]
    tables = {name: document.pop(name) for name in named}
    for name, table in tables.items():
        _check_keys(path, f"[{name}] ", table, commands[name])
    for name, value in document.items():
        if isinstance(value, dict) and name not in known:
            raise InputError(
                f"--config {path}: [{name}] is no command; expected one of {', '.join(commands)}."
            )
    _check_keys(path, "", document, known)
    merged = {**document, **tables.get(context.info_name or "", {})}
    return {
        str(own[name].name): _checked(path, own[name], value)
        for name, value in merged.items()
        if name in own
    }


def _commands(context: click.Context) -> Mapping[str, click.Command]:
    """All commands beside the one that is being read."""
    assert context.parent is not None
    group = context.parent.command
    assert isinstance(group, click.Group)
    return group.commands


def _options(command: click.Command) -> dict[str, click.Option]:
    """Options of a command that a file may set, by long name."""
    found = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            long = max(parameter.opts, key=len).removeprefix("--")
            if long not in _ABOUT_FILES:
                found[long] = parameter
    return found


def _check_keys(
    path: str, where: str, table: Mapping[str, Any], known: Mapping[str, click.Option]
) -> None:
    for name in table:
        if name not in known:
            raise InputError(
                f"--config {path}: {where}{name} is no option; expected one of "
                f"{', '.join(sorted(known))}."
            )


def _checked(path: str, option: click.Option, value: Any) -> Any:
    """The value if its type is the option's; click would turn a list into text, and yes into 1."""
    name = max(option.opts, key=len).removeprefix("--")
    values = value if option.multiple and isinstance(value, list) else [value]
    kind: type = str
    expected = "a text without NUL characters"
    if option.is_flag:
        kind, expected = bool, "true or false"
    elif option.type is click.INT:
        kind, expected = int, "a whole number"
    elif option.multiple:
        expected = "a text or a list of texts, without NUL characters"
    # A bool is an int, too.
    if not all(type(item) is kind and "\0" not in str(item) for item in values):
        raise InputError(
            f"--config {path}: {name} is {value!r} ({type(value).__name__}); expected {expected}."
        )
    return values if option.multiple else value


def given_options(context: click.Context) -> dict[str, Any]:
    """The options that a command was given, on its line or in a file, by their long names."""
    given = {}
    for name, option in _options(context.command).items():
        source = context.get_parameter_source(str(option.name))
        if source not in (ParameterSource.DEFAULT, None):
            given[name] = context.params[str(option.name)]
    return given


def with_own_options(report: "DriftReport", context: click.Context) -> "DriftReport":
    """The report with the options of this run in the command of every remedy, where they hold."""
    commands = _commands(context)

    def asked(candidate: "CandidateReport") -> "CandidateReport":
        if candidate.remedy_flags is None:
            return candidate
        way = shlex.split(candidate.remedy_flags)
        known = _options(commands[candidate.format])
        words = []
        for name, value in given_options(context).items():
            if name in known and name not in _OF_ONE_RUN and f"--{name}" not in way:
                for each in value if isinstance(value, list | tuple) else [value]:
                    words += [f"--{name}"] if each is True else [f"--{name}", str(each)]
        return replace(candidate, remedy_flags=shlex.join([*words, *way]))

    return replace(report, candidates=tuple(map(asked, report.candidates)))


def to_toml(command: str, options: Mapping[str, Any]) -> str:
    """The table of a command."""
    lines = [f"[{command}]"]
    lines += [f"{name} = {_value(value)}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    # A JSON text is a TOML text, but for one control character that JSON need not escape.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
