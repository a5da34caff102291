"""A figure as plain data: built once, shown by plotly.py in a notebook or by plotly.js in a page."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

import numpy as np

from simgpu.view.palette import INK

if TYPE_CHECKING:
    import plotly.graph_objects as go

Spec = dict[str, Any]
"""``{"data": [...], "layout": {...}}`` with numpy arrays as columns."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
GRID = "rgba(128,128,128,0.25)"
ASIDE: Spec = {"gridcolor": GRID, "zeroline": False, "tickangle": 0, "ticklabeloverflow": "allow"}
"""Of axes in figures that zoom: plotly.js would measure labels to turn or hide them, which lays out the page anew."""
LABEL_CHARACTERS = 28  # of a variant's name beside a bar

# Typed arrays that plotly.js decodes (its b64encoded specification); 64-bit integers are not among them.
_DTYPES = frozenset({"f8", "f4", "i4", "i2", "i1", "u4", "u2", "u1"})


def text(value: object) -> str:
    """Escape a text for plotly, which reads ``<b>``, ``<a href>`` and entities in labels and hovers.

    Examples
    --------
    >>> text("<script> & co")
    '&lt;script&gt; &amp; co'
    """
    return html.escape(str(value), quote=False)


def template(value: object) -> str:
    """Escape a text that becomes part of a hover template, where ``%{x}`` would be filled in.

    Examples
    --------
    >>> template("50 %{y}")
    '50 %&#123;y}'
    """
    return text(value).replace("%{", "%&#123;")


def shorten(value: str, width: int) -> str:
    """Cut a text with an ellipsis, at a word unless that would cost half of it.

    Parameters
    ----------
    value : str
    width : int, characters

    Examples
    --------
    >>> shorten("one two three", 10), shorten("one_two_three", 10)
    ('one two …', 'one_two_ …')
    """
    if len(value) <= width:
        return value
    head = value[: width - 2]
    word = head.rpartition(" ")[0]
    return (word if 2 * len(word) > width else head).rstrip() + " …"


def payload(size_bytes: float) -> str:
    """Write bytes that travel, in decimal units like the bandwidths they are compared with.

    Examples
    --------
    >>> payload(26_953_662_464), payload(512)
    ('26.95 GB', '512 B')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{float(f'{size_bytes / scale:.4g}'):.10g} {unit}"
    return f"{size_bytes:.10g} B"


def layout(*, height: int, left: int, top: int = 40, bottom: int = 44, **more: Any) -> Spec:
    """Layout that all figures share: transparent ground, system font, fixed left margin so that axes line up.

    Parameters
    ----------
    height, left, top, bottom : int, pixels
        Size of the figure and its margins.
    **more
        Further entries of plotly's layout.
    """
    return {
        "height": height,
        "margin": {"l": left, "r": 24, "t": top, "b": bottom},
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {
            "align": "left",
            "bgcolor": "#FFFFFF",
            "bordercolor": "#57606A",
            "font": {"family": FONT, "size": 12, "color": "#1B1F24"},
        },
        "hovermode": "closest",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "rgba(128,128,128,0.55)", "activecolor": "#3F7FD0"},
    } | more


def time_axis(end_ms: float, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Horizontal axis of a step, the same in every figure that has one.

    Parameters
    ----------
    end_ms : float, milliseconds
        Where the last step ends.
    notes : sequence of str
        Lines under its title.

    Examples
    --------
    >>> time_axis(100.0)["range"]
    [0, 101.0]
    """
    title = "time since the start of the step (ms)" + "".join(f"<br>{words}" for words in notes)
    return {
        "range": [0, end_ms * 1.01],
        "title": {"text": title, "font": {"size": 12}},
        "ticks": "outside",
        "tickformat": ",~f",
        **ASIDE,
    }


def left_margin(labels: Sequence[str]) -> int:
    """Pixels that the longest label needs at 12 px, so that no label is cut; Chinese signs are twice as wide.

    Examples
    --------
    >>> left_margin(["rank 0"]), left_margin(["stage 12 · ranks 96–103 · compute"])
    (110, 245)
    """
    return max(110, 14 + max((sum(map(_width, label)) for label in labels), default=0))


def _width(sign: str) -> int:
    return 13 if east_asian_width(sign) in "WF" else 9 if "\u0370" <= sign < "\u2000" else 7  # Greek, Cyrillic, ...


def to_figure(spec: Spec) -> go.Figure:
    """Make a ``plotly.graph_objects.Figure`` of a spec; imports plotly."""
    import plotly.graph_objects as go

    return go.Figure(data=spec["data"], layout=spec["layout"] | {"template": "none"})


def to_json(value: object) -> str:
    r"""Write JSON that may stand inside ``<script>``: arrays as base64 typed arrays, no ``<``, ``>`` or ``&``.

    Examples
    --------
    >>> to_json({"name": "</script>", "x": np.array([1.0])})
    '{"name":"\\u003c/script\\u003e","x":{"dtype":"f8","bdata":"AAAAAAAA8D8="}}'
    """
    dumped = json.dumps(value, default=_array, separators=(",", ":"), allow_nan=False)
    return dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _array(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    code = value.dtype.str[1:]
    if code not in _DTYPES:
        value, code = value.astype("f8"), "f8"
    little = np.ascontiguousarray(value, dtype="<" + code if code[1] != "1" else code)
    return {"dtype": code, "bdata": base64.b64encode(little.tobytes()).decode("ascii")}
