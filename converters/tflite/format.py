"""TFLite files as a format: how they are written, run and looked into."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfmp.converters.formats import FP32_FAILS, Format, Target, Way, format_named
from tfmp.converters.shared.errors import InputError, MachineError, running_on_samples
from tfmp.converters.tflite.options import TFLiteOptions
from tfmp.shared.progress import Progress

if TYPE_CHECKING:
    from tfmp.converters.explain import Candidate
    from tfmp.converters.intake import AnySource, Source
    from tfmp.converters.report import FileNotes
    from tfmp.converters.runners import Runner, RunnerInfo, TimedCalls
    from tfmp.converters.samples import Samples
    from tfmp.converters.shared.tensors import Batch, TensorSpec
    from tfmp.converters.shared.worker import Worker
    from tfmp.converters.tflite.export import TFLiteFile
    from tfmp.converters.tflite.file import HostScaling
    from tfmp.converters.tflite.rewriting import Repaired

# Layers that a report names; `tfmp-convert inspect` lists all.
_MOST_TOLD = 5
_MOST_LOST = 2  # ways out that a FAIL names

_NO_SAMPLES = (
    "converted without samples: which activations overflow or vanish in FP16 is unknown. Give real "
    "ones as data (--data); random ones would prove nothing."
)
# The choices that are made on samples, and what they find.
_ON_SAMPLES = {
    "repair": "the values that overflow",
    "host_output_scaling": "the offsets of outputs",
}
_LOOK = "Convert the model again with --data: the report then names what FP16 loses, and the remedy"
_REPAIR = "FP16 then holds the numbers of {}"
_SCALING = "the host then puts offset and scale of {} back in float32"
_NOTHING_TO_SCALE = (
    "host_output_scaling changed nothing: no output has an offset that is large beside its "
    "standard deviation, or is outside FP16"
)
_PAST_FP16 = "{} reaches {:.3g}, FP16 ends at 65504, and no rewrite keeps it below"
_VANISHES = (
    "FP16 makes zero of numbers of {}, down to {:.3g}: scale them up, write a floor from 6.1e-05 "
    "under them, or add logarithms where numbers are multiplied"
)
_RAW_INPUT = "{} reaches {:.3g}, FP16 ends at 65504: scale it before the model"
_ROUNDED_INPUT = "FP16 rounds {} (relative L2): subtract its mean or scale it before the model"
_ONNX = "As ONNX the model keeps to the budget on these samples: tfmp-convert onnx{}"
_NO_WAY = "No rewrite helps on these samples: keep this model in float32 (--precision fp32)"
_NOTHING_TO_REPAIR = "repair changed nothing: no layer overflows in FP16 on these samples"
_UNREPAIRABLE = "repair changed nothing: it has no rewrite for the layers that FP16 harms"
_READ_ONCE = (
    "which layers overflow in FP16 was not looked for: the samples can be read only once, and are "
    "compared. Give arrays, or a function that makes a new iterator."
)


class TFLiteFormat(Format):
    """See `Format`."""

    name = "tflite"
    title = "TFLite"
    options = TFLiteOptions
    mixing = "TFLite is fp16 or fp32: --repair serves it as mixed serves ONNX."
    instead_of_mixed = MappingProxyType({"repair": True})
    all_signatures = True
    gpu = "LiteRT's GPU backend"
    gpu_advice = "install the GPU's Vulkan driver"

    def check(
        self, precision: str, options: TFLiteOptions, sampled: bool, batch_size: int | None = None
    ) -> None:
        super().check(precision, options, sampled, batch_size)
        if options.dynamic_batch and batch_size is not None:
            raise InputError(
                "dynamic_batch (--dynamic) lets the file take any number of samples, batch size "
                f"{batch_size} (--batch) fixes it: give one of them."
            )
        for name, finds in _ON_SAMPLES.items():
            if getattr(options, name) and precision != "fp16":
                raise InputError(
                    f"{name} is about FP16 files, received precision={precision!r}. Leave it out."
                )
            if getattr(options, name) and not sampled:
                raise InputError(
                    f"{name} (--{name.replace('_', '-')}) finds {finds} on samples, and this "
                    f"conversion has no data. Pass data (--data FILE), or leave {name} out."
                )

    def searches(self, target: Target) -> str | None:
        return next((name for name in _ON_SAMPLES if getattr(target.options, name)), None)

    @contextmanager
    def starting(self) -> "Iterator[Worker]":
        from tfmp.converters.tflite.export import start_converter

        with start_converter() as converter:
            yield converter

    def write(
        self,
        source: "AnySource",
        target: Target,
        samples: "Samples | None",
        helper: "Worker | None",
        progress: Progress,
    ) -> "FileNotes":
        from tfmp.converters.report import FileNotes
        from tfmp.converters.tflite.export import export_tflite
        from tfmp.converters.tflite.rewriting import leave_scaling

        model = _traceable(source)
        options: TFLiteOptions = target.options
        others = model.siblings
        if others and (chosen := self.searches(target)):
            raise InputError(
                f"{chosen} works on one signature, received a SavedModel with "
                f"{model.origin.signature!r}, {', '.join(map(repr, others))}. Choose one with "
                "signature (--signature)."
            )
        found = FileNotes()
        scaling: Mapping[str, HostScaling] = {}
        if target.precision == "fp16":
            with running_on_samples(model.name):
                if options.host_output_scaling and samples is not None:
                    progress("measuring offsets and scales of outputs")
                    model, scaling = leave_scaling(model, samples.batches)
                model, found = _looked_at(model, options, samples, progress)

        def export(sources: "Source | Mapping[str, Source]") -> "TFLiteFile":
            return export_tflite(
                sources,
                target.path,
                target.precision,
                None if options.dynamic_batch else 1,
                options.accumulate,
                options.allow_flex,
                progress,
                helper,
                scaling,
            )

        file, told = _with_others(export, model, others) if others else (export(model), ())
        if options.host_output_scaling:
            scaled = [f"the host gives output {name!r} {one}" for name, one in scaling.items()]
            found = replace(found, notes=(*(scaled or [_NOTHING_TO_SCALE]), *found.notes))
        return replace(found, notes=(*told, *found.notes, *file.notes))

    def write_fp32(self, source: "AnySource", path: Path) -> None:
        from tfmp.converters.tflite.export import export_tflite

        export_tflite(_traceable(source), path, "fp32")

    def signatures(self, path: Path) -> "Mapping[str, tuple[tuple[TensorSpec, ...], ...]]":
        from tfmp.converters.tflite.file import TFLiteModel

        found = TFLiteModel(path).signatures
        return {key: (one.inputs, one.outputs) for key, one in found.items()}

    def remedy(self, path: Path) -> tuple[str, str | None]:
        return _LOOK, ""

    def ways(
        self, source: "AnySource", target: Target, samples: "Samples", fails: bool
    ) -> "Iterator[Way]":
        from tfmp.converters.tflite.rewriting import leave_scaling, repair_model

        if target.precision != "fp16":
            return
        batches = [batch for batch, _ in samples.for_search()]
        model, options = _traceable(source), target.options

        def tried(outputs: Iterable[str], found: "Repaired | None") -> Way:
            flags, gains = [], []
            if outputs:
                flags.append("--host-output-scaling")
                gains.append(_SCALING.format(", ".join(map(repr, outputs))))
            if found:
                flags.append("--repair")
                layers = list(dict.fromkeys(one.layer for one in found.changes))[:_MOST_LOST]
                gains.append(_REPAIR.format(", ".join(layers)))
            changed = {flag.removeprefix("--").replace("-", "_"): True for flag in flags}
            told = f"Convert with {' '.join(flags)} and --data: {'. '.join(gains)}"
            return Way(told, " ".join(flags), replace(target, options=replace(options, **changed)))

        scaled, outputs = leave_scaling(model, lambda: batches)
        leaves = bool(outputs) and not options.host_output_scaling
        found = repair_model(model if leaves else scaled, lambda: batches)
        if found.changes and not options.repair:
            yield tried((), found)
        if leaves:
            yield tried(outputs, None)
            found = repair_model(scaled, lambda: batches)
            if found.changes and not options.repair:
                yield tried(outputs, found)
        cause = _cause(found, batches[0]) if fails else []
        ends = [*_ends(target), Way(FP32_FAILS if fails else "")]
        yield from (replace(way, told=". ".join([*cause, way.told])) for way in ends)

    def open_runner(
        self,
        path: Path,
        gpu: bool = False,
        profile: object = None,
        signature: str | None = None,
        weights_only: bool = False,
    ) -> "Runner":
        from tfmp.converters.runners import litert_runner, weights_only_runner

        if weights_only:
            return weights_only_runner(path, signature)
        return litert_runner(path, gpu, signature)

    def time_calls(
        self, path: Path, call: "Batch", rows: int, info: "RunnerInfo", signature: str | None
    ) -> "TimedCalls":
        from tfmp.converters.runners import litert_vulkan, time_in_worker

        if info.device == "CPU":  # FP16 that a CPU emulates is not timed
            installed = replace(info, name="litert")
            return time_in_worker("litert", path, call, rows, installed, "cpu", signature)
        with litert_vulkan() as vulkan:
            arguments = ("gpu", signature, vulkan.loader)
            return time_in_worker(
                "litert", path, call, rows, info, *arguments, environment=vulkan.environment
            )

    def open_seams(
        self, path: Path, source: "AnySource", profile: object, stack: ExitStack
    ) -> "Candidate":
        from tfmp.converters.explain import TFLiteCandidate

        return TFLiteCandidate(path, source, stack)

    def gpu_problem(self, asked: bool = True) -> str | None:
        from tfmp.converters.runners import check_litert_gpu

        try:
            check_litert_gpu()
        except MachineError as error:
            return str(error).rstrip(".")
        return None

    def gpu_in_software(self) -> str | None:
        from tfmp.converters.runners import litert_vulkan

        try:
            with litert_vulkan() as vulkan:
                adapter = vulkan.adapter
        except MachineError:
            return None
        if not adapter.software:
            return None
        if adapter.fp16:
            return f"{adapter.name}, in software, with the FP16 arithmetic of LiteRT's GPU kernels"
        return (
            f"{adapter.name}, in software and FP32: it shows which operators a GPU takes, not what "
            "FP16 does"
        )


def _with_others(
    export: "Callable[[Mapping[str, Source]], TFLiteFile]",
    model: "Source",
    others: "Mapping[str, Callable[[], Source]]",
) -> "tuple[TFLiteFile, tuple[str, ...]]":
    """The file of a signature and those others that can be converted; notes on all of them."""
    name, left_out = str(model.origin.signature), []
    first = {name: model}
    try:
        kept = {**first, **{key: opened() for key, opened in others.items()}}
        file = export(kept)
    except InputError:
        file, kept = export(first), first
        for key, opened in others.items():
            try:
                wider = {**kept, key: opened()}
                file, kept = export(wider), wider
            except InputError as error:
                left_out.append(f"signature {key!r} is left out: {error}")
    told = f"signatures {', '.join(map(repr, kept))}; samples are compared with {name!r}"
    return file, (told, *left_out)


def _traceable(source: "AnySource") -> "Source":
    """The source as one that TensorFlow traces.

    Raises:
        InputError: it is a file of another format.
    """
    from tfmp.converters.intake import Source

    if not isinstance(source, Source):
        raise InputError(
            f"{source.origin.path}: an ONNX file cannot become TFLite. Convert the Keras or "
            "TensorFlow model that it was exported from."
        )
    return source


def _looked_at(
    source: "Source",
    options: TFLiteOptions,
    samples: "Samples | None",
    progress: Progress,
) -> "tuple[Source, FileNotes]":
    """The model with what FP16 loses rewritten, and its values that overflow on the samples."""
    from tfmp.converters.report import FileNotes
    from tfmp.converters.tflite.rewriting import repair_model

    if samples is None:
        return source, FileNotes((_NO_SAMPLES,))
    if samples.stream.once and not options.repair:  # the validation needs these samples
        return source, FileNotes((_READ_ONCE,))
    batches = [batch for batch, _ in samples.for_search()]
    progress(f"{'repairing' if options.repair else 'looking for'} layers that overflow in FP16")
    given = samples.batches if options.repair else lambda: batches
    found = repair_model(source, given, overflow=options.repair)
    changes = _told([str(one) for one in found.changes])
    if options.repair and not changes:
        changes = (
            _UNREPAIRABLE if found.left or found.lost or found.vanishing else _NOTHING_TO_REPAIR,
        )
    harm = "not repaired" if options.repair else "overflows in FP16"
    left = [*(f"{harm}: {one}" for one in found.left), *map(str, found.vanishing)]
    return found.source, FileNotes((*changes, *found.notes), _told(left))


def _cause(found: "Repaired", batch: "Batch") -> list[str]:
    """What FP16 loses of a model that no rewrite keeps, the first of it, with the way out."""
    from tfmp.converters.tflite.rewriting import first_vanishing, rounded_input

    for one in found.left[:1]:
        told = _RAW_INPUT if one.op == "Placeholder" else _PAST_FP16
        return [told.format(one.layer, one.value)]
    rounded = rounded_input(found.source, batch)
    zeros = [
        _VANISHES.format(one.layer, one.value)
        for one in found.vanishing or first_vanishing(found.source, lambda: [batch])
    ]
    return [*zeros, *[_ROUNDED_INPUT.format(rounded)] * bool(rounded), *found.lost][:_MOST_LOST]


def _ends(target: Target) -> "Iterator[Way]":
    """The other format where that is quick to try, and float32."""
    onnx = format_named("onnx")
    ways = (("fp16", ""), ("mixed", " --precision mixed")) if target.quick else ()
    for precision, flag in ways:
        other = replace(target, format=onnx, precision=precision, options=onnx.options())
        yield Way(_ONNX.format(flag), target=other)
    whole = TFLiteOptions(allow_flex=target.options.allow_flex)
    yield Way(_NO_WAY, target=replace(target, precision="fp32", options=whole))


def _told(found: "Sequence[str]") -> tuple[str, ...]:
    """The first, and how many there are more."""
    more = len(found) - _MOST_TOLD
    return (*found[:_MOST_TOLD], *([f"and {more} layers more"] if more > 0 else ()))
