"""The picture of the roofline: names that can be read."""

import re
from itertools import combinations

import pytest

from tfmp.roofline.counts import Work
from tfmp.roofline.figures import roof_picture
from tfmp.roofline.peaks import Peaks
from tfmp.roofline.roof import Roofline
from tfmp.roofline.verdict import Setting, place


@pytest.mark.parametrize(
    ("rate", "names"), [(1.1e11, ["float32, float16"]), (8e11, ["float16", "float32"])]
)
def test_roofs_of_one_height_have_one_name(rate, names):
    peaks = Peaks({"float32": 1e11, "float16": rate}, 1e10, 1e-5, 1e-6, "made up")
    work = Work({"float16": 10**6, "float32": 10**6}, 0, 10**5, 3)
    step = place(work, Work(), 1e-3, peaks, Setting("mixed_float16"))
    drawn = roof_picture(Roofline(peaks, {"mixed_float16": step}), "mixed_float16")
    texts = [part.partition("<")[0] for part in drawn.split(">")]
    assert sorted(text for text in texts if "float" in text) == names


def test_names_of_layers_do_not_cover_each_other():
    """Blocks of one shape lie at one point: each has its own line, or no name."""
    peaks = Peaks({"float32": 1e11}, 1e10, 1e-5, 1e-6, "made up")
    step = place(Work({"float32": 10**6}, 0, 10**5, 3), Work(), 1e-3, peaks, Setting("float32"))
    layers = {f"block/a_long_name_{number}": {"float32": step} for number in range(5)}
    drawn = roof_picture(Roofline(peaks, {"float32": step}, layers), "float32")
    label = r'text-anchor: (start|end);[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>(a_long_name_\d)<'
    names = re.findall(label, drawn)
    assert len(names) >= 3
    places = [(float(x) - 65 * (side == "end"), float(y)) for side, x, y, _ in names]
    for (x, y), (other_x, other_y) in combinations(places, 2):
        assert abs(x - other_x) > 60 or abs(y - other_y) > 7, names
