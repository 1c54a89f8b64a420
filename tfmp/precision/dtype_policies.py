"""Keras dtype policies, by the names that plans use."""

from collections.abc import Mapping

import keras

from tfmp.precision.policy_names import FIXED_POLICIES, FLOAT8, PURE_POLICIES, check_policy

NARROW_DTYPES = ("float16", "bfloat16")


@keras.saving.register_keras_serializable(package="tfmp")
class MixedFloat64(keras.DTypePolicy):
    """Computes in float64 on float32 weights: the policy of single layers that `keep` names.

    Keras's own "float64" policy does not cast weights: the weights of a model that was built in
    float32 would meet float64 activations in the same operation, which TensorFlow refuses.
    """

    def __init__(self, name: str = "mixed_float64") -> None:
        super().__init__(name)

    def _parse_name(self, name: str) -> tuple[str, str]:
        return "float64", "float32"

    @classmethod
    def from_config(cls, config: dict[str, object]) -> keras.dtype_policies.DTypePolicyMap:
        """A map with this policy for every layer, when Keras reads a layer from a file.

        At that point Keras turns a policy into its name, and makes a policy of its own by the name.
        It does not know this name, but it keeps the policies in a map as they are.
        """
        policies = keras.dtype_policies.DTypePolicyMap(default_policy=cls())
        # A saved map becomes the default of another one, which older releases of Keras name by it.
        policies._name = policies.name
        return policies


MIXED_FLOAT64 = "mixed_float64"

# The policy of a layer that multiplies in float8.
FLOAT8_PRODUCTS = "float8_from_mixed_bfloat16"

# The policies of layers that `keep` names, by the dtype that they compute in.
KEPT_POLICIES = {
    "float32": "float32",
    "float64": MIXED_FLOAT64,
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}

# A policy as users give it: by name, or as one of Keras's objects.
Policy = str | keras.DTypePolicy


def policy_named(name: str) -> keras.DTypePolicy:
    """The policy that a plan means by a name of its own or by any name that Keras knows."""
    if name == MIXED_FLOAT64:
        return MixedFloat64()
    return keras.dtype_policies.get("mixed_bfloat16" if name == FLOAT8 else name)


def on_float32_weights(name: str | None) -> str | None:
    """The policy that computes in the same dtype on float32 weights."""
    if name not in PURE_POLICIES:
        return name
    return KEPT_POLICIES[policy_named(name).compute_dtype]


def named_policy(policy: object) -> tuple[str, Mapping[str, str]]:
    """The name of a policy, and the names of the policies that a map has for paths.

    Args:
        policy: a name, a `keras.DTypePolicy` or a `keras.dtype_policies.DTypePolicyMap`.

    Raises:
        TypeError: it is none of these.
        ValueError: no policy has this name, or it is quantized.
    """
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return _known(policy.default_policy), {key: _known(policy[key]) for key in policy}
    if isinstance(policy, keras.DTypePolicy):
        return _known(policy), {}
    check_policy(policy)
    assert isinstance(policy, str)
    return policy, {}


def _known(policy: keras.DTypePolicy) -> str:
    if isinstance(policy, MixedFloat64):
        return MIXED_FLOAT64
    if policy.name in FIXED_POLICIES:
        return policy.name
    raise ValueError(
        f"policy expects Keras policies with one of the names {', '.join(FIXED_POLICIES)}; "
        f"received {policy.name!r}. Layers that are quantized keep their policies by themselves."
    )


def is_narrow(policy: str) -> bool:
    """Whether a policy computes in 16 bits, so that values can be lost."""
    return policy_named(policy).compute_dtype in NARROW_DTYPES
