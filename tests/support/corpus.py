"""The models that every claim about conversion is held to, by tests and by benchmarks.

Nothing is built before it is asked for. Models and inputs are seeded.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfmp.converters.intake import open_source
from tfmp.converters.intake.source import AnySource
from tfmp.converters.shared.tensors import Batch, synthetic_batch

Generator = np.random.Generator


def _as_drawn(batch: Batch, generator: Generator) -> Batch:
    return batch


@dataclass(frozen=True)
class Case:
    """One model of the corpus.

    Attributes:
        name: unique in the corpus.
        group: "keras", "onnx", "applications" or "zoo".
        make: builds it: a Keras model, the path of a file or folder, or an ONNX protobuf.
        vary: turns a standard normal batch into the inputs that the model is here for.
        slow: takes a minute or more to convert.
    """

    name: str
    group: str
    make: Callable[[], Any]
    vary: Callable[[Batch, Generator], Batch] = _as_drawn
    slow: bool = False

    def open(self) -> AnySource:
        """The model as a source of conversions; forgets the names of Keras models before it."""
        import keras

        if self.group in ("keras", "applications"):
            keras.backend.clear_session()  # layers are numbered from one again
            keras.utils.set_random_seed(0)
        made = self.make()
        if self.group != "onnx":
            return open_source(made)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{self.name}.onnx"
            path.write_bytes(made.SerializeToString())
            return open_source(path)

    def batch(self, source: AnySource, samples: int = 2, seed: int = 0) -> Batch:
        """Seeded inputs of the opened model.

        Args:
            source: what `open` gave.
            samples: how many, where the model leaves that open.
            seed: other seeds give other inputs of the same kind.
        """
        drawn = synthetic_batch(source.inputs, samples, seed)
        return self.vary(drawn, np.random.default_rng([seed, 1]))

    def __str__(self) -> str:
        return self.name


def corpus(slow: bool = True, groups: str = "keras onnx applications zoo") -> dict[str, Case]:
    """The corpus by name.

    Args:
        slow: also what takes a minute or more.
        groups: which, separated by spaces. The zoo is there where TFMP_ZOO names its folder.
    """
    made = {
        "keras": _keras_cases,
        "onnx": _onnx_cases,
        "applications": _application_cases,
        "zoo": _zoo_cases,
    }
    cases = [case for group in groups.split() for case in made[group]()]
    return {case.name: case for case in cases if slow or not case.slow}


def _keras_cases() -> list[Case]:
    import corpus_keras
    import keras_models

    models = keras_models.CORPUS | corpus_keras.MODELS
    return [Case(name, "keras", make, _VARY.get(name, _as_drawn)) for name, make in models.items()]


def _onnx_cases() -> list[Case]:
    import corpus_onnx

    graphs = corpus_onnx.GRAPHS
    return [Case(name, "onnx", make, _VARY.get(name, _as_drawn)) for name, make in graphs.items()]


# Convert within seconds; a test of each of the others takes minutes.
_QUICK_APPLICATIONS = ("MobileNet", "MobileNetV2", "VGG16", "ResNet50")


def _application_cases() -> list[Case]:
    import sweep

    return [
        Case(row.name, "applications", row.build, slow=row.name not in _QUICK_APPLICATIONS)
        for row in sweep.application_rows()
    ]


def _zoo_cases() -> list[Case]:
    folder = os.environ.get("TFMP_ZOO")
    found = sorted(Path(folder).iterdir()) if folder else []
    models = [path for path in found if path.suffix == ".h5" or path.is_dir()]
    return [Case(path.stem, "zoo", lambda path=path: path) for path in models]


def _some_kept(batch: Batch, generator: Generator) -> Batch:
    """Six of ten kept, and one sample masked throughout."""
    keep = generator.random(batch["keep"].shape) < 0.6
    keep[0] = False
    return batch | {"keep": keep}


def _ids(batch: Batch, generator: Generator) -> Batch:
    return batch | {"ids": generator.integers(0, 3000, batch["ids"].shape).astype(np.int32)}


def _padded(batch: Batch, generator: Generator) -> Batch:
    """Sentences that end at different places, padded with zeros."""
    tokens = np.ones_like(batch["tokens"])
    lengths = generator.integers(1, tokens.shape[1] + 1, len(tokens))
    tokens[np.arange(tokens.shape[1]) >= lengths[:, None]] = 0
    return batch | {"tokens": tokens}


def _trips(batch: Batch, generator: Generator) -> Batch:
    """No trip, or a few."""
    return batch | {"trips": np.array(generator.choice([0, 1, 5]), np.int64)}


_VARY: dict[str, Callable[[Batch, Generator], Batch]] = {
    "loop_state": _trips,
    "masked_attention": _some_kept,
    "masked_lstm": _padded,
    "wide": _ids,
}
