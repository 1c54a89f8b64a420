"""The cost of the FP32 edges of an FP16 file: bytes, casts, multiply-adds in FP32, time on a GPU.

    python benchmarks/fp16_edge_cost.py [--only WORD]

One model of each `keras.applications` family, a BERT-like encoder, a decoder, an LSTM, a U-Net and
a detector, with random weights, are converted with `fp16_edges` and without. Time is that of a
roofline: each node moves its operands and results, or multiplies, whichever takes longer. No node
is fused with another, which would make the edges cheaper.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scaffold import parser

BATCHES = (1, 32)

import keras
import onnx
import onnx_ir as ir
from keras import layers, ops

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export import export_onnx, with_rewrites
from tfmp.converters.onnx.fp16 import to_fp16
from tfmp.converters.onnx.graph import PRODUCTS, depth_of, nodes_of

# Bytes and multiply-adds a second in FP16 and FP32, from NVIDIA's data sheets.
CARDS = {"T4": (320e9, 65e12 / 2, 8.1e12 / 2), "H100": (3350e9, 989e12 / 2, 67e12 / 2)}
_RECURRENT = ("GRU", "LSTM", "RNN")


def _blocks(x: keras.KerasTensor, count: int, width: int, causal: bool) -> keras.KerasTensor:
    for _ in range(count):
        attended = layers.MultiHeadAttention(width // 64, 64)(x, x, use_causal_mask=causal)
        x = layers.LayerNormalization()(x + attended)
        fed = layers.Dense(width)(layers.Dense(4 * width, "gelu")(x))
        x = layers.LayerNormalization()(x + fed)
    return x


def _embedded(words: int, width: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    tokens = keras.Input((64,), dtype="int32", name="tokens")
    places = layers.Embedding(64, width)(ops.arange(64)[None])
    return tokens, layers.LayerNormalization()(layers.Embedding(words, width)(tokens) + places)


def bert_like() -> keras.Model:
    tokens, x = _embedded(8000, 256)
    x = _blocks(x, 4, 256, causal=False)
    return keras.Model(tokens, layers.Dense(2)(layers.Dense(256, "tanh")(x[:, 0])))


def decoder() -> keras.Model:
    tokens, x = _embedded(8000, 256)
    return keras.Model(tokens, layers.Dense(8000)(_blocks(x, 4, 256, causal=True)))


def lstm() -> keras.Model:
    steps = keras.Input((48, 32), name="steps")
    x = layers.LSTM(128)(layers.LSTM(128, return_sequences=True)(steps))
    return keras.Model(steps, layers.Dense(1)(x))


def unet() -> keras.Model:
    x = image = keras.Input((96, 96, 3), name="image")
    kept = []
    for filters in (16, 32, 64):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.Conv2D(2 * filters, 3, 2, padding="same", activation="relu")(x)
    for filters, skip in zip((64, 32, 16), reversed(kept), strict=True):
        x = layers.Conv2DTranspose(filters, 3, 2, padding="same", activation="relu")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(
            layers.concatenate([x, skip])
        )
    return keras.Model(image, layers.Conv2D(4, 1, activation="softmax")(x))


def detector() -> keras.Model:
    """Boxes in pixels, as YOLO's head gives them, and scores at two scales."""
    image = keras.Input((128, 128, 3), name="image")
    body = keras.applications.MobileNetV2((128, 128, 3), include_top=False, weights=None)
    x = body(layers.Rescaling(1 / 127.5, -1)(image))
    found = []
    for scale, features in ((32, x), (16, layers.UpSampling2D()(x))):
        raw = layers.Conv2D(24, 1)(
            layers.Conv2D(64, 3, padding="same", activation="relu")(features)
        )
        boxes = (
            ops.sigmoid(ops.reshape(raw[..., :8], (-1, (128 // scale) ** 2 * 2, 4))) * scale + 64.0
        )
        scores = ops.sigmoid(ops.reshape(raw[..., 8:], (-1, (128 // scale) ** 2 * 2, 8)))
        found.append(ops.concatenate([boxes, scores], -1))
    return keras.Model(image, ops.concatenate(found, 1))


def _application(name: str) -> Callable[[], keras.Model]:
    return lambda: getattr(keras.applications, name)(input_shape=(96, 96, 3), weights=None)


FAMILIES = (
    "ConvNeXtTiny DenseNet121 EfficientNetB0 EfficientNetV2B0 InceptionV3 MobileNetV2 "
    "MobileNetV3Small NASNetMobile ResNet50 VGG16 Xception"
).split()
MODELS: dict[str, Callable[[], keras.Model]] = {
    **{name: _application(name) for name in FAMILIES},
    "BERT-like encoder": bert_like,
    "decoder": decoder,
    "LSTM": lstm,
    "U-Net": unet,
    "detector": detector,
}


@dataclass(frozen=True)
class Node:
    """A node of a file at one batch size: the bytes it moves, its multiply-adds, its precision."""

    nbytes: float
    multiplications: float
    wide: bool


def nodes_at(model: ir.Model, batch: int) -> Iterator[Node]:
    """The nodes that work on floats, bodies left out, with open axes at the batch size."""
    proto = ir.to_proto(model)
    for value in proto.graph.input:
        for size in value.type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                size.dim_value = batch
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    graph = ir.from_proto(proto).graph
    for node in graph:
        values = [value for value in (*node.inputs, *node.outputs) if value is not None]
        floats = [one for one in values if one.dtype is not None and one.dtype.is_floating_point()]
        if not floats or node.op_type in ("Shape", "Constant", "Reshape"):
            continue
        result = node.outputs[0]
        count = 0.0
        if node.op_type in PRODUCTS:
            count = _elements(result) * depth_of(node)
        elif node.op_type in _RECURRENT:
            steps = _elements(node.inputs[0]) / _elements(node.inputs[0], last=True)
            count = steps * sum(_elements(value) for value in node.inputs[1:3])
        yield Node(
            sum(_elements(one) * one.dtype.itemsize for one in floats),
            count,
            result.dtype == ir.DataType.FLOAT,
        )


def _elements(value: ir.Value | None, last: bool = False) -> float:
    sizes = list(value.shape) if value is not None and value.shape is not None else []
    return math.prod(size for size in sizes[-last:] if isinstance(size, int))


def seconds(nodes: list[Node], card: str) -> float:
    """The time of all nodes, one after the other, on a card."""
    bandwidth, low, high = CARDS[card]
    return sum(
        max(one.nbytes / bandwidth, one.multiplications / (high if one.wide else low))
        for one in nodes
    )


def row(name: str, build: Callable[[], keras.Model]) -> list[str]:
    """Bytes, casts, share of multiply-adds in FP32 and added time of one model."""
    keras.utils.set_random_seed(0)
    exported = with_rewrites(export_onnx(open_source(build())))
    sizes, casts, shares = [], [], []
    times: dict[tuple[str, int], list[float]] = {}
    for edges in (None, {}):
        model, _ = to_fp16(exported.clone(), edges=edges)
        sizes.append(ir.to_proto(model).ByteSize())
        casts.append(sum(node.op_type == "Cast" for node in nodes_of(model.graph)))
        for batch in BATCHES:
            found = list(nodes_at(model, batch))
            for card in CARDS:
                times.setdefault((card, batch), []).append(seconds(found, card))
        whole = sum(one.multiplications for one in found)
        shares.append(sum(one.multiplications for one in found if one.wide) / max(whole, 1))
    added = [f"{after / before - 1:.1%}" for before, after in times.values()]
    return [
        name,
        f"{sizes[0] / 1e3:,.0f}",
        f"{sizes[1] / sizes[0] - 1:.2%}",
        f"{casts[0]} -> {casts[1]}",
        f"{shares[0]:.1%} -> {shares[1]:.1%}",
        *added,
    ]


def main() -> None:
    """Prints a row for each model."""
    given = parser(__doc__)
    given.add_argument("--only", default="", help="a word of the models' names")
    only = given.parse_args().only
    heads = [f"{card}, batch {batch}" for batch in BATCHES for card in CARDS]
    columns = ["model", "kB", "more bytes", "casts", "multiply-adds in FP32", *heads]
    print(f"| {' | '.join(columns)} |\n| --- |{' ---: |' * (len(columns) - 1)}")
    for name, build in MODELS.items():
        if only in name:
            print(f"| {' | '.join(row(name, build))} |", flush=True)


if __name__ == "__main__":
    main()
