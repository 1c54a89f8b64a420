"""What MixedPrecision tells about a fit, and the skips that end one."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from probed_fits import EAGER, data, fit, model

from tfmp import MixedPrecision
from tfmp.loss_scaling.telemetry import NonFiniteGradientsError


def test_a_later_training_without_the_callback_changes_no_report(capsys):
    net = model(**EAGER)
    callback = MixedPrecision("float32")
    assert callback.report is None
    fit(net, callback, *data())
    assert capsys.readouterr().out == ""
    steps = callback.report.steps
    net.fit(*data(), verbose=0)
    assert callback.report.steps == steps > 0


def test_a_fit_is_told_in_the_report_on_the_terminal_and_in_the_log_folder(capsys, tmp_path):
    callback = MixedPrecision("mixed_float16", keep_float32="hidden", log_dir=tmp_path)
    fit(model(**EAGER), callback, *data(), epochs=2, validation_split=0.25, verbose=2)
    report = callback.report
    assert [row.path for row in report.kept_float32] == ["hidden", "out"]
    assert report.seconds_per_step > 0
    assert json.loads(json.dumps(report.to_dict()))["policy"] == "mixed_float16"
    text = str(report)
    assert text.startswith("tfmp: mixed_float16 (asked for by name)\n")
    assert "  loss scale 32768\n" in text
    assert "skipped 0 of 10 steps (0.0%)" in text
    assert "kept in float32: hidden, out" in text
    assert " ms per step" in text
    printed = capsys.readouterr().out
    assert printed.index("tfmp: mixed_float16 (asked for by name)") < printed.index("Epoch 1/2")
    assert printed.rindex("skipped 0 of 10 steps") > printed.index("loss_scale: 32768.0")
    assert len((tmp_path / "tfmp.jsonl").read_text().splitlines()) == 2
    (events,) = tmp_path.glob("events.out.tfevents.*")
    assert b"tfmp/gradient_norm" in events.read_bytes()


@pytest.mark.slow
def test_readings_every_so_many_steps(tmp_path):
    callback = MixedPrecision("mixed_float16", log_every=2, log_dir=tmp_path / "logs")
    fit(model(), callback, *data(poisoned=[9]), epochs=2)
    readings = callback.report.loss_scales
    lines = (tmp_path / "logs" / "tfmp.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    expected = [(0, 2), (0, 4), (0, 6), (1, 8), (1, 10), (1, 12)]
    assert [(reading.epoch, reading.step) for reading in readings] == expected
    assert [(record["epoch"], record["step"]) for record in records] == expected
    assert records[0]["skipped_steps"] == 1
    assert records[0]["loss_scale"] == 2.0**14
    assert records[-1]["seconds_per_step"] > 0


def test_the_device_is_read_once_per_epoch(monkeypatch):
    from tfmp.fit import recorder

    reads = []
    original = recorder.read_model_counters
    monkeypatch.setattr(
        recorder, "read_model_counters", lambda *given: reads.append(1) or original(*given)
    )
    fit(model(), MixedPrecision("mixed_float16"), *data(), epochs=3)
    assert len(reads) == 2 + 3 + 1  # before and after the first step, once an epoch, and the end


def test_keras_may_dispatch_batch_ends_asynchronously():
    if keras.backend.backend() != "jax":
        pytest.skip("Keras does that on JAX alone")
    callbacks = keras.callbacks.CallbackList([MixedPrecision("mixed_float16")], model=model())
    assert callbacks._async_train


@pytest.mark.slow
def test_validation_is_not_counted_in_the_time_per_step(monkeypatch):
    from tfmp.fit import recorder

    now = [0.0]
    monkeypatch.setattr(recorder.time, "perf_counter", lambda: now[0])

    def passes(seconds):
        return lambda *arguments, **options: now.__setitem__(0, now[0] + seconds)

    clock = keras.callbacks.LambdaCallback(on_train_batch_end=passes(1.0))
    clock.on_test_begin = passes(1000.0)
    callback = MixedPrecision("mixed_float16")
    fit(model(), callback, *data(), clock, epochs=2, validation_split=0.25)
    assert callback.report.seconds_per_step == pytest.approx(1.0)


def test_training_stops_past_so_many_skips_in_a_row_with_weights_intact():
    net = model(**EAGER)
    x, y = data()
    fit(net, MixedPrecision("mixed_float16"), x, y)
    weights = [ops.convert_to_numpy(variable.value) for variable in net.weights]
    x[:] = np.nan
    with pytest.raises(NonFiniteGradientsError, match="max_consecutive_skips=5") as caught:
        fit(net, MixedPrecision("mixed_float16", max_consecutive_skips=5), x, y)
    text = str(caught.value)
    assert "out/bias" in text
    assert "Loss scale: 512" in text
    assert all(f"  {number}. " in text for number in (1, 2, 3))
    for before, variable in zip(weights, net.weights, strict=True):
        np.testing.assert_array_equal(before, ops.convert_to_numpy(variable.value))


def test_skips_within_the_limit_go_on():
    callback = MixedPrecision("mixed_float16", max_consecutive_skips=6)
    history = fit(model(**EAGER), callback, *data(poisoned=range(48)))
    assert history.history["skipped_steps"] == [6]
