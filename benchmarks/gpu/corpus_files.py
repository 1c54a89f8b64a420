"""The corpus: models as FP32 and FP16 files, samples, and the emulator's predictions.

Four groups. Probes ask kernels single questions (`probes.py`), files are the corpus of the tests,
trained models have real held-out samples and labels, and seeded ones are large for the sake of
time: their weights are drawn on both sides from the same seeds, so that only the graph travels.

A model is a folder with full.onnx, half.onnx, samples.npz and predicted.npz; manifest.json lists
them in the order in which they are to be measured.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from comparing import Meaning, compared, narrowed, widened
from onnx import numpy_helper

from tfmp.converters.onnx.emulation import Profile
from tfmp.converters.onnx.fp16 import to_fp16
from tfmp.converters.runners import OnnxRunner, onnx_runner
from tfmp.converters.shared.tensors import Batch

GROUPS = ("probes", "trained", "files", "seeded")

# Without the version of ONNX Runtime that the card's machine gets, which `prepare.py` adds.
PROFILES = ("gpu", "pessimistic", "ort-cuda:1.26", "tensorrt", "litert-gpu", "webgpu")

SAMPLES = 64
# Outputs come back from the card in files of limited size.
_MOST_VALUES = 65_536
# Initializers past this many values are drawn on both sides in seeded models.
_SEEDED_FROM = 4096
_SEED = "tfmp.gpu.seed:"


@dataclass(frozen=True)
class Entry:
    """One model of the corpus, before it is written.

    Attributes:
        name: a word, unique in the corpus.
        group: one of `GROUPS`.
        full, half: the FP32 and the FP16 file's model.
        batch: inputs by name.
        meaning: of the outputs.
        asks: the question of a probe.
    """

    name: str
    group: str
    full: onnx.ModelProto
    half: onnx.ModelProto | None
    batch: Batch
    meaning: Meaning = field(default_factory=Meaning)
    asks: str = ""


def write(
    folder: Path, groups: Sequence[str], profiles: Sequence[str], only: Sequence[str] = ()
) -> tuple[list[dict], list[str]]:
    """Writes the corpus.

    Args:
        folder: gets a folder for each model, and the manifest.
        groups: some of `GROUPS`.
        profiles: of the emulator.
        only: names of models; empty for all of the groups.

    Returns:
        The manifest's entries, and a sentence for every model that was left out.
    """
    written, left_out = [], []
    for make in makers(groups, only):
        try:
            entry = make()
            written.append(_write(folder / entry.name, entry, profiles))
            print(f"{entry.group}/{entry.name}", flush=True)
        except Exception as error:  # a model that cannot be converted is left out, and told
            lines = str(error).strip().splitlines() or [""]
            left_out.append(f"{make.__name__}: {type(error).__name__}: {lines[0][:200]}")
            print(f"left out: {left_out[-1]}", flush=True)
    text = json.dumps({"profiles": list(profiles), "models": written}, indent=1)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
    return written, left_out


def _write(folder: Path, entry: Entry, profiles: Sequence[str]) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    seeded = entry.half is None
    full = hollowed(entry.full) if seeded else entry.full
    onnx.save(full, folder / "full.onnx")
    if entry.half is not None:
        onnx.save(entry.half, folder / "half.onnx")
    complete(folder)
    reference = _run(OnnxRunner(folder / "full.onnx"), entry.batch)
    predicted = {f"reference/{name}": value for name, value in reference.items()}
    told: dict[str, dict] = {}
    distinct: dict[str, Batch] = {}
    same_as: dict[str, str] = {}
    for text in profiles if not seeded else [name for name in profiles if "cuda" in name]:
        outputs = _run(onnx_runner(folder / "half.onnx", Profile.parse(text)), entry.batch)
        told[text] = compared(reference, outputs, entry.meaning).to_dict()
        equal = (other for other, found in distinct.items() if _equal(outputs, found))
        same_as[text] = next(equal, text)
        if same_as[text] == text:
            distinct[text] = outputs
            predicted |= {f"{text}/{name}": value for name, value in outputs.items()}
    inputs = {f"input/{name}": narrowed(value) for name, value in entry.batch.items()}
    predicted = {name: narrowed(value) for name, value in predicted.items()}
    labels = {} if entry.meaning.labels is None else {"labels": entry.meaning.labels}
    np.savez_compressed(folder / "samples.npz", **inputs, **labels)  # type: ignore[arg-type]
    np.savez_compressed(folder / "predicted.npz", **predicted)  # type: ignore[arg-type]
    if seeded:  # only the graph travels
        onnx.save(full, folder / "full.onnx")
        (folder / "half.onnx").unlink()
    return {
        "name": entry.name,
        "group": entry.group,
        "asks": entry.asks,
        "tasks": dict(entry.meaning.tasks),
        "samples": max(len(value) for value in entry.batch.values() if value.ndim),
        "predicted": told,
        "same_as": same_as,
    }


def _run(runner: OnnxRunner, batch: Batch) -> Batch:
    with runner:
        return runner.run(batch)


def _equal(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(value, other[name], equal_nan=True) for name, value in one.items())


def entries(corpus: Path) -> dict[str, dict[str, Any]]:
    """The manifest's entries by name."""
    manifest = json.loads((corpus / "manifest.json").read_text(encoding="utf-8"))
    return {entry["name"]: entry for entry in manifest["models"]}


def read(corpus: Path, entry: dict[str, Any]) -> tuple[Batch, Meaning]:
    """Samples of a model, and the meaning of its outputs."""
    with np.load(corpus / entry["name"] / "samples.npz") as arrays:
        inputs = [name for name in arrays.files if name.startswith("input/")]
        batch = {name[6:]: widened(arrays[name]) for name in inputs}
        labels = arrays["labels"] if "labels" in arrays.files else None
    return batch, Meaning(entry["tasks"], labels)


def read_predicted(corpus: Path, entry: dict[str, Any]) -> dict[str, Batch]:
    """Outputs by profile, and those of the FP32 file on a CPU as "reference"."""
    found: dict[str, Batch] = {}
    with np.load(corpus / entry["name"] / "predicted.npz") as arrays:
        for key in arrays.files:
            profile, _, output = key.partition("/")
            found.setdefault(profile, {})[output] = widened(arrays[key])
    same_as: dict[str, str] = entry["same_as"]
    return {**found, **{profile: found[other] for profile, other in same_as.items()}}


# Weights that do not travel.


def hollowed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without its large weights; `complete` draws them."""
    hollow = onnx.ModelProto()
    hollow.CopyFrom(model)
    for initializer in hollow.graph.initializer:
        values = numpy_helper.to_array(initializer)
        if values.dtype == np.float32 and values.size >= _SEEDED_FROM:
            drawn = _drawn(initializer.name, values.shape, float(values.std()))
            told = f"{float(values.std())!r} {zlib.crc32(drawn.tobytes())}"
            hollow.metadata_props.add(key=f"{_SEED}{initializer.name}", value=told)
            initializer.ClearField("raw_data")
            initializer.ClearField("float_data")
    return hollow


def complete(folder: Path) -> None:
    """Draws the weights of a seeded model, and makes its FP16 file; others have theirs.

    Raises:
        ValueError: this machine's NumPy draws other numbers.
    """
    if (folder / "half.onnx").is_file():
        return
    model = onnx.load(folder / "full.onnx")
    seeds = {prop.key: prop.value for prop in model.metadata_props if prop.key.startswith(_SEED)}
    for initializer in model.graph.initializer:
        told = seeds.get(f"{_SEED}{initializer.name}")
        if told is None:
            continue
        deviation, checksum = told.split()
        drawn = _drawn(initializer.name, tuple(initializer.dims), float(deviation))
        if zlib.crc32(drawn.tobytes()) != int(checksum):
            raise ValueError(f"{initializer.name}: this NumPy draws other weights than the first")
        initializer.raw_data = drawn.tobytes()
    kept = [prop for prop in model.metadata_props if prop.key not in seeds]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    onnx.save(model, folder / "full.onnx")
    onnx.save(_half(model), folder / "half.onnx")


def _drawn(name: str, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return (deviation * rng.standard_normal(shape)).astype(np.float32)


def _half(model: onnx.ModelProto) -> onnx.ModelProto:
    return ir.to_proto(to_fp16(ir.from_proto(model))[0])


# The groups.


def makers(groups: Sequence[str], only: Sequence[str]) -> Iterator[Callable[[], Entry]]:
    """Functions that make the entries, named like the models."""
    found = {"probes": _probes, "trained": _trained, "files": _files, "seeded": _seeded}
    for group in groups:
        for make in found[group]():
            if not only or make.__name__ in only:
                yield make


def _named(make: Callable[[], Entry], name: str) -> Callable[[], Entry]:
    make.__name__ = name
    return make


def _probes() -> Iterator[Callable[[], Entry]]:
    from probes import PROBES

    for name, probe in PROBES.items():

        def make(name=name, probe=probe) -> Entry:
            models = probe.model(half=False), probe.model(half=True)
            return Entry(name, "probes", *models, probe.batch(), asks=probe.asks)

        yield _named(make, name)


def _exported(name: str, group: str, source: Any, batch: Callable[[int], Batch], **more) -> Entry:
    """The entry of an open source, on as many samples as its outputs allow."""
    from tfmp.converters.intake.source import OnnxSource
    from tfmp.converters.onnx.export import export_onnx

    model = source.model if isinstance(source, OnnxSource) else export_onnx(source)
    full = ir.to_proto(model.clone())
    converted, report = to_fp16(model.clone())
    if not report.half_nodes:
        raise ValueError("nothing computes in FP16")
    few = _run(OnnxRunner(full.SerializeToString()), batch(2))
    values = max(1, sum(value.size for value in few.values()) // 2)
    count = max(2, min(SAMPLES, _MOST_VALUES // values))
    half = None if group == "seeded" else ir.to_proto(converted)
    return Entry(name, group, full, half, batch(count), **more)


def _files() -> Iterator[Callable[[], Entry]]:
    """The corpus of the tests, the zoo among it where TFMP_ZOO names it."""
    from corpus import corpus

    for name, case in corpus(False, "keras onnx zoo").items():

        def make(name=name, case=case) -> Entry:
            source = case.open()
            return _exported(name, "files", source, lambda count: case.batch(source, count))

        yield _named(make, name)


def _trained() -> Iterator[Callable[[], Entry]]:
    """Tasks of `tfmp compare`, on held-out samples with labels."""
    from tfmp.experiment.loading import TASKS, load_task

    for name in TASKS:

        def make(name=name) -> Entry:
            import keras

            task = load_task(name)
            keras.utils.set_random_seed(0)
            model = task.build()
            model.fit(*task.train, epochs=task.epochs, batch_size=task.batch_size, verbose=0)
            return _keras(f"task_{name}", model, *task.test, dict(task.outputs or {}))

        yield _named(make, f"task_{name}")


def _keras(name: str, model: Any, x: Any, y: Any, tasks: dict[str, str]) -> Entry:
    from tfmp.converters.intake import open_source

    source = open_source(model)
    arrays = x if isinstance(x, dict) else {source.inputs[0].name: x}
    # Labels of boxes need a metric of the user's own.
    boxes = any(task.startswith("detection") for task in tasks.values())
    labels = None if y is None or boxes else np.asarray(y)
    entry = _exported(
        name,
        "trained",
        source,
        lambda count: {key: np.asarray(value)[:count] for key, value in arrays.items()},
    )
    count = max(2, min(300, _MOST_VALUES // max(1, _values_of_one(entry))))
    count = min(count, len(next(iter(arrays.values()))))
    batch = {key: np.asarray(value)[:count] for key, value in arrays.items()}
    meaning = Meaning(tasks, labels[:count] if labels is not None else None)
    return Entry(name, "trained", entry.full, entry.half, batch, meaning)


def _values_of_one(entry: Entry) -> int:
    few = {name: value[:2] for name, value in entry.batch.items()}
    outputs = _run(OnnxRunner(entry.full.SerializeToString()), few)
    return sum(value.size for value in outputs.values()) // 2


def _seeded() -> Iterator[Callable[[], Entry]]:
    """Models as large as those that people serve."""
    import training

    from tfmp.converters.intake import open_source
    from tfmp.converters.shared.tensors import synthetic_batch

    def resnet50() -> Any:
        import keras

        return keras.applications.ResNet50(weights=None)

    builders = {
        "large_resnet": resnet50,
        "large_encoder": training.transformer,
        "large_lstm": training.lstm,
    }
    for name, build in builders.items():

        def make(name=name, build=build) -> Entry:
            import keras

            keras.backend.clear_session()
            keras.utils.set_random_seed(0)
            source = open_source(build())
            return _exported(
                name,
                "seeded",
                source,
                lambda count: synthetic_batch(source.inputs, min(count, 8), 0),
            )

        yield _named(make, name)
