"""What doctor says differently of the frameworks below Keras."""

from dataclasses import dataclass

from tfmp.machine import Machine


@dataclass(frozen=True)
class Framework:
    """One of them.

    Attributes:
        title: as people write it.
        package: its name on the package index.
        steps: how Keras runs training steps on it.
        with_cuda: how to install it for cards; "{}" is the generation of CUDA that the driver runs.
        brings_cuda: whether it can have CUDA's libraries in itself, and use cards on Windows.
        built: the framework whose build `Machine.cuda` is about.
    """

    title: str
    package: str
    steps: str
    with_cuda: str
    brings_cuda: bool = False
    built: str = ""


# By the name of the backend.
_FRAMEWORKS = {
    "tensorflow": Framework(
        "TensorFlow",
        "tensorflow",
        "Keras compiles steps if jit_compile='auto' finds it safe",
        'Run: pip install "tensorflow[and-cuda]"',
    ),
    "jax": Framework(
        "JAX",
        "jax",
        "JAX compiles every step with XLA",
        'Run: pip install "jax[cuda{}]"',
        built="TensorFlow",
    ),
    "torch": Framework(
        "PyTorch",
        "torch",
        "PyTorch runs operation by operation, without XLA; jit_compile=True compiles with its own",
        "Install its build for CUDA {}: pytorch.org/get-started/locally has the command",
        brings_cuda=True,
    ),
}


def framework_of(machine: Machine) -> Framework:
    """The framework that Keras runs on."""
    return _FRAMEWORKS.get(machine.backend, _FRAMEWORKS["tensorflow"])


def built_framework(machine: Machine) -> Framework:
    """The framework whose build `Machine.cuda` is about."""
    own = framework_of(machine)
    return next((one for one in _FRAMEWORKS.values() if one.title == own.built), own)


def install_with_cuda(framework: Framework, machine: Machine) -> str:
    """How to install a framework so that it uses the machine's cards."""
    runs = machine.nvidia.cuda
    return framework.with_cuda.format(13 if runs and runs >= (13, 0) else 12)
