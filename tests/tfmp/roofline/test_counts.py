"""Work of small programs, counted by hand."""

from backends import only_on
from keras import ops

from tfmp.roofline.lowering import work_of

pytestmark = only_on("tensorflow", "jax", reason="PyTorch has no program of XLA")


def test_products_and_fusions():
    work = work_of(ops.matmul, (ops.ones((8, 32), "float16"), ops.ones((32, 16), "float16")))
    assert work.products == {"float16": 2 * 8 * 32 * 16}
    assert work.bytes == 2 * (8 * 32 + 32 * 16 + 8 * 16)
    assert work.intensity == work.flops / work.bytes
    assert work.passes == 1
    a, b = ops.ones(100), ops.ones(100)
    work = work_of(lambda a, b: ops.multiply(a + b, a + b), (a, b))
    assert (work.other, work.bytes, work.passes) == (200, 4 * 300, 1)
    rows, row = ops.ones((100, 4)), ops.ones((1, 4))
    work = work_of(lambda rows, row: ops.slice_update(rows, (3, 0), row), (rows, row))
    assert work.bytes == 4 * 2 * 4  # in place
    # Along an axis of 9, five windows of 3 hold 15 places, of which the first and last are padding.
    x, w = ops.ones((2, 9, 9, 3)), ops.ones((3, 3, 3, 5))
    work = work_of(lambda x, w: ops.conv(x, w, 2, "same"), (x, w))
    assert work.products == {"float32": 2 * 2 * 13 * 13 * 3 * 5}


def test_loops_by_their_length():
    def powers(start, x):
        return ops.while_loop(
            lambda i, x: i < 9, lambda i, x: (i + 2, ops.matmul(x, x)), (start, x)
        )

    x = ops.ones((4, 4))
    work = work_of(lambda x: powers(0, x), (x,))
    assert work.products == {"float32": 5 * 2 * 4 * 4 * 4}
    assert work.uncounted == ()
    work = work_of(powers, (ops.convert_to_tensor(0), x))
    assert work.products == {"float32": 2 * 4 * 4 * 4}
    assert work.uncounted == ("a loop whose length depends on data, counted once",)


def test_what_cannot_be_counted_is_named():
    (name,) = work_of(lambda x: ops.cholesky(x), (ops.eye(4),)).uncounted
    assert name in ("cholesky", "lapack_spotrf_ffi")
