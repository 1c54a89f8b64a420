"""The sweep's page and tables: what they show, and what a browser makes of them."""

import json
import re
from dataclasses import replace

import pytest

from tfmp.machine.devices import Device
from tfmp.machine.measuring import DEVICE_MEMORY, Memory, Timing
from tfmp.profiling.batches import BatchLimit
from tfmp.profiling.sizes import ALIKE, FASTER, SLOWER, Crossover, SweepReport
from tfmp.profiling.steps import StepProfile

A100 = Device("gpu", "NVIDIA A100-SXM4-40GB", (8, 0))
GIB = 2**30


def row(mode: str, variant: str, batch: int, seconds: float) -> StepProfile:
    policy, _, how = variant.partition(", ")
    compiled = {"": None, "XLA": True, "no XLA": False}[how]
    policy = policy.partition(" ")[0]
    row = StepProfile(variant, policy, batch_size=batch, mode=mode, xla=compiled)
    if not seconds:
        return replace(row, error="out of memory")
    step = Timing(tuple(seconds * (1 + 0.05 * (i % 4)) for i in range(8)))
    needed = Memory(int((1 + batch / (64 if "16" in variant else 32)) * GIB), DEVICE_MEMORY)
    return replace(row, parameters=25_557_032, step=step, compile_s=3.5, memory=needed)


@pytest.fixture(scope="module")
def report() -> SweepReport:
    """A sweep with a crossover and sizes that do not fit, on a card."""
    rows = []
    for mode, scale in (("train", 3.0), ("predict", 1.0)):
        for batch in (8, 32, 128, 512):
            wide = 0 if batch == 512 and mode == "train" else scale * (0.004 + batch * 5e-4)
            narrow = scale * (0.008 + batch * 2e-4)
            rows += [
                row(mode, "float32 (TF32), no XLA", batch, wide),
                row(mode, "mixed_float16, no XLA", batch, narrow),
                row(mode, "float32 (TF32), XLA", batch, wide * 0.9),
                row(mode, "mixed_float16, XLA", batch, narrow * 0.7),
            ]
    memory = Memory(38 * GIB, DEVICE_MEMORY)
    largest = {
        f"{policy}, XLA": BatchLimit(fits, fits + 16, memory)
        for policy, fits in (("float32 (TF32)", 432), ("mixed_float16", 880))
    }
    return SweepReport(
        *("resnet <50> & more", A100, "tensorflow", {"keras": "3.15.1"}, 8, tuple(rows), largest),
        limit="the device's memory, and 80 GiB for a process of the computer's",
        notes=("a note",),
    )


def test_the_terminal_has_rows_limits_and_crossovers(report):
    text = str(report)
    assert text.startswith("training: mixed_float16, no XLA is faster than ")
    for line in (
        r"^mode +batch +policy +step +spread +samples/s +memory +compile$",
        r"^training +8 +mixed_float16, no XLA +31 ms +28.8 ms to 33.1 ms +258 +1.12 GiB +3.5 s$",
        r"^training +512 +float32 \(TF32\), XLA +did not run: out of memory$",
        r"^mixed_float16, XLA +880 \(896 does not fit\) +38 GiB$",
        r"^training: mixed_float16, no XLA is faster .* from batch 32 on \(up to \d.* slower at",
        r"^predict: mixed_float16, XLA is faster than .* from batch 8 on \(up to 3.03 times\)$",
    ):
        assert re.search(line, text, re.MULTILINE), line


def test_json_holds_every_number_and_the_page_a_picture_for_each_mode(report, tmp_path):
    document = json.loads(report.save(tmp_path / "sweep.json").read_text())
    assert document["schema"] == "tfmp.sweep/2"
    assert len(document["rows"]) == 32
    assert document["rows"][0]["samples_per_second"] == pytest.approx(8 / 0.0258, rel=0.01)
    assert document["largest"]["mixed_float16, XLA"]["fits"] == 880
    assert document["crossovers"][0]["faster_from"] == 32
    html = report.save(tmp_path / "s.html").read_text()
    assert html.count("samples a second at the median of 8 rounds") == 2
    assert html.count("batch 512, mixed_float16, XLA") == 2
    assert html.count("batch 512, float32") == 2  # it ran in one of the modes
    assert "“resnet &lt;50&gt; &amp; more” over sizes, on NVIDIA A100-SXM4-40GB" in html
    assert html.count("did not run: out of memory</td>") == 2


SIZES = (8, 32, 128, 512)


@pytest.mark.parametrize(
    ("found", "start", "text"),
    [
        ((FASTER,) * 4, 8, "faster than float32 from batch 8 on"),
        ((ALIKE,) * 4, None, "neither faster nor slower than float32 beyond noise"),
        (
            (SLOWER, ALIKE, FASTER, FASTER),
            128,
            "faster than float32 from batch 128 on and slower at batch 8",
        ),
        ((FASTER, ALIKE, FASTER, FASTER), 128, "faster than float32 at batch 8, 128, 512"),
        ((ALIKE, SLOWER, ALIKE, ALIKE), None, "slower than float32 at batch 32"),
        ((FASTER,), 8, "faster than float32 at batch 8"),
    ],
)
def test_words_of_a_crossover(found, start, text):
    judged = Crossover("half", "float32", "training", SIZES[: len(found)], found)
    assert judged.faster_from == start
    assert judged.text == f"training: half is {text}"


def test_noise_is_no_crossover():
    base = Timing((1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1))
    alike = Timing((1.1, 1.0, 0.9, 1.1, 1.0, 0.9, 1.1, 0.9))
    half = base.per(2)
    steps = [(1, half, base), (2, base, alike), (3, base, half)]
    rows = [
        replace(row("train", name, size, 1.0), step=step)
        for size, *both in steps
        for name, step in zip(("float32", "mixed_float16"), both, strict=True)
    ]
    report = SweepReport("m", A100, "jax", {}, 8, tuple(rows))
    (found,) = report.crossovers
    assert found.found == (SLOWER, ALIKE, FASTER)
    assert str(replace(report, rounds=5)).startswith("Too few rounds to say which policy is faster")
