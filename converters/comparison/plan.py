"""The plan of a validation: what is measured, how, where, and what it is judged by."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tfmp.converters.comparison.devices import DEVICES, Placing, choose
from tfmp.converters.drift import CustomMetric, DriftBudget, Task, custom_metrics, read_tasks
from tfmp.converters.formats import Format, Target
from tfmp.converters.onnx.emulation import Profile, profiles_of
from tfmp.converters.onnx.fp16 import check_targets
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import check_folder
from tfmp.converters.shared.options import check_choice, check_count, check_flag

# Fields of a plan that ask for more than a plain comparison, and the keywords for them.
_ASKING = "device emulate split explain latency ray workers tasks metrics sizes".split()
JUDGING = {*_ASKING, "metric"} - {"metrics"}


@dataclass(frozen=True)
class Plan:
    """What `validate` measures, checked before anything is loaded.

    Attributes:
        budget: the allowed drift.
        device: "auto", "cpu" or "gpu", see `devices.choose`.
        profiles: runtimes and hardware that files are judged for, each by itself; () for the
            default.
        emulate: whether a CPU is to emulate them, whatever the machine has.
        split: also measure where the drift comes from.
        explain: also explain the drift; a folder to save there, for each candidate, the smallest
            model that shows its error.
        latency: also time single calls.
        latency_batches: batch sizes to time calls of, too, with the memory that they take.
        ray: address of the Ray whose workers compare; None to compare here.
        workers: how many workers Ray is to give; None for as many as fit.
        tasks: meanings of outputs that the user has declared, by the reference's names.
        metrics: of the user's own.
        sizes: of samples that are made and judged, too: each a shape by input.
    """

    budget: DriftBudget = field(default_factory=DriftBudget)
    device: str = "auto"
    profiles: tuple[Profile, ...] = ()
    emulate: bool = False
    split: bool = False
    explain: bool | Path = False
    latency: bool = False
    latency_batches: tuple[int, ...] = ()
    ray: str | None = None
    workers: int | None = None
    tasks: Mapping[str, Task] = field(default_factory=dict)
    metrics: tuple[CustomMetric, ...] = ()
    sizes: tuple[Mapping[str, tuple[int, ...]], ...] = ()

    @classmethod
    def of(
        cls,
        *,
        budget: DriftBudget | None = None,
        device: str = "auto",
        emulate: str | None = None,
        target: str | Sequence[str] = (),
        split: bool = False,
        explain: bool | str | Path = False,
        latency: bool | Sequence[int] = False,
        ray: str | None = None,
        workers: int | None = None,
        tasks: Mapping[str, Task | str] | None = None,
        metric: Any = None,
        sizes: Any = None,
    ) -> Self:
        """The plan that the keywords of `validate` ask for.

        Raises:
            InputError: a value that cannot be used, or two that contradict each other.
        """
        if not isinstance(budget, DriftBudget | None):
            raise InputError(
                f"budget: expected a DriftBudget, as in DriftBudget(rel_l2=0.005), received "
                f"{budget!r}."
            )
        check_choice("device", device, DEVICES)
        check_flag("split", split)
        batches = _batches(latency)
        plan = cls(
            budget=budget or DriftBudget(),
            device=device,
            profiles=_profiles(target, emulate),
            emulate=emulate is not None,
            split=split,
            explain=_explain(explain),
            latency=latency is True or bool(batches),
            latency_batches=batches,
            ray=ray,
            workers=workers,
            tasks=read_tasks(tasks),
            metrics=custom_metrics(metric),
            sizes=_sizes(sizes),
        )
        plan._check_ray()
        return plan

    def place(self, formats: Collection[Format]) -> Placing:
        """Where candidates of these formats run on this machine; raises `InputError`."""
        return choose(self.device, formats, self.emulate)

    def judging(self, target: Target) -> Target:
        """A file to write, with what it will be judged by, for searches that keep a budget."""
        profile = next(iter(self.profiles), None)
        budget, tasks, metrics = self.budget, self.tasks, self.metrics
        return replace(target, budget=budget, profile=profile, tasks=tasks, metrics=metrics)

    def _check_ray(self) -> None:
        if self.ray is None:
            if self.workers is not None:
                raise InputError(
                    f"workers (--workers) are Ray's, received workers={self.workers!r} without ray "
                    "(--ray). Give both, or leave workers out."
                )
            return
        if self.workers is not None:
            check_count("workers", self.workers)
        for name, asked, why in (
            ("explain", self.explain is not False, "looks into one model on the worst samples"),
            ("latency", self.latency, "is measured on a machine that does nothing else"),
        ):
            if asked:
                raise InputError(
                    f"{name} {why}, so not on Ray's workers. Leave {name} out, and run it without "
                    "ray on some of the samples."
                )

    def asked(self) -> tuple[str, ...]:
        """The keywords that ask for more than a plain comparison."""
        given = (name for name in _ASKING if getattr(self, name) != getattr(Plan(), name))
        return tuple("metric" if name == "metrics" else name for name in given)


def _profiles(target: str | Sequence[str], emulate: str | None) -> tuple[Profile, ...]:
    """What each file is judged for: the targets, or the profile that is named in their place."""
    targets = [target] if isinstance(target, str) else list(target)
    check_targets(targets)
    asked = () if emulate is None else (Profile.parse(emulate),)
    return (*(profiles_of(targets) if len(targets) > 1 or not asked else ()), *asked)


def _explain(explain: bool | str | Path) -> bool | Path:
    if isinstance(explain, bool):
        return explain
    if not isinstance(explain, str | Path):
        raise InputError(
            "explain: expected True, False or a folder, received "
            f"{explain!r} ({type(explain).__name__})."
        )
    check_folder(Path(explain))
    return Path(explain)


def _batches(latency: bool | Sequence[int]) -> tuple[int, ...]:
    """The batch sizes that `latency` lists, the smallest first."""
    if isinstance(latency, str) or not isinstance(latency, Sequence):
        check_flag("latency", latency)
        return ()
    if not latency:
        raise InputError(
            "latency: expected one batch size or more, such as (1, 8), received an empty list."
        )
    for size in latency:
        check_count("latency", size)
    return tuple(sorted(set(latency)))


def _sizes(sizes: Any) -> tuple[dict[str, tuple[int, ...]], ...]:
    """The sizes that samples are made of: a dict of shapes by input, or several."""
    found = []
    for each in [sizes] if isinstance(sizes, Mapping) else sizes or ():
        shapes = [*each.values()] if isinstance(each, Mapping) else []
        if not shapes or not all(isinstance(shape, tuple | list) and shape for shape in shapes):
            raise InputError(
                "sizes: expected the shape of each input by name, as in {'tokens': (4, 6000)}, "
                f"received {each!r}."
            )
        for size in (size for shape in shapes for size in shape):
            check_count("sizes", size)
        found.append({name: tuple(shape) for name, shape in each.items()})
    return tuple(found)
