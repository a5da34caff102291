"""Pages whose text lies elsewhere: the READMEs and CONTRIBUTING, and the lists of strategies and schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
FILES = {"index": "README.md", "chinese": "README.zh.md", "contributing": "CONTRIBUTING.md"}
LISTS = ("strategies/README", "schedules/README")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True}


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Put a file of the repository before a page's own text, its links as they are from here; list a folder's pages."""
    if name in FILES:
        app.env.note_dependency(str(ROOT / FILES[name]))
        text = (ROOT / FILES[name]).read_text(encoding="utf-8").replace("](docs/", "](")
        for page, file in FILES.items():
            text = text.replace(f"]({file})", f"]({page}.md)")
        source[0] = f"{text}\n\n{source[0]}"
    if name in LISTS:
        source[0] += "\n\n```{toctree}\n:glob:\n:hidden:\n\n*\n```\n"
