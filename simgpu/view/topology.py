"""The picture of a topology: NVLink islands, PCIe tree, NICs and fabric, with the bandwidth of every link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any, Final

from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Link
from simgpu.view.figure import Spec, layout, template
from simgpu.view.palette import INK
from simgpu.view.topology_layout import Layout, Place, lay_out

_WIDTH: Final = 1180  # pixels that a page gives a figure
_ROW: Final = 92
_NAMES: Final[Mapping[str, str]] = {
    "gpu": "GPU",
    "nic": "NIC",
    "cpu": "CPU",
    "memory": "memory",
    "pcie_switch": "PCIe",
    "nvswitch": "NVSwitch",
    "leaf": "leaf",
    "spine": "spine",
}
DEVICE_COLOURS: Final[Mapping[str, str]] = {
    "gpu": "#119283",
    "nic": "#6A4FB3",
    "cpu": "#2253A6",
    "memory": "#B9B29A",
    "pcie_switch": "#7C8894",
    "nvswitch": "#0B6158",
    "leaf": "#D25D1E",
    "spine": "#A8440F",
}
LINK_COLOURS: Final[Mapping[str, str]] = {
    "nvlink": "#119283",
    "c2c": "#86A92E",
    "pcie": "#7C8894",
    "socket": "#2253A6",
    "host_memory": "#B9B29A",
    "network": "#D25D1E",
}
_LINK_NAMES: Final[Mapping[str, str]] = {
    "nvlink": "NVLink",
    "c2c": "NVLink-C2C",
    "pcie": "PCIe",
    "socket": "CPU to CPU",
    "host_memory": "CPU memory",
    "network": "network",
}
_ARC_POINTS: Final = 14


def spec(cluster: Cluster) -> Spec:
    """Draw a cluster.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    dict
        Figure as plain data, for `simgpu.view.figure.to_figure`.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> [trace["name"] for trace in spec(build_cluster(pair, nodes=1, gpus=None))["data"] if trace["showlegend"]]
    ['NVLink 48 GB/s']
    """
    placed = lay_out(cluster)
    drawn = [
        link
        for link in cluster.links
        # The two directions of a link are alike and one line.
        if link.source in placed.places and link.target in placed.places and link.source < link.target
    ]
    traces = _lines(drawn, placed) + _squares(cluster, placed)
    height = int(placed.rows * _ROW) + 70
    shown = f"first {placed.nodes} of {cluster.nodes} nodes" if placed.nodes < cluster.nodes else ""
    notes = [{"text": shown, "x": 1, "y": 1, "xref": "paper", "yref": "paper", "showarrow": False}] if shown else []
    pad = 0.9
    return {
        "data": traces,
        "layout": layout(height=height, left=12, top=14, bottom=14)
        | {
            "xaxis": {"visible": False, "range": [-pad, placed.columns - 1 + pad], "fixedrange": False},
            "yaxis": {"visible": False, "fixedrange": True},
            "legend": {"orientation": "h", "y": -0.02, "x": 0, "title": {"text": "links, one direction:"}},
            "annotations": notes + _frames(placed, cluster)[1],
            "shapes": _frames(placed, cluster)[0],
        },
    }


def _lines(links: Sequence[Link], placed: Layout) -> list[dict[str, Any]]:
    groups: dict[tuple[str, int], list[Link]] = {}
    for link in links:
        groups.setdefault((link.kind, link.bytes_per_s), []).append(link)
    traces = []
    order = list(LINK_COLOURS)
    for (kind, rate), members in sorted(groups.items(), key=lambda item: (order.index(item[0][0]), -item[0][1])):
        xs: list[float | None] = []
        ys: list[float | None] = []
        middle_x, middle_y, about = [], [], []
        for link in members:
            way = _way(placed.places[link.source], placed.places[link.target], placed)
            xs += [*(x for x, _ in way), None]
            ys += [*(y for _, y in way), None]
            middle_x.append(way[len(way) // 2][0])
            middle_y.append(way[len(way) // 2][1])
            about.append(_about(link))
        colour = LINK_COLOURS[kind]
        width = max(1.0, min(7.0, _WIDTH / (placed.columns + 1) / 3, 1 + 1.1 * log2(max(1.0, rate / 1e10))))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": xs,
                "y": ys,
                "name": f"{_LINK_NAMES[kind]} {rate / 1e9:.4g} GB/s",
                "line": {"color": colour, "width": width},
                "opacity": 0.75,
                "hoverinfo": "skip",
                "showlegend": True,
            }
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": middle_x,
                "y": middle_y,
                "hovertext": about,
                "hoverinfo": "text",
                "marker": {"size": 12, "opacity": 0, "color": colour},
                "showlegend": False,
            }
        )
    return traces


def _way(a: Place, b: Place, placed: Layout) -> list[tuple[float, float]]:
    """Corners of a line: straight, upright onto a bar, or an arc between two of a row."""
    if a.kind == "nvswitch":
        a, b = b, a
    if b.kind == "nvswitch":
        return [(a.x, a.y), (a.x, (a.y + b.y) / 2), (a.x, b.y)]
    if a.y != b.y or a.kind not in ("gpu", "nic", "cpu"):
        return [(a.x, a.y), ((a.x + b.x) / 2, (a.y + b.y) / 2), (b.x, b.y)]
    up = 1 if a.kind == "cpu" else -1
    span = abs(a.x - b.x)
    depth = up * (0.45 + 1.1 * span / max(placed.columns / placed.nodes, span))
    if up > 0 and span <= max(placed.columns / placed.nodes, 1) / 2 + 1:
        return [(a.x, a.y), ((a.x + b.x) / 2, a.y), (b.x, b.y)]
    steps = [i / (_ARC_POINTS - 1) for i in range(_ARC_POINTS)]
    return [(a.x + (b.x - a.x) * t, a.y + 4 * depth * t * (1 - t)) for t in steps]


def _about(link: Link) -> str:
    nominal = f" ({link.nominal_bytes_per_s / 1e9:.4g} nominal)" if link.nominal_bytes_per_s != link.bytes_per_s else ""
    late = f", {link.latency_ns / 1000:g} us" if link.latency_ns else ""
    return template(f"{link.source} – {link.target}: {link.bytes_per_s / 1e9:.4g} GB/s{nominal}{late}")


def _squares(cluster: Cluster, placed: Layout) -> list[dict[str, Any]]:
    pixels = _WIDTH / (placed.columns + 1)
    traces = []
    for kind, colour in DEVICE_COLOURS.items():
        members = [place for place in placed.places.values() if place.kind == kind and not place.width]
        traces += [_bar(place, colour) for place in placed.places.values() if place.kind == kind and place.width]
        if not members:
            continue
        size = max(5.0, min(44.0, 0.86 * pixels)) * (0.7 if kind in ("pcie_switch", "memory") else 1.0)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [place.x for place in members],
                "y": [place.y for place in members],
                "text": [_label(place, size) for place in members],
                "textfont": {"color": "#FFFFFF", "size": 10 if size > 30 else 9},
                "hovertext": [template(_describe(cluster, place)) for place in members],
                "hoverinfo": "text",
                "marker": {
                    "symbol": "circle" if kind in ("leaf", "memory") else "square",
                    "size": size,
                    "color": colour,
                    "line": {"color": "#FFFFFF", "width": 1},
                },
                "showlegend": False,
                "name": _NAMES[kind],
            }
        )
    return traces


def _label(place: Place, size: float) -> str:
    number = place.name.rpartition("/")[2].lstrip("abcdefghijklmnopqrstuvwxyz_")
    if size < 13:
        return ""
    if size < 26:
        return number
    short = {"memory": "mem", "pcie_switch": "sw"}.get(place.kind, _NAMES[place.kind])
    return f"{short}<br>{number}" if place.kind != "memory" else short


def _describe(cluster: Cluster, place: Place) -> str:
    name = place.name.rpartition("/")[2]
    found = next((device for device in cluster.machine.devices if device.name == name), None)
    more = ""
    if found is not None and found.gpu is not None:
        more = f": {found.gpu.name}"
    elif found is not None and found.port is not None:
        more = f": {found.port.name}"
    return f"{place.name}{more}"


def _bar(place: Place, colour: str) -> dict[str, Any]:
    half = place.width / 2
    return {
        "type": "scatter",
        "mode": "lines+text",
        "x": [place.x - half, place.x, place.x + half],
        "y": [place.y] * 3,
        "text": ["", _NAMES[place.kind], ""],
        "textposition": "middle center",
        "textfont": {"color": "#FFFFFF", "size": 11},
        "line": {"color": colour, "width": 20},
        "hovertext": template(place.name),
        "hoverinfo": "text",
        "showlegend": False,
    }


def _frames(placed: Layout, cluster: Cluster) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rectangles around the nodes with their names, where there are several."""
    if cluster.nodes < 2:
        return [], []
    shapes, names = [], []
    for node in range(placed.nodes):
        mine = [place for place in placed.places.values() if place.name.startswith(f"node{node}/")]
        left, right = min(place.x for place in mine) - 0.7, max(place.x for place in mine) + 0.7
        top, bottom = max(place.y for place in mine) + 0.35, placed.bottom - 0.4
        shapes.append(
            {
                "type": "rect",
                "x0": left,
                "x1": right,
                "y0": bottom,
                "y1": top,
                "layer": "below",
                "line": {"color": "rgba(128,128,128,0.45)", "width": 1, "dash": "dot"},
                "fillcolor": "rgba(128,128,128,0.06)",
            }
        )
        names.append(
            {"text": f"node {node}", "x": left + 0.1, "y": top, "xanchor": "left", "yanchor": "top", "showarrow": False}
            | {"font": {"color": INK, "size": 11}}
        )
    return shapes, names
