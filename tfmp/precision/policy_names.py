"""The names of precision policies. No framework is loaded to read or check them."""

from tfmp.shared.arguments import check_choice
from tfmp.shared.wording import shown

# Policies that mean the same on every device.
FIXED_POLICIES = (
    "float32",
    "mixed_float16",
    "mixed_bfloat16",
    "float64",
    "bfloat16",
    "float16",
)

# Policies with weights, optimizer state and every layer in the dtype: no rule keeps float32.
PURE_POLICIES = ("float64", "bfloat16", "float16")

# Policies that are chosen by the device: FP16, or bfloat16 where the device is as fast in it.
AUTO, AUTO_BFLOAT16 = "auto", "auto+bfloat16"

# bfloat16 with products in float8: a plan for a model that is not compiled yet.
FLOAT8 = "mixed_float8"

POLICIES = (AUTO, AUTO_BFLOAT16, *FIXED_POLICIES, FLOAT8)


def check_policy(policy: object) -> None:
    """Accepts the name of a policy.

    Raises:
        TypeError: it is not a string.
        ValueError: no policy has this name.
    """
    if not isinstance(policy, str):
        raise TypeError(
            f"policy expects a string; received {shown(policy)}. "
            f"Pass one of: {', '.join(POLICIES)}."
        )
    hint = "'mixed_float16' is FP16 with float32 weights; 'auto' chooses by the device."
    check_choice("policy", policy, POLICIES, hint)
