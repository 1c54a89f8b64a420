"""Mixed precision for a TensorFlow graph without Keras layers: the rewrite on and off.

Run: python samples/graph_rewrite.py
"""

import numpy as np
import tensorflow as tf

import tfmp


def main() -> None:
    """Rewrites a training step written in plain TensorFlow, and trains with it."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal((64, 32)), tf.float32)
    y = tf.constant(rng.integers(0, 10, 64))
    first = tf.Variable(rng.standard_normal((32, 128)) * 0.1, dtype=tf.float32)
    second = tf.Variable(rng.standard_normal((128, 10)) * 0.1, dtype=tf.float32)

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            scores = tf.nn.relu(x @ first) @ second
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, scores)
            loss = tf.reduce_mean(losses)
        for weight, gradient in zip(
            (first, second), tape.gradient(loss, (first, second)), strict=True
        ):
            weight.assign_sub(0.5 * gradient)
        return loss

    # FP16 is for GPUs; a CPU is given bfloat16 here.
    dtype = "float16" if tf.config.list_physical_devices("GPU") else "bfloat16"
    with tfmp.graph_rewrite(dtype) as rewrite:
        print(rewrite)
        losses = [float(train_step(x, y)) for _ in range(20)]
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
