"""Pictures of a training: SVG that takes its colours from the page, light or dark."""

import math
from collections.abc import Mapping, Sequence

from tfmp.shared.html_page import COLOURS, INK, inline_svg

# More curves than this are no longer read at a glance.
_MOST_CURVES = 10


def curves_by_epoch(
    curves: Mapping[str, Sequence[float]], first_epoch: int
) -> list[tuple[str, str]]:
    """The logs by epoch, the loss first: names, and a picture of training and validation each."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = dict.fromkeys(name.removeprefix("val_") for name in curves)
    pictures = []
    for place, name in enumerate(sorted(names, key=lambda name: name != "loss")[:_MOST_CURVES]):
        figure = Figure(figsize=(4.6, 2.7), layout="constrained")
        axes = figure.subplots()
        for kind, label in enumerate(("training", "validation")):
            values = curves.get(f"val_{name}" if kind else name, ())
            if values:
                axes.plot(
                    range(first_epoch + 1, first_epoch + len(values) + 1),
                    [value if math.isfinite(value) else math.nan for value in values],
                    label=label,
                    color=COLOURS[kind],
                    linestyle=("-", "--")[kind],
                    marker="o" if len(values) < 30 else None,  # each point, where there are few
                    markersize=3,
                )
        if name == "loss_scale":
            axes.set_yscale("log", base=2)
        axes.set_xlabel("epoch")
        # With more ticks than whole numbers in sight, matplotlib takes fractions of them.
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
        if len(axes.lines) > 1:
            axes.legend(frameon=False, labelcolor=INK, fontsize="small")
        pictures.append((name, inline_svg(figure, f"curve{place}")))
    return pictures
