"""The emulator as it is now, beside outputs that a card has measured: no card is needed.

    python benchmarks/gpu/again.py [--profile ort-cuda:1.31]

Reads the corpus of `prepare.py` and what `report.py --take` unpacked, both under build/gpu, and
prints a line for each model whose foretold drift or verdict is another one than before the card was
seen. The last lines are the fit before and now, and the verdicts.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

from comparing import compared, widened
from corpus_files import read, read_predicted
from drift_line import fit
from report import RESULTS, confusion, number

from tfmp.converters.onnx.emulation import Profile
from tfmp.converters.runners import onnx_runner


def main() -> int:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", default="ort-cuda:1.31")
    profile = parser.parse_args().profile
    measured = json.loads((RESULTS / "results" / "onnx.json").read_text(encoding="utf-8"))["cases"]
    folders = [RESULTS / name / "corpus" for name in ("base", "files")]
    manifest = json.loads((folders[0] / "manifest.json").read_text(encoding="utf-8"))
    before, now, verdicts = [], [], []
    for entry in manifest["models"]:
        name = entry["name"]
        told = measured.get(name, {}).get("ways", {}).get("fp16", {})
        folder = next((f for f in folders if (f / name / "half.onnx").is_file()), None)
        if "drift" not in told or folder is None:
            continue
        batch, meaning = read(folder, entry)
        with onnx_runner(folder / name / "half.onnx", Profile.parse(profile)) as runner:
            outputs = runner.run(batch)
        found = compared(read_predicted(folder, entry)["reference"], outputs, meaning).to_dict()
        drift, old = number(found["drift"]), entry["predicted"][profile]
        truth = number(told["drift"]["drift"])
        before.append((number(old["drift"]), truth))
        now.append((drift, truth))
        verdicts.append((found["verdict"], told["drift"]["verdict"]))
        if drift != number(old["drift"]) or found["verdict"] != old["verdict"]:
            print(
                f"{name:32} measured {truth:.1e} {told['drift']['verdict']}, foretold "
                f"{number(old['drift']):.1e} {old['verdict']}, now {drift:.1e} {found['verdict']}"
                f"{_apart(name, outputs)}"
            )
    print(f"before {fit(before)}\nnow    {fit(now)}")
    rows, sentence = confusion(verdicts)
    print("\n".join("  ".join(row) for row in rows), sentence, sep="\n")
    return 0


def _apart(name: str, outputs: dict[str, np.ndarray]) -> str:
    """Whether the emulator's outputs are the card's, bit for bit."""
    with np.load(RESULTS / "outputs" / "onnx" / f"{name}.npz") as arrays:
        card = {key[5:]: widened(arrays[key]) for key in arrays.files if key.startswith("fp16/")}
    same = all(np.array_equal(outputs[key][: len(value)], value) for key, value in card.items())
    return ", bit for bit" if same else ""


if __name__ == "__main__":
    sys.exit(main())
