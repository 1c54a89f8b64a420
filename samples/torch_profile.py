"""Is mixed precision worth it for a Keras model on PyTorch? Its steps beside those of AMP.

Run: python samples/torch_profile.py (needs PyTorch: pip install "tfmp[torch]")
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from torch.utils.benchmark import Timer

import tfmp


def main() -> None:
    """Profiles the model's step under two policies, and times the same step with PyTorch's AMP."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 32, 32, 3)).astype("float32")
    y = rng.integers(0, 10, 32)
    print(tfmp.profile_training(model, (x, y), rounds=4, steps=2, layers=False, roofline=False))

    device = model.trainable_variables[0].value.device
    images, classes = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler(device.type)

    def step() -> None:
        adam.zero_grad()
        with torch.autocast(device.type, torch.float16):
            outputs = model(images, training=True)
            entropy = torch.nn.functional.cross_entropy(outputs, classes)
        scaler.scale(entropy).backward()
        scaler.step(adam)
        scaler.update()

    timed = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads()).timeit(8)
    print(f"the same step with torch.autocast and GradScaler: {1e3 * timed.mean:.1f} ms")


if __name__ == "__main__":
    main()
