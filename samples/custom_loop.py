"""A training loop of your own in mixed precision, in five steps.

Run: python samples/custom_loop.py
"""

import keras
import numpy as np
import tensorflow as tf

import tfmp
from tfmp.loss_scaling.telemetry import read_counters


def main() -> None:
    """Trains with `tf.GradientTape`, and prints the loss scale and the skipped steps."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).standard_normal((256, 8)).astype("float32")
    y = x @ np.linspace(-1, 1, 8, dtype="float32")[:, None]

    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
    )
    tfmp.plan(model, "mixed_float16").apply()
    optimizer = tfmp.LossScaleOptimizer(keras.optimizers.Adam(1e-2))
    optimizer.build(model.trainable_variables)

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - model(x, training=True)))  # 1. forward
            scaled = optimizer.scale_loss(loss)  # 2. scale the loss
        gradients = tape.gradient(scaled, model.trainable_variables)  # 3. backward
        # 4. unscale and check, 5. update, or skip the step if a gradient is not finite
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
    for epoch in range(10):
        for batch in batches:
            loss = train_step(*batch)
        if epoch % 3 == 0:
            print(f"epoch {epoch}: loss {float(loss):.4f}")

    counters = read_counters(optimizer)
    print(f"loss scale {counters.loss_scale:g}, {counters.skipped_steps} steps skipped")


if __name__ == "__main__":
    main()
