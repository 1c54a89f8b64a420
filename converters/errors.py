"""Errors that a user can mend. The command line prints their text alone and exits with status 2."""


class InputError(ValueError):
    """A model, data file, option or output path that cannot be used as given.

    The text names the file or value, says what was expected and what was received, and ends with
    the next step.
    """


class ConversionError(InputError):
    """A model that was read but cannot be converted; the text names the layer or op."""


class RunnerError(RuntimeError):
    """An execution of a model that failed: it costs one candidate its verdict, not the run."""
