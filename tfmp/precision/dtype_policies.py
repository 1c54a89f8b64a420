"""Keras dtype policies, by the names that plans use."""

import keras

NARROW_DTYPES = ("float16", "bfloat16")


@keras.saving.register_keras_serializable(package="tfmp")
class MixedFloat64(keras.DTypePolicy):
    """Computes in float64 on float32 weights.

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
        return keras.dtype_policies.DTypePolicyMap(default_policy=cls())


def policy_named(name: str) -> keras.DTypePolicy:
    """The policy that a plan means by "float64" or by any name that Keras knows."""
    return MixedFloat64() if name == "float64" else keras.DTypePolicy(name)


def is_narrow(policy: str) -> bool:
    """Whether a policy computes in 16 bits, so that values can be lost."""
    return policy_named(policy).compute_dtype in NARROW_DTYPES
