"""A report from two of Ray's workers is the one from here, whoever died on the way."""

import os
import signal
import sys
from pathlib import Path
from unittest.mock import MagicMock

import keras
import numpy as np
import pytest

from tfmp.converters import DriftBudget, convert, validate
from tfmp.converters.distributed import driver
from tfmp.converters.distributed.cluster import Staffing
from tfmp.converters.distributed.worker import BenchWorker
from tfmp.converters.shared.errors import InputError

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'tfmp[ray]'")


@pytest.fixture(scope="module")
def cluster():
    """A Ray on this machine for all tests here, with room for two workers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        logging_level="ERROR",
    )  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A model with two outputs, its file, one that does not load, and labelled samples."""
    folder = tmp_path_factory.mktemp("ray")
    keras.utils.set_random_seed(3)
    image = keras.Input((8, 8, 3), name="image")
    y = keras.layers.Conv2D(6, 3, use_bias=False)(image)
    y = keras.layers.GlobalAveragePooling2D()(keras.layers.BatchNormalization()(y))
    scores = keras.layers.Dense(5, activation="softmax", name="scores")(y)
    age = keras.layers.Dense(1, name="age")(y)
    model = keras.Model(image, [scores, age], name="two")
    model.save(folder / "two.keras")
    convert(model, output=folder / "two.onnx", precision="fp32")
    good = convert(model, output=folder / "good.onnx")
    broken = folder / "broken.onnx"
    broken.write_bytes(b"not a model")
    generator = np.random.default_rng(0)
    data = generator.standard_normal((330, 8, 8, 3), dtype=np.float32)
    ages = generator.random(330, dtype=np.float32)
    ages[40:80] = ages[40:80].round()  # a batch by itself would be taken for yes and no
    labels = {"scores": generator.integers(0, 5, 330), "age": ages}
    np.savez(folder / "data.npz", image=data, **{f"labels.{k}": v for k, v in labels.items()})
    return model, [good, broken], (data, labels), folder


def evidence(report):
    document = report.to_dict()
    del document["environment"]
    return document


@pytest.mark.slow
def test_two_workers_report_what_one_process_does(cluster, converted):
    """With an ONNX file as the original, for which no worker has to start TensorFlow."""
    _, candidates, (data, labels), folder = converted
    model = folder / "two.onnx"
    asked = {"budget": DriftBudget(confidence=0.9), "split": True, "emulate": "pessimistic"}
    here = validate(model, candidates, data, labels, **asked)
    counted = []
    there = validate(
        model, candidates, data, labels, **asked, ray="local", workers=2,
        count=lambda done, total: counted.append((done, total)),
    )  # fmt: skip
    assert evidence(there) == evidence(here)
    assert there.candidates[0].stages
    assert there.candidates[0].labels[1].kind == "regression"
    assert "broken.onnx" in there.candidates[1].reasons[0]
    assert counted[-1] == (330, 330)
    assert there.environment["ray"] == f"{ray.__version__}, 2 workers with 1 CPU each"


@pytest.mark.slow
def test_a_conversion_is_validated_there_too(cluster, tmp_path):
    """In a LiteRT process of the worker: its last batch in a fixed batch is not a full one."""
    keras.utils.set_random_seed(4)
    x = keras.Input((4,), name="x")
    model = keras.Model(x, keras.layers.Dense(3, name="y")(x), name="small")
    data = np.random.default_rng(1).standard_normal((300, 4), dtype=np.float32)
    path = tmp_path / "small.tflite"
    there = convert(model, "tflite", path, data=data, ray="local", workers=1)
    here, there = validate(model, there, data), there.report
    assert evidence(there) == evidence(here)
    assert "1 worker" in there.environment["ray"]
    assert there.candidates[0].runner.name == "litert-fp16"


def test_workers_that_never_start_are_told(monkeypatch):
    """A Ray that others keep busy; waiting is up to its `wait`, which says when time is up."""
    told = MagicMock()
    told.wait.side_effect = lambda tickets, timeout, fetch_local: ([], tickets)
    told.available_resources.return_value = {"CPU": 1.0}
    with pytest.raises(InputError) as caught:
        driver.Crew(told, Staffing(2, 4, 1), None).open()
    assert told.wait.call_args.kwargs["timeout"] == 600.0
    assert str(caught.value) == (
        "ray: 2 workers with 4 CPUs and a GPU each have not started within 600 s; free are 1 CPUs "
        "and 0 GPUs. `ray status` shows the other jobs on it; ask for fewer workers, or wait."
    )


def workers() -> list[int]:
    """Numbers of the processes of Ray's workers on this machine."""
    titles = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [int(path.parent.name) for path, title in titles.items() if b"BenchWorker" in title]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(cluster, converted):
    """Killed with batches in its hands, which then run again, and with answers given."""
    model, candidates, (data, labels), _ = converted
    killed = []

    def kill(done, _total):
        if done and not killed:
            killed.append(workers()[0])
            os.kill(killed[0], signal.SIGKILL)

    here = validate(model, candidates[0], data, labels, split=True)
    asked = {"ray": "local", "workers": 2, "split": True, "count": kill}
    there = validate(model, candidates[0], data, labels, **asked)
    assert len(killed) == 1
    assert evidence(there) == evidence(here)
    assert there.reference.noise_floor
    assert there.data.samples == there.candidates[0].outputs[0].samples == 330
    assert there.environment["ray"].endswith("1 replaced after they died")


class Deadly(BenchWorker):
    """A worker that no batch survives."""

    def compare(self, batch, label_kinds):
        os._exit(9)


@pytest.mark.slow
def test_a_batch_that_ends_three_workers_is_told(cluster, converted, monkeypatch):
    model, candidates, (data, _), _ = converted
    monkeypatch.setattr(driver, "BenchWorker", Deadly)
    told = r"^ray: the batch up to sample 32 failed on 3 workers in a row, the last with ActorDied"
    with pytest.raises(InputError, match=told):
        validate(model, candidates[0], data, ray="local", workers=1)


@pytest.mark.slow
def test_a_worker_s_input_error_is_the_user_s(cluster, converted):
    model, candidates, (data, _), _ = converted
    with pytest.raises(InputError, match=r"^labels of shape \(32, 7\) fit none of the outputs"):
        validate(model, candidates[0], data, np.ones((330, 7)), ray="local", workers=1)
