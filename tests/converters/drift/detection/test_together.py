"""Boxes, scores and classes as outputs of their own: rows that change places, and boxes that do."""

import numpy as np
import pytest

from tfmp.converters.drift.detection.together import find_group, in_order

GENERATOR = np.random.default_rng(0)
CORNER = GENERATOR.uniform(0, 0.7, (40, 6, 2))
FOUND = {
    "detection_boxes": np.concatenate([CORNER, CORNER + 0.2], axis=2).astype(np.float32),
    "detection_scores": -np.sort(-GENERATOR.uniform(0.3, 0.99, (40, 6)), axis=1).astype(np.float32),
    "detection_classes": GENERATOR.integers(1, 90, (40, 6)).astype(np.float32),
    "detection_masks": GENERATOR.random((40, 6, 3, 3)).astype(np.float32),
    "num_detections": np.full(40, 6, np.float32),
}
FOUND["detection_scores"][:, 3] = FOUND["detection_scores"][:, 2]


def swapped(*names: str) -> dict[str, np.ndarray]:
    """The third and the fourth row in each other's place, for some of the outputs."""
    changed = {name: values.copy() for name, values in FOUND.items()}
    for name in names:
        changed[name][:, [2, 3]] = changed[name][:, [3, 2]]
    return changed


def ordered(
    candidate: dict[str, np.ndarray], reference: dict[str, np.ndarray] = FOUND
) -> dict[str, np.ndarray]:
    pairs = {name: (reference[name], candidate[name]) for name in FOUND}
    return {name: other for name, (_, other) in in_order(find_group(pairs), pairs).items()}


ROWS = ("detection_boxes", "detection_scores", "detection_classes", "detection_masks")


def test_detections_that_change_places_are_where_they_were():
    found = ordered(swapped(*ROWS))
    for name, values in FOUND.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("alone", ["detection_boxes", "detection_classes"])
def test_what_changes_places_without_the_rest_is_wrong(alone):
    scores = FOUND["detection_scores"] - np.float32([0, 0, 0, 0.2, 0.4, 0.6])
    candidate = {**swapped(alone), "detection_scores": scores}
    found = ordered(candidate, {**FOUND, "detection_scores": scores})
    np.testing.assert_array_equal(found[alone], candidate[alone])


def test_a_list_that_is_no_longer_sorted_stays_as_it_is():
    turned = {name: values[:, ::-1] if name in ROWS else values for name, values in FOUND.items()}
    np.testing.assert_array_equal(ordered(turned)["detection_boxes"], turned["detection_boxes"])


def test_a_detection_that_is_missing_shifts_the_others_only():
    shorter = {name: values.copy() for name, values in FOUND.items()}
    for name in ROWS:
        shorter[name][:, 1:5], shorter[name][:, 5] = FOUND[name][:, 2:], 0
    found = ordered(shorter)
    kept = [0, 2, 3, 4, 5]
    np.testing.assert_array_equal(
        found["detection_boxes"][:, kept], FOUND["detection_boxes"][:, kept]
    )
    assert not found["detection_boxes"][:, 1].any()


def group(**outputs: np.ndarray):
    return find_group({name: (values, values) for name, values in outputs.items()})


def test_which_outputs_belong_together():
    pairs = {name: (values, values) for name, values in FOUND.items()}
    found = find_group(pairs)
    assert found.boxes == "detection_boxes"
    assert found.beside == ("detection_scores", "detection_classes")
    assert found.along == ("detection_masks",)
    boxes, scores = FOUND["detection_boxes"], FOUND["detection_scores"]
    assert group(Identity=boxes, Identity_1=scores).boxes == "Identity"
    assert group(Identity=boxes, Identity_1=scores[:, ::-1].copy()) is None  # not sorted
    assert group(Identity=boxes[..., ::-1].copy(), Identity_1=scores) is None  # no corners
    assert group(pred_boxes=boxes, logits=np.zeros((40, 6, 9))).beside == ("logits",)
    assert group(pred_boxes=boxes, hidden=np.zeros((40, 6, 9))) is None
    assert group(boxes=boxes) is None
