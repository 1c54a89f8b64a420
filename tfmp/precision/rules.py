"""Rules that decide which layer computes in which dtype; the first rule with an answer wins.

A rule looks at one layer. It answers with a reason to keep the layer out of half precision, or has
no answer. Layers without an answer get the base policy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import keras
from keras import layers
from keras.src.backend.common.masking import get_keras_mask

from tfmp.precision.layer_tree import LayerNode, divides_by_norm, is_graph, is_preprocessing
from tfmp.precision.measuring import Evidence

FLOAT32 = "float32"

LEAVE = None  # the layer keeps its policy


@dataclass(frozen=True)
class Decision:
    """The answer of a rule about a layer.

    Attributes:
        policy: name of a Keras dtype policy; `LEAVE` for a layer that keeps its own.
        reason: half a sentence for the plan's table.
    """

    policy: str | None
    reason: str


@dataclass(frozen=True)
class Facts:
    """Facts about a model that the rules may use; every mapping is keyed by `id(layer)`.

    Attributes:
        base: name of the policy for all layers without an answer from a rule.
        kept: layers that the user named, with the policy and the reason.
        evidence: what was found by running the model's code.
        overflowed: layers that were moved to float32 in training.
        original: each layer's policy before any plan was applied to the model.
        runs_on: the Keras backend, and the kind of its device.
    """

    base: str
    kept: "Mapping[int, Decision]" = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    overflowed: frozenset[int] = frozenset()
    original: Mapping[int, keras.DTypePolicy] = field(default_factory=dict)
    runs_on: tuple[str, str] = ("", "")


Rule = Callable[[LayerNode, Facts], Decision | None]

# Older releases of Keras lack the adaptive ones.
_POOLS_VOLUMES = tuple(
    getattr(layers, f"{kind}Pooling3D")
    for kind in ("Max", "Average", "AdaptiveMax", "AdaptiveAverage")
    if hasattr(layers, f"{kind}Pooling3D")
)


def decide(node: LayerNode, facts: Facts, decided: Mapping[int, Decision]) -> Decision:
    """The decision for a layer: the answer of the first rule that has one, or the base policy.

    Layers around it were decided before, by id.
    """
    if node.head is not None and id(node.layer) not in facts.kept:
        # Layers that a built-in layer makes for itself follow it: a file would not tell them apart.
        return Decision(decided[id(node.head.layer)].policy, f"part of {node.head.path}")
    for rule in RULES if facts.base.startswith("mixed_") else RULES_WITHOUT_CHOICE:
        if (decision := rule(node, facts)) is not None:
            return decision
    return Decision(facts.base, "base policy")


def not_a_float_layer(node: LayerNode, facts: Facts) -> Decision | None:
    """No float policy fits what works on integers and strings, or holds a quantization."""
    policy = facts.original[id(node.layer)]
    if policy.quantization_mode:
        return Decision(LEAVE, f"quantized to {policy.quantization_mode}")
    if policy.compute_dtype in ("float16", "bfloat16", "float32", "float64"):
        return None
    return Decision(LEAVE, f"works on {policy.compute_dtype}, not on floats")


def named_by_user(node: LayerNode, facts: Facts) -> Decision | None:
    """`keep` comes before all other rules that are a matter of choice."""
    return facts.kept.get(id(node.layer))


def overflowed_in_training(node: LayerNode, facts: Facts) -> Decision | None:
    """Layers that a `fit` moved to float32 stay there, as they do through a file."""
    if id(node.layer) in facts.overflowed:
        return Decision(FLOAT32, "needed float32 in earlier training")
    return None


def measured(node: LayerNode, facts: Facts) -> Decision | None:
    """Own code that fails in 16 bits or loses by them: masks of -1e9, epsilons of 1e-9, states."""
    reasons = (facts.evidence.measured.get(id(part.layer)) for part in node.unit())
    reason = next(filter(None, reasons), None)
    return Decision(FLOAT32, reason) if reason else None


def masked_mean(node: LayerNode, facts: Facts) -> Decision | None:
    """With a mask, Keras sums the steps in the layer's own dtype before it divides."""
    for layer in _subjects(node):
        if isinstance(layer, layers.GlobalAveragePooling1D):
            given = [tensor for call in layer._inbound_nodes for tensor in call.input_tensors]
            # A layer in somebody's own code has no inputs that are known beforehand.
            if not given or any(get_keras_mask(tensor) is not None for tensor in given):
                return Decision(FLOAT32, "sums all steps where it gets a mask")
    return None


def preprocessing(node: LayerNode, facts: Facts) -> Decision | None:
    """Raw pixel, sample and sensor values may lie past 65504, FP16's largest number."""
    if any(map(is_preprocessing, _subjects(node))):
        return Decision(FLOAT32, "takes raw values, which may not fit in 16 bits")
    return None


def numerically_delicate(node: LayerNode, facts: Facts) -> Decision | None:
    """Layers whose own arithmetic leaves FP16's range although their inputs and outputs fit.

    The batch, group, layer and RMS normalizations are not among them: Keras computes them in
    float32 whatever their policy.
    """
    for layer in _subjects(node):
        if isinstance(layer, layers.SpectralNormalization):
            return Decision(FLOAT32, "power iteration divides by norms near 0")
        if divides_by_norm(layer):
            return Decision(FLOAT32, "sums squares; its epsilon 1e-12 is 0 in FP16")
        if isinstance(layer, layers.Softmax):
            return Decision(FLOAT32, "sums exponentials")
        if layer.activity_regularizer is not None:
            # A sum over a whole batch of activations does not fit in FP16.
            return Decision(FLOAT32, "its activity regularizer adds to the loss")
    return None


def no_kernel(node: LayerNode, facts: Facts) -> Decision | None:
    """Some layers have no kernel in some dtypes, anywhere or on some devices.

    TensorFlow 2.21 and PyTorch 2.13 pool volumes only in float32 on CPUs, TensorFlow never in
    float64. Keras 3.15 asks JAX for attention with float32 sums, which XLA refuses for float16 on
    CPUs, and for cuDNN's LSTM, which JAX has in float32 alone: "Unknown output type float16".
    """
    dtype = keras.dtype_policies.get(facts.base).compute_dtype
    attention = layers.MultiHeadAttention | layers.GroupQueryAttention
    without = [
        (_POOLS_VOLUMES, ("tensorflow", "cpu"), "float16"),
        (_POOLS_VOLUMES, ("torch", "cpu"), "float16"),
        (attention, ("jax", "cpu"), "float16"),
        (layers.LSTM, ("jax", "gpu"), "float16 bfloat16"),
    ]
    for layer in _subjects(node):
        for kind, device, narrow in without:
            lacks = isinstance(layer, kind) and facts.runs_on == device and dtype in narrow.split()
            if lacks and getattr(layer, "use_cudnn", True):
                more = "; use_cudnn=False has one" if hasattr(layer, "use_cudnn") else ""
                on = f"on a {device[1].upper()}{more}"
                return Decision(FLOAT32, f"{device[0]} has no {dtype} kernel for it {on}")
        if dtype == "float64" and isinstance(layer, _POOLS_VOLUMES):
            return Decision(FLOAT32, "tensorflow has no float64 kernel for it")
    return None


def hands_on_raw_values(node: LayerNode, facts: Facts) -> Decision | None:
    """A container with code of its own casts its inputs before its layers get them."""
    if is_graph(node.layer) or node.head is not None:
        return None
    for child in node.children:
        if child.head is None and (preprocessing(child, facts) or _looks_up(child)):
            return Decision(FLOAT32, f"hands raw values on to {child.path}")
    return None


def output(node: LayerNode, facts: Facts) -> Decision | None:
    """Softmax with cross-entropy on FP16 logits [8, -9, 0] has gradient 0 instead of 1."""
    if not any(id(part.layer) in facts.evidence.outputs for part in node.unit()):
        return None
    return Decision(FLOAT32, "output: the loss sees it")


def no_gain(node: LayerNode, facts: Facts) -> Decision | None:
    """A lookup multiplies nothing; in 16 bits Keras would cast the whole table at every step."""
    if _looks_up(node) and id(node.layer) not in facts.evidence.lookups_in_16_bits:
        return Decision(FLOAT32, "a lookup gains nothing, and its gradient stays sparse")
    return None


def _looks_up(node: LayerNode) -> bool:
    return any(type(layer) is layers.Embedding for layer in _subjects(node))


def chosen_before(node: LayerNode, facts: Facts) -> Decision | None:
    """A float32 layer among mixed siblings got its dtype from its user or from an earlier plan."""
    is_float32 = facts.original[id(node.layer)].name == FLOAT32
    if node.owner is None or isinstance(node.layer, keras.Model) or not is_float32:
        return None
    siblings = (facts.original[id(sibling.layer)].name for sibling in node.owner.children)
    if any(name.startswith("mixed_") for name in siblings):
        return Decision(FLOAT32, "was float32 in a model already mixed")
    return None


# The order decides only which reason is shown, unless a comment says more.
RULES: tuple[Rule, ...] = (
    not_a_float_layer,  # before the user's word: float32 would break these
    named_by_user,
    overflowed_in_training,
    no_kernel,
    preprocessing,
    hands_on_raw_values,
    numerically_delicate,
    measured,
    masked_mean,
    output,
    no_gain,
    chosen_before,  # last: after a reload it holds for most kept layers, and the others say more
)

# In float32 nothing is lost, and policies of one dtype exist to be compared: only what cannot run
# otherwise has another dtype.
RULES_WITHOUT_CHOICE: tuple[Rule, ...] = (
    not_a_float_layer,
    named_by_user,
    measured,
    no_kernel,
)


def _subjects(node: LayerNode) -> list[layers.Layer]:
    """The layer, and the layers that it wraps if it is a wrapper such as `TimeDistributed`."""
    result = [node.layer]
    while isinstance(result[-1], layers.Wrapper) and not isinstance(result[-1].layer, keras.Model):
        result.append(result[-1].layer)
    return result
