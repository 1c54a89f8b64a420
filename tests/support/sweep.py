"""One small model for every layer, activation and op of Keras that a model can hold.

The rows feed the export tests and `docs/support.md`. What has no row is named in `NOT_SWEPT` with
the reason, so that a new Keras version cannot add something unseen.
"""

from collections.abc import Iterator

import keras
from sweep_layers import layer_rows
from sweep_ops import activation_rows, image_rows, op_rows
from sweep_rows import Row
from sweep_sequences import sequence_rows

_MAKES_NO_GRAPH = "makes no tensor from its inputs: a constant of the model"
_CREATES = (
    "bartlett blackman hamming hanning kaiser arange array empty eye full identity ones zeros"
)
_HAS_ROW_ELSEWHERE = "has a row under sequences"

# Layers whose rows are called after what they do.
SWEPT_INSIDE = {
    "RNN", "StackedRNNCells", "TimeDistributed", "Bidirectional", "Attention", "MultiHeadAttention",
    "GroupedQueryAttention",
}  # fmt: skip

NOT_SWEPT: dict[str, dict[str, str]] = {
    "layers": {
        **dict.fromkeys(("Layer", "Wrapper", "InputSpec", "InputLayer"), "no computation"),
        **dict.fromkeys(("JaxLayer", "FlaxLayer", "TorchModuleWrapper"), "another framework's"),
        **dict.fromkeys(("GRUCell", "LSTMCell", "SimpleRNNCell"), "swept inside RNN layers"),
        **dict.fromkeys(
            ("StringLookup", "TextVectorization"), "strings: runs before the model, in tf.data"
        ),
        "Lambda": "arbitrary code: refused unless loading is unsafe",
        "Pipeline": "a list of other layers",
        "TFSMLayer": "a SavedModel: convert it directly",
        "MaxNumBoundingBoxes": "bounding boxes are training data",
    },
    "activations": dict.fromkeys(("deserialize", "get", "serialize"), "no function"),
    "ops": {
        **dict.fromkeys(_CREATES.split(), _MAKES_NO_GRAPH),
        **dict.fromkeys(
            "convert_to_numpy convert_to_tensor is_tensor dtype ndim shape size".split(),
            "no tensor computation",
        ),
        **dict.fromkeys("cond fori_loop scan switch while_loop".split(), _HAS_ROW_ELSEWHERE),
        **dict.fromkeys("custom_gradient jvp stop_gradient".split(), "about gradients"),
        **dict.fromkeys(
            "ctc_decode ctc_loss lstsq eig matrix_rank pinv nonzero unique view allclose".split(),
            "runs outside a static graph: results of data-dependent shape, losses or general "
            "linear algebra",
        ),
    },
}  # fmt: skip


_NO_FORM = "no ONNX form for"
_KERAS_CANNOT = "cannot be traced"  # Keras itself fails on a batch of unknown size, or on tensors

# Rows that do not export, with a piece of the message that says why.
UNSUPPORTED: dict[str, str] = {
    "Conv3D filters=3 kernel_size=2 groups=3": "TensorFlow itself cannot run this model here",
    "HashedCrossing num_bins=5": _NO_FORM,
    "Hashing num_bins=5": _NO_FORM,
    "argpartition": "TensorFlow itself cannot run this model",
    "associative_scan": "cannot convert this graph",
    **dict.fromkeys(
        "cholesky cholesky_inverse eigh i0 inv logdet nextafter qr slogdet solve solve_triangular "
        "svd".split(),
        _NO_FORM,
    ),
    **dict.fromkeys(
        "angle conj conv_transpose corrcoef gcd histogram imag isin kron lcm lu_factor "
        "nanpercentile nanquantile unfold unravel_index vectorize view_as_complex "
        "view_as_real".split(),
        _KERAS_CANNOT,
    ),
}


# Rows that take together every way through the exporter that all rows take, as coverage says:
# `make test` runs these, `make test-slow` all others.
REPRESENTATIVE = {
    *(
        "applications: MobileNet|layers: CategoryEncoding num_tokens=4 output_mode=multi_hot"
        "|layers: ContrastLimitedAdaptiveHistogramEqualization"
        "|layers: Conv3D filters=3 kernel_size=2 groups=3"
        "|layers: IntegerLookup vocabulary=[0, 1, 2]|layers: LayerNormalization axis=(1, 2, 3)"
        "|layers: MelSpectrogram fft_length=128 sequence_stride=64 num_mel_bins=8"
        "|layers: RMSNormalization|layers: Resizing height=8 width=6 crop_to_aspect_ratio=True"
        "|sequences: Attention causal|sequences: LSTM with masked embedding"
        "|sequences: MultiHeadAttention causal on (None, 6)|sequences: ops.scan reversed"
        "|sequences: ops.scan without outputs|sequences: ops.switch"
        "|ops: image.resize interpolation=area antialias=False"
        "|ops: image.resize interpolation=lanczos5 antialias=False"
        "|ops: image.resize interpolation=nearest antialias=False"
    ).split("|"),
    *(
        f"ops: {name}"
        for name in (
            "argpartition associative_scan cholesky_inverse cross diag digitize erfc erfinv expm1 "
            "fft floor_divide image.affine_transform image.hsv_to_rgb image.rgb_to_hsv in_top_k "
            "istft layer_normalization log1p logsumexp mod moments nancumprod nanmedian nanstd "
            "normalize right_shift rsqrt scatter searchsorted slice_update std trace triu "
            "vectorize"
        ).split()
    ),
}


def application_rows(every: bool = False) -> Iterator[Row]:
    """The smallest member of each family of `keras.applications`, or every one."""
    smallest = (
        "ConvNeXtTiny DenseNet121 EfficientNetB0 EfficientNetV2B0 InceptionResNetV2 InceptionV3 "
        "MobileNet MobileNetV2 MobileNetV3Small NASNetMobile ResNet50 ResNet50V2 VGG16 Xception"
    ).split()
    names = [name for name in dir(keras.applications) if name[0].isupper()] if every else smallest
    for name in names:
        yield Row("applications", name, lambda n=name: _application(n))


def _application(name: str) -> keras.Model:
    keras.utils.set_random_seed(0)
    build = getattr(keras.applications, name)
    side = 224 if name.startswith("NASNet") else 96
    if name == "NASNetLarge":
        side = 331
    return build(weights=None, input_shape=(side, side, 3), classes=10)


def all_rows(every_application: bool = False) -> list[Row]:
    """The whole sweep, in the order of `docs/support.md`."""
    return [
        *layer_rows(),
        *sequence_rows(),
        *activation_rows(NOT_SWEPT["activations"]),
        *op_rows(NOT_SWEPT["ops"]),
        *image_rows(),
        *application_rows(every_application),
    ]
