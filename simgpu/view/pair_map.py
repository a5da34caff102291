"""Bandwidth between all pairs of GPUs as a map of colours."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.metrics.bandwidth import PairBandwidth
from simgpu.view.figure import Spec, layout, text


def spec(pairs: Sequence[PairBandwidth], ranks: int) -> Spec:
    """Draw what each GPU can send each other one as a map of colours.

    Parameters
    ----------
    pairs : sequence of PairBandwidth
    ranks : int
        GPUs in all.

    Returns
    -------
    dict

    Examples
    --------
    >>> one = PairBandwidth(source=0, target=1, kind="nvlink", bytes_per_s=48 * 10**9, link="a")
    >>> spec([one], 2)["data"][0]["z"]
    [[None, 48.0], [None, None]]
    """
    z: list[list[float | None]] = [[None] * ranks for _ in range(ranks)]
    hover = [[""] * ranks for _ in range(ranks)]
    for pair in pairs:
        z[pair.source][pair.target] = pair.bytes_per_s / 1e9
        hover[pair.source][pair.target] = text(f"{pair.kind}, slowest {pair.link}")
    heat = {
        "type": "heatmap",
        "z": z,
        "customdata": hover,
        "colorscale": [[0, "#EAF2F6"], [0.5, "#5DAFE6"], [1, "#0D2A66"]],
        "colorbar": {"title": {"text": "GB/s"}},
        "hovertemplate": "GPU %{y} to %{x}: %{z:.4g} GB/s<br>%{customdata}<extra></extra>",
        "texttemplate": "%{z:.3g}" if ranks <= 16 else "",
        "xgap": 1,
        "ygap": 1,
    }
    side = min(760, 140 + 34 * ranks)
    axis = {"dtick": 1 if ranks <= 32 else 8, "constrain": "domain", "showgrid": False, "zeroline": False}
    return {
        "data": [heat],
        "layout": layout(height=side, left=60)
        | {
            "xaxis": axis | {"title": {"text": "to GPU"}},
            "yaxis": axis | {"title": {"text": "from GPU"}, "autorange": "reversed", "scaleanchor": "x"},
        },
    }
