"""Checkpoint: Keras's backup of a training, with the states of random generators in it."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras.src.random.seed_generator import global_seed_generator


class Checkpoint(keras.callbacks.BackupAndRestore):
    """Writes the whole training state after each epoch; the next training goes on from there.

    Keras leaves the states of dropout and of other random layers out of weights files: a run that
    was interrupted would draw the numbers of its beginning again.

    Args:
        folder: where to write; removed when the training ends.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__(str(folder))
        self._folder = Path(folder)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Goes on from what is in the folder, if anything is."""
        super().on_train_begin(logs)
        saved = self._seeds(self.model._initial_epoch or 0)
        if saved.exists():
            with np.load(saved) as states:
                for name, generator in self._generators().items():
                    if name in states:
                        generator.state.assign(states[name])

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Writes the state after an epoch; the seeds first, so that weights never lack theirs."""
        self._folder.mkdir(parents=True, exist_ok=True)
        states = {
            name: keras.ops.convert_to_numpy(generator.state)
            for name, generator in self._generators().items()
        }
        np.savez(self._seeds(epoch + 1), **states)
        super().on_epoch_end(epoch, logs)
        self._seeds(epoch - 1).unlink(missing_ok=True)

    def _seeds(self, epoch: int) -> Path:
        return self._folder / f"seeds-{epoch}.npz"

    def _generators(self) -> dict[str, Any]:
        """By place in the model: names differ between two models of one function."""
        own = [g for layer in self.model._flatten_layers() for g in layer._seed_generators]
        unique = list(dict.fromkeys(own))
        return {f"{index}": g for index, g in enumerate([global_seed_generator(), *unique])}
