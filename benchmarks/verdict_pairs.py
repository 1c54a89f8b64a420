"""Verdicts on real conversions: sound models must pass, and broken ones must not.

    python benchmarks/verdict_pairs.py [--only WORD]

Each model of `pair_models.py` is converted to ONNX twice: with both ends in FP32, which is the
default, and wholly in FP16. Both files run in emulated FP16 over 1,000 samples beside the model,
and are judged with the meaning of outputs that the model itself gives. Printed are the verdicts,
the largest loss of each view of sound conversions, and which limit alone finds a broken one: how
many of them pass without it. So are the constructed pairs of tests/support/fp16_pairs.py.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scaffold import parser

BATCH = 100

from fp16_pairs import PAIRS
from pair_models import BROKEN, SAMPLES, SOUND, Built, built

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

# The two conversions, by `fp16_edges`.
ENDS = {False: "both ends in FP32", True: "all in FP16"}

# A verdict under a budget.
Judged = Callable[[DriftBudget | None], Judgement]


@dataclass(frozen=True)
class Conversion:
    """One conversion of one model.

    Attributes:
        model: name of the model.
        fp16_edges: whether all of it is FP16.
        drifts: drift of its outputs, by number of samples.
    """

    model: str
    fp16_edges: bool
    drifts: Mapping[int, Sequence[OutputDrift]]

    def judged(self, budget: DriftBudget | None = None, samples: int = SAMPLES) -> Judgement:
        """The verdict on the first samples."""
        return judge(self.drifts[samples], budget=budget)

    @property
    def losses(self) -> dict[str, float]:
        """What was measured, by the limit that it has."""
        found: dict[str, float] = {}
        for check in self.judged().checks:
            if check.measured is not None:
                found[check.name] = max(found.get(check.name, 0.0), check.measured)
        return found


def conversions(name: str, build: Callable[[], Built]) -> Iterator[Conversion]:
    """Converts a model in both ways, and compares each with the model."""
    model, x = built(build)
    source = open_source(model)
    with tempfile.TemporaryDirectory() as folder, TensorFlowRunner(source) as reference:
        batches = list(open_data(x, source.inputs, batch_size=BATCH).read())
        expected = [reference.run(batch.inputs) for batch in batches]
        for fp16_edges in ENDS:
            path = Path(folder, f"{fp16_edges}.onnx")
            convert(model, "onnx", path, fp16_edges=fp16_edges)
            with onnx_runner(path, GPU) as candidate:
                received = [candidate.run(batch.inputs) for batch in batches]
                specs = candidate.outputs
            drifts = {}
            for size in SIZES:
                comparison = Comparison(path.name, source.outputs, specs, hints=source.hints)
                for index, batch in enumerate(batches[: size // BATCH]):
                    comparison.update(expected[index], received[index], None, batch.keys)
                drifts[size] = comparison.outputs()
            yield Conversion(name, fp16_edges, drifts)


def print_verdicts(title: str, found: Sequence[Conversion], sizes: Sequence[int] = SIZES) -> None:
    """A row for each number of samples."""
    print(f"\n{title:<44}{'samples':>8}" + "".join(f"{each:>14}" for each in Verdict))
    for fp16_edges, words in ENDS.items():
        chosen = [each for each in found if each.fp16_edges == fp16_edges]
        for size in sizes:
            counts = Counter(each.judged(samples=size).verdict for each in chosen)
            print(f"{words:<44}{size:>8}" + "".join(f"{counts[each]:>14}" for each in Verdict))


def print_losses(found: Sequence[Conversion]) -> None:
    """The largest loss of each view, and the model that has it."""
    print(
        f"\n{'sound models: largest loss':<28}" + "".join(f"{each:<40}" for each in ENDS.values())
    )
    for view in VIEWS:
        cells = []
        for fp16_edges in ENDS:
            losses = [
                (each.losses.get(view, 0.0), each.model)
                for each in found
                if each.fp16_edges == fp16_edges
            ]
            loss, model = max(losses, default=(0.0, ""))
            cells.append(f"{loss:.2g} {model if loss else ''}")
        print(f"{view:<28}" + "".join(f"{cell:<40}" for cell in cells))


def print_passed(found: Sequence[Conversion]) -> None:
    """Broken models that pass, with the number that comes nearest to its limit."""
    print("\nthose that pass wholly in FP16, and the number nearest to its limit")
    budget = DriftBudget()
    for each in found:
        shares = {name: each.losses.get(name, 0.0) / getattr(budget, name) for name in LIMITS}
        worst = max(shares, key=lambda name: shares[name])
        print(f"{each.model:<44}{worst:<18}{shares[worst]:.2f} of its limit")


def print_limits(groups: Mapping[str, Mapping[str, Judged]]) -> None:
    """How many broken pairs each limit finds, and how many it alone."""
    heads = "".join(f"{f'{group}: finds':>22}{'alone':>8}" for group in groups)
    print(f"\n{'limit':<18}{heads}   passed without it")
    verdicts = {
        key: {n: judged(None) for n, judged in group.items()} for key, group in groups.items()
    }
    for limit in LIMITS:
        cells, alone = "", []
        for key, group in groups.items():
            found = [name for name, verdict in verdicts[key].items() if finds(limit, verdict)]
            off = DriftBudget(**{limit: None})
            passed = [name for name in found if group[name](off).verdict is Verdict.PASS]
            cells += f"{len(found):>22}{len(passed):>8}"
            alone += passed
        print(f"{limit:<18}{cells}   {'; '.join(alone)}".rstrip(), flush=True)


def finds(limit: str, judgement: Judgement) -> bool:
    """Whether a check of this limit does not pass."""
    names = {limit, "sample_share"} if limit == "sample_rel_l2" else {limit}
    return any(c.name in names and c.verdict is not Verdict.PASS for c in judgement.checks)


def constructed(only: str) -> dict[str, Judged]:
    """The pairs of the tests, judged as the tests do."""
    return {pair.name: partial(pair.judged, pair.harmful) for pair in PAIRS if only in pair.name}


def measured(models: Mapping[str, Callable[[], Built]], only: str) -> list[Conversion]:
    """Both conversions of each model; prints a row for each."""
    found = []
    for name, build in models.items():
        if only in name:
            both = list(conversions(name, build))
            found += both
            verdicts = "".join(f"{each.judged().verdict:<22}" for each in both)
            print(f"{name:<44}{verdicts}", flush=True)
    return found


def main() -> None:
    """Prints all tables."""
    given = parser(__doc__)
    given.add_argument("--only", default="", metavar="WORD", help="a word of the models' names")
    only = given.parse_args().only
    print(f"{'sound models':<44}" + "".join(f"{each:<22}" for each in ENDS.values()))
    sound = measured(SOUND, only)
    print("\nbroken models")
    broken = measured(BROKEN, only)
    print_verdicts("sound models", sound)
    print_losses(sound)
    print_verdicts("broken models", broken, (SAMPLES,))
    harmed = [each for each in broken if each.fp16_edges]
    passed = [each for each in harmed if each.judged().verdict is Verdict.PASS]
    print_passed(passed)
    caught = {each.model: each.judged for each in harmed if each not in passed}
    pairs = constructed(only)
    print_limits({f"{len(caught)} models": caught, f"{len(pairs)} constructed": pairs})


if __name__ == "__main__":
    main()
