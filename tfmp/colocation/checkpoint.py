"""Checkpoint: saves the whole state of a training after each epoch, with random generators."""

from contextlib import suppress
from pathlib import Path

import keras
import numpy as np
from keras.src.random.seed_generator import global_seed_generator

from tfmp.shared.atomic_file import remove_abandoned, replacing


class Checkpoint(keras.callbacks.Callback):
    """Writes the whole training state after each epoch; the next training goes on from there.

    It differs from Keras's `BackupAndRestore` in two ways. It keeps the state of the generator that
    layers without a seed draw from; without it an interrupted run would draw the numbers of its
    beginning again. And a state is one file that takes the place of the one before when all of it
    is written, so that there is a complete one whenever the process ends.

    Args:
        folder: folder for the state. The state is removed when the training ends, and so is the
            folder if nothing else is in it.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self._file = Path(folder) / "state.npz"

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Goes on from the epoch in the folder, if there is one.

        Raises:
            ValueError: it is of another model.
        """
        remove_abandoned(self._file.parent)
        if not self._file.exists():
            return
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        variables = self._variables()
        with np.load(self._file) as saved:
            values = [saved[name] for name in saved.files if name != "epochs"]
            if [value.shape for value in values] != [variable.shape for variable in variables]:
                raise ValueError(
                    f"the checkpoint {str(self._file)!r} is of another model: remove it, or name "
                    "another folder"
                )
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
            self.model._initial_epoch = int(saved["epochs"])

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Writes the state after an epoch in place of the one before it."""
        arrays = (keras.ops.convert_to_numpy(variable.value) for variable in self._variables())
        # NumPy's files have no bfloat16; float32 holds all its numbers.
        values = (array.astype("float32") if array.dtype.kind == "V" else array for array in arrays)
        with replacing(self._file) as new:
            np.savez(new, *values, epochs=np.asarray(epoch + 1))

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        """Removes the state, because the training is done."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
            self._file.parent.rmdir()  # if nothing else is in it

    def _variables(self) -> list[keras.Variable]:
        """In an order that two models of one function have in common; names may differ."""
        model = self.model
        kept = (
            *(model.trainable_variables, model.non_trainable_variables),
            *(model.optimizer.variables, [global_seed_generator().state]),
        )
        return [variable for group in kept for variable in group]
