"""Runs a .tflite file whose outputs are seams, in a worker process."""

from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file import Interpreter


class TapInterpreter(Interpreter):
    """A file whose inputs and outputs need not begin with the batch axis."""

    def run_whole(self, inputs: Batch) -> Batch:
        """Runs once, with arrays of the shapes that the file takes.

        Raises:
            RunnerError: an input does not fit, or LiteRT fails.
        """
        return self._run_once({spec.name: self._fitted(inputs, spec) for spec in self.inputs})
