"""The picture of the roofline: its roofs, its points and their names."""

from tfmp.roofline.figures import roof_picture
from tfmp.roofline.peaks import Peaks
from tfmp.roofline.verdict import Placement, Setting
from tfmp.roofline.work import Work

PEAKS = Peaks({"float32": 1e11, "float16": 8e11, "tf32": 4e11}, 1e10, 1e-5, 1e-6)


def placed(products: dict[str, int], seconds: float, tf32: bool = False) -> Placement:
    work = Work(products, 0, 10**5, 3)
    return Placement(work, seconds, PEAKS, Setting("mixed_float16", tf32))


def test_roofs_are_those_of_the_dtypes_and_the_slowest_layer_is_named():
    layers = {"quick": placed({"float16": 10**6}, 1e-4), "slow": placed({"float32": 10**6}, 1e-3)}
    drawn = roof_picture(PEAKS, placed({"float16": 10**6}, 2e-3), layers)
    texts = [part.partition("<")[0] for part in drawn.split(">")]
    assert [text for text in texts if "FLOP/s" in text and "float" in text] == [
        "float16, 800 GFLOP/s",
        "float32, 100 GFLOP/s",
    ]
    assert "slowest: slow" in texts
    assert "quick" not in texts
    assert "tf32, 400 GFLOP/s" in roof_picture(PEAKS, placed({"float32": 9}, 1.0, True), {})


def test_nothing_that_computes_has_no_picture():
    assert roof_picture(PEAKS, None, {"empty": placed({}, 1e-3)}) == ""
