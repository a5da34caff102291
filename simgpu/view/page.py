"""The frame of every page: one self-contained HTML document that opens anywhere, offline."""

from __future__ import annotations

import html as markup
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from simgpu.view.figure import Spec, to_json

# The page may run its own script and style and nothing else: no request to any host, even if a name slipped through.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)


def document(
    *,
    title: str,
    verdict: str,
    sections: Sequence[tuple[str, str, str]],
    figures: Mapping[str, Spec],
    bad: bool = False,
    warnings: str = "",
    subtitle: str = "",
) -> str:
    """Write a page.

    Parameters
    ----------
    title, verdict, subtitle : str
        Plain text. The first line of the verdict is the headline, each further line a finding under it.
    sections : sequence of (name, explanation, content)
        Plain text twice, then HTML.
    figures : mapping of str to Spec
        Drawn into the `slot` of the same name.
    bad : bool
        The headline is bad news.
    warnings : str, HTML

    Returns
    -------
    str, HTML
        Complete document of 5 MB, most of it plotly.js; makes no request to any host.

    Examples
    --------
    >>> page = document(title="nothing <yet>", verdict="", sections=[], figures={})
    >>> "nothing &lt;yet&gt;" in page, page.count("<h1")
    (True, 1)
    """
    body = "\n".join(
        f"<section><h2>{name}</h2>\n{f'<p class=how>{how}</p>' if how else ''}\n{content}</section>"
        for name, how, content in sections
    )
    data = "\n".join(
        f'<script type="application/json" data-figure="{name}">{to_json(figure)}</script>'
        for name, figure in figures.items()
    )
    lines = [line.replace(" %", "\u00a0%") for line in verdict.splitlines() if line.strip()]  # never "15.8" / "%"
    headline, *findings = lines or [title]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{markup.escape(title)} – SimGPU</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<header>
<p class="title">{markup.escape(title)}</p>
<h1{' class="bad"' if bad else ""}>{markup.escape(headline)}</h1>
{"".join(f"<p class=finding>{markup.escape(line)}</p>" for line in findings)}
{warnings}
{f"<p class=how>{markup.escape(subtitle)}</p>" if subtitle else ""}
</header>
{body}
<footer>Simulated by SimGPU. This page is self-contained and makes no request to any host.</footer>
<script>{_plotly_js()}</script>
{data}
<script>{"".join(_asset(name) for name in ("levels.js", "curves.js", "overlay.js", "words.js", "page.js"))}</script>
</body>
</html>
"""


def slot(name: str) -> str:
    """Return the place of a figure.

    Parameters
    ----------
    name : str

    Returns
    -------
    str, HTML

    Examples
    --------
    >>> slot("timeline")
    '<div class="figure" id="timeline"></div>'
    """
    return f'<div class="figure" id="{name}"></div>'


def tools(name: str) -> str:
    """Return the buttons of a timeline; the page's script hides those that it has no data for.

    Parameters
    ----------
    name : str
        Of its figure.

    Returns
    -------
    str, HTML

    Examples
    --------
    >>> tools("timeline").count("<button")
    3
    """
    return (
        f'<div class="tools" data-for="{name}">'
        '<button data-tool="critical" aria-pressed="false">Critical path</button>'
        '<button data-tool="arrows" aria-pressed="true">Arrows: what released a bar</button>'
        '<button data-tool="clear" hidden>Clear</button>'
        '<span class="said">Click a bar to follow what released it, back to the start.</span></div>'
    )


def _plotly_js() -> str:
    """Return plotly.js as the package plotly ships it, without importing that, which takes 50 ms."""
    found = find_spec("plotly")
    folders = () if found is None else found.submodule_search_locations or ()
    for folder in folders:
        return (Path(folder) / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    raise ModuleNotFoundError("No module named 'plotly'", name="plotly")


def _asset(name: str) -> str:
    return files("simgpu.view").joinpath(name).read_text(encoding="utf-8")
