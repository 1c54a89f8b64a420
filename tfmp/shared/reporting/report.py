"""Report: a conclusion and sections, which are rendered here in every form."""

import json
from pathlib import Path
from typing import ClassVar

from tfmp.shared.html_page import TALL, framed
from tfmp.shared.report_files import JsonObject, check_report_path, plain_fields, writing_report
from tfmp.shared.reporting.markdown import to_markdown
from tfmp.shared.reporting.sections import Section, page


class Report:
    """What reports have in common; each is a frozen dataclass that says what is its own.

    Attributes:
        SUFFIXES: of the files that `save` writes.
        SCHEMA: name of its form as JSON.
        DERIVED: properties that its JSON has beside its fields.
    """

    SUFFIXES: ClassVar[tuple[str, ...]] = (".json", ".html")
    SCHEMA: ClassVar[str] = ""
    DERIVED: ClassVar[tuple[str, ...]] = ()

    @property
    def heading(self) -> str:
        """Of the page and its window."""
        raise NotImplementedError

    @property
    def conclusion(self) -> str:
        """Stands first in every form, a line for each sentence; empty if a section says it."""
        return ""

    @property
    def signal(self) -> tuple[str, str]:
        """PASS, FAIL or INCONCLUSIVE, and its words; empty for a report without a verdict."""
        return "", ""

    def sections(self, on_page: bool = True) -> list[Section]:
        """The parts of the report.

        Args:
            on_page: whether with figures and long tables.
        """
        raise NotImplementedError

    def to_dict(self) -> JsonObject:
        """The whole report, as plain JSON types."""
        return {"schema": self.SCHEMA, **plain_fields(self)}

    def __str__(self) -> str:
        parts = [self.conclusion]
        for section in self.sections(on_page=False):
            for each in section.tables:
                if each.rows:
                    caption = [each.caption] if each.caption else []
                    parts += ["", *caption, str(each)]
            parts += ["", *section.lines] if section.lines else []
        return "\n".join(parts).strip()

    def _repr_html_(self) -> str:
        """The page, in a notebook."""
        _, told = self.signal
        said = [told] if told else []
        parts = self.sections()
        drawn = any(part.pictures or part.drawings for part in parts)
        rows = sum(len(table.rows) for part in parts for table in part.tables)
        height = TALL if drawn else min(TALL, 12 + 2 * (rows + len(parts)))
        headline = ". ".join([*said, self._paragraph() or self.heading])
        return framed(headline, self._page(parts), height)

    def _page(self, parts: list[Section]) -> str:
        return page(self.heading, self.heading, self._paragraph(), parts, *self.signal)

    def _paragraph(self) -> str:
        return ". ".join(self.conclusion.splitlines())

    def _markdown(self) -> str:
        _, told = self.signal
        heading = f"{self.heading}: {told}" if told else self.heading
        return to_markdown(heading, self._paragraph(), self.sections(on_page=False))

    def save(self, path: str | Path) -> Path:
        """Writes the report: `.json` as data, `.html` as a self-contained page, `.md` as Markdown.

        Raises:
            ValueError: the path has another suffix, or the file cannot be written.
        """
        forms = {
            ".json": lambda: json.dumps(self.to_dict(), indent=2, allow_nan=False),
            ".html": lambda: self._page(self.sections()),
            ".md": self._markdown,
        }
        path = check_report_path(path, self.SUFFIXES)
        text = forms[path.suffix]()
        with writing_report(path) as new:
            new.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        return path
