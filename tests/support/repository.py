"""Where things are in the repository that the tests belong to."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BENCHMARKS = ROOT / "benchmarks"
SUPPORT = ROOT / "tests" / "support"
