"""The picture of the error by layer: which layers, how long, on which scale."""

import math

import pytest

from tfmp.converters.report.explanation import Culprit, Explanation, LayerError
from tfmp.converters.report.layers import layer_bars, ops_text, table_rows


def layer(name: str, local: float, cumulative: float, jump: float = 0.0, **more) -> LayerError:
    return LayerError(name, ("Conv",), local, cumulative, jump, **more)


def explained(*layers: LayerError, culprit: str = "b") -> Explanation:
    return Explanation(
        (), 4, layers=layers, largest_jump=culprit, culprit=Culprit(culprit, "largest jump")
    )


def test_scales_of_errors_and_names_of_kinds() -> None:
    picture = layer_bars(explained(layer("a", 2.0**-13, 2.0**-12), layer("b", 1e-4, 2.0**-11)))
    assert (picture.scale, picture.more) == ("linear", 0)
    assert [(bar.length, bar.alone) for bar in picture.bars] == [(0.5, 0.25), (1.0, 1e-4 * 2**11)]
    assert [bar.culprit for bar in picture.bars] == [False, True]
    assert picture.bars[0].text == "0.000244 (alone 0.000122)"
    picture = layer_bars(
        explained(*(layer(f"l{i}", 1e-4, 1e-4) for i in range(4)), layer("b", 1e-1, 1e-1))
    )
    assert picture.scale == "logarithmic"
    assert picture.bars[0].length == pytest.approx(3 / 6)  # 1e-7 to 1e-4, of 1e-7 to 1e-1
    assert picture.bars[-1].length == 1.0
    many = LayerError("a", ("Mul", "Add", "Mul", "Exp", "Sum", "Div", "Neg"), 0, 0, 0)
    assert ops_text(many) == "Mul, Add, Exp, Sum and 2 more"


def test_what_is_not_finite_is_as_long_as_can_be_and_counted() -> None:
    lost = layer("b", math.inf, math.inf, math.inf, nonfinite=1500, local_nonfinite=7)
    picture = layer_bars(explained(layer("a", 0.0, 0.0), lost))
    assert picture.scale == "logarithmic"
    assert [(bar.length, bar.alone) for bar in picture.bars] == [(0.0, 0.0), (1.0, 1.0)]
    assert picture.bars[1].text == "1,500 not finite (alone 7 not finite)"


def test_of_many_layers_the_telling_ones_are_shown_in_order() -> None:
    layers = [layer(f"l{i}", 1e-6 * i, 1e-4) for i in range(300)]
    layers[5] = layer("b", 0.0, 1e-4)
    picture = layer_bars(explained(*layers))
    names = [bar.label for bar in picture.bars]
    assert names == ["b", *(f"l{i}" for i in range(261, 300))]
    assert picture.more == 260
    rows, left_out = table_rows(explained(*layers))
    assert (len(rows), left_out, rows[0].layer) == (200, 100, "b")
