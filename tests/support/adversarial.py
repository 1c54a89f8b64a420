"""Small models that FP16 breaks on some runtime, and twins of them that are sound on every one.

Most come from what public reports complain of. Each model breaks in one way: a sum stops growing, a
square overflows, an epsilon vanishes, a large number loses its fraction.
"""

from dataclasses import dataclass

import adversarial_draws as draws
import adversarial_graphs as graphs
import numpy as np
from adversarial_draws import Draw
from adversarial_graphs import Build

from tfmp.converters.shared.tensors import Batch

# With 299 samples or more, no verdict waits for more of them.
SAMPLES = 320


@dataclass(frozen=True)
class Adversary:
    """One model.

    Attributes:
        name: unique; a twin ends in "_sound".
        harm: whether a runtime that is known, or an oracle, loses its FP16 file.
        make: builds the float32 model.
        draw: draws samples by input name.
    """

    name: str
    harm: bool
    make: Build
    draw: Draw

    def batch(self, samples: int = SAMPLES) -> Batch:
        """Its samples, the same every time."""
        return self.draw(np.random.default_rng(3), samples)


def _both(
    name: str,
    make: Build,
    harmful: Draw,
    benign: Draw,
    other: Build | None = None,
) -> list[Adversary]:
    return [
        Adversary(name, True, make, harmful),
        Adversary(f"{name}_sound", False, other or make, benign),
    ]


ADVERSARIES: tuple[Adversary, ...] = (
    *_both(
        "cumsum", graphs.cumsum(6000), draws.uniform(6000), draws.uniform(50), graphs.cumsum(50)
    ),
    *_both("residual", graphs.LAYER, draws.pair(4, 256, scale=212), draws.pair(4, 256)),
    *_both(
        "residual_mean",
        graphs.LAYER,
        draws.pair(4, 256, scale=0.2, shift=30),
        draws.pair(4, 256, shift=0.5),
    ),
    *_both("rms_residual", graphs.RMS, draws.pair(4, 256, scale=212), draws.pair(4, 256)),
    Adversary("dead_rows_sound", False, graphs.UNIT, draws.with_dead_rows),
    Adversary("normalized_dead_rows_sound", False, graphs.NORMALIZED, draws.with_dead_rows),
    Adversary(
        "small_divisor_sound", False, graphs.SMALL_DIVISOR, draws.with_zeros(draws.normal(64), 5)
    ),
    Adversary("scaled_after_sound", False, graphs.SCALED, draws.pair(8, 64, scale=110)),
    *_both(
        *("unscaled_attention", graphs.UNSCALED),
        *(draws.pair(8, 64, scale=150), draws.pair(8, 64, scale=0.5)),
    ),
    *_both(
        *("long_mean", graphs.reduce("ReduceMean", 4096), draws.normal(4096, scale=20, shift=100)),
        *(draws.uniform(49, own=True), graphs.reduce("ReduceMean", 49)),
    ),
    Adversary("image_mean", True, graphs.IMAGE_MEAN, draws.uniform(3, 256, 300, own=True)),
    Adversary("pool", True, graphs.POOL, draws.uniform(4, 128, 128, high=10, own=True)),
    *_both(
        *("windows", graphs.WINDOWS),
        *(draws.uniform(4, 32, 32, low=200, high=400), draws.uniform(4, 32, 32, own=True)),
    ),
    *_both(*("softplus_op", graphs.SOFTPLUS_OP), *(draws.normal(64, shift=-7), draws.normal(64))),
    *_both(
        *("square_sum", graphs.reduce("ReduceSumSquare", 64, "y = Mul(r, s)", s=0.001)),
        *(draws.normal(64, scale=60), draws.uniform(64, own=True)),
    ),
    *_both(
        "length",
        graphs.reduce("ReduceL2", 64),
        draws.normal(64, scale=400),
        draws.uniform(64, own=True),
    ),
    *_both(
        "log_sum_exp",
        graphs.reduce("ReduceLogSumExp", 80_000),
        draws.uniform(80_000, own=True),
        draws.normal(40, scale=2),
        graphs.reduce("ReduceLogSumExp", 40),
    ),
    Adversary("log_sum_exp_by_hand_sound", False, graphs.LOG_SUM_EXP, draws.normal(40, scale=6)),
    Adversary("softmax_by_hand_sound", False, graphs.SOFTMAX_BY_HAND, draws.normal(40, scale=6)),
    *_both(
        "large_logits",
        graphs.SOFTMAX,
        draws.normal(40, scale=30, shift=3000),
        draws.normal(40, scale=3),
    ),
    *_both(
        *("long_sine", graphs.positions(0.7), draws.whole(8, below=6000)),
        *(draws.whole(8, below=100), graphs.positions(0.01)),
    ),
    *_both("time_embedding", graphs.TIME, draws.uniform(1, high=1000), draws.uniform(1, high=1)),
    *_both(
        "range",
        graphs.range_table(3000),
        draws.normal(3000),
        draws.normal(40),
        graphs.range_table(40),
    ),
    *_both(
        "gather",
        graphs.gather(6000),
        draws.whole(6, below=5999, dtype="float32"),
        draws.whole(6, below=900, dtype="float32"),
        graphs.gather(900),
    ),
    Adversary("resize_sound", False, graphs.resize(3000), draws.normal(1, 1, 3000)),
    *_both("flat_region", graphs.INSTANCE, draws.regions(0.001, 8.0), draws.regions(0.2, 0.0)),
    *_both(
        *("squared_distance", graphs.DISTANCES),
        *(draws.pair(32, scale=0.1, shift=20), draws.pair(32)),
    ),
    Adversary("cosine_of_zeros_sound", False, graphs.COSINE, draws.with_zeros(draws.pair(64), 9)),
    *_both(
        *("variance_of_squares", graphs.VARIANCE),
        *(draws.normal(128, scale=0.5, shift=30), draws.normal(128)),
    ),
    *_both("hypotenuse", graphs.HYPOT, draws.pair(64, scale=400), draws.pair(64)),
    *_both(
        "logit", graphs.LOGIT, draws.uniform(64, high=1e-4), draws.uniform(64, low=0.1, high=0.9)
    ),
    Adversary("entropy_sound", False, graphs.ENTROPY, draws.normal(32, scale=2)),
    *_both(
        "spectrum",
        graphs.SPECTRUM,
        draws.normal(64, scale=1e-4),
        draws.uniform(64, low=0.5, high=40),
    ),
    *_both("softplus", graphs.SOFTPLUS, draws.normal(64, scale=12), draws.normal(64)),
    *_both(
        *("cancelling_product", graphs.cancel(6000), draws.normal(6000, scale=3, shift=30)),
        *(draws.normal(64), graphs.cancel(64)),
    ),
    Adversary(
        "tiny_variance_sound", False, graphs.batch_norm(1e-9), draws.normal(8, 6, scale=3e-5)
    ),
    Adversary("batch_norm_sound", False, graphs.batch_norm(0.5), draws.normal(8, 6)),
    *_both(
        "counting_lstm",
        graphs.lstm(2000, 12.0),
        draws.normal(2000, 4, scale=0.3),
        draws.normal(30, 4),
        graphs.lstm(30, 0.0),
    ),
    *_both(
        "clock",
        graphs.loop(3000),
        draws.uniform(4, high=30),
        draws.uniform(4, high=1),
        graphs.loop(20),
    ),
    Adversary("lowest_mask_sound", False, graphs.masked, draws.kept),
    Adversary("dense_sound", False, graphs.MLP, draws.normal(256)),
    Adversary("cube_sound", False, graphs.CUBE, draws.normal(64, scale=20)),
)
