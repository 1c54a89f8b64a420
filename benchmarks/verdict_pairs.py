"""Verdicts on real conversions: sound models must pass, and broken ones must not.

    python benchmarks/verdict_pairs.py [--only REGEX]

Each model of `pair_models.py` is converted to ONNX three times: with both ends in FP32, which is
the default, wholly in FP16, and to BF16. The files run emulated over 1,000 samples beside the
model, and are judged with the meaning of outputs that the model itself gives. Printed are the
verdicts, the largest loss of each view of sound conversions, and which limit alone finds a broken
one: those that pass without it.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaffold import parser

BATCH = 100

from pair_models import BROKEN, OFFSET, SAMPLES, SOUND, Built, built

from tfmp.converters import convert, open_source
from tfmp.converters.drift import Comparison, DriftBudget, OutputDrift
from tfmp.converters.drift.budget import VIEWS
from tfmp.converters.drift.verdict import Verdict, judge
from tfmp.converters.drift.verdict.judgement import Judgement
from tfmp.converters.onnx.emulation import GPU
from tfmp.converters.runners import TensorFlowRunner, onnx_runner
from tfmp.converters.samples.data import open_data

LIMITS = ("rel_l2", "sample_rel_l2", *VIEWS, "flip_rate", "class_flip_rate")
SIZES = (100, 300, SAMPLES)
GROUPS = {"sound": SOUND, "broken": BROKEN, "offset": OFFSET}

# Options of `convert`, by what the file computes in.
MIXED, HALF, BF16 = "both ends in FP32", "all in FP16", "BF16"
WAYS: dict[str, dict[str, Any]] = {
    MIXED: {},
    HALF: {"fp16_edges": True},
    BF16: {"precision": "bf16"},
}


@dataclass(frozen=True)
class Conversion:
    """One conversion of one model.

    Attributes:
        model: name of the model.
        way: of `WAYS`.
        drifts: drift of its outputs, by number of samples.
    """

    model: str
    way: str
    drifts: Mapping[int, Sequence[OutputDrift]]

    def judged(self, budget: DriftBudget | None = None, samples: int = SAMPLES) -> Judgement:
        """The verdict on the first samples."""
        return judge(self.drifts[samples], budget=budget)

    @property
    def rel_l2(self) -> float:
        """Relative L2 error of the worst output."""
        return max(drift.rel_l2 or 0.0 for drift in self.drifts[SAMPLES])

    def loss(self, view: str) -> float:
        """The largest loss of a view."""
        checks = self.judged().checks
        return max((check.measured or 0.0 for check in checks if check.name == view), default=0.0)


def conversions(name: str, build: Callable[[], Built]) -> Iterator[Conversion]:
    """Converts a model in each way, and compares each with the model."""
    model, x = built(build)
    source = open_source(model)
    with tempfile.TemporaryDirectory() as folder, TensorFlowRunner(source) as reference:
        batches = list(open_data(x, source.inputs, batch_size=BATCH).read())
        expected = [reference.run(batch.inputs) for batch in batches]
        for way, options in WAYS.items():
            path = Path(folder, f"{way}.onnx")
            convert(model, "onnx", path, **options)
            with onnx_runner(path, GPU) as candidate:
                received = [candidate.run(batch.inputs) for batch in batches]
                specs = candidate.outputs
            drifts = {}
            for size in SIZES:
                comparison = Comparison(path.name, source.outputs, specs, hints=source.hints)
                for index, batch in enumerate(batches[: size // BATCH]):
                    comparison.update(expected[index], received[index], None, batch.keys)
                drifts[size] = comparison.outputs()
            yield Conversion(name, way, drifts)


def print_verdicts(group: str, found: Sequence[Conversion]) -> None:
    """A row for each number of samples."""
    print(f"\n{f'{group} models':<44}{'samples':>8}" + "".join(f"{each:>14}" for each in Verdict))
    for way in WAYS:
        chosen = [each for each in found if each.way == way]
        for size in SIZES:
            counts = Counter(each.judged(samples=size).verdict for each in chosen)
            print(f"{way:<44}{size:>8}" + "".join(f"{counts[each]:>14}" for each in Verdict))


def print_losses(found: Sequence[Conversion]) -> None:
    """The largest loss of each view in FP16, and the conversion that has it."""
    print(f"\n{'sound models: view':<28}largest loss")
    for view in VIEWS:
        worst = max(found, key=lambda each: each.loss(view))
        if loss := worst.loss(view):
            print(f"{view:<28}{loss:<12.2g}{worst.model}, {worst.way}")


def print_limits(broken: Sequence[Conversion]) -> None:
    """How many broken conversions each limit finds, and those that pass without it."""
    print(f"\n{f'limit, of {len(broken)} that fail':<28}{'finds':>6}   alone")
    for limit in LIMITS:
        found = [each for each in broken if finds(limit, each.judged())]
        off = DriftBudget(**{limit: None})
        alone = [each.model for each in found if each.judged(off).verdict is Verdict.PASS]
        print(f"{limit:<28}{len(found):>6}   {'; '.join(alone)}".rstrip(), flush=True)


def finds(limit: str, judgement: Judgement) -> bool:
    """Whether a check of this limit does not pass."""
    names = {limit, "sample_share"} if limit == "sample_rel_l2" else {limit}
    return any(c.name in names and c.verdict is not Verdict.PASS for c in judgement.checks)


def main() -> None:
    """Prints all tables."""
    given = parser(__doc__)
    given.add_argument("--only", default="", metavar="REGEX", help="of groups and models")
    only = given.parse_args().only
    found: dict[str, list[Conversion]] = {group: [] for group in GROUPS}
    for group, models in GROUPS.items():
        print(f"\n{f'{group} models':<44}" + "".join(f"{each:<22}" for each in WAYS))
        for name, build in models.items():
            if re.search(only, f"{group}: {name}"):
                ways = list(conversions(name, build))
                found[group] += ways
                told = (f"{each.judged().verdict}, {each.rel_l2:.1g}" for each in ways)
                print(f"{name:<44}" + "".join(f"{one:<22}" for one in told), flush=True)
    for group in filter(found.get, GROUPS):
        print_verdicts(group, found[group])
    if found["sound"]:
        print_losses([each for each in found["sound"] if each.way != BF16])
    harmed = [each for group in ("broken", "offset") for each in found[group] if each.way == HALF]
    print_limits([each for each in harmed if each.judged().verdict is not Verdict.PASS])


if __name__ == "__main__":
    main()
