"""calibrate: what it measures, what it recommends, and what it refuses.

`tests/test_backends.py` runs these on JAX and PyTorch, too.
"""

import json

import keras
import numpy as np
import pytest
from keras import layers
from matplotlib.backends.backend_agg import FigureCanvasAgg
from notebook_cells import headline_and_page
from own_layer import OwnModel
from stacks import stack

from tfmp.calibration.measure import calibrate
from tfmp.calibration.report import GradientReport, LayerGradients, _figure, histogram_of
from tfmp.loss_scaling.optimizer import LossScaleOptimizer

HALF = "mixed_float16"
X = np.random.default_rng(0).standard_normal((40, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def linear(factor: float = 1.0, policy: str = HALF) -> keras.Model:
    """One weight of 1 per feature, so that every gradient is known.

    The loss is `factor` times the sum of the outputs: each output's gradient is `factor`, and
    each weight's is `factor` times the column sum of x.
    """
    only = layers.Dense(1, use_bias=False, dtype=policy, name="only")

    def loss(y, predicted):
        return keras.ops.sum(predicted) * factor

    return stack(only, optimizer="sgd", loss=loss)


def small(**options) -> keras.Model:
    hidden = layers.Dense(8, activation="tanh", name="hidden", **options)
    out = layers.Dense(1, name="out", dtype="float32")
    return stack(hidden, out, optimizer="sgd", loss="mse")


# --- the histogram ---


def test_underflow_is_what_float16_rounds_to_zero():
    values = np.array([0.0, 2.0**-26, 2.0**-25, 1.01 * 2.0**-25, 2.0**-24, 1.0])
    for scale in (1.0, 2.0, 8.0):
        scaled = values * scale
        lost = np.count_nonzero((scaled != 0) & (scaled.astype(np.float16) == 0))
        assert histogram_of(values).underflow(scale) == lost / 5


# --- the recommendation ---


@pytest.mark.parametrize(("factor", "margin"), [(1.0, 1.0), (3e-7, 8.0)])
def test_the_scale_is_the_largest_power_of_two_with_the_margin(factor, margin):
    report = calibrate(linear(factor), (X, Y), batch_size=40, margin=margin)
    largest = factor * max(1.0, np.abs(X.sum(axis=0)).max())
    assert report.largest.histogram.largest == pytest.approx(largest, rel=1e-5)
    assert largest * margin * report.recommended_scale <= 65504
    assert largest * margin * report.recommended_scale * 2 > 65504
    assert np.log2(report.recommended_scale) % 1 == 0


def test_what_fits_at_the_recommended_scale_is_not_skipped_and_twice_margin_is():
    report = calibrate(linear(), (X, Y), batch_size=40, margin=1.0)
    for factor, finite in ((1.0, True), (2.0, False)):
        optimizer = LossScaleOptimizer(
            keras.optimizers.SGD(), report.recommended_scale * factor, name=f"x{factor:g}"
        )
        net = linear()
        net.compile(optimizer, lambda y, predicted: keras.ops.sum(predicted), run_eagerly=True)
        net.fit(X, Y, batch_size=40, verbose=0)
        assert (int(optimizer.iterations) == 1) is finite


def test_a_float32_model_is_measured_as_its_plan_would_have_it():
    net = small()
    report = calibrate(net, (X, Y))
    assert {row.path: row.dtype for row in report.layers} == {"hidden": "float16", "out": "float32"}
    assert {layer.dtype_policy.name for layer in net.layers} == {"float32"}


def test_gradients_of_float32_layers_do_not_bound_the_scale():
    half, out = layers.Dense(4, dtype=HALF, name="half"), layers.Dense(1, name="out")
    net = stack(half, layers.Rescaling(1e-6), out, optimizer="sgd", loss="mse")
    report = calibrate(net, (X, Y))
    rows = {row.path: row for row in report.layers}
    assert report.largest.path == "half"
    assert rows["out"].histogram.largest > 1e3 * rows["half"].histogram.largest
    # 2**16 times 8 times what half has: far more than out could take.
    assert rows["out"].histogram.largest * report.recommended_scale > 65504


def test_frozen_layers_before_the_first_that_trains_have_no_gradient():
    body = [layers.Dense(4, dtype=HALF, name=name) for name in ("frozen", "trained", "behind")]
    net = keras.Sequential([layers.Input((4,)), *body, layers.Dense(1, dtype="float32")])
    body[0].trainable = body[2].trainable = False
    net.compile("sgd", "mse")
    rows = [row.path for row in calibrate(net, (X, Y)).layers if row.narrow]
    assert rows == ["trained", "behind"]
    body[1].trainable = False
    net.compile("sgd", "mse")
    with pytest.raises(ValueError, match="get gradients in float16"):
        calibrate(net, (X, Y))


def test_the_measurement_is_of_float32_and_changes_nothing():
    net = small(dtype=HALF, kernel_regularizer="l2")
    before = [variable.numpy().tolist() for variable in net.variables]
    in_half = calibrate(net, (X, Y))
    assert [variable.numpy().tolist() for variable in net.variables] == before
    assert net.layers[0].dtype_policy.name == HALF
    net.layers[0].dtype_policy = "float32"
    assert calibrate(net, (X, Y)).to_dict() == in_half.to_dict()


# --- data ---


def batches():
    for first in range(0, 40, 10):
        yield X[first : first + 10], Y[first : first + 10]


@pytest.mark.parametrize(
    "data", [lambda: (X, Y, np.ones(40)), batches], ids=["weighted", "generator"]
)
def test_every_form_of_data_gives_the_same_report(data):
    net = small()
    report = calibrate(net, data(), batch_size=10)
    assert (report.batches, report.samples) == (4, 40)
    assert report.to_dict() == calibrate(net, (X, Y), batch_size=10).to_dict()


def test_a_model_that_makes_its_own_targets_needs_none():
    def autoencode(own, x):
        y = own.decode(own.encode(x))
        own.add_loss(keras.ops.mean(keras.ops.square(x - y)))
        return y

    net = OwnModel(autoencode, encode=4, decode=4)
    net(X)
    net.compile("sgd")
    assert calibrate(net, X).to_dict() == calibrate(net, [(X[:32],), (X[32:],)]).to_dict()


def test_no_more_batches_are_taken_than_asked_for():
    endless = batches()
    told = []
    assert calibrate(small(), endless, batches=3, count=lambda *n: told.append(n)).samples == 30
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert len(list(endless)) == 1


# --- table, dict, picture ---


def test_a_notebook_shows_picture_and_table():
    report = calibrate(small(), (X, Y))
    headline, page = headline_and_page(report._repr_html_())
    assert headline == ". ".join(str(report).splitlines()[:2])
    assert "<svg" in page
    assert f'<th scope="row">{report.layers[0].path}</th>' in page
    assert "#000000" not in page.partition("<svg")[2].partition("</svg>")[0]  # ink of the page


def test_the_dict_is_plain_json():
    report = calibrate(small(), (X, Y))
    loaded = json.loads(json.dumps(report.to_dict()))
    hidden = loaded["layers"][0]
    assert hidden["values"] == 40 * 8 + 2 * (4 * 8 + 8)
    assert sum(hidden["exponents"].values()) + hidden["zeros"] == hidden["values"]
    assert loaded["recommended_scale"] == report.recommended_scale


def test_what_is_saved(tmp_path):
    report = calibrate(small(), (X, Y))
    for name, start in (("r.png", b"\x89PNG"), ("r.pdf", b"%PDF")):
        assert report.save(tmp_path / name).read_bytes().startswith(start)
    assert json.loads(report.save(tmp_path / "r.json").read_text()) == report.to_dict()
    assert "<svg" in report.save(tmp_path / "r.html").read_text()


def test_the_legend_lies_below_the_name_of_the_axis():
    row = LayerGradients("a", "float16", histogram_of(np.ones(1)))
    figure = _figure(GradientReport(1.0, 8.0, 1, 1, (row,)))
    FigureCanvasAgg(figure).draw()
    legend = (figure.legends or [figure.axes[0].get_legend()])[0].get_window_extent()
    assert legend.y1 < figure.axes[0].xaxis.label.get_window_extent().y0


# --- refusals ---


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: calibrate(small(), []), ValueError, "at least one batch; received an empty"),
        (lambda: calibrate(small(), X), ValueError, r"received x alone\. Pass \(x, y\)"),
        (lambda: calibrate(small(), [(X,) * 4]), TypeError, "received tuple of length 4"),
        (lambda: calibrate(small(), (X, Y), margin=0.5), ValueError, "of at least 1; received 0.5"),
        (
            lambda: calibrate(linear(0.0), (X, Y)),
            ValueError,
            "every measured gradient of a float16 layer is exactly zero",
        ),
        (
            lambda: calibrate(linear(policy="mixed_bfloat16"), (X, Y)),
            ValueError,
            "expects layers that get gradients in float16",
        ),
        (
            lambda: calibrate(linear(float("inf")), (X, Y)),
            ValueError,
            r"expects finite gradients in float32; the gradients of only are not finite\. tfmp",
        ),
    ],
)
def test_what_cannot_be_calibrated_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
