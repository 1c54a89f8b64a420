"""A sample's key depends on its inputs alone."""

from dataclasses import replace

import numpy as np

from tfmp.converters.drift import Labels
from tfmp.converters.samples.data import open_data
from tfmp.converters.samples.hashes import hash_samples
from tfmp.converters.shared.tensors import Batch, TensorSpec

X = np.random.default_rng(0).standard_normal((6, 3, 2)).astype(np.float32)
IDS = np.arange(6, dtype=np.int32).reshape(6, 1)


def input_keys(batch: Batch, labels: Labels | None = None) -> np.ndarray:
    return hash_samples(batch, labels)[1]


def test_a_repeated_sample_has_the_same_key_in_any_batch() -> None:
    x = np.concatenate([X, X[2:3]])
    keys = input_keys({"x": x})
    assert keys.dtype == np.uint64
    assert keys.shape == (7,)
    assert keys[6] == keys[2]
    assert len(set(keys.tolist())) == 6
    assert input_keys({"x": X[2:3]})[0] == keys[2]
    assert np.array_equal(input_keys({"x": np.asfortranarray(x)}), keys)
    words = np.array(["a", "b", "a"], dtype=object)
    keys = input_keys({"words": words})
    assert keys[0] == keys[2] != keys[1]
    assert np.array_equal(keys, input_keys({"words": words.astype("S1")}))
    keys = input_keys({"x": X}, np.arange(6))
    assert np.array_equal(keys, input_keys({"x": X}, np.arange(6)[::-1]))
    assert hash_samples({"x": X}, np.arange(6))[0] != hash_samples({"x": X}, np.ones(6, int))[0]


def test_every_input_counts_with_its_name_dtype_and_shape() -> None:
    alike = [
        {"x": X},
        {"y": X},
        {"x": X.astype(np.float64)},
        {"x": X.reshape(6, 2, 3)},
        {"x": X, "ids": IDS},
        {"x": X, "ids": IDS + 1},
        {"x": X, "shared": np.float32(1)},  # without axes: for all samples
    ]
    assert len({int(input_keys(batch)[0]) for batch in alike}) == len(alike)


def test_single_samples_have_the_keys_of_their_batch() -> None:
    spec = TensorSpec("x", (None, 3, 2), "float32")
    samples = replace(open_data((X, np.arange(6)), [spec], batch_size=4), one_by_one=True)
    batches = list(samples.read())
    hashes, keys = hash_samples({"x": X}, np.arange(6))
    assert np.array_equal(np.concatenate([batch.keys for batch in batches]), keys)
    assert [digest for batch in batches for digest in batch.digests] == hashes
