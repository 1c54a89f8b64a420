"""Keras dtype policies, by the names that plans use."""

import keras

from tfmp.precision.policy_names import FLOAT8, PURE_POLICIES

NARROW_DTYPES = ("float16", "bfloat16")

# The policy of a layer that multiplies in float8.
FLOAT8_PRODUCTS = "float8_from_mixed_bfloat16"

# The policies of layers that `keep` names, by the dtype that they compute in.
KEPT_POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}


def policy_named(name: str) -> keras.DTypePolicy:
    """The policy that a plan means by a name of its own or by any name that Keras knows."""
    return keras.dtype_policies.get("mixed_bfloat16" if name == FLOAT8 else name)


def on_float32_weights(name: str | None) -> str | None:
    """The policy that computes in the same dtype on float32 weights; float32 for float64."""
    return KEPT_POLICIES.get(name or "", "float32") if name in PURE_POLICIES else name


def is_narrow(policy: str) -> bool:
    """Whether a policy computes in 16 bits, so that values can be lost."""
    return policy_named(policy).compute_dtype in NARROW_DTYPES
