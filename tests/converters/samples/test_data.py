"""Data in every form gives the same samples, and what does not fit is refused with the reason."""

import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfmp.converters.samples.data import DataReport, Samples, open_data
from tfmp.converters.samples.sources import without_labels
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec

IMAGE = TensorSpec("image", (None, 4, 4, 1), "float32")
IDS = TensorSpec("ids", (None, 3), "int32")

X = np.random.default_rng(0).integers(0, 256, (70, 4, 4, 1), dtype=np.uint8)
Y = np.arange(70) % 10


def read(dataset: Samples) -> tuple[list[Any], list[Any], DataReport]:
    reading = dataset.read()
    batches = list(reading)
    inputs, labels = [batch.inputs for batch in batches], [batch.labels for batch in batches]
    return inputs, labels, reading.description


def refusal(data: Any, inputs: list[TensorSpec], labels: Any = None) -> str:
    with pytest.raises(InputError) as caught:
        read(open_data(data, inputs, labels))
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestForms:
    @pytest.fixture
    def forms(self, folder: Path) -> dict[str, tuple[Any, Any]]:
        np.savez("plain.npz", image=X, labels=Y)
        np.savez_compressed("packed.npz", image=X, labels=Y)
        np.savez("columns.npz", image=np.asfortranarray(X), labels=Y)
        np.savez("any_name.npz", x=X, labels=Y)
        np.save("x.npy", X)
        np.save("y.npy", Y)
        np.savez("y.npz", classes=Y)
        batches = [(X[i : i + 16], Y[i : i + 16]) for i in range(0, 70, 16)]
        return {
            "npz": ("plain.npz", None),
            "compressed npz": (Path("packed.npz"), None),
            "npz in column order": ("columns.npz", None),
            "npz with any name": ("any_name.npz", None),
            "npy": ("x.npy", "y.npy"),
            "npy with labels from npz": ("x.npy", Path("y.npz")),
            "npy with labels from data": ("x.npy", Path("plain.npz")),
            "dict": ({"image": X, "labels": Y}, None),
            "dict with labels beside it": ({"image": X}, Y),
            "array": (X, Y),
            "pair": ((X, Y), None),
            "pair of a dict": (({"image": X}, Y), None),
            "pair of a list": (([X], Y), None),
            "list of batches": (batches, None),
            "batches with weights": ([(x, y, np.ones(len(x))) for x, y in batches], None),
            "batches as dicts": ([{"image": x, "labels": y} for x, y in batches], None),
            "batches without labels": ([x for x, _ in batches], Y),
            "generator": ((batch for batch in batches), None),
            "float64": ((X.astype(np.float64), Y), None),
        }

    def test_all_give_the_same_samples_and_hash(self, forms: dict[str, tuple[Any, Any]]) -> None:
        hashes = {}
        for name, (data, labels) in forms.items():
            batches, truths, report = read(open_data(data, [IMAGE], labels, batch_size=13))
            images = np.concatenate([batch["image"] for batch in batches])
            assert images.dtype == np.float32, name
            np.testing.assert_array_equal(images, X.astype(np.float32), err_msg=name)
            np.testing.assert_array_equal(np.concatenate(truths), Y, err_msg=name)
            assert (report.samples, report.labelled, report.synthetic) == (70, True, False), name
            hashes[name] = report.sha256
        assert len(set(hashes.values())) == 1, hashes

    def test_tensorflow_datasets(self) -> None:
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(32)
        _, labels, report = read(open_data(dataset, [IMAGE]))
        np.testing.assert_array_equal(np.concatenate(labels), Y)
        assert report.sha256 == read(open_data((X, Y), [IMAGE]))[2].sha256

    def test_functions(self) -> None:
        def batches() -> Iterator[np.ndarray]:
            yield X[:4]
            yield X[4:6]

        dataset = open_data(batches, [IMAGE])
        assert not dataset.stream.once
        for _ in range(2):  # a search reads it, and then the validation
            found, _, report = read(dataset)
            np.testing.assert_array_equal(
                np.concatenate([batch["image"] for batch in found]), X[:6]
            )
        assert report.source.endswith("batches")
        assert read(open_data(lambda: {"image": X, "labels": Y}, [IMAGE]))[2].labelled

    def test_several_inputs_and_outputs(self, folder: Path) -> None:
        ids = np.arange(210).reshape(70, 3)
        for data in ({"ids": ids, "image": X}, ([X, ids], None)):
            batches, _, report = read(open_data(data, [IMAGE, IDS]))
            assert [array.dtype for array in batches[0].values()] == [np.float32, np.int32]
            assert report.samples == 70
        np.savez("xy.npz", x=X, y=Y)
        batches, labels, report = read(open_data("xy.npz", [IMAGE], batch_size=70))
        np.testing.assert_array_equal(batches[0]["image"], X.astype(np.float32))
        np.testing.assert_array_equal(labels[0], Y)
        assert (report.samples, report.labelled) == (70, True)
        for names in (("x", "y"), ("left", "right"), ("y",)):  # then y is an input
            named = [TensorSpec(name, (None,), "float32") for name in names]
            assert without_labels({"x": X, "y": Y}, named)[1] is None
        np.savez("both.npz", **{"image": X, "labels.a": Y, "labels.b": Y + 1})
        _, labels, _ = read(open_data("both.npz", [IMAGE], batch_size=70))
        assert list(labels[0]) == ["a", "b"]
        np.testing.assert_array_equal(labels[0]["b"], Y + 1)
        spec = TensorSpec("labels", (None,), "int64")
        batches, labels, _ = read(open_data({"labels": Y}, [spec]))
        assert labels[0] is None
        np.testing.assert_array_equal(batches[0]["labels"], Y[:32])


class TestDescription:
    def test_the_order_of_labels_by_output_does_not_show(self) -> None:
        labels = {"a": Y, "b": Y + 1}
        turned = dict(reversed(labels.items()))
        one, two = (read(open_data(X, [IMAGE], given))[2] for given in (labels, turned))
        assert one.sha256 == two.sha256

    def test_counts(self, folder: Path) -> None:
        fixed = TensorSpec("image", (16, 4, 4, 1), "float32")
        batches, _, report = read(open_data((X, Y), [fixed]))
        assert [len(batch["image"]) for batch in batches] == [16] * 4
        assert report.samples == 64
        assert "the last 6 samples do not fill a batch of 16" in report.notes[0]
        np.savez("x.npz", image=X)
        assert open_data("x.npz", [IMAGE]).stream.samples == 70
        assert open_data([X], [IMAGE]).stream.samples is None
        values = np.ones((5, 4, 4, 1))
        values[0, 0, 0, 0] = np.nan
        values[1, 0, 0, 0] = 1e300  # infinite as float32
        assert read(open_data(values, [IMAGE]))[2].nonfinite == {"image": 2}


def test_of_a_data_set_the_held_out_samples_are_read(folder: Path) -> None:
    rows = 3
    np.savez("mnist.npz", x_train=X[:9], y_train=Y[:9], x_test=X[:rows], y_test=Y[:rows])
    inputs, labels, description = read(open_data("mnist.npz", [IMAGE]))
    assert np.array_equal(np.concatenate([batch["image"] for batch in inputs]), X[:rows])
    assert np.array_equal(np.concatenate(labels), Y[:rows])
    assert description.notes == (
        "its arrays x_test and y_test were read; the others are for training",
    )


def test_a_file_is_streamed(folder: Path) -> None:
    spec = TensorSpec("x", (None, 1000), "float32")
    np.savez_compressed("large.npz", x=np.zeros((8000, 1000), np.float32))  # 32 MB
    dataset = open_data("large.npz", [spec])
    tracemalloc.start()
    try:
        assert sum(len(batch["x"]) for batch in dataset.batches()) == 8000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


class TestRefusals:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (
                X[:, :, :, 0],
                "data array: input 'image' expects image: float32[?, 4, 4, 1], received uint8 of "
                "shape (70, 4, 4). The last axis is missing: pass array[..., None].",
            ),
            (
                [X[0]],
                "data list of batches: input 'image' expects image: float32[?, 4, 4, 1], received "
                "uint8 of shape (4, 4, 1). The batch axis is missing: pass array[None], or batch "
                "the dataset.",
            ),
            (X[..., None], "There is one axis too many: pass array[..., 0]."),
            (
                X[:, :2],
                "received uint8 of shape (70, 2, 4, 1). Reshape or resize the array to fit.",
            ),
            (
                np.full(X.shape, "a"),
                "data array: input 'image' expects float32 values, received <U1. Convert the array "
                "first, if that keeps its meaning: array.astype('float32').",
            ),
            (
                X[:0],
                "data array is empty: the input has no samples. Pass at least one; a verdict needs "
                "some hundred.",
            ),
            ({}, "data dict of arrays is empty: it has no samples."),
            ([], "data list of batches is empty: it gave no samples."),
            (
                (X, Y[:5]),
                "data (x, y) has different numbers of samples (the input: 70, the labels: 5). Pass "
                "the same number of each, in the same order.",
            ),
            (
                [(X, Y[:5])],
                "5 labels were given for 70 samples of list of batches. Pass one label for each "
                "sample, in the same order.",
            ),
            (
                [(X, Y), X],
                "data list of batches: labels came with some batches and not with others. Pass "
                "them with every batch, or leave them out.",
            ),
            (
                {"image": X, "labels": Y, "labels.y": Y},
                "data has both 'labels' and 'labels.y'. Name all labels after outputs, or pass "
                "only 'labels'.",
            ),
            (
                {"a": X, "b": X},
                "data dict of arrays: its arrays do not have the names of the model's inputs. "
                "Expected image: float32[?, 4, 4, 1]; received 'a', 'b'; missing 'image'; unknown "
                "'a', 'b'. Name the arrays after the inputs, and labels 'labels'.",
            ),
            (3, "data of type int cannot be read; expected an .npz or .npy file, a folder of"),
            ("none.npz", "there is no data file 'none.npz'. Check the path."),
            ("none", "data 'none' does not exist; expected an .npz or .npy file, a folder of"),
            (__file__, "has an unknown suffix; expected an .npz or .npy file, a folder of images"),
            (
                "no_such_module_here:f",
                "data 'no_such_module_here:f': there is no module 'no_such_module_here'. Name it "
                "as in an import, or as FILE.py; run from the folder that holds it or install "
                "it.",
            ),
            (
                "os.path:nothing",
                "data 'os.path:nothing': module 'os.path' has no 'nothing'; its functions: "
                "abspath, basename, ",
            ),
            (
                "keyword:nothing",  # it defines no function in Python
                "data 'keyword:nothing': module 'keyword' has no 'nothing'; it defines no "
                "function. Name another module.",
            ),
        ],
    )
    def test_message(self, data: Any, message: str) -> None:
        assert message in refusal(data, [IMAGE])

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_what_does_not_fit_is_said_before_anything_is_read(self, folder: Path, save) -> None:
        save("x.npz", image=X[:, :2])
        save("y.npz", other=X, more=X)
        np.save("x.npy", X[0])
        for data in ("x.npz", "y.npz", "x.npy", X[0], np.full(X.shape, "a"), {"a": X, "b": X}):
            with pytest.raises(InputError):
                open_data(data, [IMAGE])

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("own:leaves", " raised SystemExit: 7 at {folder}/own.py, line 2. Fix the function"),
            ("own:takes", " raised TypeError: takes() missing 1 required positional argument: "),
            ("own:number", " raised TypeError: 'int' object is not callable. Fix the function; it"),
            (
                "own:later",
                " raised ZeroDivisionError: division by zero at {folder}/own.py, line 7. ",
            ),
            ("own:text", " returned 'data.npz'; expected an iterable of batches"),
            ("own:none", " returned None; expected an iterable of batches"),
            ("builtins:dict", ": data dict of arrays is empty"),
            ("odd:f", ": its module raised SyntaxError when it was imported: invalid syntax (odd"),
        ],
    )
    def test_a_function_of_the_users(self, folder: Path, name: str, message: str) -> None:
        (folder / "own.py").write_text(
            "def leaves():\n    raise SystemExit(7)\ndef takes(x): ...\nnumber = 3\n"
            "def later():\n    yield from ()\n    1 / 0\ndef text():\n    return 'data.npz'\n"
            "def none(): ...\n"
        )
        (folder / "odd.py").write_text("def f(:\n")
        sys.modules.pop("own", None)
        before = list(sys.path)
        assert f"data {name!r}" + message.format(folder=folder) in refusal(name, [IMAGE])
        assert sys.path == before

    def test_several_inputs_need_several_arrays(self) -> None:
        both = [IMAGE, IDS]
        for data in (X, [X], [((X,), Y)], ([X], Y)):
            assert "for each of 2 inputs, received 1. The inputs: image" in refusal(data, both)
        assert "different numbers of samples (input 'image': 70, input 'ids': 3)" in refusal(
            {"image": X, "ids": np.ones((3, 3), int)}, both
        )
        assert "different numbers of samples (image: 70, ids: 3)" in refusal(
            [{"image": X, "ids": np.ones((3, 3), int)}], both
        )

    def test_integers_must_be_integers_and_fit(self) -> None:
        assert "input 'ids' expects int32 values, received float64" in refusal(
            np.ones((9, 3)), [IDS]
        )
        assert (
            "data array: input 'ids' takes int32, -2147483648 to 2147483647; received values from "
            "0 to 4294967296. Check how the array was made."
        ) in refusal(np.array([[0, 1, 2**32]]), [IDS])
        boolean = TensorSpec("mask", (None,), "bool")
        assert "takes bool, 0 to 1; received values from 0 to 2" in refusal(np.arange(3), [boolean])

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (Y[:5], "5 labels were given for 70 samples of array. Pass one label for each sample"),
            (np.array(3), "a single value was given for 70 samples of array. Pass one label for"),
            ("labels.csv", "labels 'labels.csv': expected an .npy or .npz file. Save them as one."),
            ("none.npy", "there is no labels file 'none.npy'. Check the path."),
        ],
    )
    def test_labels(self, labels: Any, message: str) -> None:
        assert message in refusal(X, [IMAGE], labels)

    def test_labels_of_another_number_than_the_stream_had(self) -> None:
        batches = [X[:32], X[32:64], X[64:]]
        assert "69 labels were given for 70 samples" in refusal(batches, [IMAGE], Y[:69])
        assert "70 labels were given for 32 samples of" in refusal([X[:32]], [IMAGE], Y)

    def test_batches(self) -> None:
        dataset = open_data((x for x in [X]), [IMAGE])
        read(dataset)
        with pytest.raises(InputError, match=r"is empty: .* an iterator gives them only once"):
            read(dataset)
        fixed = TensorSpec("image", (16, 4, 4, 1), "float32")
        assert "a batch has 70 samples, but the model's input fixes the batch at 16" in refusal(
            [X], [fixed]
        )


TRIPS = TensorSpec("trips", (), "int64")
TEN = np.array(10, np.int64)


class TestInputsWithoutAxes:
    """They belong to every sample of a batch."""

    @pytest.mark.parametrize("form", ["dict", "pair", "npz", "batches"])
    def test_each_form_gives_them_with_every_batch(self, folder: Path, form: str) -> None:
        np.savez("both.npz", image=X, trips=TEN)
        forms = {
            "dict": {"image": X, "trips": TEN},
            "pair": ([X, TEN], None),
            "npz": "both.npz",
            "batches": [{"image": X[:32], "trips": 10}, {"image": X[32:], "trips": 10}],
        }
        batches, _, description = read(open_data(forms[form], [IMAGE, TRIPS]))
        assert description.samples == 70
        assert [batch["trips"].shape for batch in batches] == [()] * len(batches)
        assert {int(batch["trips"]) for batch in batches} == {10}
        _, _, by_dict = read(open_data(forms["dict"], [IMAGE, TRIPS]))
        assert description.sha256 == by_dict.sha256

    def test_other_values_are_other_data(self) -> None:
        hashes = {
            read(open_data({"image": X, "trips": np.array(n)}, [IMAGE, TRIPS]))[2].sha256
            for n in (1, 2)
        }
        assert len(hashes) == 2
        assert "is empty: the labels has one value without" in refusal((X, np.array(3)), [IMAGE])


def test_a_search_looks_at_a_bounded_number_of_samples() -> None:
    batches = open_data([np.zeros((100, 3), np.int32)] * 9, [IDS]).for_search()
    assert [len(batch["ids"]) for batch, _ in batches] == [100, 100, 100]


def test_a_function_makes_a_new_iterator_at_each_call() -> None:
    used_up = iter([X])
    dataset = open_data(lambda: used_up, [IMAGE])
    read(dataset)
    with pytest.raises(InputError, match="returned an iterator twice"):
        read(dataset)
