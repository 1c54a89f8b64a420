"""Pairing of outputs and the accumulation of one candidate."""

import numpy as np
import pytest

from tfmp.converters.drift.compare import Comparison, match
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.shared.tensors import TensorSpec


def spec(name: str, *shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name, (None, *shape), dtype)


class TestMatch:
    def test_by_name_without_the_decoration_of_a_format(self) -> None:
        found = match(
            [spec("image", 8), spec("mask", 8)],
            [spec("serving_default_mask:0", 8), spec("serving_default_image:0", 8)],
            "x",
        )
        assert found.names == {
            "image": "serving_default_image:0",
            "mask": "serving_default_mask:0",
        }
        assert found.notes == ()

    def test_by_position_and_said(self) -> None:
        found = match([spec("a", 3), spec("b", 3)], [spec("p", 3), spec("q", 3)], "x")
        assert found.names == {"a": "p", "b": "q"}
        assert found.notes == (
            "outputs matched by position and shape, not by name: 'a' with 'p', 'b' with 'q'",
        )

    def test_by_shape_where_positions_contradict_it(self) -> None:
        found = match([spec("a", 3), spec("b", 4)], [spec("p", 4), spec("q", 3)], "x")
        assert found.names == {"a": "q", "b": "p"}

    def test_further_outputs_are_left_aside_and_said(self) -> None:
        found = match([spec("a", 3)], [spec("a", 3), spec("extra", 3)], "x")
        assert found.names == {"a": "a"}
        assert found.notes == ("outputs that the reference does not have were left aside: 'extra'",)

    def test_further_inputs_are_refused(self) -> None:
        with pytest.raises(InputError, match=r"m\.onnx: takes inputs that .* not have: 'extra'\."):
            match([spec("a", 3)], [spec("a", 3), spec("extra", 3)], "m.onnx", "input")

    @pytest.mark.parametrize(
        "candidate", [[spec("p", 9)], [spec("p", 3)], [spec("p", 3), spec("q", 9)], []]
    )
    def test_no_counterpart(self, candidate) -> None:
        with pytest.raises(InputError) as caught:
            match([spec("a", 3), spec("b", 3)], candidate, "model.onnx", "input")
        assert "model.onnx: its inputs cannot be matched with the reference's. Expected a: " in str(
            caught.value
        )

    def test_shapes_that_leave_a_choice_do_not_decide(self) -> None:
        reference = [spec("a", 3), spec("b", 4), spec("c", 3)]
        candidate = [spec("p", 3), spec("q", 3), spec("r", 4)]
        with pytest.raises(InputError, match="cannot be matched"):
            match(reference, candidate, "x")


def classifier() -> Comparison:
    return Comparison("c.onnx", [spec("probs", 3)], [spec("probs:0", 3)])


SCORES = np.array([[3.0, 1, 0], [0, 5, 1]])


class TestComparison:
    def test_a_reference_without_outputs_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"c\.onnx: the reference has no outputs, so there is"):
            Comparison("c.onnx", [], [spec("probs", 3)])

    def test_other_shapes_are_no_counterparts(self) -> None:
        with pytest.raises(RunnerError) as caught:
            classifier().update({"probs": SCORES}, {"probs:0": SCORES[:1]})
        assert str(caught.value) == (
            "c.onnx: output 'probs:0' has shape (1, 3), the reference's 'probs' has (2, 3): values "
            "have no counterparts. Convert this model again, or name the candidate that belongs to "
            "this reference."
        )

    def test_integers_for_floats_are_no_distance(self) -> None:
        with pytest.raises(RunnerError, match="output 'probs:0' is int8, the reference's 'probs'"):
            classifier().update({"probs": SCORES}, {"probs:0": SCORES.astype(np.int8)})

    def test_a_missing_output(self) -> None:
        with pytest.raises(RunnerError, match="its run gave no output 'probs:0'; it gave 'other'"):
            classifier().update({"probs": SCORES}, {"other": SCORES})

    def test_texts_of_tensorflow_and_onnx_runtime_are_the_same(self) -> None:
        comparison = Comparison("c", [spec("t", dtype="string")], [spec("t", dtype="string")])
        comparison.update(
            {"t": np.array([b"cat", b"dog"], object)}, {"t": np.array(["cat", "cow"], object)}
        )
        assert comparison.outputs()[0].flips == 1


class TestLabels:
    def two_outputs(self) -> Comparison:
        specs = [spec("probs", 3), spec("embedding", 16)]
        return Comparison("c", specs, specs)

    batch = staticmethod(
        lambda: {"probs": SCORES, "embedding": np.random.default_rng(0).random((2, 16)) * 9}
    )

    def test_that_fit_several_outputs_must_be_named(self) -> None:
        with pytest.raises(InputError) as caught:
            self.two_outputs().update(self.batch(), self.batch(), np.array([0, 1]))
        assert str(caught.value) == (
            "labels of shape (2,) fit 2 of the outputs probs, embedding. Pass labels by output "
            "name: a dict in Python, arrays named labels.OUTPUT in an .npz file."
        )

    def test_by_name(self) -> None:
        comparison = self.two_outputs()
        for _ in range(2):
            comparison.update(self.batch(), self.batch(), {"embedding": np.array([0, 1])})
        assert [(label.output, label.samples) for label in comparison.labels()] == [
            ("embedding", 4)
        ]

    def test_by_an_unknown_name(self) -> None:
        with pytest.raises(InputError) as caught:
            classifier().update({"probs": SCORES}, {"probs:0": SCORES}, {"y": np.array([0, 1])})
        assert str(caught.value) == (
            "labels are given for 'y', which is no output of the reference; its outputs: probs. "
            "Name the labels after these."
        )

    def test_of_another_number(self) -> None:
        with pytest.raises(InputError, match="output 'probs': 1 came with a batch of 2 samples"):
            classifier().update({"probs": SCORES}, {"probs:0": SCORES}, np.array([0]))


def test_places_without_a_label_are_not_compared():
    scores = np.zeros((2, 3, 4), np.float32)
    scores[..., 1] = 5
    other = scores.copy()
    other[:, 2] = [9, -7, 30, 2]
    spec = TensorSpec("y", (None, 3, 4), "float32")
    comparison = Comparison("c", [spec], [spec])
    comparison.update({"y": scores}, {"y": other}, np.array([[1, 1, -100], [1, 0, 255]]))
    found = comparison.outputs()[0]
    assert (found.rel_l2, found.decided, found.changed) == (0, 4, 0)
    other[0, 2, 0] = np.nan
    comparison.start_over()
    comparison.update({"y": scores}, {"y": other}, np.array([[1, 1, -100], [1, 0, 255]]))
    assert comparison.outputs()[0].nonfinite == 1
    comparison.update({"y": scores}, {"y": other})
    assert not comparison.unread
    assert comparison.outputs()[0].changed == 2
