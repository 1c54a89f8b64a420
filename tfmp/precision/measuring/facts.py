"""Facts that have to be known before a model's layers can be decided, by id of the layer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# How the reason of a layer begins that runs in float32 alone.
FAILED_DRY_RUN = "failed a dry run"


@dataclass
class Evidence:
    """The facts from a model's graphs and from runs of its own code.

    Attributes:
        outputs: layers that compute the values that the loss sees.
        notes: for the user, models that could not be run.
        promoted: layers whose own code multiplies in float32 under a 16-bit policy, with the line.
        measured: layers that fail in 16 bits or lose by them, with what was measured.
        lookups_in_16_bits: layers that get the base policy even if they look up: float32 results
            would keep the layers behind them out of 16 bits.
    """

    outputs: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    promoted: dict[int, str] = field(default_factory=dict)
    measured: dict[int, str] = field(default_factory=dict)
    lookups_in_16_bits: set[int] = field(default_factory=set)

    def size(self) -> int:
        """It grows with every layer that is found."""
        return len(self.measured) + len(self.lookups_in_16_bits)


# For what is known so far, the policy that each layer would get, by id of the layer.
Wanted = Callable[[Evidence], Mapping[int, str | None]]
