"""structure: paths of layers, units of layers, and what makes a graph model's outputs."""

import keras
import pytest
from keras import layers
from own_layer import OwnModel
from stacks import stack

from tfmp.precision.layer_tree import ROOT, is_graph, only_moves_values, output_layers, walk


def paths(model) -> list[str]:
    return [node.path for node in walk(model).within()]


def output_paths(model) -> set[str]:
    root = walk(model)
    found = output_layers(root)
    return {node.path for node in root.within() if id(node.layer) in found}


def test_paths_go_through_nested_models_and_leave_inputs_out():
    inner = keras.Sequential([layers.Input((4,)), layers.Dense(4, name="a")], name="inner")
    model = keras.Sequential([layers.Input((4,)), inner, layers.Dense(2, name="b")])
    assert paths(model) == [ROOT, "inner", "inner/a", "b"]


def test_layers_of_one_name_get_paths_of_their_own():
    first, second = (layers.Dense(2, name="twin") for _ in range(2))
    model = OwnModel(lambda own, x: own.second(own.first(x)), first=first, second=second)
    assert paths(model) == [ROOT, "twin", "twin#2"]


def test_what_builtin_layers_make_for_themselves_has_tensor_cores_as_head():
    both = layers.Bidirectional(layers.LSTM(3), name="both")
    model = stack(both, layers.Dense(2, name="out"), inputs=(5, 4))
    heads = {node.path: node.head and node.head.path for node in walk(model).within()}
    assert heads[ROOT] is None
    assert heads["both"] is None
    assert heads["out"] is None
    inside = {path: head for path, head in heads.items() if path.startswith("both/")}
    assert set(inside.values()) == {"both"}
    assert len(inside) == 4  # two LSTMs with a cell each


def test_a_wrapper_does_not_decide_for_a_model_inside_it():
    encoder = keras.Sequential([layers.Input((4,)), layers.Dense(3, name="a")], name="encoder")
    model = keras.Sequential([layers.Input((5, 4)), layers.TimeDistributed(encoder, name="each")])
    heads = {node.path: node.head for node in walk(model).within()}
    assert heads["each/encoder/a"] is None


def test_outputs_are_found_through_layers_that_only_move_values():
    inputs = keras.Input((4,))
    x = layers.Dense(8, name="hidden")(inputs)
    x = layers.Dense(6, name="out")(x)
    x = layers.Reshape((2, 3), name="shape")(x)
    model = keras.Model(inputs, layers.Activation("linear", name="nothing")(x))
    assert output_paths(model) == {"out", "shape", "nothing"}


def test_outputs_are_found_through_layers_that_merge_values():
    inputs = keras.Input((4,))
    left = layers.Dense(2, "softmax", name="left")(layers.Dense(4, name="hidden")(inputs))
    right = layers.Dense(2, "softmax", name="right")(inputs)
    model = keras.Model(inputs, layers.Average(name="merged")([left, right]))
    assert output_paths(model) == {"left", "right", "merged"}


class Scaled(layers.Add):
    def call(self, inputs):
        return 2 * super().call(inputs)


@pytest.mark.parametrize(
    ("layer", "moves"),
    [
        (layers.SpatialDropout1D(0.1), True),
        (layers.ZeroPadding2D(), True),
        (layers.Dot(1), False),
        (layers.UpSampling2D(interpolation="bilinear"), False),
        (layers.Activation("tanh"), False),
        (Scaled(), False),
    ],
)
def test_layers_that_compute_values_do_not_only_move_them(layer, moves):
    assert only_moves_values(layer) is moves


def test_the_outputs_of_a_nested_model_at_the_end_are_the_models():
    head = stack(layers.Dense(4, name="a"), layers.Dense(2, name="b"), name="head")
    model = keras.Sequential([layers.Input((4,)), layers.Dense(4, name="body"), head])
    assert output_paths(model) == {"head/b"}


def test_a_subclass_with_a_call_of_its_own_is_no_graph():
    class Doubled(keras.Sequential):
        def call(self, inputs, training=None, mask=None):
            return 2 * super().call(inputs, training=training, mask=mask)

    plain = keras.Sequential([layers.Input((4,)), layers.Dense(2)])
    doubled = Doubled([layers.Input((4,)), layers.Dense(2)])
    assert is_graph(plain)
    assert not is_graph(doubled)
    assert not is_graph(layers.Dense(2))
