"""Writes `docs/cli.md` from the help of the commands themselves:

python -m tfmp.converters.commands.docs > docs/cli.md
"""

import sys

import click

from tfmp.converters.commands.cli import main

_WIDTH = 88

_HEAD = """\
# tfmp-convert

<!-- Written by `python -m tfmp.converters.commands.docs > docs/cli.md`: change that, not this. -->

Results go to stdout (with `--json`, one JSON document and nothing else), progress and mistakes to
stderr. Progress shows on terminals only. `NO_COLOR` is honoured. No command asks questions, and
none replaces a file without `--force`.

| Exit status | Meaning |
| --- | --- |
| 0 | PASS, or converted without data; `inspect`: FP16 holds everything that the data reached |
| 1 | FAIL: drift over budget; `inspect`: something would overflow, vanish or clamp |
| 2 | bad usage or bad input, a full disk, a crash of native code; nothing is half-written |
| 3 | INCONCLUSIVE: too little data to certify; `inspect`: no data, so only constants are known |
| 70 | a defect of `tfmp-convert`: a traceback is on stderr, please report it |
| 130 | interrupted (Ctrl-C); files that were complete stay, nothing else is left |
| 128 + N | ended by signal N, such as 143 by SIGTERM, as Docker and CI send it; the same holds |

A run that is killed (SIGKILL) can clean up nothing. What it leaves is called
`.tfmp-BOOT-NUMBER`, in the folders of its outputs and of temporary files; the next run that writes
there removes it. Outputs are the old ones or the new ones, never half of one.
"""

_TAIL = """\
## Options from a file

`--config FILE` takes options from a TOML file, and `--save-config FILE` writes the options of a run
to one. Keys are long names of options. Keys at the top hold for every command that has the option;
a table named like a command holds for that command only and overrules the top; the command line
overrules both. With this file, `tfmp-convert all model.keras --config release.toml` needs no more:

```toml
budget = ["rel_l2=0.005", "flip_rate=0.02"]

[all]
output = "out"
data = "test.npz"
report = ["out/drift.html", "out/drift.json"]
```

## Completion in the shell

Commands, options, choices and file names complete after one of these, for bash, zsh and fish; in
`~/.bashrc`, `~/.zshrc` or `~/.config/fish/config.fish` it lasts:

```bash
eval "$(_TFMP_CONVERT_COMPLETE=bash_source tfmp-convert)"
eval "$(_TFMP_CONVERT_COMPLETE=zsh_source tfmp-convert)"
_TFMP_CONVERT_COMPLETE=fish_source tfmp-convert | source
```
"""


def page() -> str:
    """The page as Markdown."""
    sections = [_HEAD, _help("tfmp-convert", main, None)]
    parent = _context("tfmp-convert", main, None)
    for name, command in main.commands.items():
        sections.append(f"## {name}\n")
        sections.append(_help(name, command, parent))
    return "\n".join([*sections, _TAIL])


def _help(name: str, command: click.Command, parent: click.Context | None) -> str:
    return f"```text\n{command.get_help(_context(name, command, parent))}\n```\n"


def _context(name: str, command: click.Command, parent: click.Context | None) -> click.Context:
    context = click.Context(command, parent, name, **command.context_settings)
    # The same page whatever the terminal is that writes it.
    context.terminal_width = context.max_content_width = _WIDTH
    return context


if __name__ == "__main__":
    sys.stdout.write(page())
