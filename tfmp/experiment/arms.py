"""Arms of the experiment: the ways to train a model, and the files that can be made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfmp.shared.wording import listed


@dataclass(frozen=True)
class Training:
    """One way to train.

    Attributes:
        policy: dtype policy of the layers; "float16" also has its weights in float16.
        loss_scale: as in `tfmp.MixedPrecision`; "calibrated" for the static scale that
            `tfmp.calibrate` finds on the initial weights; a mapping for a schedule by hand; None
            for a loss that is not scaled.
        title: the arm in words.
    """

    policy: str
    loss_scale: str | float | Mapping[int, float] | None
    title: str


@dataclass(frozen=True)
class FileKind:
    """One kind of static file.

    Attributes:
        format: "onnx" or "tflite".
        precision: as in `tfmp.converters.convert`.
        options: further options of that call, as for a TFLite file whose overflows are repaired.
        title: the kind in words.
    """

    format: str
    precision: str
    options: Mapping[str, Any]
    title: str


# The arm that all others are compared with.
BASE = "float32"

TRAININGS = {
    BASE: Training("float32", None, "trained in float32"),
    "mixed_float16": Training(
        "mixed_float16", "dynamic", "mixed precision: float16 with float32 weights, loss scaling"
    ),
    "mixed_bfloat16": Training(
        "mixed_bfloat16", None, "mixed precision: bfloat16 with float32 weights"
    ),
    "mixed_float16_static": Training(
        "mixed_float16", "calibrated", "mixed precision, static loss scale from its gradients"
    ),
    "mixed_float16_manual": Training(
        "mixed_float16",
        {0: 2.0**8, 100: 2.0**12},
        "mixed precision, loss scale by hand: 2^8, and 2^12 from step 100 on",
    ),
    "mixed_float16_unscaled": Training(
        "mixed_float16", 1.0, "mixed precision, the loss not scaled"
    ),
    "float16": Training("float16", None, "all in float16, weights too, the loss not scaled"),
    "float16_scaled": Training("float16", "dynamic", "all in float16, weights too, loss scaling"),
}

FILES = {
    "onnx": FileKind("onnx", "fp16", {}, "static FP16 ONNX file"),
    "tflite": FileKind("tflite", "fp16", {}, "static FP16 TFLite file"),
    "onnx_mixed": FileKind("onnx", "mixed", {}, "ONNX file, FP16 where the budget allows it"),
    "tflite_repaired": FileKind("tflite", "fp16", {"repair": True}, "FP16 TFLite file, repaired"),
}

# Trainings with float32 weights: only from them can a float32 original be converted.
CONVERTIBLE = ("float32", "mixed_float16", "mixed_bfloat16")


@dataclass(frozen=True)
class Arm:
    """A training, and perhaps a file that is made of the trained model.

    Attributes:
        name: "TRAINING" or "TRAINING+FILE".
    """

    name: str

    @property
    def training(self) -> str:
        """The training's name in `TRAININGS`."""
        return self.name.partition("+")[0]

    @property
    def file(self) -> str:
        """The file's name in `FILES`; empty for the trained model itself."""
        return self.name.partition("+")[2]

    @property
    def title(self) -> str:
        """The arm in words."""
        title = TRAININGS[self.training].title
        return f"{FILES[self.file].title}, {title}" if self.file else title


ARMS = (
    *TRAININGS,
    *(f"{training}+{file}" for training in CONVERTIBLE for file in FILES),
)

# Of these only the loss scale differs.
LOSS_SCALES = tuple(name for name in TRAININGS if name.startswith("mixed_float16"))

DEFAULT_ARMS = (
    *(name for name in TRAININGS if name not in LOSS_SCALES[1:]),
    *(f"{training}+{file}" for training in CONVERTIBLE[:2] for file in ("onnx", "tflite")),
)


def check_arms(names: Sequence[str]) -> tuple[Arm, ...]:
    """The arms, each once, with float32 and the training of every file, trainings first.

    Raises:
        ValueError: there is no such arm.
    """
    for name in names:
        if name not in ARMS:
            raise ValueError(
                f"arms expects names out of {listed(list(ARMS), len(ARMS))}; received {name!r}."
            )
    wanted = {BASE, *names, *(name.partition("+")[0] for name in names)}
    return tuple(Arm(name) for name in ARMS if name in wanted)
