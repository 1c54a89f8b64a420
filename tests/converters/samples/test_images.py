"""Image folders are read as Keras reads them."""

from pathlib import Path

import keras
import numpy as np
import pytest

from tfmp.converters.drift import Kind, Task
from tfmp.converters.samples.data import open_data
from tfmp.converters.samples.images import check_class_folders
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec

IMAGE = TensorSpec("image", (None, 6, 5, 3), "float32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for name, count in (("cat", 3), ("dog", 2)):
        (tmp_path / name).mkdir()
        for index in range(count):
            pixels = generator.integers(0, 256, (9, 8, 3), dtype=np.uint8)
            keras.utils.save_img(tmp_path / name / f"{index}.png", pixels, scale=False)
    (tmp_path / ".cache").mkdir()
    return tmp_path


def test_class_folders_give_the_batches_and_labels_of_keras(folder: Path) -> None:
    dataset = open_data(folder, [IMAGE], batch_size=2)
    assert dataset.stream.samples == 5
    batches = list(reading := dataset.read())
    expected = keras.utils.image_dataset_from_directory(
        folder, image_size=(6, 5), shuffle=False, batch_size=2, verbose=False
    )
    for batch, (images, ids) in zip(batches, expected, strict=True):
        np.testing.assert_array_equal(batch.inputs["image"], images)
        np.testing.assert_array_equal(batch.labels, ids)
    assert reading.description.notes == (
        "pixels are 0 to 255, resized to 6 x 5 (bilinear), as Keras loads them",
        "class ids by folder name: 0 cat, 1 dog",
    )


CLASSES = {"y": Task(Kind.CLASSIFICATION)}


@pytest.mark.parametrize(
    ("shape", "tasks"),
    [
        ((None, 2), CLASSES),
        ((None, None), CLASSES),
        ((None, 6, 9), CLASSES),
        ((None, 128), {"y": Task(Kind.EMBEDDING)}),
        ((None, 128), {"y": None}),
    ],
)
def test_folders_that_number_the_models_classes(folder: Path, shape: tuple, tasks: dict) -> None:
    stream = open_data(folder, [IMAGE]).stream
    check_class_folders(stream, [TensorSpec("y", shape, "float32")], tasks)


def test_a_class_without_a_folder_is_refused_until_it_has_an_empty_one(folder: Path) -> None:
    scores = [TensorSpec("y", (None, 3), "float32")]
    with pytest.raises(InputError, match=r"2 class folders \(0 cat, 1 dog\), but the .* 3 classes"):
        check_class_folders(open_data(folder, [IMAGE]).stream, scores, CLASSES)
    (folder / "bird").mkdir()
    samples = open_data(folder, [IMAGE])
    check_class_folders(samples.stream, scores, CLASSES)
    (batch,) = samples.read()
    assert list(batch.labels) == [1, 1, 1, 2, 2]


def test_flat_folders_and_other_layouts(folder: Path) -> None:
    dataset = open_data(folder / "cat", [IMAGE])
    (batch,) = (reading := dataset.read())
    assert batch.inputs["image"].shape == (3, 6, 5, 3)
    assert batch.labels is None
    assert not reading.description.labelled
    first = TensorSpec("image", (None, 3, 6, 5), "float32")
    (batch,) = open_data(folder, [first]).read()
    (expected,) = open_data(folder, [IMAGE]).read()
    channels_first = expected.inputs["image"].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(batch.inputs["image"], channels_first)
    gray = TensorSpec("image", (None, 6, 5, 1), "float32")
    (batch,) = open_data(folder, [gray]).read()
    assert batch.inputs["image"].shape == (5, 6, 5, 1)


@pytest.mark.parametrize(
    "inputs",
    [
        [TensorSpec("x", (None, 10), "float32")],
        [TensorSpec("x", (None, None, None, 3), "float32")],
        [TensorSpec("x", (None, 6, 5, 7), "float32")],
        [IMAGE, IMAGE],
    ],
)
def test_models_that_do_not_take_one_image(folder: Path, inputs: list[TensorSpec]) -> None:
    with pytest.raises(InputError) as caught:
        open_data(folder, inputs)
    assert "of images does not fit the model's inputs: " in str(caught.value)
    assert "Pass an .npz file or FILE.py:function instead." in str(caught.value)


def test_a_folder_without_images(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(InputError, match=r"holds no images \(\.bmp, \.gif, \.jpeg, \.jpg, \.png\)"):
        open_data(tmp_path, [IMAGE])


def test_a_file_that_is_no_image(folder: Path) -> None:
    (folder / "cat" / "0.png").write_bytes(b"nonsense")
    with pytest.raises(InputError) as caught:
        list(open_data(folder, [IMAGE]).read())
    told = str(caught.value)
    assert told.startswith(
        f"cannot read the images of {str(folder)!r}: {folder}/cat/0.png: Unknown"
    )
    assert told.endswith(" required. Remove it, or replace it by an image.")
    assert "{{" not in told
