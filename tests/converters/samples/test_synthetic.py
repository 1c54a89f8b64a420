"""Made-up samples fit every signature, are seeded, and are called what they are."""

from typing import Any

import numpy as np

from tfmp.converters.samples.data import DataReport, Samples
from tfmp.converters.samples.synthetic import made_up
from tfmp.converters.shared.tensors import TensorSpec

IMAGE = TensorSpec("image", (None, 4, 4, 1), "float32")
IDS = TensorSpec("ids", (None, 3), "int32")


def read(samples: Samples) -> tuple[list[Any], DataReport]:
    reading = samples.read()
    return [batch.inputs for batch in reading], reading.description


def test_is_the_same_every_time_and_marked() -> None:
    one, two = (read(made_up([IMAGE, IDS])) for _ in range(2))
    assert one[1] == two[1]
    assert one[1].synthetic
    assert one[1].source == "synthetic (seed 0)"


def test_fits_the_signature() -> None:
    inputs = [
        TensorSpec("photo", (None, None, None, 3), "float32"),
        TensorSpec("half", (None, 5), "float16"),
        TensorSpec("ids", (None, None), "int64"),
        TensorSpec("mask", (None, 2), "bool"),
        TensorSpec("text", (None,), "string"),
    ]
    batch = read(made_up(inputs))[0][0]
    assert {name: (array.dtype.kind, array.shape) for name, array in batch.items()} == {
        "photo": ("f", (32, 64, 64, 3)),
        "half": ("f", (32, 5)),
        "ids": ("i", (32, 16)),
        "mask": ("b", (32, 2)),
        "text": ("O", (32,)),
    }
    assert batch["half"].dtype == np.float16
    assert set(np.unique(batch["ids"])) == {0, 1}
    assert batch["photo"][0].min() < -1
    assert batch["photo"][1].min() >= 0


def test_synthetic_samples_share_one() -> None:
    batches, description = read(made_up([IMAGE, TensorSpec("trips", (), "int64")]))
    assert description.samples == 64
    assert {batch["trips"].shape for batch in batches} == {()}
