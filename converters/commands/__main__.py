"""`python -m tfmp.converters.commands`: the command without an installed script."""

from tfmp.converters.commands.cli import main

main(prog_name="tfmp-convert")
