"""docs/verdicts.md quotes the product, and shows a picture of each kind of loss."""

import pytest
from repository import BENCHMARKS, DOCS
from scripts import script

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="needs the checkout's docs/")


PICTURES = script(BENCHMARKS / "verdict_pictures.py")


def test_the_page_shows_each_picture_with_its_sentence():
    quoted = PICTURES.quoted(PICTURES.PAGE.read_text(encoding="utf-8"))
    assert sorted(quoted) == sorted(picture.name for picture in PICTURES.ALL)
    files = {path.stem: path.stat().st_size for path in PICTURES.PICTURES.glob("*.png")}
    assert sorted(files) == sorted(quoted)
    assert max(files.values()) < 80_000


@pytest.mark.parametrize("picture", PICTURES.ALL, ids=lambda picture: picture.name)
def test_a_quotation_is_what_the_report_says(picture):
    page = PICTURES.PAGE.read_text(encoding="utf-8")
    assert PICTURES.quoted(page)[picture.name] == PICTURES.sentence(picture)


def test_a_picture_is_the_same_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(PICTURES, "PICTURES", tmp_path)
    picture = PICTURES.ALL[0]
    drawn = []
    for _ in range(2):
        PICTURES.save(picture)
        drawn.append((tmp_path / f"{picture.name}.png").read_bytes())
    assert drawn[0] == drawn[1]
