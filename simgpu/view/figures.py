"""The figures of a report by name, as a page shows them and as a notebook asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from simgpu.metrics.report import Report
from simgpu.view import breakdown, composition, gantt, links, memory
from simgpu.view.figure import Spec, to_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

FIGURES: Final[Mapping[str, Callable[..., Spec]]] = {
    "timeline": gantt.spec,
    "breakdown": breakdown.spec,
    "memory": memory.spec,
    "links": links.spec,
    "composition": composition.spec,
}
"""Functions of (reports, left=pixels), in the order of the page."""


def draw(reports: Sequence[Report], name: str) -> go.Figure:
    """Draw one figure of several runs.

    Parameters
    ----------
    reports : sequence of Report
    name : str
        ``timeline``, ``breakdown`` (of the step), ``memory`` (over the step), ``links`` (their use
        over the step) or ``composition`` (of the peak of memory).

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    KeyError
        For another name.

    Examples
    --------
    >>> len(draw([], "breakdown").data)
    0
    """
    return to_figure(FIGURES[name](reports))
