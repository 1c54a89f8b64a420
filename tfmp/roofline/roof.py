"""Roofline: a step and its layers under the roof of the device."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfmp.machine import bytes_text, seconds_text
from tfmp.roofline.peaks import Peaks
from tfmp.roofline.verdict import Placement, share_text
from tfmp.roofline.work import count_text
from tfmp.shared.reporting import Section, Table

_VERDICT = ("verdict", "change that would help most")


@dataclass(frozen=True)
class Roofline:
    """The limits that hold a model's training back.

    Attributes:
        peaks: the device's limits.
        steps: by variant, the whole step.
        layers: by path, each layer by variant.
    """

    peaks: Peaks
    steps: Mapping[str, Placement] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, Placement]] = field(default_factory=dict)

    def section(self, variant: str, most: int) -> Section:
        """The verdicts and the table of steps, and the layers of one variant.

        Args:
            variant: whose layers are shown.
            most: number of layers, the most expensive first.
        """
        costs = [(path, row[variant]) for path, row in self.layers.items() if variant in row]
        layers = dict(sorted(costs, key=lambda pair: -pair[1].seconds)[:most])
        rates = (f"{count_text(rate)}FLOP/s in {name}" for name, rate in self.peaks.flops.items())
        verdicts = (f"{name} is {step.verdict}: {step.advice}" for name, step in self.steps.items())
        return Section(
            "Roofline: what limits the step",
            lines=tuple(verdicts),
            tables=(
                _table("policy", self.steps, "steps and the roofline:"),
                _table("layer", layers, f"layers in {variant} and the roofline:"),
            ),
            quiet=(
                "FLOPs and bytes of the program that XLA gets, or of the operations that "
                "PyTorch runs, against the peaks of the device, which a matrix product and a "
                f"copy have measured: {', '.join(rates)}, {bytes_text(self.peaks.bandwidth)}/s. "
                "A step that the roof does not explain is launch-bound if starting its kernels "
                "takes longer than their work.",
            ),
        )


def _table(kind: str, places: Mapping[str, Placement], caption: str) -> Table:
    heading = (kind, "FLOPs", "bytes", "FLOP/B", "of peak", "of bandwidth", "launching")
    rows = tuple(
        (
            name,
            ("≥ " if place.work.uncounted else "") + count_text(place.work.flops),
            bytes_text(place.work.bytes),
            f"{place.work.intensity:.3g}",
            share_text(place.peak_share),
            share_text(place.bandwidth_share) if place.memory_s else "cached",
            seconds_text(place.launch_s),
            place.verdict,
            str(place.advice),
        )
        for name, place in places.items()
    )
    return Table((*heading, *_VERDICT), rows, caption, words=(kind, *_VERDICT))
