"""One colour per thing, the same in every figure.

Cool and solid is work, warm and solid is communication nobody hid, hatched grey is idleness. A transfer is the tint
of its axis: where a pale bar has nothing above it to hide behind, the strong one stands on the compute row. What can
meet on one row stays apart for normal and for colour-blind eyes (a test measures it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

INK: Final = "#24292f"
"""Text on the page's own ground; the style sheet finds this colour and turns it over in dark mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    """How one kind of thing is drawn and named.

    Parameters
    ----------
    label : str
        What the legend says.
    colour : str
        ``#RRGGBB``; what is hatched lets the ground through, so that it stays pale on light and on dark.
    hatch : str
        Plotly pattern shape, empty for a solid fill.
    opacity : float
        Of the ground between the lines of the hatching.
    group : str
        Heading of the legend under which it stands.
    """

    label: str
    colour: str
    hatch: str = ""
    opacity: float = 1.0
    group: str = ""

    @property
    def ink(self) -> str:
        """Colour of words inside."""
        if self.hatch:
            return INK
        red, green, blue = _channels(self.colour)
        return "#222222" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#FFFFFF"

    @property
    def marker(self) -> dict[str, Any]:
        """Plotly's marker for bars of this kind."""
        if not self.hatch:
            return {"color": self.colour, "line": {"color": "#FFFFFF", "width": 0.7}}
        red, green, blue = _channels(self.colour)
        ground = f"rgba({red},{green},{blue},{self.opacity:g})"
        lines = f"rgba({red},{green},{blue},{min(1.0, self.opacity + 0.45):g})"
        return {
            "color": ground,
            "line": {"color": ground, "width": 0.7},
            "pattern": {"shape": self.hatch, "fgcolor": lines, "bgcolor": ground, "size": 6, "solidity": 0.2},
        }


def tint(colour: str, strength: float) -> str:
    """Mix a colour with white.

    Parameters
    ----------
    colour : str
        ``#RRGGBB``.
    strength : float
        1 keeps the colour, 0 gives white.

    Returns
    -------
    str

    Examples
    --------
    >>> tint("#0040FF", 0.5)
    '#80A0FF'
    """
    return "#" + "".join(f"{int(255 - (255 - channel) * strength + 0.5):02X}" for channel in _channels(colour))


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


_AXES: Final[Mapping[str, tuple[str, str]]] = {
    "tp": ("#992354", "tensor parallel"),
    "cp": ("#F9F970", "context parallel"),
    "ep": ("#330680", "expert parallel"),
    "pp": ("#E5A801", "pipeline"),
    "dp": ("#D25D1E", "data parallel"),
}
_WORK: Final = "Computing"
_WAIT: Final = "Waiting"
_MOVE: Final = "Moving data"

GANTT: Final[Mapping[str, Paint]] = {
    "forward": Paint(label="forward", colour="#5DAFE6", group=_WORK),
    "recompute": Paint(label="recompute", colour="#B8D4ED", group=_WORK),
    "backward": Paint(label="backward", colour="#2253A6", group=_WORK),
    "weight": Paint(label="weight gradient", colour="#9655F6", group=_WORK),
    "optimizer": Paint(label="optimizer", colour="#119283", group=_WORK),
    "compute": Paint(label="other compute", colour="#6C8CA8", group=_WORK),
    "bubble": Paint(label="bubble (pipeline idle)", colour="#808080", hatch="/", opacity=0.1, group=_WAIT),
    "straggler": Paint(label="straggler (late member)", colour="#5A5A5A", hatch="x", opacity=0.55, group=_WAIT),
    "host": Paint(label="host (CPU)", colour="#707070", hatch=".", opacity=0.35, group=_WAIT),
    **{
        f"exposed.{axis}": Paint(label=f"exposed {axis} ({name})", colour=colour, group=_WAIT)
        for axis, (colour, name) in _AXES.items()
    },
    **{
        f"transfer.{axis}": Paint(label=f"{axis} transfer", colour=tint(colour, 0.55), group=_MOVE)
        for axis, (colour, _) in _AXES.items()
    },
    "transfer": Paint(label="copy", colour="#B9B29A", group=_MOVE),
    "rendezvous": Paint(label="not all partners there yet", colour="#A89F80", hatch="-", opacity=0.08, group=_MOVE),
}
"""What a bar of the Gantt can be, in the order of the legend."""

CLASSES: Final[Mapping[str, Paint]] = {
    "compute.gemm": Paint(label="matrix products", colour="#387099"),
    "compute.attention": Paint(label="attention", colour="#0D0747"),
    "compute.memory_bound": Paint(label="memory-bound ops", colour="#93B7B1"),
    "compute.recompute": Paint(label="recompute", colour=GANTT["recompute"].colour),
    "compute.optimizer": Paint(label="optimizer", colour=GANTT["optimizer"].colour),
    **{key: GANTT[key] for key in (*(f"exposed.{axis}" for axis in _AXES), "bubble", "straggler", "host")},
}
"""The accounting classes of ``metrics.activity.CLASSES``."""

OVER: Final = "#D13B3B"
"""Limits and what goes over them."""

RANK_COLOURS: Final = ("#6A4FB3", "#3F7FD0", "#2A9D8F", "#86A92E", "#D99A1C")
"""Curves of rank classes, first stage to last, readable on light and dark."""

_MEMORY: Final[Mapping[str, str]] = {
    "weights": "#332288",
    "gradients": "#CC6677",
    "optimizer": "#117733",
    "activations": "#DDCC77",
    "recomputed": "#44AA99",
    "gathered": "#88CCEE",
    "buckets": "#AA4499",
    "communication": "#999933",
    "logits": "#882255",
    "context": "#BBBBBB",
    "backward gradients": "#661100",
    "workspaces": "#6699CC",
    "optimizer temporaries": "#888888",
}
_SPARE: Final = ("#E5C494", "#B3B3B3", "#DDDDDD", "#777777", "#AADDAA")


def memory_order(category: str) -> tuple[int, str]:
    """Sort key that stacks memory categories the same way in every bar: what stays first, what comes and goes after."""
    known = _known(category)
    return len(_MEMORY) if known is None else [*_MEMORY].index(known), category


def _known(category: str) -> str | None:
    """Return the longest name that a category holds: ``backward gradients`` are no ``gradients``."""
    return max((name for name in _MEMORY if name in category.lower()), key=len, default=None)


def memory_colours(categories: tuple[str, ...]) -> dict[str, str]:
    """Colours of memory categories: fixed for the known ones, in order of appearance for others.

    Parameters
    ----------
    categories : tuple of str
        Names as the Report gives them, such as ``optimizer state`` or ``saved activations``.

    Returns
    -------
    dict of str to str

    Notes
    -----
    Colours are Paul Tol's colour-blind safe "muted" scheme (SRON/EPS/TN/09-002).

    Examples
    --------
    >>> memory_colours(("weights", "saved_activations", "surprise"))
    {'weights': '#332288', 'saved_activations': '#DDCC77', 'surprise': '#E5C494'}
    """
    colours: dict[str, str] = {}
    spare = 0
    for category in categories:
        name = _known(category)
        colour = None if name is None else _MEMORY[name]
        if colour is None or colour in colours.values():
            colour = _SPARE[spare % len(_SPARE)]
            spare += 1
        colours[category] = colour
    return colours
