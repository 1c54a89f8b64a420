"""What JAX on a GPU needs: cuDNN's LSTM in float32, and memory by the compiled step."""

import keras
import numpy as np
from keras import layers
from stacks import stack

import tfmp
from tfmp.machine import devices
from tfmp.machine.devices import Device
from tfmp.machine.measuring import DEVICE_MEMORY
from tfmp.profiling.runs import TrainingRun, Variant
from tfmp.shared.batches import TrainingBatch


def test_an_lstm_that_takes_cudnn_stays_in_float32(monkeypatch):
    cells = [layers.LSTM(4), layers.LSTM(4, use_cudnn=False), layers.GRU(4)]
    inputs = keras.Input((5, 3))
    model = keras.Model(inputs, layers.Dense(1)(layers.Add()([cell(inputs) for cell in cells])))

    def planned() -> list[str]:
        computes = {row.path: row.compute_dtype for row in tfmp.plan(model, "mixed_float16").rows}
        return [computes[cell.name] for cell in cells]

    assert planned() == ["float16"] * 3
    monkeypatch.setattr(devices, "visible_devices", lambda: [Device("gpu", "H100", (9, 0))])
    assert planned() == ["float32", "float16", "float16"]


def test_memory_of_a_step_does_not_depend_on_larger_ones_before_it():
    def needed(samples: int) -> int:
        model = stack(layers.Dense(512, "relu"), 512, inputs=(32,), optimizer="sgd", loss="mse")
        x, y = np.zeros((samples, 32), "float32"), np.zeros((samples, 512), "float32")
        run = TrainingRun(model, Variant("float32"), [TrainingBatch(x, y)])
        run.warm_up()
        memory = run.memory()
        assert memory.source == DEVICE_MEMORY
        return memory.bytes

    weights = 4 * (32 + 1 + 512 + 1) * 512
    large, small, again = map(needed, (4096, 64, 4096))
    assert large == again > weights + 2 * 4 * 4096 * 512
    assert weights < small < 0.5 * large
