"""Code that FP16 harms on numbers as they are, or may be later, is float32; other code is not."""

import re

import keras
import numpy as np
import pytest
from backends import only_on
from keras import layers, ops
from own_layer import Own, OwnModel
from plan_hazards import BENIGN, HARMFUL, in_float32, masked, model_of

from tfmp import plan, revert


def rows_of(functions, policy="mixed_float16", **options) -> dict:
    return {row.path: row for row in plan(model_of(functions, **options), policy).rows}


def some(functions, *quick):
    """Some of the functions with the quick tests, all others with the slow ones."""
    others = [name for name in functions if name not in quick]
    return pytest.mark.parametrize(
        "names", [quick, pytest.param(others, marks=pytest.mark.slow)], ids=["some", "others"]
    )


@some(HARMFUL, "epsilon", "norm", "centered", "product", "fourth_in_float32")
@only_on("tensorflow", "jax", reason="PyTorch takes norms in float32")
def test_what_fp16_harms_is_float32(names):
    rows = rows_of({name: HARMFUL[name] for name in names})
    assert {name: rows[name].policy for name in names} == dict.fromkeys(names, "float32")


# JAX's gradient of a quotient divides by the square of the divisor, which FP16 may not hold.
QUOTIENTS = ("large_epsilon", "share", "sum_of_gates", "saturating", "by_maximum")


@some(BENIGN, "own_softmax", "gelu", "mean", "large_epsilon", "routed")
def test_what_fp16_does_not_harm_stays(names):
    if keras.backend.backend() == "jax":
        names = [name for name in names if name not in QUOTIENTS]
    rows = rows_of({name: BENIGN[name] for name in names})
    assert {name: rows[name].reason for name in names} == dict.fromkeys(names, "base policy")


def test_rounding_alone_does_not_count_on_the_largest_numbers():
    draw = np.random.default_rng(3).standard_normal
    first, second = draw((8, 128)), draw((128, 8)) / 8

    def decay(x):
        return ops.exp(-ops.abs(x @ ops.cast(first, x.dtype) @ ops.cast(second, x.dtype)))

    assert rows_of({"decay": decay}, shape=(8,))["decay"].reason == "base policy"


# The change that a reason names, and code with it.
CHOSEN = "computes in 16 bits with the constant chosen, ops.where(mask, -3e4, x)"
CAST = "computes in 16 bits with ops.cast(x, 'float32') before it and a cast back"
UNIT = HARMFUL["root_mean_square"]
FLAGS = np.triu(np.ones((8, 8)))[3]
REMEDIES = {
    "everywhere": (masked, lambda x: ops.where(np.ones(8), -3e4, x), CHOSEN),
    "shares": (
        lambda x: ops.softmax(x + ops.cast(FLAGS, x.dtype) * -1e9),
        lambda x: ops.softmax(ops.where(FLAGS, -3e4, x)),
        CHOSEN,
    ),
    "unit": (UNIT, in_float32(UNIT), CAST),
}


@only_on("tensorflow", "jax", reason="names of operations")
def test_the_reason_has_the_loss_the_operation_with_its_line_and_a_change_that_mends_it():
    rows = rows_of({name: code for name, (code, _, _) in REMEDIES.items()})
    place = r" in float16 on numbers (as seen|x 128): \w+ at \w+\.py:\d+; "
    for name, (_, _, change) in REMEDIES.items():
        loss = r"(is infinite or NaN|loses \d+% of its standard deviation)"
        assert re.fullmatch(loss + place + re.escape(change), rows[name].reason)
    mended = rows_of({name: code for name, (_, code, _) in REMEDIES.items()})
    assert {name: mended[name].reason for name in REMEDIES} == dict.fromkeys(
        REMEDIES, "base policy"
    )


def test_no_change_is_named_where_the_result_itself_does_not_fit():
    assert ";" not in rows_of({"fourth": HARMFUL["fourth"]})["fourth"].reason


def test_a_plan_is_the_same_for_all_batches_of_a_size():
    model = model_of({"unit": HARMFUL["norm"], "sum": BENIGN["sum"]}, shape=(64, 8))
    draw = np.random.default_rng(0)
    plans = {str(plan(model, "mixed_float16", data=draw.normal(size=(8, 64, 8)))) for _ in range(3)}
    assert plans == {str(plan(model, "mixed_float16"))}


def test_equal_code_is_measured_once(monkeypatch):
    from tfmp.precision.measuring import needs

    measured = []

    class Counted(needs.Measurement):
        def measure(self):
            measured.append(self.piece.node.path)
            super().measure()

    monkeypatch.setattr(needs, "Measurement", Counted)
    x = inputs = keras.Input((8,))
    for index in range(3):
        x = Own(masked, name=f"own{index}")(layers.Dense(8)(x))
    model = keras.Model(inputs, layers.Dense(1)(Own(ops.tanh)(x)))
    kept = {row.path: row.policy for row in plan(model, "mixed_float16").rows}
    assert len(measured) == 2
    assert [kept[f"own{index}"] for index in range(3)] == ["float32"] * 3


def test_bfloat16_holds_what_fp16_cannot():
    rows = rows_of({"mask": masked, "fourth": lambda x: x**4}, "mixed_bfloat16")
    assert rows["mask"].policy == rows["fourth"].policy == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("function", "kept"),
    [(lambda x: x**4, True), (lambda x: 1 / (1 + x**4), False)],
    ids=["power", "inside"],
)
def test_the_layer_that_reads_a_power_goes_with_it(function, kept):
    inputs = keras.Input((8,))
    x = Own(function, name="own")(layers.Dense(8)(inputs))
    x = layers.Dense(8, name="next")(layers.Reshape((8,), name="move")(x))
    model = keras.Model(inputs, layers.Dense(8)(layers.Dense(8, name="later")(x)))
    rows = {row.path: row for row in plan(model, "mixed_float16").rows}
    assert (rows["next"].policy == "float32") is kept
    assert rows["later"].policy == "mixed_float16"
    if kept:
        assert rows["move"].reason == rows["next"].reason
        assert rows["next"].reason.startswith("reads numbers of own, which reach ")


@only_on("tensorflow", "jax", reason="NumPy on tensors with gradients")
def test_a_model_that_takes_exponentials_between_its_layers_does_it_in_float32():
    def odds(own, x):
        x = own.stem(x)
        return own.out(own.later(own.read(own.values(x) * ops.exp(own.scores(x)))))

    names = ("stem", "scores", "values", "read", "later", "out")
    model = OwnModel(odds, **dict.fromkeys(names, 8))
    model(np.ones((2, 8)))
    made = plan(model, "mixed_float16")
    rows = {row.path: row for row in made.rows}
    assert rows["scores"].reason.startswith("feeds the model, which ")
    assert rows["read"].reason.startswith("reads numbers of the model, which reach ")
    assert rows["stem"].policy == rows["later"].policy == "mixed_float16"
    assert not made.notes
    made.apply()
    assert np.isfinite(model(np.ones((2, 8)))).all()  # all dtypes meet


# --- built-in layers, which are not traced: rules have to know them ---


@pytest.mark.parametrize("masked", [True, False])
def test_a_mean_is_float32_where_it_gets_a_mask(masked):
    inputs = keras.Input((512, 8))
    x = layers.Dense(8)(layers.Masking()(inputs) if masked else inputs)
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    model = keras.Model(inputs, layers.Dense(2)(x))
    made = plan(model, "mixed_float16")
    row = next(row for row in made.rows if row.path == "pool")
    assert row.reason == ("sums all steps where it gets a mask" if masked else "base policy")
    if masked:
        made.apply()
        assert np.isfinite(ops.convert_to_numpy(model(np.full((2, 512, 8), 200.0)))).all()
        revert(model)
