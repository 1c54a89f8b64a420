"""Roofline: a step and its layers under the roof of the device, and their input pipeline."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tfmp.machine import bytes_text, seconds_text
from tfmp.roofline.peaks import Peaks
from tfmp.roofline.pipeline import InputPipeline
from tfmp.roofline.verdict import LAUNCH_BOUND, Placement, share_text
from tfmp.shared.report_files import JsonObject

Cells = list[tuple[str, ...]]


@dataclass(frozen=True)
class Roofline:
    """The limits that hold a model's training back.

    Attributes:
        peaks: the device's limits.
        steps: by variant, the whole step.
        layers: by path, each layer by variant.
        pipeline: the input pipeline; None if it could not be timed.
    """

    peaks: Peaks
    steps: Mapping[str, Placement] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, Placement]] = field(default_factory=dict)
    pipeline: InputPipeline | None = None

    def obstacles(self, variant: str) -> list[str]:
        """The limits that another precision does not move, for the answer."""
        found = []
        if self.pipeline is not None and self.pipeline.input_bound:
            found.append(self.pipeline.text)
        step = self.steps.get(variant)
        if step is not None and step.verdict == LAUNCH_BOUND:
            found.append(f"{LAUNCH_BOUND}: try {step.advice}")
        return found

    def sentences(self) -> list[str]:
        """The verdicts, one a line."""
        found = [
            f"{variant} is {step.verdict}: {step.advice}" for variant, step in self.steps.items()
        ]
        if self.pipeline is not None:
            found.append(f"the input pipeline ({self.pipeline.kind}): {self.pipeline.text}")
            found += [f"advice: {text}" for text in self.pipeline.advice]
        return found

    def step_cells(self) -> Cells:
        """The table of steps; its first row is the heading."""
        heading = ("policy", "FLOPs", "bytes", "FLOP/B", "of peak", "of bandwidth", "launching")
        rows = [(name, *_numbers(step)) for name, step in self.steps.items()]
        return [
            (*heading, "verdict", "change that would help most"),
            *(
                (*row, seconds_text(step.launch_s), step.verdict, str(step.advice))
                for row, step in zip(rows, self.steps.values(), strict=True)
            ),
        ]

    def layer_cells(self, variant: str, most: int | None = 20) -> Cells:
        """The table of layers under one variant, the most expensive first."""
        shown = [(path, row[variant]) for path, row in self.layers.items() if variant in row]
        shown.sort(key=lambda pair: -pair[1].seconds)
        heading = ("layer", "FLOPs", "backward", "bytes", "backward", "FLOP/B")
        return [
            (*heading, "of peak", "of bandwidth", "verdict", "change that would help most"),
            *(
                (
                    path,
                    count_text(layer.forward.flops),
                    count_text(layer.backward.flops),
                    bytes_text(layer.forward.bytes),
                    bytes_text(layer.backward.bytes),
                    *_numbers(layer)[2:],
                    layer.verdict,
                    str(layer.advice),
                )
                for path, layer in shown[:most]
            ),
        ]

    def to_dict(self) -> JsonObject:
        """Plain JSON types."""
        return {
            "peaks": asdict(self.peaks),
            "steps": {name: step.to_dict() for name, step in self.steps.items()},
            "layers": {
                path: {name: layer.to_dict() for name, layer in row.items()}
                for path, row in self.layers.items()
            },
            "input_pipeline": self.pipeline.to_dict() if self.pipeline else None,
        }


def _numbers(place: Placement) -> tuple[str, str, str, str, str]:
    work = place.work
    sign = "≥ " if work.uncounted else ""
    return (
        sign + count_text(work.flops),
        bytes_text(work.bytes),
        f"{work.intensity:.3g}",
        share_text(place.peak_share),
        share_text(place.bandwidth_share) if place.memory_s else "cached",
    )


def count_text(count: float) -> str:
    """A number of FLOPs as people read it: 1.5 G."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f}"
