"""The drift report: its dataclasses, and their JSON, HTML, Markdown and JUnit renderings."""
