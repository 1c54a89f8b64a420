"""ONNX Runtime's execution providers: which ones load, and why the others do not.

A built-in provider is listed as available whether or not its libraries load. Therefore a session is
opened with each provider, in a separate process: a provider that crashes takes nothing with it, and
the runtime's messages about missing libraries are read instead of shown.
"""

import json
import re
import subprocess
import sys

_PATIENCE_SECONDS = 60

_SCRIPT = """
import json
import onnx
import onnxruntime as ort

value = onnx.helper.make_tensor_value_info
tensors = [value(name, onnx.TensorProto.FLOAT, [1]) for name in ("x", "y")]
node = onnx.helper.make_node("Identity", ["x"], ["y"])
graph = onnx.helper.make_graph([node], "g", tensors[:1], tensors[1:])
opset = onnx.helper.make_opsetid("", 17)
model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
for name in ort.get_available_providers():
    try:
        session = ort.InferenceSession(model, providers=[name], enable_fallback=0)
        found = name in session.get_providers()
    except Exception:
        found = False
    print(json.dumps([name, found]), flush=True)
"""


def read_providers() -> dict[str, str]:
    """By built-in provider, the reason why it does not load; an empty text if it loads.

    Returns:
        An empty mapping if ONNX Runtime is not installed or does not start.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_providers(done.stdout, done.stderr)


def parse_providers(answers: str, log: str) -> dict[str, str]:
    """Reads the script's answers, and the reasons for missing libraries from the runtime's log."""
    found = {}
    for line in answers.splitlines():
        if line.startswith("["):
            name, works = json.loads(line)
            found[name] = "" if works else _reason(name, log)
    return found


def _reason(provider: str, log: str) -> str:
    short = provider.removesuffix("ExecutionProvider").lower()
    library = rf"libonnxruntime_providers_{short}\.so with error: (.*)"
    match = re.search(library, log)
    return match[1].strip() if match else "it does not start"
