"""ONNX files as a format: how they are written, run and looked into."""

import ctypes
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfmp.converters.formats import FP32_FAILS, PRECISIONS, Format, Target, Way
from tfmp.converters.onnx.fp16 import ANY, BF16_OPS, RUNTIMES
from tfmp.converters.onnx.options import OnnxOptions
from tfmp.converters.shared.errors import (
    ConversionError,
    InputError,
    MachineError,
    RunnerError,
    running_on_samples,
)
from tfmp.converters.shared.options import given_options
from tfmp.shared.atomic_file import replacing
from tfmp.shared.progress import SILENT, Progress

if TYPE_CHECKING:
    import onnx_ir as ir

    from tfmp.converters.explain import Candidate
    from tfmp.converters.intake import AnySource
    from tfmp.converters.onnx.emulation import Profile
    from tfmp.converters.onnx.mixed import MixedSearch
    from tfmp.converters.report import FileNotes
    from tfmp.converters.runners import Runner, RunnerInfo, TimedCalls
    from tfmp.converters.samples import Samples
    from tfmp.converters.shared.tensors import Batch, TensorSpec

# Options that say something of FP16 files only.
_ABOUT_FP16 = ("keep_fp32", "fp16_io", "fp16_edges", "target")

_REMEDY = (
    "Convert with --precision mixed (precision='mixed') and --data: as few nodes as the budget "
    "needs then stay in FP32"
)

_MORE_DIGITS = (
    "Convert with --precision fp16 (precision='fp16'), which has three bits more: values past "
    "65504 need --precision mixed then"
)

# The first in which Conv, MaxPool, LSTM and 40 more ops take bfloat16 (onnx.defs).
_BF16_OPSET = 22

_RUNS_ON = (
    "bfloat16 runs on NVIDIA GPUs from compute capability 8.0 on (ONNX Runtime's CUDA provider, "
    "TensorRT). ONNX Runtime's CPU and WebGPU providers have no kernels for it: without such a GPU "
    "the file is judged by emulation"
)

_KEEP_FP32 = (
    "No set of FP32 nodes that was tried keeps the limit: use --precision fp32, or declare a "
    "larger one"
)

_ROUNDED_OUTPUTS = "Outputs in FP16 are over the limit: leave fp16_io (--fp16-io) out"

_ROUNDED_AND_MIXED = f"{_ROUNDED_OUTPUTS}, and use --precision mixed (precision='mixed')"

_ROUNDED_IO = (
    "fp16_io (--fp16-io) rounds inputs and outputs to FP16, next to nodes that are FP32 for their "
    "digits: leave it out to keep these"
)

_FROM_FP32 = "Convert the float32 model that this FP16 file was made from"


class OnnxFormat(Format):
    """See `Format`."""

    name = "onnx"
    title = "ONNX"
    takes = ".keras, .h5, SavedModel, .onnx"
    options = OnnxOptions
    precisions = PRECISIONS
    mixing = "mixed (ONNX) keeps the fewest nodes in FP32 that the budget needs on --data."
    emulated = True
    gpu = "CUDA"
    gpu_by_default = True
    gpu_advice = "pip install 'tfmp[cuda]' on a machine with an NVIDIA GPU"

    def check(
        self, precision: str, options: OnnxOptions, sampled: bool, batch_size: int | None = None
    ) -> None:
        super().check(precision, options, sampled, batch_size)
        for name in given_options(options):
            if precision == "fp32" and name in _ABOUT_FP16:
                raise InputError(
                    f"{name} is about FP16 files, received precision='fp32'. Leave one of them out."
                )
        if precision == "bf16":
            _check_bf16(options)

    def write(
        self,
        source: "AnySource",
        target: Target,
        samples: "Samples | None",
        helper: Any,
        progress: Progress,
    ) -> "FileNotes":
        from tfmp.converters.intake import Source
        from tfmp.converters.onnx.export import check_export, with_rewrites, without_marks
        from tfmp.converters.onnx.fp16 import describe_origin, to_fp16
        from tfmp.converters.onnx.graph import BF16, FP16, fault_of, save_checked
        from tfmp.converters.report import FileNotes

        options: OnnxOptions = target.options
        low = BF16 if target.precision == "bf16" else FP16
        model = _exported(source, options.opset, low, progress)
        notes: list[str] = []
        already: list[str] = []
        if not isinstance(source, Source):
            inside = len(source.model.graph.inputs) - len(model.graph.inputs)
            if inside:
                notes.append(f"{inside} weights that the file lists as inputs are constants")
            already = _already_fp16(model, target.precision)
            notes += already
        else:
            progress("checking the float32 export")
            check_export(model, source)
            without_marks(model)
        report, found = None, None
        if target.precision != "fp32":
            model = with_rewrites(model)
            rewritten = None
            edges = None if options.fp16_edges else _call(samples)
            if target.precision == "mixed" and samples is not None:
                with running_on_samples(source.name):
                    found, rewritten = _islands(model, source, target, samples, edges, progress)
            progress(f"rewriting to {'BF16' if low == BF16 else 'FP16'}")
            islands = found.islands if found else None
            model, report = to_fp16(
                *(model, options.keep_fp32, options.fp16_io, islands, rewritten, options.kernels),
                *(edges, low, found.narrow if found else ()),
            )
            fault = fault_of(model)
            notes += [*(found.notes() if found else ()), *report.notes(), *filter(None, [fault])]
            notes += [_ROUNDED_IO] if options.fp16_io and report.at_edges() else []
            notes += [_RUNS_ON] if low == BF16 and report.half_nodes else []
        nothing = report is not None and not report.half_nodes and not already
        precision = "fp32" if nothing else target.precision
        progress("checking and writing the result")
        kept = None if target.precision == "fp32" else _as_it_is(source, options)
        narrow = found is not None and found.narrow  # FP16 numbers in a file that computes in FP32
        if kept is not None and not narrow and (nothing or already):
            with replacing(target.path) as new:
                shutil.copyfile(kept, new)
        else:
            describe_origin(model, precision, source.origin.sha256, report, options.kernels)
            notes += save_checked(model, target.path, options.external_data)
        remedy = _FROM_FP32 if already else ""
        return FileNotes(tuple(notes), remedy=remedy, float32=nothing)

    def write_fp32(self, source: "AnySource", path: Path) -> None:
        from tfmp.converters.onnx.export import export_onnx
        from tfmp.converters.onnx.graph import save_checked

        save_checked(export_onnx(source, None, SILENT), path)

    def signatures(self, path: Path) -> "Mapping[str, tuple[tuple[TensorSpec, ...], ...]]":
        from tfmp.converters.intake import value_spec
        from tfmp.converters.shared.sessions import read_onnx

        graph = read_onnx(path).graph
        return {"": tuple(tuple(map(value_spec, side)) for side in (graph.inputs, graph.outputs))}

    def companions(self, path: Path) -> tuple[Path, ...]:
        from tfmp.converters.onnx.graph import external_files

        return external_files(path)

    def remedy(self, path: Path) -> tuple[str, str | None]:
        way = next(_ways(self.made(path), fails=True))
        return way.told, way.flags

    def made(self, path: Path) -> Target:
        import onnx

        from tfmp.converters.onnx.fp16 import TARGET
        from tfmp.converters.shared.onnx_files import read_light

        proto, _ = read_light(path, mapped=True)
        told = {item.key: item.value for item in proto.metadata_props}
        values = (*proto.graph.input, *proto.graph.output)
        kinds = {value.type.tensor_type.elem_type for value in values}
        targets = [one for one in RUNTIMES if one == told.get(TARGET)]
        options = OnnxOptions(target=targets, fp16_io=onnx.TensorProto.FLOAT16 in kinds)
        return Target(self, path, told.get("tfmp.precision", "fp16"), options)

    def ways(
        self, source: "AnySource", target: Target, samples: "Samples", fails: bool
    ) -> "Iterator[Way]":
        return _ways(target, fails)

    def mended(self, path: Path, profile: "Profile | None") -> "Iterable[tuple[Profile, str]]":
        from tfmp.converters.onnx.emulation import fusions_of, profile_of
        from tfmp.converters.onnx.fp16 import TARGET
        from tfmp.converters.runners import prepared_model

        model = prepared_model(path)
        chosen = profile or profile_of(model.metadata_props.get(TARGET))
        return chosen.mended({fusion.op_type for fusion in fusions_of(model, chosen)})

    def open_runner(
        self,
        path: Path,
        gpu: bool = False,
        profile: "Profile | None" = None,
        signature: str | None = None,
        weights_only: bool = False,
    ) -> "Runner":
        from tfmp.converters.runners import OnnxGpuRunner, onnx_runner, onnx_weights_runner

        if weights_only:
            return onnx_weights_runner(path)
        return OnnxGpuRunner(path) if gpu else onnx_runner(path, profile)

    def open_reference(self, source: "AnySource", gpu: bool) -> "Runner":
        from tfmp.converters.runners import OnnxGpuRunner, SourceRunner

        if gpu and source.origin.path is not None:
            return OnnxGpuRunner(source.origin.path)
        return SourceRunner(source, _cpu_info())

    def time_calls(
        self, path: Path, call: "Batch", rows: int, info: "RunnerInfo", signature: str | None
    ) -> "TimedCalls":
        from tfmp.converters.runners import time_in_worker
        from tfmp.converters.shared.sessions import holds, read_onnx

        if info.device == "CPU" and holds(read_onnx(path), "BFLOAT16"):
            raise RunnerError("no CPU provider of ONNX Runtime has kernels for bfloat16")
        if info.device == "CPU":
            return time_in_worker("onnx", path, call, rows, _cpu_info())
        return time_in_worker("onnx-gpu", path, call, rows, info)

    def open_seams(
        self, path: Path, source: "AnySource", profile: "Profile | None", stack: ExitStack
    ) -> "Candidate":
        from tfmp.converters.explain import OnnxCandidate

        return OnnxCandidate(path, profile, source)

    def gpu_problem(self, asked: bool = True) -> str | None:
        import onnxruntime

        from tfmp.converters.runners import check_onnx_gpu, has_webgpu

        if has_webgpu():
            if not asked:
                return "ONNX Runtime has WebGPU in place of CUDA, which device gpu takes"
            return _problem_of(check_onnx_gpu)
        driver = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            ctypes.CDLL(driver)
        except OSError:
            return f"no NVIDIA driver was found ({driver})"
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            return "this build of ONNX Runtime has no CUDA"
        return _problem_of(check_onnx_gpu)


def _ways(target: Target, fails: bool) -> "Iterator[Way]":
    """See `Format.ways`; the first one comes untried where there is no time to try."""
    wide_io = replace(target.options, fp16_io=False)
    whole = replace(target, precision="fp32", options=OnnxOptions(opset=wide_io.opset))
    mixed = replace(target, precision="mixed") if target.quick else whole
    own = "".join(f"--target {one} " for one in target.options.target)
    if target.precision == "bf16":
        yield Way(_MORE_DIGITS, f"{own}--precision fp16", replace(target, precision="fp16"))
    if target.options.fp16_io:
        yield Way(_ROUNDED_OUTPUTS, target=replace(target, options=wide_io))
    if target.precision != "mixed":
        yield Way(_REMEDY, f"{own}--precision mixed", mixed)
    if target.options.fp16_io:
        yield Way(_ROUNDED_AND_MIXED, target=replace(mixed, options=wide_io))
    if fails:
        yield Way(_KEEP_FP32, target=whole)
    yield Way(FP32_FAILS if fails else "")


def _check_bf16(options: OnnxOptions) -> None:
    """Raises `InputError` for options that a bfloat16 file cannot have."""
    if options.fp16_io:
        raise InputError(
            "fp16_io (--fp16-io) makes float16 inputs and outputs, received precision bf16 "
            "(--precision), whose files keep float32 ones. Leave fp16_io out."
        )
    if options.kernels not in (ANY, *BF16_OPS):
        able = ", ".join((ANY, *BF16_OPS))
        raise InputError(
            f"target (--target): {RUNTIMES[options.kernels]} has no kernels for bfloat16, received "
            f"precision bf16 (--precision). Use precision fp16, or one of these targets: {able}."
        )


def _exported(
    source: "AnySource", opset: int | None, low: "ir.DataType", progress: Progress
) -> "ir.Model":
    """The float32 model, for bfloat16 at an opset that has it for convolutions, if ONNX can."""
    from tfmp.converters.onnx.export import export_onnx, to_opset
    from tfmp.converters.onnx.graph import BF16

    model = export_onnx(source, opset, progress)
    if low == BF16 and opset is None and model.opset_imports.get("", 1) < _BF16_OPSET:
        with suppress(ConversionError):  # an op without a rule: it stays at its opset
            model = to_opset(model, _BF16_OPSET)
    return model


def _problem_of(check: Callable[[], None]) -> str | None:
    try:
        check()
    except MachineError as error:
        return str(error).rstrip(".")
    return None


def _islands(
    model: "ir.Model",
    source: "AnySource",
    target: Target,
    samples: "Samples",
    edges: "Batch | None",
    progress: Progress,
) -> "tuple[MixedSearch | None, list[str] | None]":
    """The nodes of the float32 model that have to stay in FP32, and the rewrites before.

    Names the model's nodes. None for a model that computes in 16 bits already, whose FP32 parts are
    taken to be meant.
    """
    from tfmp.converters.drift import Comparison, DriftBudget
    from tfmp.converters.onnx.emulation import profile_of
    from tfmp.converters.onnx.fp16 import computes_in_half, prepare
    from tfmp.converters.onnx.graph import name_nodes
    from tfmp.converters.onnx.mixed import find_islands
    from tfmp.converters.onnx.rewrites import rewrite

    options: OnnxOptions = target.options
    prepare(model)
    if computes_in_half(model):
        return None, None
    rewritten = rewrite(model, options.keep_fp32)
    name_nodes(model)
    # Outputs of a sequence's steps mean other things than the whole sequence's.
    stepwise = bool(samples.layout.states)
    compare = partial(
        Comparison,
        source.name,
        source.outputs,
        tasks={} if stepwise else target.tasks,
        hints={} if stepwise else source.hints,
        metrics=target.metrics,
    )
    found = find_islands(
        model,
        samples.for_search(),
        target.budget or DriftBudget(),
        options.keep_fp32,
        progress,
        options.kernels,
        target.profile or profile_of(options.kernels),
        compare,
        edges,
    )
    return found, [*rewritten, *found.rewrites]


def _as_it_is(source: "AnySource", options: OnnxOptions) -> Path | None:
    """The ONNX file that a model is from, unless something else than its precision is to change."""
    from tfmp.converters.intake import Source
    from tfmp.converters.onnx.graph import external_files

    changes = options.opset or options.external_data or options.fp16_io
    if isinstance(source, Source) or changes or not source.as_written:
        return None
    path = source.origin.path  # weights in other files would be written beside them
    return path if path is not None and not external_files(path) else None


def _already_fp16(model: "ir.Model", precision: str) -> list[str]:
    """A note on a file that computes in 16 bits already, which `precision` may make float32."""
    from tfmp.converters.onnx.fp16 import computes_in_half
    from tfmp.converters.onnx.graph import BF16, infer_types, widen

    infer_types(model)
    if not computes_in_half(model):
        return []
    title = "BF16" if computes_in_half(model, BF16) else "FP16"
    if precision != "fp32":
        return [f"the file computes in {title} already, and stays as it is"]
    widen(model)
    return [
        f"{title} parts of the file compute in FP32; the digits that {title} rounded off stay lost"
    ]


def _call(samples: "Samples | None") -> "Batch":
    """The inputs of a call, as far as there are data to look at."""
    first = samples.first() if samples is not None else None
    if samples is None or first is None:
        return {}
    return next(iter(samples.calls(first.inputs)))


def _cpu_info() -> "RunnerInfo":
    import onnxruntime

    from tfmp.converters.runners import RunnerInfo

    details = {"onnxruntime": onnxruntime.__version__}
    return RunnerInfo("onnxruntime", "CPU", None, details)
