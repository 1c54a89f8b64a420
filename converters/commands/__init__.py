"""The `tfmp-convert` command: its options and its output."""
