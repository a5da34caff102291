"""Figures as PNG or SVG. Needs the extra ``static``: kaleido, which drives a Chrome or Chromium."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from simgpu.errors import SimGPUError
from simgpu.metrics.report import Report
from simgpu.view import gantt
from simgpu.view.figure import Spec

WIDTH_PX: Final = 1280
_SCALE: Final = 2  # of PNG: sharp on paper and on dense screens


class PictureError(SimGPUError):
    """A picture that cannot be made."""


def require_pictures(option: str) -> None:
    """Check that pictures can be made.

    Parameters
    ----------
    option : str
        What asked for one, for the message.

    Raises
    ------
    PictureError
        When kaleido is not installed.
    """
    if find_spec("kaleido") is None:
        raise PictureError(
            f"{option}: kaleido is not installed; fix: pip install 'simgpu[static]', or print the HTML page"
        )


def timeline_picture(reports: Sequence[Report], kind: str, *, width_px: int = WIDTH_PX) -> bytes:
    """Draw the Gantt of several runs as a picture on white ground.

    Parameters
    ----------
    reports : sequence of Report
    kind : str
        ``png`` or ``svg``.
    width_px : int, pixels
        A PNG has twice as many.

    Returns
    -------
    bytes

    Raises
    ------
    PictureError
        When kaleido finds no browser, or the browser fails.
    """
    return picture(gantt.spec(reports), kind, width_px=width_px)


def picture(spec: Spec, kind: str, *, width_px: int = WIDTH_PX) -> bytes:
    """Draw a figure as a picture on white ground.

    Parameters
    ----------
    spec : Spec
    kind : str
        ``png`` or ``svg``.
    width_px : int, pixels

    Returns
    -------
    bytes

    Raises
    ------
    PictureError
        When kaleido is not installed, finds no browser, or the browser fails.
    """
    require_pictures("pictures")
    import plotly.graph_objects as go

    kaleido: Any = import_module("kaleido")  # an extra: may be absent
    size = {"width": width_px, "height": int(spec["layout"]["height"])}
    ground = {"paper_bgcolor": "#FFFFFF", "plot_bgcolor": "#FFFFFF", "template": "none"}
    figure = go.Figure(data=spec["data"], layout=spec["layout"] | size | ground)
    options = {"format": kind, **size, "scale": _SCALE if kind == "png" else 1}
    try:
        # without mathjax, which kaleido would load from another host
        found = kaleido.calc_fig_sync(figure, opts=options, kopts={"mathjax": False})
    except Exception as error:  # of kaleido, of its browser driver, of the browser: each its own, without a common base
        browser = "Chrome" in f"{type(error).__name__} {error}"
        problem = "kaleido finds no Chrome or Chromium" if browser else f"kaleido failed: {error}"
        fix = "install one, or set BROWSER_PATH to its executable"
        raise PictureError(f"no picture: {problem}; fix: {fix}") from None
    return found if isinstance(found, bytes) else str(found).encode()
