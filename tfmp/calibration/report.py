"""GradientReport: the sizes of a model's gradients, and the share that FP16 loses at a scale."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfmp.shared.html_page import NONE, inline_svg
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.report_files import JsonObject, check_report_path, writing_report
from tfmp.shared.reporting import Drawing, Report, Section, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Exponent of the largest magnitude that rounds to zero in FP16: half the smallest subnormal.
_VANISHING = FLOAT16.min_exponent - FLOAT16.fraction_bits - 1

SUFFIXES = (*Report.SUFFIXES, ".png", ".svg", ".pdf")


@dataclass(frozen=True)
class ExponentHistogram:
    """Magnitudes of gradient values, by power of two.

    Attributes:
        counts: by exponent e, the number of values with 2**(e-1) < magnitude <= 2**e.
        zeros: number of values that are exactly zero.
        largest: the largest magnitude.
    """

    counts: Mapping[int, int]
    zeros: int
    largest: float

    @property
    def values(self) -> int:
        """The number of values."""
        return self.zeros + sum(self.counts.values())

    def underflow(self, scale: float) -> float:
        """Share of the non-zero values that become zero in FP16 at a scale (a power of two)."""
        total = sum(self.counts.values())
        last = _VANISHING - math.log2(scale)
        lost = sum(count for exponent, count in self.counts.items() if exponent <= last)
        return lost / total if total else 0.0

    def __add__(self, other: "ExponentHistogram") -> "ExponentHistogram":
        exponents = {*self.counts, *other.counts}
        return ExponentHistogram(
            {e: self.counts.get(e, 0) + other.counts.get(e, 0) for e in sorted(exponents)},
            self.zeros + other.zeros,
            max(self.largest, other.largest),
        )


def histogram_of(values: np.ndarray) -> ExponentHistogram:
    """The histogram of an array of finite numbers."""
    magnitudes = np.abs(np.asarray(values, dtype=np.float64)).ravel()
    nonzero = magnitudes[magnitudes > 0]
    fraction, exponent = np.frexp(nonzero)  # fraction in [0.5, 1); a power of two has 0.5
    exponents, counts = np.unique(exponent - (fraction == 0.5), return_counts=True)
    return ExponentHistogram(
        counts={int(e): int(n) for e, n in zip(exponents, counts, strict=True)},
        zeros=int(magnitudes.size - nonzero.size),
        largest=float(nonzero.max(initial=0.0)),
    )


@dataclass(frozen=True)
class LayerGradients:
    """The gradients of one layer's outputs and weights.

    Attributes:
        path: the layer's path in the model.
        dtype: dtype that the layer computes in, or would compute in under the plan.
        histogram: magnitudes of the unscaled gradients, measured in float32.
    """

    path: str
    dtype: str
    histogram: ExponentHistogram

    @property
    def narrow(self) -> bool:
        """Whether these gradients pass through FP16."""
        return self.dtype == "float16"


@dataclass(frozen=True)
class GradientReport(Report):
    """The result of `tfmp.calibrate`; it prints as a table.

    Attributes:
        recommended_scale: the largest power of two that keeps `margin` times the largest gradient
            that passes through FP16 below 65504.
        margin: room for gradients that are larger than in the measured batches.
        batches, samples: numbers of batches and samples that were measured.
        layers: one row for each layer, in the order of the forward pass.
    """

    recommended_scale: float
    margin: float
    batches: int
    samples: int
    layers: tuple[LayerGradients, ...]

    @property
    def largest(self) -> LayerGradients:
        """The row with the largest gradient that passes through FP16."""
        return max((row for row in self.layers if row.narrow), key=lambda r: r.histogram.largest)

    def to_dict(self) -> JsonObject:
        """All numbers, as plain JSON types."""
        return {
            "recommended_scale": self.recommended_scale,
            "margin": self.margin,
            "batches": self.batches,
            "samples": self.samples,
            "largest_gradient": self.largest.histogram.largest,
            "largest_gradient_layer": self.largest.path,
            "layers": [
                {
                    "path": row.path,
                    "dtype": row.dtype,
                    "values": row.histogram.values,
                    "zeros": row.histogram.zeros,
                    "largest": row.histogram.largest,
                    "underflow_at_1": row.histogram.underflow(1.0) if row.narrow else 0.0,
                    "underflow_at_recommended": row.histogram.underflow(self.recommended_scale)
                    if row.narrow
                    else 0.0,
                    "exponents": {str(e): n for e, n in row.histogram.counts.items()},
                }
                for row in self.layers
            ],
        }

    @property
    def heading(self) -> str:
        """Of the page."""
        return "Gradients"

    @property
    def conclusion(self) -> str:
        """The scale, and the gradient that decides on it."""
        scale = self.recommended_scale
        batches = f"{self.batches} batches of " if self.batches > 1 else ""
        samples = f"{self.samples} sample{'s' if self.samples > 1 else ''}"
        return (
            f"Recommended static loss scale: {scale:g} (2**{math.log2(scale):.0f}), from "
            f"{batches}{samples}{' in all' if batches else ''}\n"
            f"The largest gradient in FP16 is {self.largest.histogram.largest:.3g} in "
            f"{self.largest.path}; {self.margin:g} times that still fits below 65504"
        )

    def sections(self, on_page: bool = True) -> list[Section]:
        """A row for each layer, and the picture."""
        scale = self.recommended_scale

        def lost(row: LayerGradients, scale: float) -> str:
            return f"{row.histogram.underflow(scale):.2%}" if row.narrow else NONE

        heading = ("layer", "dtype", "largest", "lost at 1", f"lost at {scale:g}")
        rows = tuple(
            (row.path, row.dtype, f"{row.histogram.largest:.3g}", lost(row, 1.0), lost(row, scale))
            for row in self.layers
        )
        layers = Table(heading, rows, words=("layer", "dtype"))
        picture = inline_svg(_figure(self), "gradients") if on_page else ""
        return [Section("Layers", tables=(layers,), drawings=(Drawing("Gradients", picture),))]

    def save(self, path: str | Path) -> Path:
        """Writes the report: `.json` as data, `.html` as a page, the others as a picture.

        Raises:
            ValueError: the path has another suffix, or the file cannot be written.
        """
        path = check_report_path(path, SUFFIXES)
        if path.suffix in self.SUFFIXES:
            return super().save(path)
        with writing_report(path) as new:
            _figure(self).savefig(new)
        return path


def _figure(report: GradientReport) -> "Figure":
    """A row of exponents for each layer, with FP16's range at scale 1 and at the new scale."""
    # Not pyplot: it would choose a window system, and keep every figure alive.
    from matplotlib.figure import Figure

    shift = math.log2(report.recommended_scale)
    found = [e for row in report.layers for e in row.histogram.counts]
    first = min([*found, _VANISHING - int(shift)]) - 1
    last = max([*found, FLOAT16.max_exponent + 1]) + 1
    shares = np.zeros((len(report.layers), last - first + 1))
    for index, row in enumerate(report.layers):
        total = max(1, sum(row.histogram.counts.values()))
        for exponent, count in row.histogram.counts.items():
            shares[index, exponent - first] = count / total

    figure = Figure(figsize=(9, 2.6 + 0.3 * len(report.layers)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(
        np.ma.masked_equal(shares, 0),
        aspect="auto",
        cmap="viridis_r",
        extent=(first - 0.5, last + 0.5, len(report.layers) - 0.5, -0.5),
    )
    for label, offset, style in (("1", 0.0, ":"), (f"{report.recommended_scale:g}", shift, "-")):
        for edge in (_VANISHING + 0.5, FLOAT16.max_exponent + 1.5):
            axes.axvline(edge - offset, color="crimson", linestyle=style)
        axes.plot([], [], color="crimson", linestyle=style, label=f"FP16 range at scale {label}")
    axes.set_yticks(range(len(report.layers)), [row.path for row in report.layers])
    axes.set_xlabel("exponent of the unscaled gradient, log2")
    axes.set_title("Share of each layer's gradient values, by magnitude")
    figure.legend(loc="outside lower left", ncols=2, frameon=False)
    figure.colorbar(image, label="share of non-zero values")
    return figure
