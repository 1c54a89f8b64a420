"""The `tfmp-convert` command: what is asked on its line, and what it prints."""
