"""Folders of images, read and resized as Keras does."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tfmp.converters.drift import Kind, Task
from tfmp.converters.samples.sources import RawBatch, Stream
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec, describe
from tfmp.shared.wording import first_line, listed

# What `keras.utils.image_dataset_from_directory` reads.
_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")

_COLOR_MODES = {1: "grayscale", 3: "rgb", 4: "rgba"}


def open_folder(path: Path, inputs: Sequence[TensorSpec]) -> Stream:
    """Opens a folder of images; class folders sorted by name have the class ids 0, 1, 2...

    Raises:
        InputError: the model does not take one image of a fixed size, or there are no images.
    """
    height, width, channels, first = _size(path, inputs)
    # As Keras: hidden folders are no classes.
    classes = sorted(item.name for item in path.iterdir() if item.is_dir() and item.name[0] != ".")
    images = [item for item in path.rglob("*") if item.suffix.lower() in _SUFFIXES]
    if not images:
        raise InputError(
            f"folder {str(path)!r} holds no images ({', '.join(_SUFFIXES)})",
            "Put them there, in one folder for each class if labels are wanted",
        )
    notes = [f"pixels are 0 to 255, resized to {height} x {width} (bilinear), as Keras loads them"]
    if classes:
        notes.append(f"class ids by folder name: {_some(classes)}")

    def batches(size: int) -> Iterator[RawBatch]:
        import keras
        import tensorflow as tf

        try:
            dataset = keras.utils.image_dataset_from_directory(
                path,
                labels="inferred" if classes else None,
                label_mode="int" if classes else None,
                color_mode=_COLOR_MODES[channels],
                batch_size=size,
                image_size=(height, width),
                shuffle=False,
                data_format="channels_first" if first else "channels_last",
                verbose=False,
            )
            for element in dataset:
                yield element if classes else (element, None)
        except (tf.errors.OpError, ValueError) as error:
            raise InputError(
                f"cannot read the images of {str(path)!r}: {_reason(images, error)}",
                "Remove it, or replace it by an image",
            ) from error

    return Stream(str(path), batches, len(images), notes=tuple(notes), classes=tuple(classes))


def check_class_folders(
    stream: Stream, outputs: Sequence[TensorSpec], tasks: Mapping[str, Task | None]
) -> None:
    """Refuses another number of class folders than the model's only output has classes."""
    classes = stream.classes
    task = tasks[outputs[0].name] if len(outputs) == 1 else None
    if not classes or task is None or task.kind is not Kind.CLASSIFICATION:
        return
    shape = outputs[0].shape
    scores = shape[-1] if len(shape) == 2 else None
    if scores in (None, len(classes)):
        return
    raise InputError(
        f"folder {stream.name!r} has {len(classes)} class folders ({_some(classes)}), but "
        f"the model's output has {scores} classes. Add an empty folder for each class that is "
        "missing, so that names in order are the model's classes, or pass --labels FILE.npy. "
        "Without labels, put all images into one folder."
    )


def _size(path: Path, inputs: Sequence[TensorSpec]) -> tuple[int, int, int, bool]:
    """Height, width, channels, and whether channels come first."""
    if len(inputs) == 1 and len(inputs[0].shape) == 4:
        shape = inputs[0].shape
        for first, (height, width, channels) in (
            (False, shape[1:]),
            (True, (shape[2], shape[3], shape[1])),
        ):
            if channels in _COLOR_MODES and height is not None and width is not None:
                return height, width, channels, first
    raise InputError(
        f"folder {str(path)!r} of images does not fit the model's inputs: {describe(inputs)}. "
        "Expected one input [batch, height, width, channels] of fixed size with 1, 3 or 4 channels",
        "Pass an .npz file or FILE.py:function instead",
    )


def _reason(images: Sequence[Path], error: Exception) -> str:
    """The file that is no image; TensorFlow's pipelines do not say which."""
    import tensorflow as tf

    for image in sorted(images):
        try:
            tf.io.decode_image(tf.io.read_file(str(image)), expand_animations=False)
        except tf.errors.OpError as found:
            # Around the reason stand names of TensorFlow's own.
            reason = found.message.rpartition("}} ")[2].partition(" [Op:")[0]
            return f"{image}: {reason.splitlines()[0].rstrip('.')}"
    return first_line(error).rstrip(".")


def _some(names: Sequence[str]) -> str:
    return listed([f"{index} {name}" for index, name in enumerate(names)], 5)
