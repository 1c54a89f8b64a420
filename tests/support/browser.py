"""Pages in headless Chromium: what they print, what they ask for, and where things are on them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium (apt-get install chromium)"
)


def browse(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Opens a page in headless Chromium with a profile of its own."""
    return subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            f"--user-data-dir={page.parent / 'profile'}",
            "--virtual-time-budget=2000",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def requested(log: Path) -> set[str]:
    """URLs in Chromium's network log, without those the browser asks for by itself."""
    text = log.read_text(encoding="utf-8", errors="replace")
    found = set(re.findall(r'"url":"((?:https?|wss?)://[^"]+)"', text))
    return {url for url in found if "google" not in url and "gvt1" not in url}


def measured(html: str, script: str, folder: Path, width: int) -> Any:
    """What a JavaScript expression is on a page that forbids scripts, at a width in pixels."""
    page = folder / "probed.html"
    # A copy with a script of the test's own.
    probe = f"addEventListener('load',()=>{{document.title=JSON.stringify({script})}})"
    html = html.replace("default-src 'none'", "script-src 'unsafe-inline'")
    page.write_text(html.replace("</body>", f"<script>{probe}</script></body>"), encoding="utf-8")
    result = browse(page, f"--window-size={width},800", "--dump-dom")
    found = re.search(r"<title>(.*?)</title>", result.stdout)
    assert found is not None
    return json.loads(found[1])
