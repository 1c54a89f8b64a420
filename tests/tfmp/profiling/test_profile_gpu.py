"""profile_training on a card: its use in each variant."""

from fake_nvml import FakeCard, FakeNvml

from tfmp.machine.devices import CPU, Device
from tfmp.machine.gpu_use import GpuUse
from tfmp.profiling import profile
from tfmp.profiling.bench import Job
from tfmp.profiling.profile import ProfilingBench
from tfmp.profiling.report import ProfileReport
from tfmp.profiling.steps import StepProfile
from tfmp.shared.progress import SILENT

T4 = Device("gpu", "Tesla T4", (7, 5))


class Steps:
    """A run that only counts."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def run(self, steps: int) -> float:
        self.taken.append(steps)
        return 0.0


def bench(device):
    job = Job(lambda: None, (), 1)
    found = ProfilingBench(job, device, SILENT)
    found.steps = 3
    for name in ("float32", "mixed_float16"):
        found.runs[name] = Steps()
        found.rows[name] = StepProfile(name, name)
    return found


def test_each_variant_is_watched_for_a_while(monkeypatch):
    monkeypatch.setattr(profile, "_WATCHED_S", 0.01)
    FakeNvml(cards=(FakeCard("Tesla T4", busy=70, used=100),)).install(monkeypatch)
    found = bench(T4)
    found.watch_gpu()
    assert found.gpu_note == ""
    for name, row in found.rows.items():
        assert row.gpu.busy == 0.7
        assert set(found.runs[name].taken) == {3}


def test_without_a_card_no_step_is_taken_and_the_report_says_so():
    found = bench(CPU)
    found.watch_gpu()
    assert [run.taken for run in found.runs.values()] == [[], []]
    assert found.rows["float32"].gpu is None
    assert found.gpu_note == "the use of a GPU was not watched: this device is no GPU"


def test_the_use_or_the_reason_is_in_the_report():
    row = StepProfile("float32", "float32", gpu=GpuUse("Tesla T4", 3.0, 30, busy=0.7))
    report = ProfileReport("m", T4, "jax", {}, 1, 1, (row,), gpu_note="no GPU")
    assert "GPU in float32: a kernel ran 70% of the time" in str(report)
    assert "note: no GPU" in str(report)
    assert report.to_dict()["variants"][0]["gpu"]["busy"] == 0.7
