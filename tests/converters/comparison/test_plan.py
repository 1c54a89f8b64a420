"""A plan says at once what cannot be measured."""

import pytest

from tfmp.converters.comparison.plan import Plan
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.shared.errors import InputError


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        *(({"workers": n}, "workers: expected a whole number of") for n in (0, -1, "two", True)),
        ({"explain": True}, "explain looks into one model on the worst samples"),
        ({"latency": True}, "latency is measured on a machine that does nothing"),
    ],
)
def test_what_ray_cannot_do_is_told(asked, message):
    with pytest.raises(InputError, match=message):
        Plan.of(ray="local", **asked)


def test_what_is_asked_for_is_told_by_its_keyword():
    assert Plan.of().asked() == ()
    asked = Plan.of(device="cpu", split=True, ray="local", workers=2).asked()
    assert asked == ("device", "split", "ray", "workers")
    assert Plan.of(tasks={"y": "ids"}, metric="math:dist").asked() == ("tasks", "metric")
    with pytest.raises(InputError, match="device: expected one of auto, cpu, gpu, received 'tpu'"):
        Plan.of(device="tpu")


def test_tasks_and_metrics_are_read_once() -> None:
    def drop(predictions: object, labels: object) -> float:
        return 0.0

    plan = Plan.of(tasks={"y": "classification:axis=1"}, metric=["math:dist", drop])
    assert plan.tasks == {"y": Task(Kind.CLASSIFICATION, 1)}
    assert [metric.title for metric in plan.metrics][:1] == ["dist"]
    assert plan.metrics[1].function is drop
    with pytest.raises(InputError, match="'boxes' is no kind of output"):
        Plan.of(tasks={"y": "boxes"})
    with pytest.raises(InputError, match="'mAP' cannot be read"):
        Plan.of(metric="mAP")
    with pytest.raises(InputError, match="sizes: expected the shape of each input"):
        Plan.of(sizes={"x": ()})
