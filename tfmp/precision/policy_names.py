"""The names of precision policies. No framework is loaded to read or check them."""

from tfmp.shared.arguments import check_choice
from tfmp.shared.wording import shown

# Policies that mean the same on every device.
FIXED_POLICIES = ("float32", "mixed_float16", "mixed_bfloat16", "float64", "bfloat16", "float16")

NARROW_DTYPES = ("float16", "bfloat16")

# The policies of layers that `keep` names, by the dtype that they compute in.
KEPT_POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}

# Policies that are chosen by the device: FP16, or bfloat16 where the device is as fast in it.
AUTO, AUTO_BFLOAT16 = "auto", "auto+bfloat16"

POLICIES = (AUTO, AUTO_BFLOAT16, *FIXED_POLICIES)


def is_narrow(policy: str) -> bool:
    """Whether a policy computes in 16 bits, so that values can be lost."""
    return policy.removeprefix("mixed_") in NARROW_DTYPES


def check_policy(policy: object) -> None:
    """Accepts the name of a policy; raises `TypeError` for no string, `ValueError` for another."""
    if not isinstance(policy, str):
        raise TypeError(
            f"policy expects a string; received {shown(policy)}. "
            f"Pass one of: {', '.join(POLICIES)}."
        )
    hint = "'mixed_float16' is FP16 with float32 weights; 'auto' chooses by the device."
    check_choice("policy", policy, POLICIES, hint)
