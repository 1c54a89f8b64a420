"""Checkpoint: saves the whole state of a training after each epoch, with random generators."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import keras
import numpy as np
from keras.src.random.seed_generator import global_seed_generator

from tfmp.shared.atomic_file import draft, making, remove_abandoned

_WEIGHTS, _SEEDS = "latest.weights.h5", "seeds.npz"
_EPOCH = re.compile(r"epoch-(\d+)")


class Checkpoint(keras.callbacks.Callback):
    """Writes the whole training state after each epoch; the next training goes on from there.

    It differs from Keras's `BackupAndRestore` in two ways. It keeps the states of dropout and of
    other random layers; without them an interrupted run would draw the numbers of its beginning
    again. And each epoch is a folder that gets its name when all of it is written, so that there
    is a complete one whenever the process ends.

    Args:
        folder: folder for the state. The state is removed when the training ends, and so is the
            folder if nothing else is in it.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self._folder = Path(folder)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Goes on from the latest epoch in the folder, if there is one."""
        remove_abandoned(self._folder)
        epochs = self._epochs()
        if not epochs:
            return
        saved = epochs[max(epochs)]
        model = self.model
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(saved / _WEIGHTS)
        with np.load(saved / _SEEDS) as states:
            for name, generator in self._generators().items():
                if name in states:
                    generator.state.assign(states[name])
        model._initial_epoch = max(epochs)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Writes the state after an epoch, then removes the one before it."""
        states = {
            name: keras.ops.convert_to_numpy(generator.state)
            for name, generator in self._generators().items()
        }
        with making(self._folder), draft(self._folder) as folder:
            unfinished = folder / "unfinished"
            unfinished.mkdir()
            self.model.save_weights(unfinished / _WEIGHTS)
            np.savez(unfinished / _SEEDS, **states)
            before = self._epochs()
            finished = self._folder / f"epoch-{epoch + 1}"
            if finished in before.values():
                finished.rename(folder / finished.name)
            unfinished.rename(finished)
            _remove(before.values(), folder)

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        """Removes the states, because the training is done."""
        if not self._folder.is_dir():
            return
        with suppress(OSError):
            with draft(self._folder) as folder:
                _remove(self._epochs().values(), folder)
            self._folder.rmdir()  # if nothing else is in it

    def _epochs(self) -> dict[int, Path]:
        """The folders with saved states, by the number of epochs that were done."""
        found = {path: _EPOCH.fullmatch(path.name) for path in self._folder.glob("epoch-*/")}
        return {
            int(match[1]): path
            for path, match in found.items()
            if match and {each.name for each in path.iterdir()} == {_WEIGHTS, _SEEDS}
        }

    def _generators(self) -> dict[str, keras.random.SeedGenerator]:
        """By place in the model, because names differ between two models of one function."""
        own = [g for layer in self.model._flatten_layers() for g in layer._seed_generators]
        unique = list(dict.fromkeys(own))
        return {f"{index}": g for index, g in enumerate([global_seed_generator(), *unique])}


def _remove(epochs: Iterable[Path], folder: Path) -> None:
    """Moves states into a draft: half of one would look like a folder of somebody else's."""
    for epoch in epochs:
        with suppress(FileNotFoundError):
            epoch.rename(folder / epoch.name)
