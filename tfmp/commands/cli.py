"""`tfmp`: the command line of the training wing.

Only click is imported here, so that `--help` answers at once: a command's module loads when the
command runs.
"""

from importlib import import_module
from typing import Any

import click

from tfmp.commands.session import session, watch
from tfmp.shared import watched

# By name, its line in the help; `tfmp.commands.NAME` has the command.
_COMMANDS = {
    "calibrate": "Measure gradients and recommend a loss scale.",
    "compare": "Train in several precisions, convert, and say which file to ship.",
    "colocate": "Train several models on one device.",
    "doctor": "Check machine and model for mixed precision.",
    "profile": "Time training in each precision, and say whether it is worth it.",
    "sweep": "Time batch sizes in each precision, and find the largest that fits.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Runs the command of `args`; that of the process, watched, if there are none."""
        if (args[0] if args else extra.get("args")) is None:
            watch()
        try:
            return super().main(*args, **extra)
        except SystemExit:
            if order := watched.order_of():
                watched.leave(order)
            raise

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with session():
            return super().make_context(*args, **extra)

    def invoke(self, context: click.Context) -> Any:
        with session():
            return super().invoke(context)

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return import_module(f"tfmp.commands.{name}").command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
@click.version_option(package_name="tfmp")
def main() -> None:
    """Train Keras models in mixed precision safely, and measure the gain.

    \b
    tfmp doctor
    tfmp calibrate model.keras --data train.npz
    tfmp profile model.keras --data train.npz
    tfmp sweep model.keras --data train.npz --batch-sizes 8,32,128
    tfmp colocate my_jobs.py:jobs
    tfmp compare digits --report compare.html

    Exit status: 2 on bad usage, 130 after Ctrl-C, 143 after SIGTERM; the help of each command lists
    the others.
    """


if __name__ == "__main__":
    main()
