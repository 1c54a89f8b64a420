"""The picture of the roofline: names that can be read."""

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
