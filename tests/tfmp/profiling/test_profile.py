"""profile_training: every policy from the same weights, the model untouched, layers, an answer."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest
from backends import only_on
from keras import layers
from profiles import A100, CORES, NO_PRODUCT, PADDED, layer, profile, step
from repository import SUPPORT
from stacks import stack

from tfmp import profile_training
from tfmp.machine import devices
from tfmp.machine.devices import CPU, Device
from tfmp.machine.measuring import PROCESS_MEMORY
from tfmp.profiling.copies import copy_of
from tfmp.profiling.kernels import kernel_use, parse_kernel_stats
from tfmp.profiling.report import ProfileReport
from tfmp.profiling.runs import TrainingRun, Variant
from tfmp.shared.batches import TrainingBatch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 8), np.float32)
Y = RNG.integers(0, 3, 20)
BATCH = TrainingBatch(X, Y, None)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
WORTH, NOT = "✓ worth it", "✗ not worth it"
FAST = {"rounds": 1, "steps": 1, "layers": False, "roofline": False}


def build() -> keras.Model:
    keras.utils.set_random_seed(3)
    hidden, norm = layers.Dense(16, "relu", name="hidden"), layers.BatchNormalization(name="norm")
    parts = hidden, norm, layers.ReLU(name="act"), layers.Dense(3, name="logits")
    adam = keras.optimizers.Adam(0.01)
    return stack(*parts, inputs=(8,), optimizer=adam, loss=LOSS, metrics=["accuracy"])


class Custom(keras.Model):
    """A model with code of its own, which its config makes again."""

    def __init__(self, units: int = 4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.inner = layers.Dense(units, name="inner")
        self.outer = layers.Dense(3, name="outer")

    def call(self, x):
        return self.outer(keras.ops.relu(self.inner(x)))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def snapshot(model):
    return [np.array(v) for v in (*model.get_weights(), *model.optimizer.variables)]


@pytest.fixture(scope="module")
def measured():
    """(model, what it was before, the report): one run for many tests."""
    model = build()
    model.fit(X, Y, batch_size=10, verbose=0)
    before = snapshot(model)
    report = profile_training(
        model, (X, Y), ("float32", "mixed_float16"), batch_size=10, rounds=3, steps=2
    )
    return model, before, report


@pytest.mark.slow
def test_the_model_is_left_as_it_was(measured):
    model, before, _ = measured
    assert all((a == b).all() for a, b in zip(before, snapshot(model), strict=True))
    assert {layer.dtype_policy.name for layer in model.layers} == {"float32"}
    assert isinstance(model.optimizer, keras.optimizers.Adam)
    assert keras.config.dtype_policy().name == "float32"
    model.fit(X, Y, verbose=0)  # and it still trains


@pytest.mark.slow
def test_every_policy_is_measured_alike(measured):
    _, _, report = measured
    assert [row.variant for row in report.variants] == ["float32", "mixed_float16"]
    for row in report.variants:
        assert row.error == ""
        assert len(row.step.seconds) == 3
        assert row.batch_size == 10
        assert row.memory.bytes >= 4 * (8 * 16 + 16 * 3)
        assert row.compile_s >= 0
    assert len({row.total_steps for row in report.variants}) == 1
    # The output layer stays float32, as in MixedPrecision.
    assert [row.kept_float32 for row in report.variants] == [0, 1]


@pytest.mark.slow
@only_on("tensorflow", "jax", reason="PyTorch has no roofline")
def test_every_layer_has_a_cost_under_every_policy(measured):
    _, _, report = measured
    assert [layer.path for layer in report.layers] == ["hidden", "norm", "act", "logits"]
    for name in ("float32", "mixed_float16"):
        assert sum(layer.costs[name].share for layer in report.layers) == pytest.approx(1)
    hidden, norm, _, logits = report.layers
    assert hidden.costs["mixed_float16"].dtype == "float16"
    assert hidden.costs["mixed_float16"].tensor_cores == CORES
    assert not hidden.costs["float32"].tensor_cores.eligible
    assert norm.costs["mixed_float16"].tensor_cores.reason == "no matrix product"
    assert logits.costs["mixed_float16"].dtype == "float32"
    assert report.notes == ()


@pytest.mark.slow
def test_the_report_is_a_table_json_and_a_page(measured, tmp_path):
    _, _, report = measured
    text = str(report)
    assert text.splitlines()[0] == report.answer
    assert text.splitlines()[2].split()[:4] == ["policy", "step", "spread", "speed"]
    data = json.loads(report.save(tmp_path / "p.json").read_text())
    assert data["schema"] == "tfmp.profile/2"
    assert data["variants"][0]["speedup"] == 1.0
    page = report.save(tmp_path / "p.html").read_text()
    assert "<script" not in page
    assert "://" not in page.replace("http://www.w3.org/", "")  # names in pictures
    assert page.count("<svg") == 2  # bars of the steps
    with pytest.raises(ValueError, match=r"suffixes \.json, \.html; received"):
        report.save(tmp_path / "p.txt")
    with pytest.raises(ValueError, match=r"Create .* first"):
        report.save(tmp_path / "no" / "p.html")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Custom(name="custom"), id="subclassed"),
        pytest.param(lambda: stack(layers.Lambda(lambda x: x * 2), 3, inputs=(8,)), id="lambda"),
    ],
)
def test_a_copy_has_the_same_weights_and_trains_alone(make):
    model = make()
    model.compile("sgd", LOSS)
    model(X)
    copy = copy_of(model, BATCH, "float32")
    before = [np.array(w) for w in model.get_weights()]
    assert all((a == b).all() for a, b in zip(before, copy.get_weights(), strict=True))
    TrainingRun(copy, Variant("float32"), [BATCH]).run(3)
    assert all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))


def test_a_run_takes_the_steps_that_fit_takes():
    keras.utils.set_random_seed(0)
    model = stack(4, 3, inputs=(8,), optimizer="adam", loss=LOSS)
    run = TrainingRun(copy_of(model, BATCH, "float32"), Variant("float32"), [BATCH])
    run.run(4)
    run.give_back()
    model.fit(X, Y, batch_size=20, epochs=4, shuffle=False, verbose=0)
    for ours, theirs in zip(run.model.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert run.mean_loss() > 0


class OwnStep(Custom):
    """Scales its loss in a way that no source shows, or not at all."""

    def train_step(self, data):
        import tensorflow as tf

        x, y = data
        # scale_loss is not called; its name is here so that the source looks as if it were
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss}


@pytest.mark.slow
def test_a_step_that_does_not_scale_its_loss_is_not_shrunk_by_a_scale():
    model = OwnStep(name="own")
    model.compile(keras.optimizers.SGD(0.5), LOSS)
    model(X)
    report = profile_training(model, (X, Y), rounds=2, steps=20, layers=False, roofline=False)
    assert [row.error for row in report.variants] == ["", ""]
    assert report.notes == (
        "a batch has 20 samples: the data has no more",
        "mixed_float16 was trained at scale 1: train_step never scales its loss",
    )
    wide, narrow = (row.loss for row in report.variants)
    assert narrow == pytest.approx(wide, rel=0.05)


@pytest.mark.slow
def test_a_function_is_called_for_every_policy_and_all_start_alike():
    made = []

    def make():
        keras.utils.set_random_seed(len(made))
        model = stack(3, inputs=(8,), optimizer="sgd", loss=LOSS)
        made.append(model)
        return model

    keras.backend.clear_session()
    names = {"keep_float32": "dense"}  # of a layer without a name, in each of the models
    report = profile_training(make, (X, Y), ("float32", "mixed_bfloat16"), **FAST, **names)
    assert len(made) == 2
    wide, narrow = (row.loss for row in report.variants)
    assert wide == pytest.approx(narrow, rel=0.02)
    assert report.layers == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raised", "told", "remedy"),
    [
        (
            "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes",
            "out of memory",
            "Measure it with smaller batches",
        ),
        ("no such kernel", "no such kernel", "model.fit in mixed_float16 shows the whole error"),
    ],
)
def test_a_policy_that_cannot_run_is_a_row_not_an_end(monkeypatch, raised, told, remedy):
    original = TrainingRun.warm_up

    def warm_up(self):
        if self.variant.policy == "mixed_float16":
            raise RuntimeError(raised)
        return original(self)

    monkeypatch.setattr(TrainingRun, "warm_up", warm_up)
    report = profile_training(build(), (X, Y), **FAST)
    assert [row.error for row in report.variants] == ["", told]
    assert report.notes[1:] == (f"mixed_float16 did not run: {told}. {remedy}",)
    assert report.answer == ("No 16-bit policy ran, so there is nothing to compare float32 with")
    assert f"did not run: {told}" in str(report)


@only_on("tensorflow", "jax", reason="tests/torch looks for PyTorch's traces")
@pytest.mark.slow
def test_traces_for_tensorboard_are_written(tmp_path):
    profile_training(build(), (X, Y), ("float32",), log_dir=tmp_path, **FAST)
    assert list((tmp_path / "float32").rglob("*.xplane.pb"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": "float32"}, r"in a tuple, such as .* received 'float32'"),
        ({"policies": ("fp16",)}, "policy expects one of 'auto'"),
        ({"policies": ("float32", "float32")}, "each policy once"),
        ({"steps": True}, "steps expects a whole number, 1 or more; received True"),
        ({"data": (X[:0], Y[:0])}, "at least one batch with samples; received no"),
    ],
)
def test_bad_arguments_say_what_to_do(arguments, message):
    with pytest.raises(ValueError, match=message):
        profile_training(build(), arguments.pop("data", (X, Y)), **arguments)


def test_what_is_no_model_and_what_is_not_compiled():
    with pytest.raises(TypeError, match=r"a function that returns one, received 3 of type int"):
        profile_training(3, (X, Y))
    with pytest.raises(TypeError, match=r"return a compiled keras\.Model; it returned int"):
        profile_training(lambda: 3, (X, Y))
    with pytest.raises(ValueError, match="is not compiled, so it has no training step"):
        profile_training(keras.Sequential([layers.Input((8,)), layers.Dense(3)]), (X, Y))


def test_tf32_is_switched_for_a_block_only():
    def state():
        if keras.backend.backend() == "jax":
            import jax

            return jax.config.jax_default_matmul_precision
        if keras.backend.backend() == "torch":
            import torch

            return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        import tensorflow as tf

        return tf.config.experimental.tensor_float_32_execution_enabled()

    before = state()
    with devices.tf32_switched(False):
        off = state()
    with devices.tf32_switched(True):
        on = state()
    assert off != on
    assert state() == before


def test_what_may_be_noise_is_not_worth_it():
    noisy = profile(
        step("float32", (1.0, 2.0, 1.0, 3.0) * 2), step("mixed_float16", (2.0, 1.0, 0.5, 1.0) * 2)
    )
    assert noisy.best.speedup(noisy.baseline) == 2.0
    assert not noisy.worth_it
    assert "2.00 times the speed (0.50 to 3.00)" in noisy.answer
    assert "may be noise: measure more rounds" in noisy.answer
    of_process = profile(
        step("float32", (1.0,) * 6, 40_000, source=PROCESS_MEMORY),
        step("mixed_float16", (1.0,) * 6, 3_000, source=PROCESS_MEMORY),
    )
    assert not of_process.worth_it
    assert "memory of" not in of_process.answer


def test_what_kernels_used_is_told_by_layer():
    report = pair(A100, 1.0, costs=[("hidden", 0.6, CORES), ("stem/conv", 0.4, PADDED)])
    kernels = parse_kernel_stats((SUPPORT / "recorded" / "kernel_stats.json").read_bytes())
    use = kernel_use(kernels, ["hidden", "stem", "stem/conv"])
    wide, narrow = report.variants
    report = replace(report, variants=(wide, replace(narrow, kernels=use)))
    first, second = (row[-1] for row in report._layers(20).tables[0].rows)
    assert first == "used 63% of its time"
    assert second == "used 100% of its time; units 10 (padded: 16)"


def pair(
    device: Device, speed: float, memory: float = 1.0, costs=(), rounds: int = 6
) -> ProfileReport:
    """A report with a mixed_float16 so many times as fast, in so much of the memory."""
    names = "float32", "mixed_float16"
    rows = [
        step(name, (seconds,) * rounds, int(needed))
        for name, seconds, needed in zip(
            names, (1.0, 1 / speed), (1000, 1000 * memory), strict=True
        )
    ]
    layers = [layer(path, dict.fromkeys(names, (share, way))) for path, share, way in costs]
    return profile(*rows, layers=layers, device=device)


@pytest.mark.parametrize(
    ("report", "told", "text"),
    [
        (
            pair(A100, 2.0, 0.6, rounds=1),
            "? too few rounds",
            "2.00 times the speed and 0.6 times the memory of float32 in 1; measure 6 or more",
        ),
        (
            profile(*(step(name, (1.0,) * 6) for name in ("mixed_float16", "mixed_bfloat16"))),
            "? nothing to compare",
            "No float32 policy ran, so there is nothing to compare mixed_float16 with",
        ),
        (pair(CPU, 1.5), WORTH, "1.50 times the speed (1.50 to 1.50) and 1 times the memory of"),
        (pair(A100, 2.0, 0.6), WORTH, "is worth it on NVIDIA A100-SXM4-40GB: 2.00 times the"),
        (pair(A100, 1.02, 0.6), WORTH, "1.02 times the speed (1.02 to 1.02) and 0.6 times the mem"),
        (pair(A100, 1.02, 0.95), NOT, "mixed_float16 is not worth it"),
        (pair(CPU, 0.5, 0.6), NOT, "Held back by this CPU, which has no Tensor Cores"),
        (
            pair(A100, 1.1, costs=[("act", 0.5, NO_PRODUCT), ("fc", 0.5, CORES)]),
            WORTH,
            "50% of layer time without a Tensor Core path (act)",
        ),
        (pair(A100, 1.0, costs=[("fc", 0.2, CORES)]), NOT, "80% of the step outside its layers"),
    ],
)
def test_the_answer_is_one_line_with_what_holds_it_back(report, told, text):
    assert report.signal[1] == told
    assert report.worth_it is (told == WORTH)
    assert text in report.answer
    assert "\n" not in report.answer
