"""Small language models as people write them by hand: own normalizations, attentions and blocks.

They add with operators, which on TensorFlow take no float32 and 16 bits together.
"""

from collections.abc import Callable

import keras
import numpy as np
from keras import layers, ops

WORDS, LENGTH, WIDTH, HEADS = 20, 12, 16, 2
SIZE = WIDTH // HEADS


def tokens() -> tuple[np.ndarray, np.ndarray]:
    """Seeded words, and for each of them the one before it."""
    x = np.random.default_rng(0).integers(0, WORDS, (192, LENGTH))
    return x, np.roll(x, 1, axis=1)


class RMSNorm(layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-6) * self.scale


class LayerNorm(layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")
        self.offset = self.add_weight(shape=(shape[-1],), initializer="zeros")

    def call(self, x):
        centred = x - ops.mean(x, -1, keepdims=True)
        variance = ops.mean(centred**2, -1, keepdims=True)
        return centred / ops.sqrt(variance + 1e-6) * self.scale + self.offset


class LayerScale(layers.Layer):
    """A factor for each channel, which begins at 0."""

    def build(self, shape):
        self.factor = self.add_weight(shape=(shape[-1],), initializer="zeros")

    def call(self, x):
        return x * self.factor


def rotated(x):
    """Rotary embedding of heads, (batch, heads, steps, size)."""
    frequencies = 10000.0 ** (-ops.arange(0, SIZE, 2, dtype="float32") / SIZE)
    angles = ops.arange(LENGTH, dtype="float32")[:, None] * frequencies[None]
    sine, cosine = ops.cast(ops.sin(angles), x.dtype), ops.cast(ops.cos(angles), x.dtype)
    even, odd = x[..., ::2], x[..., 1::2]
    turned = ops.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1)
    return ops.reshape(turned, (-1, HEADS, LENGTH, SIZE))


class Attention(layers.Layer):
    """Several heads with a mask that hides later steps.

    Args:
        mask: "added" or "chosen" (with ops.where), "wide" (added in float32), or
            None.
        turn: applied to queries and keys.
        alibi: whether distances are subtracted from the scores.
    """

    def __init__(self, mask="chosen", turn=None, alibi=False):
        super().__init__()
        self.mask, self.turn, self.alibi = mask, turn, alibi
        self.q, self.k, self.v, self.o = (layers.Dense(WIDTH, use_bias=False) for _ in range(4))

    def build(self, shape, *others):
        for dense in (self.q, self.k, self.v, self.o):
            dense.build((None, None, WIDTH))

    def heads(self, x):
        return ops.transpose(ops.reshape(x, (-1, LENGTH, HEADS, SIZE)), (0, 2, 1, 3))

    def call(self, x, memory=None):
        memory = x if memory is None else memory
        q, k, v = self.heads(self.q(x)), self.heads(self.k(memory)), self.heads(self.v(memory))
        if self.turn:
            q, k = self.turn(q), self.turn(k)
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / SIZE**0.5
        if self.alibi:
            distance = ops.arange(LENGTH)[:, None] - ops.arange(LENGTH)[None]
            slopes = ops.reshape(2.0 ** -ops.arange(1, HEADS + 1, dtype="float32"), (HEADS, 1, 1))
            scores = scores - ops.cast(
                slopes * ops.cast(ops.abs(distance), "float32"), scores.dtype
            )
        past = np.tril(np.ones((LENGTH, LENGTH), "float32"))
        if self.mask == "chosen":
            scores = ops.where(ops.convert_to_tensor(past) > 0, scores, -1e9)
        elif self.mask == "added":
            scores = scores + (1.0 - ops.cast(past, scores.dtype)) * -1e9
        elif self.mask == "wide":
            scores = scores + (1.0 - ops.convert_to_tensor(past)) * -1e9
        mixed = ops.transpose(ops.matmul(ops.softmax(scores), v), (0, 2, 1, 3))
        return self.o(ops.reshape(mixed, (-1, LENGTH, WIDTH)))


class Feed(layers.Layer):
    """Two products, with a gate beside the first one."""

    def __init__(self):
        super().__init__()
        self.up, self.down = layers.Dense(2 * WIDTH), layers.Dense(WIDTH)
        self.gate = layers.Dense(2 * WIDTH)

    def build(self, shape):
        self.up.build(shape)
        self.gate.build(shape)
        self.down.build((*shape[:-1], 2 * WIDTH))

    def call(self, x):
        return self.down(ops.gelu(self.up(x)) * self.gate(x))


class Block(layers.Layer):
    """One attention and one feed-forward layer with what is around them.

    Args:
        order: "pre", "post", "parallel" (as in GPT-J) or "rezero".
        norm: makes a normalization.
        attention: its arguments.
    """

    def __init__(self, order="pre", norm=RMSNorm, attention=None):
        super().__init__()
        self.order = order
        self.norms = [norm() for _ in range({"rezero": 0, "parallel": 1}.get(order, 2))]
        self.att, self.feed = Attention(**(attention or {})), Feed()
        self.scales = [LayerScale(), LayerScale()] if order == "rezero" else []

    def build(self, shape):
        for part in (*self.norms, self.att, self.feed, *self.scales):
            part.build(shape)

    def call(self, x):
        if self.order == "parallel":
            normed = self.norms[0](x)
            return x + self.att(normed) + self.feed(normed)
        if self.order == "rezero":
            x = x + self.scales[0](self.att(x))
            return x + self.scales[1](self.feed(x))
        one, other = self.norms
        if self.order == "post":
            x = one(x + self.att(x))
            return other(x + self.feed(x))
        x = x + self.att(one(x))
        return x + self.feed(other(x))


class AroundKeras(layers.Layer):
    """A block around Keras's attention, left out for some steps in training."""

    def __init__(self):
        super().__init__()
        self.norm, self.feed = RMSNorm(), Feed()
        self.att = layers.MultiHeadAttention(HEADS, SIZE)
        self.drop = layers.Dropout(0.0)

    def build(self, shape):
        self.norm.build(shape)
        self.att.build(shape, shape)
        self.feed.build(shape)

    def call(self, x, training=False):
        normed = self.norm(x)
        x = x + self.att(normed, normed, use_causal_mask=True)
        kept = 1.0 if not training else ops.ones((ops.shape(x)[0], 1, 1))
        return x + self.drop(self.feed(x), training=training) * ops.cast(kept, x.dtype)


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="normal")

    def call(self, x):
        return x + self.table


class Tied(layers.Layer):
    """Looks words up, or gives the scores of all of them."""

    def build(self, shape):
        self.table = self.add_weight(shape=(WORDS, WIDTH), initializer="normal")

    def call(self, x, scores=False):
        if scores:
            return ops.matmul(x, ops.transpose(self.table))
        return ops.take(self.table, x, axis=0)


class Subclassed(keras.Model):
    """A loop over blocks."""

    def __init__(self, *blocks):
        super().__init__()
        self.words, self.places = layers.Embedding(WORDS, WIDTH), Positions()
        self.blocks, self.norm, self.scores = list(blocks), RMSNorm(), layers.Dense(WORDS)

    def call(self, x):
        x = self.places(self.words(x))
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))


def subclassed(**options) -> keras.Model:
    model = Subclassed(Block(**options))
    model(np.zeros((1, LENGTH), "int32"))
    return model


def around(middle: Callable) -> keras.Model:
    """A Functional model: words and places, what is given, a normalization and scores."""
    x = keras.Input((LENGTH,), dtype="int32")
    hidden = middle(Positions()(layers.Embedding(WORDS, WIDTH)(x)))
    return keras.Model(x, layers.Dense(WORDS)(RMSNorm()(hidden)))


def functional(**options) -> keras.Model:
    return around(Block(**options))


def nested_block(**options) -> keras.Model:
    x = keras.Input((LENGTH, WIDTH))
    y = x + Attention(**options)(RMSNorm()(x))
    return keras.Model(x, y + Feed()(RMSNorm()(y)))


def between_layers() -> keras.Model:
    def block(x):
        x = RMSNorm()(x + Attention(mask="added")(x))
        return RMSNorm()(x + Feed()(x))

    return around(block)


def shared() -> keras.Model:
    block, norm = Block(), RMSNorm()
    return around(lambda x: block(norm(block(norm(x)))))


def cross() -> keras.Model:
    x = keras.Input((LENGTH,), dtype="int32")
    hidden = Positions()(layers.Embedding(WORDS, WIDTH)(x))
    memory = Block(attention={"mask": None})(hidden)
    hidden = hidden + Attention()(RMSNorm()(hidden), memory=memory)
    return keras.Model(x, layers.Dense(WORDS)(RMSNorm()(hidden)))


def tied() -> keras.Model:
    x, table = keras.Input((LENGTH,), dtype="int32"), Tied()
    hidden = Block()(Positions()(table(x)))
    return keras.Model(x, table(RMSNorm()(hidden), scores=True))


FAMILIES: dict[str, Callable[[], keras.Model]] = {
    "pre-norm, masks added": lambda: functional(attention={"mask": "added"}),
    "masks added in float32": lambda: functional(attention={"mask": "wide"}),
    "subclassed post-norm, masks added": lambda: subclassed(
        order="post", attention={"mask": "added"}
    ),
    "own LayerNorm behind": lambda: functional(norm=LayerNorm, order="post"),
    "Keras's LayerNormalization": lambda: functional(norm=layers.LayerNormalization),
    "ReZero": lambda: functional(order="rezero"),
    "parallel, masks added": lambda: functional(order="parallel", attention={"mask": "added"}),
    "rotary": lambda: functional(attention={"turn": rotated}),
    "ALiBi, masks added": lambda: functional(attention={"alibi": True, "mask": "added"}),
    "nested graphs": lambda: around(lambda x: nested_block()(nested_block(mask="added")(x))),
    "sums between layers, post-norm": between_layers,
    "around Keras's attention": lambda: around(AroundKeras()),
    "a shared block": shared,
    "cross attention": cross,
    "tied words": tied,
}
