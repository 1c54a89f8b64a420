"""The profile's page: what it shows."""

from dataclasses import replace

import pytest
from notebook_cells import Page
from profiles import A100, NO_PRODUCT, PADDED, layer, profile, step

from tfmp.profiling.report import ProfileReport
from tfmp.profiling.steps import StepProfile
from tfmp.roofline import Placement, Roofline, Setting, Work
from tfmp.roofline.peaks import Peaks


def row(variant: str, seconds: float, gib: float) -> StepProfile:
    rounds = (seconds * (1 + 0.02 * (i % 3)) for i in range(9))
    return step(variant, rounds, int(gib * 2**30), loss=0.25)


def roofline() -> Roofline:
    """A step and layers below the roof of an A100."""
    peaks = Peaks({"float32": 19.5e12, "float16": 312e12}, 1555e9, 1e-5, 2e-6)
    setting = Setting("mixed_float16")

    def placed(flops: int, count: int, seconds: float) -> Placement:
        work = Work({"float16": flops}, flops // 90, count, 9)
        return Placement(work, seconds, peaks, setting)

    return Roofline(
        peaks,
        {"mixed_float16": placed(4 * 10**12, 10**10, 0.021)},
        {
            "expanding_convolution": {"mixed_float16": placed(3 * 10**12, 10**9, 0.012)},
            "pool": {"mixed_float16": placed(10**6, 10**10, 0.009)},
            "head": {"mixed_float16": placed(10**6, 10**6, 0.001)},
        },
    )


@pytest.fixture(scope="module")
def report() -> ProfileReport:
    """A profile with everything on its page, on a card."""
    names = ("float32", "float32 (TF32)", "mixed_float16")
    made = profile(
        row("float32", 0.061, 11.5),
        row("float32 (TF32)", 0.036, 11.5),
        row("mixed_float16", 0.021, 6.25),
        step("float64", (), error="out of memory: OOM when allocating a tensor"),
        layers=[
            layer("backbone/expanding_convolution", dict.fromkeys(names, (0.012, PADDED))),
            layer("pool", dict.fromkeys(names, (0.009, NO_PRODUCT))),
        ],
        device=A100,
        model="resnet <50> & more",
        notes=("float64 did not run: out of memory",),
        log_dir="logs",
        roofline=roofline(),
    )
    faster = replace(made.variants[2], step=made.variants[2].step.per(2))
    earlier = replace(made, variants=(*made.variants[:2], faster), environment={})
    return made.compared_with({**earlier.to_dict(), "path": "base.json"})


def test_says_everything(report, tmp_path):
    words = Page(report.save(tmp_path / "p.html").read_text()).words
    for text in (
        "✓ worth it Training “resnet <50> & more” in each precision",
        "float32 (TF32) 36.7 ms",
        "Its bytes are device memory.",
        "could; units 10 (padded: 16)",
        "Worse than base.json: step time of mixed_float16. mixed_float16 is worth it on",
        "mixed_float16 step time worse 10.7 ms then, 21.4 ms now (2.00 times)",
        "note: float64: not compared, as not measured in the baseline",
        "mixed_float16 is compute-bound: ",
        "Roofline: what limits the step",
        "have measured: 19.5 TFLOP/s in float32, 312 TFLOP/s in float16",
        "launch-bound a larger batch or jit_compile=True",
        "note: float64 did not run: out of memory",
        "Traces logs",
    ):
        assert text in words, text
