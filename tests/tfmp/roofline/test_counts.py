"""Work of small programs, counted by hand."""

import pytest

from tfmp.roofline.counts import count_work
from tfmp.roofline.work import Work

PRODUCT = """HloModule m
ENTRY main {
  x = f16[8,32]{1,0} parameter(1)
  w = f16[32,16]{1,0} parameter(0)
  dot.1 = f16[8,16]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  unused = f16[8,16]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, other={}
  ROOT out = (f16[8,16]{1,0}) tuple(dot.1)
}
"""

FUSED = """HloModule m
ENTRY %main (a: f32[100], b: f32[100]) -> f32[100] {
  %a = f32[100]{0} parameter(0)
  %b = f32[100]{0} parameter(1)
  %sum = f32[100]{0} add(f32[100]{0} %a, f32[100]{0} %b), metadata={op_name="a {b (c"}
  %again = f32[100]{0} add(f32[100]{0} %a, f32[100]{0} %b)
  ROOT %out = f32[100]{0} multiply(f32[100]{0} %sum, f32[100]{0} %again)
}
"""

LOOP = """HloModule m
cond {
  state = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  end = s32[] constant(END)
  ROOT less = pred[] compare(i, end), direction=LT
}
body {
  state = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  two = s32[] constant(2)
  next = s32[] add(i, two)
  x = f32[4,4]{1,0} get-tuple-element(state), index=1
  y = f32[4,4]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (s32[], f32[4,4]) tuple(next, y)
}
ENTRY main {
  x = f32[4,4]{1,0} parameter(0)
  START
  state = (s32[], f32[4,4]) tuple(start, x)
  loop = (s32[], f32[4,4]) while(state), condition=cond, body=body
  ROOT out = f32[4,4]{1,0} get-tuple-element(loop), index=1
}
"""

CONVOLUTION = """HloModule m
ENTRY main {
  x = f32[2,9,9,3]{3,2,1,0} parameter(0)
  w = f32[3,3,3,5]{3,2,1,0} parameter(1)
  ROOT y = f32[2,5,5,5]{3,2,1,0} convolution(x, w), window={size=3x3 stride=2x2 pad=1_1x1_1}, \
dim_labels=b01f_01io->b01f
}
"""


def test_products_and_fusions():
    work = count_work(PRODUCT)
    assert work.products == {"float16": 2 * 8 * 32 * 16}
    assert work.bytes == 2 * (8 * 32 + 32 * 16 + 8 * 16)
    assert work.intensity == work.flops / work.bytes
    assert work.passes == 1
    work = count_work(FUSED)
    assert (work.other, work.bytes, work.passes) == (200, 4 * 300, 1)
    # Along an axis of 9, five windows of 3 hold 15 places, of which the first and last are padding.
    assert count_work(CONVOLUTION).products == {"float32": 2 * 2 * 13 * 13 * 3 * 5}


def test_loops_by_their_length():
    text = LOOP.replace("START", "start = s32[] constant(0)").replace("END", "9")
    work = count_work(text)
    assert work.products == {"float32": 5 * 2 * 4 * 4 * 4}
    assert work.uncounted == ()
    text = LOOP.replace("START", "start = s32[] parameter(1)").replace("END", "9")
    work = count_work(text)
    assert work.products == {"float32": 2 * 4 * 4 * 4}
    assert work.uncounted == ("a loop whose length depends on data, counted once",)


def test_what_cannot_be_counted():
    text = PRODUCT.replace(
        "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  unused",
        'custom-call(x, w), custom_call_target="__cudnn$fmha"\n  unused',
    )
    work = count_work(text)
    assert work.uncounted == ("__cudnn$fmha",)
    assert not work.products
    with pytest.raises(ValueError, match="expects XLA's HLO text with an ENTRY computation"):
        count_work("graph { }")


def test_the_backward_pass_is_the_rest():
    both = Work({"float16": 30, "float32": 2}, 5, 100, 7)
    assert both - Work({"float16": 10, "float32": 2}, 9, 60, 3) == Work({"float16": 20}, 0, 40, 4)
