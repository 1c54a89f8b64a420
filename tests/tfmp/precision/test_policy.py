"""plan, apply and revert: what a plan says, that it changes nothing else, and that it is undone."""

import json
import re

import keras
import numpy as np
import pytest
from backends import only_on
from keras import layers, ops
from notebook_cells import headline_and_page
from own_layer import Own
from probe_layer import Probe
from stacks import stack

from tfmp import PrecisionPlan, plan, policy_scope, revert
from tfmp.precision.plan_table import LayerPrecision


def dtypes_traced() -> set[str]:
    seen = set(Probe.seen)
    Probe.seen.clear()
    return seen


def small_model() -> keras.Model:
    Probe.seen.clear()
    hidden, out = layers.Dense(8, "relu", name="hidden"), layers.Dense(3, "softmax", name="out")
    options = {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"}
    return stack(hidden, Probe(name="probe"), out, **options)


def data():
    x = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
    return x, (x.sum(axis=1) > 0).astype("int32")


def as_arrays(variables) -> list[np.ndarray]:
    return [np.asarray(ops.convert_to_numpy(variable.value)) for variable in variables]


# --- the plan itself ---


def test_a_notebook_shows_a_row_for_each_layer():
    rows = (LayerPrecision("a", "Dense", "float32", "float32", "float32", "keep_float32: a"),)
    plan = PrecisionPlan("mixed_float16", "asked for by name", rows, ("a note",))
    headline, page = headline_and_page(plan._repr_html_())
    assert headline == "mixed_float16: asked for by name"
    assert "<li>Note: a note</li>" in page
    assert '<th scope="row">a</th><td>Dense</td><td>float32</td><td>float32</td>' in page


def test_a_plan_prints_as_a_table():
    text = str(plan(small_model(), "mixed_float16"))
    assert text.splitlines() == [
        "mixed_float16: asked for by name",
        "layer   class       computes in  weights  because",
        "------  ----------  -----------  -------  " + "-" * 24,
        "/       Sequential  float16      float32  base policy",
        "hidden  Dense       float16      float32  base policy",
        "probe   Probe       float16      float32  base policy",
        "out     Dense       float32      float32  output: the loss sees it",
    ]


def test_a_plan_round_trips_through_json():
    made = plan(small_model(), "mixed_float16", keep_float32="hidden")
    read = PrecisionPlan.from_dict(json.loads(json.dumps(made.to_dict())))
    assert read == made
    assert str(read) == str(made)


def test_other_data_than_a_plan_is_refused():
    for data in ({"policy": "float32"}, [1]):
        with pytest.raises(ValueError, match=r"expects what plan\.to_dict\(\) returned; received"):
            PrecisionPlan.from_dict(data)


def test_a_plan_read_from_json_needs_its_model():
    made = plan(small_model(), "mixed_float16")
    read = PrecisionPlan.from_dict(made.to_dict())
    with pytest.raises(ValueError, match=re.escape("Pass one: plan.apply(model).")):
        read.apply()


# --- apply ---


def test_apply_switches_layers_and_leaves_variables_alone():
    model = small_model()
    variables = model.variables
    values = as_arrays(variables)
    made = plan(model, "mixed_float16")
    assert made.apply() is model
    dtypes = {layer.name: layer.compute_dtype for layer in model.layers}
    assert dtypes == {"hidden": "float16", "probe": "float16", "out": "float32"}
    assert all(new is old for new, old in zip(model.variables, variables, strict=True))
    for before, after in zip(values, as_arrays(model.variables), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("use", ["fit", "predict"])
def test_functions_traced_before_are_traced_anew(use):
    model = small_model()
    x, y = data()
    dtypes_traced()  # by the build
    run = {
        "fit": lambda: model.fit(x, y, verbose=0),
        "predict": lambda: model.predict(x, verbose=0),
    }[use]
    run()
    assert dtypes_traced() == {"float32"}
    held = (model.train_function, model.test_function, model.predict_function)
    plan(model, "mixed_float16").apply()
    dtypes_traced()  # by the dry run
    run()
    assert dtypes_traced() == {"float16"}
    revert(model)
    run()
    assert dtypes_traced() == {"float32"}
    del held  # JAX would have used its traces again


def test_a_plan_applies_to_a_fresh_copy():
    model = stack(8, 8, 2)
    made = plan(model, "mixed_float16", keep_float32=model.layers[1].name)
    for copy in (stack(8, 8, 2), keras.models.clone_model(model)):
        made.apply(copy)
        dtypes = [layer.compute_dtype for layer in copy.layers]
        assert dtypes == ["float16", "float32", "float32"]
    assert [layer.compute_dtype for layer in model.layers] == ["float32"] * 3


def test_a_plan_that_does_not_fit_is_refused_and_changes_nothing():
    made = plan(small_model(), "mixed_float16")
    other = keras.Sequential([layers.Input((4,)), layers.Dense(2, name="only")])
    with pytest.raises(ValueError, match="expected 4 layers, received 2") as caught:
        made.apply(other)
    assert "only in the plan: hidden, probe, out" in str(caught.value)
    assert "only in the model: only" in str(caught.value)
    assert other.layers[0].compute_dtype == "float32"


def test_a_policy_map_is_not_written_into():
    policies = keras.dtype_policies.DTypePolicyMap("float32")
    policies[".*special"] = "bfloat16"
    plain, special = (layers.Dense(4, dtype=policies, name=name) for name in ("plain", "special"))
    model = stack(plain, special, 2)
    plan(model, "mixed_float16").apply()
    assert [layer.compute_dtype for layer in model.layers] == ["float16", "float16", "float32"]
    assert set(policies) == {".*special"}
    revert(model)
    assert [layer.compute_dtype for layer in model.layers] == ["float32", "bfloat16", "float32"]
    assert model.layers[0].dtype_policy is policies


# --- revert ---


def test_revert_gives_back_the_very_same_policies():
    model = small_model()
    before = [layer.dtype_policy for layer in model._flatten_layers()]
    plan(model, "mixed_float16").apply()
    plan(model, "mixed_bfloat16").apply()
    assert revert(model) is model
    assert [layer.dtype_policy for layer in model._flatten_layers()] == before
    assert all(
        layer.dtype_policy is policy
        for layer, policy in zip(model._flatten_layers(), before, strict=True)
    )


@pytest.mark.parametrize("first", [0, 1])
def test_models_that_share_layers_are_reverted_in_any_order(first):
    encoder = keras.Sequential([layers.Input((4,)), layers.Dense(3)], name="encoder")
    models = [keras.Sequential([layers.Input((4,)), encoder, layers.Dense(2)]) for _ in range(2)]
    for model in models:
        plan(model, "mixed_float16").apply()
    assert encoder.layers[0].compute_dtype == "float16"
    revert(models[first])
    assert encoder.layers[0].compute_dtype == "float32"
    revert(models[1 - first])
    for model in (*models, encoder):
        assert {layer.compute_dtype for layer in model._flatten_layers()} == {"float32"}


@only_on("tensorflow", "jax", reason="PyTorch has an Adam of its own")
def test_revert_removes_the_wrapper_that_compile_added_by_itself():
    model = small_model()
    plan(model, "mixed_float16").apply()
    model.compile("adam", "mse")
    assert type(model.optimizer) is keras.optimizers.LossScaleOptimizer
    revert(model)
    assert type(model.optimizer) is keras.optimizers.Adam


def test_the_second_plan_sees_the_model_as_it_was_before_the_first():
    model = small_model()
    plan(model, "mixed_float16", keep_float32="hidden").apply()
    second = plan(model, "mixed_float16")
    assert {row.path: row.reason for row in second.rows}["hidden"] == "base policy"


# --- policy_scope ---


def test_policy_scopes_nest():
    with policy_scope("mixed_float16"):
        with policy_scope("auto") as name:
            assert name == "float32"
            assert keras.config.dtype_policy().name == "float32"
        assert keras.config.dtype_policy().name == "mixed_float16"


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"policy": "float16_mixed"}, ValueError, "received 'float16_mixed' of type str"),
        ({"keep_float32": "nothing"}, ValueError, "matches no layer"),
    ],
)
def test_a_bad_argument_is_named(arguments, error, text):
    with pytest.raises(error, match=text):
        plan(small_model(), **arguments)


def test_unknown_policies_list_the_valid_ones():
    with pytest.raises(ValueError, match=re.escape("'auto+bfloat16', 'float32', 'mixed_float16'")):
        policy_scope("fp16").__enter__()


def test_a_model_that_is_not_built_is_refused():
    model = keras.Sequential([layers.Dense(2)], name="later")
    with pytest.raises(ValueError, match=r"Model 'later' is not built: .* model\.build"):
        plan(model)


@pytest.mark.parametrize("action", [plan, revert])
def test_what_is_no_model_is_refused(action):
    with pytest.raises(TypeError, match=r"a keras\.Model; received 'model\.keras' of type s"):
        action("model.keras")


@only_on("tensorflow", reason="others multiply numbers of two dtypes")
@pytest.mark.parametrize("policy", ["float16", "bfloat16"])
def test_own_code_that_cannot_run_in_16_bits_alone_stays_in_float32(policy: str):
    scaled = Own(lambda x: x * ops.convert_to_tensor(2.0, "float32"))
    found = plan(stack(layers.Dense(4), scaled), policy)
    assert [row.policy for row in found.rows] == [policy, policy, "float32"]
