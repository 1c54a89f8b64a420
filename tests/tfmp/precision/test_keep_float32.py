"""keep_float32: what names a layer, and what is said when nothing does."""

import re

import keras
import pytest
from keras import layers
from stacks import stack

from tfmp.precision.keep_float32 import check_keep, match_keep
from tfmp.precision.layer_tree import walk


@pytest.fixture(scope="module")
def tree():
    parts = layers.Dense(4, name="dense"), layers.LayerNormalization(name="norm")
    encoder = stack(*parts, inputs=(8,), name="encoder")
    inputs = keras.Input((8,))
    x = layers.Dense(3, name="dense_1")(encoder(inputs))
    return walk(keras.Model(inputs, layers.Dense(2, name="head")(x)))


def match_float32(patterns, tree):
    return match_keep({"float32": patterns}, tree, "keep_float32")


def kept(tree, patterns) -> set[str]:
    matched = match_float32(patterns, tree)
    return {node.path for node in tree.within() if id(node.layer) in matched}


@pytest.mark.parametrize(
    ("patterns", "paths"),
    [
        ((), set()),
        ("head", {"head"}),
        ("dense", {"encoder/dense"}),  # a name, not a part of dense_1
        ("encoder/dense", {"encoder/dense"}),
        ("encoder", {"encoder", "encoder/dense", "encoder/norm"}),
        ("encoder/.*", {"encoder/dense", "encoder/norm"}),
        (r"dense_\d", {"dense_1"}),
        (re.compile("dense"), {"encoder/dense", "dense_1"}),
        (layers.LayerNormalization, {"encoder/norm"}),
        (lambda layer: getattr(layer, "units", 0) == 3, {"dense_1"}),
        (["head", layers.LayerNormalization], {"head", "encoder/norm"}),
        ({"head"}, {"head"}),
    ],
)
def test_what_matches(tree, patterns, paths):
    assert kept(tree, patterns) == paths


def test_the_pattern_that_named_a_layer_is_kept_as_text(tree):
    matched = match_float32(["enc.*/norm", layers.Dense], tree)
    by_path = {node.path: matched.get(id(node.layer)) for node in tree.within()}
    assert by_path["encoder/norm"] == ("float32", "enc.*/norm")
    assert by_path["head"] == ("float32", "Dense")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("heads", "keep_float32 'heads' matches no layer of the model. Names like it are: head."),
        ("encode", "keep_float32 'encode' matches no layer of the model."),  # not the whole path
        ("encoder/densa", "Names like it are: encoder/dense, "),
        ("block_.*", "The model's layer names are: encoder, dense, encoder/dense, "),
        (layers.Conv2D, "The model's class names are: Dense, LayerNormalization, Sequential."),
        (lambda layer: False, "'<lambda>' matches no layer"),
    ],
)
def test_what_matches_nothing_is_an_error_with_what_is_close(tree, pattern, text):
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        match_float32(pattern, tree)
    assert "print(tfmp.plan(model)) lists every path." in str(caught.value)


def test_an_invalid_regular_expression_is_explained(tree):
    with pytest.raises(ValueError, match=r"received 'dense\[': unterminated character set"):
        match_float32("dense[", tree)


@pytest.mark.parametrize("pattern", [3, [3], int])
def test_what_is_no_pattern_is_refused(tree, pattern):
    with pytest.raises(TypeError, match="expects layer names, regular expressions, layer classes"):
        match_float32(pattern, tree)


@pytest.mark.parametrize("wide", ["encoder", re.compile("^encoder"), keras.Model])
def test_the_nearest_and_the_most_exact_name_decides_the_dtype(tree, wide):
    for keep in (
        {"bfloat16": wide, "float32": ["encoder/norm", "head"]},
        {"float32": ["encoder/norm", "head"], "bfloat16": wide},
    ):
        matched = match_keep(keep, tree, "keep")
        paths = {node.path: matched.get(id(node.layer), ("",))[0] for node in tree.within()}
        assert paths["encoder/dense"] == "bfloat16"
        assert paths["encoder/norm"] == paths["head"] == "float32"
        assert paths["dense_1"] == ""


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ({"float32": "head", "bfloat16": "head"}, "keep names head twice: float32 by 'head'"),
        ({"float32": "he.d", "bfloat16": "h.*"}, "Make one of the patterns narrower"),
        ({"float32": "heads"}, "keep 'heads' matches no layer of the model"),
    ],
)
def test_what_cannot_be_kept(tree, keep, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        match_keep(keep, tree, "keep")


def test_keep_is_a_mapping_from_dtypes():
    with pytest.raises(TypeError, match="keep expects a mapping from dtypes to layers"):
        check_keep(["head"])
    with pytest.raises(ValueError, match="a dtype in keep expects one of 'float32', 'bfloat16'"):
        check_keep({"float8": "head"})
