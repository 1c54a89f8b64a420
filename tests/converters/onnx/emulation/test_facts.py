"""The facts about runtimes: each has a source, and none is without an effect."""

import pytest

from tfmp.converters.onnx.emulation.facts import FACTS, RUNTIMES, Kind, facts_of, ops_of
from tfmp.converters.onnx.emulation.fp16_sums import _BUILDERS, UNMODELLED
from tfmp.converters.onnx.emulation.steps import STEPS, THREADS
from tfmp.converters.onnx.fp16 import TARGETS

ABOUT = [f"{fact.runtime} {fact.kind} {'+'.join(sorted(fact.ops))}" for fact in FACTS]


@pytest.mark.parametrize("fact", FACTS, ids=ABOUT)
def test_a_fact_has_a_source_and_words_for_reports(fact):
    assert fact.runtime in RUNTIMES
    assert len(fact.source) > 40
    assert fact.what
    assert not fact.what.endswith(".")
    assert not fact.fix.endswith(".")
    assert bool(fact.ops) == (fact.kind is not Kind.FLUSHED)


@pytest.mark.parametrize("fact", FACTS, ids=ABOUT)
def test_the_emulator_can_do_what_a_fact_says(fact):
    known = {
        Kind.STEPS: set(STEPS),
        Kind.THREADS: set(THREADS),
        Kind.SUMS: {*_BUILDERS, *UNMODELLED},
        Kind.TF32: {"MatMul", "Gemm", "Conv", "ConvTranspose"},
    }
    assert fact.ops <= known.get(fact.kind, fact.ops)


def test_a_version_without_a_defect_has_no_fact_about_it():
    def skips(version):
        return "SkipLayerNormalization" in ops_of(facts_of("ort-cuda", version), Kind.STEPS)

    assert skips((1, 26))
    assert skips((1, 9))
    assert not skips((1, 27))
    assert not skips((2, 0))
    assert "CumSum" in ops_of(facts_of("ort-cuda", (1, 27)), Kind.STEPS)


def test_runtimes_of_onnx_files_are_targets():
    assert set(RUNTIMES) - set(TARGETS) == {"litert-cpu", "litert-gpu"}
