"""Lists of tensors, as loops fill and read them, while a graph is traced anew."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfmp.converters.shared.frameworks import NodeDef
from tfmp.shared.backend import Tensor

LIST = "TensorListReserve"


@dataclass(frozen=True)
class Rows:
    """A list.

    Attributes:
        name: of the operation that made it.
        dtype: of its elements.
        shape: of its elements, as far as it is known.
        size: the number of its elements.
        rows: those that were written, by their places; None where that is not known.
        variant: TensorFlow's list; None for a list that its rows make up.
        firsts: those that were written before a loop wrote the others, and are added behind it.
        backward: whether a loop wrote them from the last one on.
        place: of the element that was written last.
    """

    name: str
    dtype: Any
    shape: Any
    size: Tensor | None
    rows: dict[int, Tensor] | None = None
    variant: Tensor | None = field(default=None, compare=False)
    firsts: dict[int, Tensor] = field(default_factory=dict, compare=False)
    backward: bool = False
    place: Tensor | None = field(default=None, compare=False)

    @property
    def single(self) -> bool:
        """Whether it is a list of one tensor, which was written."""
        return bool(self.rows) and _number(self.size) == 1

    def tensor(self) -> Tensor:
        """TensorFlow's list."""
        import tensorflow as tf

        if self.variant is not None:
            return self.variant
        shape = _spelled(self.shape)
        made = tf.raw_ops.TensorListReserve(
            element_shape=shape,
            num_elements=self.size,
            element_dtype=self.dtype,
            name=self.name,
        )
        for place, row in (self.rows or {}).items():
            made = tf.raw_ops.TensorListSetItem(input_handle=made, index=place, item=row)
        return made

    def carried(self) -> Tensor:
        """What a loop carries of it."""
        return next(iter((self.rows or {}).values())) if self.single else self.tensor()

    @property
    def filled(self) -> bool:
        """Whether it is made for a loop to fill."""
        return self.rows is not None and not self.single

    def in_order(self, backward: bool) -> "Rows":
        """The list for a loop that fills it; those that are written already are left out."""
        return replace(self, rows={}, firsts=self.rows or {}, backward=backward)

    def with_shape(self, shape: Any) -> "Rows":
        """The list, with elements of this shape if it is not made yet."""
        return self if self.variant is not None else replace(self, shape=shape)

    def holding(self, tensor: Tensor) -> "Rows":
        """A list of the same kind that holds what a loop carries."""
        if self.single:
            return replace(self, rows={0: tensor})
        return replace(self, rows=None, variant=tensor)

    @property
    def kept(self) -> tuple[Any, Any]:
        """Shape and dtype of what a loop carries."""
        import tensorflow as tf

        return (self.carried().shape, self.dtype) if self.single else ((), tf.variant)


def made(node: NodeDef, name: str, inputs: Sequence[Any]) -> Rows | None:
    """The list that an operation makes; None for another operation."""
    import tensorflow as tf
    from tensorflow.python.framework.tensor_util import constant_value_as_shape

    if node.op == LIST:
        dtype = tf.as_dtype(node.attr["element_dtype"].type)
        return Rows(name, dtype, constant_value_as_shape(inputs[0]), inputs[1], {})
    if node.op == "TensorListFromTensor":
        tensor, _ = inputs
        shape = tensor.shape[1:]
        variant = tf.raw_ops.TensorListFromTensor(
            tensor=tensor, element_shape=_spelled(shape), name=name
        )
        return Rows(name, tensor.dtype, shape, None, variant=variant)
    return None


def read(node: NodeDef, name: str, rows: Rows, *operands: Tensor) -> "Tensor | Rows":
    """What an operation on a list gives: a list, an element, or all of them."""
    import tensorflow as tf

    if node.op == "TensorListSetItem":
        index, item, *_ = operands
        shape = rows.shape.merge_with(item.shape)
        place = 0 if rows.single else _number(index)
        if rows.rows is not None and place is not None:
            return replace(rows, shape=shape, rows={**rows.rows, place: item})
        variant = tf.raw_ops.TensorListSetItem(
            input_handle=rows.tensor(), index=index, item=item, name=name
        )
        return replace(rows, shape=shape, rows=None, variant=variant, place=index)
    if node.op == "TensorListGetItem":
        place = 0 if rows.single else _number(operands[0])
        if rows.rows is not None and place in rows.rows:
            return rows.rows[place]
        return tf.raw_ops.TensorListGetItem(
            input_handle=rows.tensor(),
            index=operands[0],
            element_shape=_known(rows.shape, operands[1]),
            element_dtype=rows.dtype,
            name=name,
        )
    if rows.rows and sorted(rows.rows) == list(range(_number(rows.size) or 0)):
        return tf.stack([rows.rows[place] for place in sorted(rows.rows)])
    whole = tf.raw_ops.TensorListStack(
        input_handle=rows.tensor(),
        element_shape=_known(rows.shape, operands[0]),
        element_dtype=rows.dtype,
        num_elements=-1 if rows.firsts else node.attr["num_elements"].i,
        name=name,
    )
    whole = tf.reverse(whole, [0]) if rows.backward else whole
    for place, row in rows.firsts.items():
        whole = tf.concat([whole, row[None]] if place else [row[None], whole], 0)
    return whole


READERS = ("TensorListGetItem", "TensorListSetItem", "TensorListStack")


def _known(shape: Any, told: Tensor) -> Tensor:
    return _spelled(shape) if shape.is_fully_defined() else told


def _spelled(shape: Any) -> Any:
    """A shape as an input of an operation."""
    import numpy as np

    sizes = -1 if shape.rank is None else [-1 if one is None else one for one in shape]
    return np.array(sizes, np.int32)


def _number(value: Tensor | None) -> int | None:
    import tensorflow as tf

    known = None if value is None else tf.get_static_value(value)
    return None if known is None else int(known)
