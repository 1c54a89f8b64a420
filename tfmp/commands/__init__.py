"""The `tfmp` command: one module for each of its commands."""
