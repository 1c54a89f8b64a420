"""Rows of the sweep: recurrent layers, attention, masks, control flow, varying lengths."""

from collections.abc import Iterator
from typing import Any

import keras
from keras import layers, ops
from own_layer import Own
from sweep_rows import FLAT, STEPS, Row, one_call, one_layer


def sequence_rows() -> Iterator[Row]:
    """Recurrent layers, attention, masks, control flow, several inputs, varying lengths."""
    yield from _recurrent_rows()
    yield from _attention_rows()
    yield from _control_flow_rows()


def _recurrent_rows() -> Iterator[Row]:
    for cls in (layers.LSTM, layers.GRU, layers.SimpleRNN):
        for options in (
            {},
            {"return_sequences": True},
            {"go_backwards": True},
            {"unroll": True},
            {"return_sequences": True, "return_state": True},
        ):
            label = " ".join([cls.__name__, *(f"{k}={v}" for k, v in options.items())])
            yield Row("sequences", label, one_layer(lambda c=cls, o=options: c(4, **o), STEPS))
        yield Row(
            "sequences", f"{cls.__name__} over any length",
            one_layer(lambda c=cls: c(4), (None, 6)),
        )  # fmt: skip
        yield Row(
            "sequences", f"{cls.__name__} with masked embedding",
            one_call(
                lambda x, c=cls: c(4)(layers.Embedding(10, 6, mask_zero=True)(x)),
                (8,), dtype="int32",
            ),
        )  # fmt: skip
        yield Row(
            "sequences", f"Bidirectional {cls.__name__}",
            one_layer(lambda c=cls: layers.Bidirectional(c(4, return_sequences=True)), STEPS),
        )  # fmt: skip
    yield Row("sequences", "GRU reset_after=False", one_layer(
        lambda: layers.GRU(4, reset_after=False), STEPS))  # fmt: skip
    yield Row("sequences", "LSTM stateful", _stateful_lstm)
    yield Row("sequences", "StackedRNNCells", one_layer(
        lambda: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(4), layers.GRUCell(3)])),
        STEPS))  # fmt: skip
    yield Row("sequences", "RNN of a custom cell", one_layer(
        lambda: layers.RNN(LeakyCell(4)), STEPS))  # fmt: skip
    yield Row("sequences", "TimeDistributed Conv2D", one_layer(
        lambda: layers.TimeDistributed(layers.Conv2D(3, 3)), (4, 8, 8, 2)))  # fmt: skip
    for rank, shape in ((1, (4, 8, 2)), (2, (4, 8, 8, 2)), (3, (3, 6, 6, 6, 2))):
        cls = getattr(layers, f"ConvLSTM{rank}D")
        yield Row("sequences", cls.__name__, one_layer(lambda c=cls: c(3, 3), shape))


def _attention_rows() -> Iterator[Row]:
    for cls in (layers.Attention, layers.AdditiveAttention):
        yield Row("sequences", cls.__name__, one_layer(cls, STEPS, STEPS))
    yield Row("sequences", "Attention causal", one_call(
        lambda q, v: layers.Attention()([q, v], use_causal_mask=True), STEPS, STEPS))  # fmt: skip
    for label, options in (("", {}), (" causal", {"use_causal_mask": True})):
        for shape in (STEPS, (None, 6)):
            yield Row("sequences", f"MultiHeadAttention{label} on {shape}", one_call(
                lambda x, o=options: layers.MultiHeadAttention(2, 3)(x, x, **o),
                shape))  # fmt: skip
    yield Row("sequences", "MultiHeadAttention with padding mask", one_call(
        lambda x: _attend_to_itself(layers.Embedding(10, 6, mask_zero=True)(x)),
        (8,), dtype="int32"))  # fmt: skip
    yield Row("sequences", "GroupQueryAttention", one_call(
        lambda x: layers.GroupQueryAttention(3, 4, 2)(x, x), STEPS))  # fmt: skip


def _control_flow_rows() -> Iterator[Row]:
    yield Row("sequences", "ops.cond", one_call(
        lambda x: Own(lambda v: ops.cond(ops.sum(v) > 0, lambda: v * 2, lambda: v - 1))(x),
        FLAT))  # fmt: skip
    yield Row("sequences", "ops.while_loop", one_call(
        lambda x: Own(lambda v: ops.while_loop(
            lambda i, s: i < 5, lambda i, s: (i + 1, s * 1.5 + v), (0, v))[1])(x),
        FLAT))  # fmt: skip
    yield Row("sequences", "ops.fori_loop", one_call(
        lambda x: Own(lambda v: ops.fori_loop(0, 4, lambda i, s: s + v, v))(x),
        FLAT))  # fmt: skip
    yield Row("sequences", "ops.scan", one_call(
        lambda x: Own(lambda v: ops.scan(
            lambda c, r: (c + r, c * r), ops.zeros((6,)), ops.reshape(v[0], (10, 6)))[1])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.scan two carries", one_call(
        lambda x: Own(lambda v: ops.scan(
            lambda c, r: ((c[0] + r, ops.matmul(c[1], ops.eye(6)) + r), (c[0], c[1] * r)),
            (v[:, 0], v[:, 1]), ops.swapaxes(v, 0, 1))[1])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.scan without outputs", one_call(
        lambda x: Own(lambda v: ops.scan(
            lambda c, r: (c + r, None), v[:, 0], ops.swapaxes(v, 0, 1))[0])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.scan reversed", one_call(
        lambda x: Own(lambda v: ops.scan(
            lambda c, r: (c + r, c * r), v[:, 0], ops.swapaxes(v, 0, 1), reverse=True)[1])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.switch", one_call(
        lambda x: Own(lambda v: ops.switch(
            ops.cast(ops.sum(v) > 0, "int32"), [ops.exp, ops.tanh], v))(x), FLAT))  # fmt: skip


def _attend_to_itself(x: Any) -> Any:
    return layers.MultiHeadAttention(2, 3)(x, x)


class LeakyCell(layers.Layer):
    """A recurrent cell that no framework knows."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = self.state_size = self.output_size = units
        self.kernel = layers.Dense(units)

    def build(self, shape: tuple) -> None:
        self.kernel.build(shape)

    def call(self, inputs: Any, states: list) -> tuple:
        state = 0.9 * states[0] + 0.1 * ops.tanh(self.kernel(inputs))
        return state, [state]


def _stateful_lstm() -> keras.Model:
    keras.utils.set_random_seed(0)
    steps = keras.Input(batch_shape=(2, 10, 6), name="x0")
    return keras.Model(steps, layers.LSTM(4, stateful=True)(steps))
