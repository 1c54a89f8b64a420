"""What doctor says differently of the frameworks below Keras."""

from dataclasses import dataclass

from tfmp.machine import Machine


@dataclass(frozen=True)
class Framework:
    """One of them.

    Attributes:
        title: as people write it.
        steps: how Keras runs training steps on it.
        with_cuda: how to install it for cards; "{}" is the generation of CUDA that the driver runs.
        sharing: settings in the environment with which it takes a card's memory as it needs it;
            empty if it always does.
        takes, share: the part of the memory that it takes else, and the variable that decides it.
        xla_flags: the variable that can have XLA compile clusters of every graph.
        brings_cuda: whether it can have CUDA's libraries in itself, and use cards on Windows.
        built: name of the one whose build `Machine.cuda` is about.
    """

    title: str
    steps: str
    with_cuda: str
    built: str
    sharing: tuple[str, ...] = ()
    takes: str = ""
    share: str = ""
    xla_flags: str = ""
    brings_cuda: bool = False


# By their names as backends and as packages.
_FRAMEWORKS = {
    "tensorflow": Framework(
        "TensorFlow",
        "Keras compiles steps if jit_compile='auto' finds it safe",
        'Run: pip install "tensorflow[and-cuda]"',
        built="tensorflow",
        sharing=("TF_FORCE_GPU_ALLOW_GROWTH=true", "TF_FORCE_GPU_ALLOW_GROWTH=1"),
        takes="nearly all",
        xla_flags="TF_XLA_FLAGS",
    ),
    "jax": Framework(
        "JAX",
        "JAX compiles every step with XLA",
        'Run: pip install "jax[cuda{}]"',
        built="tensorflow",
        sharing=("XLA_PYTHON_CLIENT_PREALLOCATE=false",),
        takes="0.75",
        share="XLA_PYTHON_CLIENT_MEM_FRACTION",
    ),
    "torch": Framework(
        "PyTorch",
        "PyTorch runs operation by operation, without XLA; jit_compile=True takes its own compiler",
        "Install its build for CUDA {}: pytorch.org/get-started/locally has the command",
        built="torch",
        brings_cuda=True,
    ),
}


def framework_of(machine: Machine) -> Framework:
    """The framework that Keras runs on."""
    return _FRAMEWORKS.get(machine.backend, _FRAMEWORKS["tensorflow"])


def built_framework(machine: Machine) -> Framework:
    """The framework whose build `Machine.cuda` is about."""
    return _FRAMEWORKS[framework_of(machine).built]


def install_with_cuda(framework: Framework, machine: Machine) -> str:
    """How to install a framework so that it uses the machine's cards."""
    runs = machine.nvidia.cuda
    return framework.with_cuda.format(13 if runs and runs >= (13, 0) else 12)
