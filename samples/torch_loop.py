"""A PyTorch loop over a Keras model in mixed precision, with a loss scale that finds its own size.

Run: python samples/torch_loop.py (needs PyTorch: pip install "tfmp[torch]")
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch

import tfmp
from tfmp.loss_scaling.telemetry import read_counters


def main() -> None:
    """Trains with `loss.backward()`, and prints the loss scale and the skipped steps."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).standard_normal((256, 8)).astype("float32")
    y = x @ np.linspace(-1, 1, 8, dtype="float32")[:, None]
    data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))

    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
    )
    tfmp.plan(model, "mixed_float16").apply()  # the parameters stay the same objects, in float32
    print(", ".join(f"{layer.name}: {layer.compute_dtype}" for layer in model.layers))
    optimizer = tfmp.LossScaleOptimizer(keras.optimizers.Adam(1e-2))
    optimizer.build(model.trainable_variables)
    device = model.trainable_variables[0].value.device

    for epoch in range(10):
        for batch in torch.utils.data.DataLoader(data, batch_size=64):
            inputs, expected = (part.to(device) for part in batch)
            model.zero_grad()
            loss = torch.mean(torch.square(expected - model(inputs, training=True)))  # 1. forward
            optimizer.scale_loss(loss).backward()  # 2. scale the loss, 3. backward
            gradients = [variable.value.grad for variable in model.trainable_variables]
            with torch.no_grad():
                # 4. unscale and check, 5. update, or skip the step if a gradient is not finite
                optimizer.apply(gradients, model.trainable_variables)
        if epoch % 3 == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")

    counters = read_counters(optimizer)
    print(f"loss scale {counters.loss_scale:g}, {counters.skipped_steps} steps skipped")


if __name__ == "__main__":
    main()
