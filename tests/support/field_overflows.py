"""ONNX models whose FP16 files load and run, and give NaN, infinity or other numbers."""

import numpy as np
import onnx
from field_case import FieldCase, Generator, normal, weights
from onnx_graphs import parse

from tfmp.converters.shared.tensors import Batch


def layer_norm(source: str, result: str, tag: str = "") -> str:
    """A layer normalization over `last`, in the nodes that PyTorch exports before opset 17."""
    return f"""
    mean{tag} = ReduceMean({source}, last)
    d{tag} = Sub({source}, mean{tag})
    sq{tag} = Pow(d{tag}, two)
    var{tag} = ReduceMean(sq{tag}, last)
    safe{tag} = Add(var{tag}, eps)
    std{tag} = Sqrt(safe{tag})
    {result} = Div(d{tag}, std{tag})
    """


def rms_norm(source: str, result: str, tag: str = "") -> str:
    """A root-mean-square normalization, as T5, Gemma and Qwen have it."""
    return f"""
    sq{tag} = Pow({source}, two)
    var{tag} = ReduceMean(sq{tag}, last)
    safe{tag} = Add(var{tag}, eps)
    rms{tag} = Sqrt(safe{tag})
    {result} = Div({source}, rms{tag})
    """


CONSTANTS = "int64[1] last = {-1}, float two = {2}"


def convnext() -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 3, 16, 16] image) => (float[N, 6] logits)
        <{CONSTANTS}, float eps = {{1e-6}}, float large = {{900}}, float half = {{0.5}},
         float one = {{1}}, float root = {{1.41421356}}, int64[2] space = {{1, 2}}> {{
            stem = Conv <strides = [4, 4]> (image, patch)
            deep = Conv <group = 32, pads = [1, 1, 1, 1]> (stem, depth)
            wide = Mul(deep, large)
            x = Transpose <perm = [0, 2, 3, 1]> (wide)
            {layer_norm("x", "n")}
            up = MatMul(n, w1)
            r = Div(up, root)
            e = Erf(r)
            p = Add(e, one)
            g = Mul(up, p)
            gelu = Mul(g, half)
            y = MatMul(gelu, w2)
            pooled = ReduceMean <keepdims = 0> (y, space)
            logits = MatMul(pooled, head)
        }}
        """,
        **weights(
            1, patch=(32, 3, 4, 4), depth=(32, 1, 3, 3), w1=(32, 64), w2=(64, 32), head=(32, 6)
        ),
    )


def mean_of_image() -> onnx.ModelProto:
    return parse("""
    agraph (float[N, 3, 512, 512] image) => (float[N, 3, 1, 1] mean)
    <int64[2] space = {2, 3}> { mean = ReduceMean(image, space) }
    """)


def brightness(generator: Generator, samples: int) -> Batch:
    image = generator.random((samples, 3, 512, 512), dtype=np.float32)
    return {"image": image * generator.random((samples, 3, 1, 1), dtype=np.float32)}


def image_transformer() -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 16, 180] tokens) => (float[N, 16, 12] features)
        <{CONSTANTS}, float eps = {{1e-5}}> {{
            x = Add(tokens, offset)
            {layer_norm("x", "n")}
            features = MatMul(n, head)
        }}
        """,
        **weights(2, head=(180, 12)),
        offset=np.random.default_rng(2).uniform(-8000, 30000, 180).astype(np.float32),
    )


def masked_attention(lowest: float) -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 12, 32] tokens, float[N, 12] keep) => (float[N, 12, 8] out)
        <{CONSTANTS}, float eps = {{1e-12}}, float one = {{1}}, float lowest = {{{lowest:.9g}}},
         float scale = {{0.17}}, int64[1] rows = {{1}}> {{
            q = MatMul(tokens, wq)
            k = MatMul(tokens, wk)
            kt = Transpose <perm = [0, 2, 1]> (k)
            dots = MatMul(q, kt)
            scores = Mul(dots, scale)
            drop = Sub(one, keep)
            row = Unsqueeze(drop, rows)
            bias = Mul(row, lowest)
            masked = Add(scores, bias)
            share = Softmax(masked)
            v = MatMul(tokens, wv)
            mixed = MatMul(share, v)
            x = Add(tokens, mixed)
            {layer_norm("x", "n")}
            out = MatMul(n, head)
        }}
        """,
        **weights(3, wq=(32, 32), wk=(32, 32), wv=(32, 32), head=(32, 8)),
    )


def padded(generator: Generator, samples: int) -> Batch:
    """Sentences of 4 to 12 tokens, padded to 12."""
    lengths = generator.integers(4, 13, samples)
    keep = (np.arange(12) < lengths[:, None]).astype(np.float32)
    tokens = generator.standard_normal((samples, 12, 32)).astype(np.float32)
    return {"tokens": tokens, "keep": keep}


def clipped_roberta() -> onnx.ModelProto:
    model = masked_attention(-999999995904.0)
    limits = onnx.parser.parse_graph("""
    g (float[N, 12, 1] var) => (float[N, 12, 1] held) {
        below = Min(var, endless)
        held = Max(below, nothing)
    }
    """)
    nodes = list(model.graph.node)
    place = next(i for i, node in enumerate(nodes) if node.output[0] == "safe")
    nodes[place].input[0] = "held"
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:place], *limits.node, *nodes[place:]])
    for name, value in (("endless", np.inf), ("nothing", 0.0)):
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array(value, np.float32), name)
        )
    onnx.checker.check_model(model, full_check=True)
    return model


def instance_norm() -> onnx.ModelProto:
    return parse(
        """
        agraph (float[N, 3, 24, 24] image) => (float[N, 3] logits)
        <float large = {700}, int64[2] space = {2, 3}> {
            c = Conv <strides = [2, 2]> (image, w1)
            x = Mul(c, large)
            n = InstanceNormalization <epsilon = 1e-5> (x, scale, bias)
            r = Relu(n)
            pooled = ReduceMean <keepdims = 0> (r, space)
            logits = MatMul(pooled, head)
        }
        """,
        **weights(4, w1=(16, 3, 3, 3), head=(16, 3)),
        scale=np.linspace(0.5, 1.5, 16, dtype=np.float32),
        bias=np.linspace(-0.5, 0.5, 16, dtype=np.float32),
    )


def l2_norm(epsilon: float, size: int = 384) -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 8, {size}] bands) => (float[N, 8, 16] features)
        <{CONSTANTS}, float half = {{0.5}}, float lowest = {{{epsilon:g}}},
         int64[3] shape = {{1, 8, {size}}}, float root = {{{size**0.5:g}}}> {{
            sq = Pow(bands, two)
            sum = ReduceSum(sq, last)
            norm = Pow(sum, half)
            safe = Clip(norm, lowest)
            wide = Expand(safe, shape)
            unit = Div(bands, wide)
            scaled = Mul(unit, root)
            features = MatMul(scaled, head)
        }}
        """,
        **weights(5, head=(size, 16)),
    )


def loudness(generator: Generator, samples: int) -> Batch:
    """Bands from silence to full level."""
    level = generator.choice([0.0, 1e-4, 1.0, 40.0], (samples, 8, 1))
    return {"bands": (generator.standard_normal((samples, 8, 384)) * level).astype(np.float32)}


def old_whisper() -> onnx.ModelProto:
    text = f"""
    agraph (float[N, 16, 64] frames) => (float[N, 16, 8] out)
    <float two = {{2}}, float eps = {{1e-5}}> {{
        x = Add(frames, outlier)
        {layer_norm("x", "n")}
        out = MatMul(n, head)
    }}
    """.replace("x, last)", "x)").replace("sq, last)", "sq)")
    outlier = np.zeros(64, np.float32)
    outlier[7] = 2600.0
    text = text.replace("ReduceMean(", "ReduceMean <axes = [-1]> (")
    return parse(text, opset=14, **weights(6, head=(64, 8)), outlier=outlier)


def rms_residual(scale: float) -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 8, 64] tokens) => (float[N, 8, 16] out)
        <{CONSTANTS}, float eps = {{1e-6}}, float scale = {{{scale:g}}}> {{
            large = Mul(tokens, scale)
            up = MatMul(tokens, w1)
            x = Add(large, up)
            {rms_norm("x", "n")}
            out = MatMul(n, head)
        }}
        """,
        **weights(7, w1=(64, 64), head=(64, 16)),
    )


def t5_feed_forward() -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 8, 64] tokens) => (float[N, 8, 16] out)
        <{CONSTANTS}, float eps = {{1e-6}}, float gain = {{220}}> {{
            {rms_norm("tokens", "n", "1")}
            gate = MatMul(n, w1)
            act = Relu(gate)
            wide = Mul(act, gain)
            lin = MatMul(n, w2)
            line = Mul(lin, gain)
            both = Mul(wide, line)
            down = MatMul(both, w3)
            x = Add(tokens, down)
            {rms_norm("x", "m", "2")}
            out = MatMul(m, head)
        }}
        """,
        **weights(8, w1=(64, 128), w2=(64, 128), w3=(128, 64), head=(64, 16)),
    )


def large_attention() -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 16, 64] patches) => (float[N, 16, 5] classes)
        <{CONSTANTS}, float eps = {{1e-6}}, float scale = {{0.000125}}, float gain = {{95}}> {{
            {layer_norm("patches", "n")}
            q0 = MatMul(n, wq)
            q = Mul(q0, gain)
            k0 = MatMul(n, wk)
            k = Mul(k0, gain)
            kt = Transpose <perm = [0, 2, 1]> (k)
            dots = MatMul(q, kt)
            scores = Mul(dots, scale)
            share = Softmax(scores)
            v = MatMul(n, wv)
            mixed = MatMul(share, v)
            x = Add(patches, mixed)
            classes = MatMul(x, head)
        }}
        """,
        **weights(9, wq=(64, 64), wk=(64, 64), wv=(64, 64), head=(64, 5)),
    )


def large_constants() -> onnx.ModelProto:
    return parse(
        """
        agraph (float[N, 16] seconds) => (float[N, 4] out)
        <float rate = {22050}, float[1, 16] origin = {
            0, 20000, 30000, 40000, 50000, 60000, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}> {
            ticks = Mul(seconds, rate)
            since = Sub(ticks, origin)
            level = Div(since, rate)
            out = MatMul(level, head)
        }
        """,
        **weights(11, head=(16, 4)),
    )


def seconds(generator: Generator, samples: int) -> Batch:
    return {"seconds": generator.uniform(0.05, 2.5, (samples, 16)).astype(np.float32)}


def pow_norm(scale: float, size: int = 64) -> onnx.ModelProto:
    return parse(
        f"""
        agraph (float[N, 8, {size}] tokens) => (float[N, 8, 8] out)
        <{CONSTANTS}, float eps = {{1e-5}}, float scale = {{{scale:g}}}> {{
            up = MatMul(tokens, w)
            big = Mul(up, scale)
            x = Add(tokens, big)
            {layer_norm("x", "n")}
            out = MatMul(n, head)
        }}
        """,
        **weights(12, w=(size, size), head=(size, 8)),
    )


CASES = [
    FieldCase(
        "microsoft/onnxruntime#11384",
        "ConvNeXt gives NaN in FP16",
        "PASS",
        convnext,
        normal("image", 3, 16, 16),
        samples=320,
    ),
    FieldCase(
        "microsoft/onnxconverter-common#323",
        "the mean of 512 x 512 values is zero or NaN",
        "FAIL PASS",
        mean_of_image,
        brightness,
        samples=60,
        emulate="pessimistic",
    ),
    FieldCase(
        "microsoft/onnxconverter-common#299",
        "the last normalization of an image transformer gives NaN",
        "PASS",
        image_transformer,
        normal("tokens", 16, 180, scale=900.0),
    ),
    FieldCase(
        "microsoft/onnxconverter-common#249",
        "automatic mixed precision of a BERT gives NaN",
        "PASS",
        lambda: masked_attention(-3.4028234663852886e38),
        padded,
    ),
    FieldCase(
        "microsoft/onnxconverter-common#196",
        "a model with InstanceNormalization fails in FP16",
        "PASS",
        instance_norm,
        normal("image", 3, 24, 24),
        samples=320,
    ),
    FieldCase(
        "microsoft/onnxruntime#21345",
        "norms of a sound separator overflow, with all nodes blocked",
        "PASS",
        lambda: l2_norm(1e-12),
        loudness,
    ),
    FieldCase(
        "microsoft/onnxruntime#31626",
        "the normalizations of whisper-small, exported before opset 17, overflow",
        "INCONCLUSIVE",
        old_whisper,
        normal("frames", 16, 64),
    ),
    FieldCase(
        "microsoft/onnxruntime#26732",
        "Gemma 3 overflows in its residual stream",
        "FAIL PASS",
        lambda: rms_residual(100000.0),
        normal("tokens", 8, 64),
    ),
    FieldCase(
        "microsoft/onnxruntime#15752",
        "a T5 encoder gives NaN on CUDA",
        "FAIL PASS",
        t5_feed_forward,
        normal("tokens", 8, 64),
    ),
    FieldCase(
        "microsoft/onnxconverter-common#295",
        "constants over 10,000 are cut to 10,000",
        "PASS",
        large_constants,
        seconds,
    ),
    FieldCase(
        "NVIDIA/TensorRT#2466",
        "RoBERTa with infinity and -1e12 among its constants",
        "PASS",
        clipped_roberta,
        padded,
    ),
    FieldCase(
        "NVIDIA/TensorRT#2564",
        "the layer normalization of a BERT overflows",
        "PASS",
        lambda: pow_norm(500.0),
        normal("tokens", 8, 64),
    ),
    FieldCase(
        "pytorch/TensorRT#4061",
        "layer normalization in FP16 warns of overflow in Reduce and Pow",
        "FAIL PASS",
        lambda: pow_norm(3000.0, 128),
        normal("tokens", 8, 128),
    ),
    FieldCase(
        "NVIDIA/TensorRT#4742",
        "DINOv3 gives NaN in FP16",
        "PASS",
        large_attention,
        normal("patches", 16, 64),
        samples=400,
    ),
]
