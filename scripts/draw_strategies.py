"""Draw the Gantt of every page of docs/strategies and docs/schedules into docs/images.

Needs chromium. ``python scripts/draw_strategies.py`` draws all pages, with names only those: ``... fsdp zero3``. Each
picture is the scenario of its page, played and drawn as ``simgpu run`` would, cut to the part of the step that shows
what a strategy moves when; schedules are drawn whole.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from plotly.offline import get_plotlyjs
from ruamel.yaml import YAML

from simgpu import Report, run
from simgpu.metrics.report import RankReport
from simgpu.view import gantt
from simgpu.view.figure import Spec, to_json

DOCS = Path(__file__).resolve().parent.parent / "docs"
FOLDERS = ("strategies", "schedules")  # of pages; pictures lie in the same folders of images
WIDTH_PX = {"strategies": 1000, "schedules": 1400}

PARTS = {
    "contrastive": ("backward", -1.5, 2.5),
    "recompute": ("backward", -8, 14),
    "sync_batch_norm": ("backward", -1.5, 5),
    "context_parallel": ("backward", -14, -6),
    "distributed_optimizer": ("end", -360, 200),
    "expert_parallel": ("backward", -12, 0),
    "fsdp": ("backward", -14, 24),
    "fsdp1": ("backward", -14, 24),
    "lora": ("backward", -60, 40),
    "tensor_parallel": ("backward", -3.4, 3.6),
    "zero1": ("end", -900, 150),
    "zero3": ("backward", -18, 36),
    "zeropp": ("backward", -40, 56),
}
"""The part of the step that is drawn: an instant, and ms from it; the first backward, or the end, after which the next
step follows. All of the step where a page is not named."""

RANKS = {"dataparallel": 2}
"""How many different ranks are drawn of a strategy; one where a page is not named. Of a schedule all are."""

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    "--virtual-time-budget=10000",
]


def scenario(page: Path) -> dict[str, object]:
    """Return the scenario on a page, named after its strategy."""
    (text,) = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return {"name": page.stem, **YAML(typ="safe").load(text)}


def window(report: Report, page: str) -> tuple[int, int]:
    """Return the ends of the part of the step that is drawn, in ns."""
    if page not in PARTS:
        return 0, report.step_time_ns
    instant, before_ms, after_ms = PARTS[page]
    compute = [bar for bar in report.ranks[0].bars if bar.stream == "compute"]
    backward_ns = next(bar.start_ns for bar in compute if bar.phase == "backward")
    at_ns = backward_ns if instant == "backward" else report.step_time_ns
    return at_ns + round(before_ms * 1e6), at_ns + round(after_ms * 1e6)


def cut(report: Report, low: int, high: int, ranks: int, *, transfers: bool) -> Report:
    """Return a report of a part of the step, with times from its start on; steps are all alike."""

    def bars(rank: RankReport) -> RankReport:
        shown = [
            replace(bar, start_ns=max(bar.start_ns + at, low) - low, end_ns=min(bar.end_ns + at, high) - low)
            for at in ((0, report.step_time_ns) if high > report.step_time_ns else (0,))
            for bar in rank.bars
            if bar.start_ns + at < high and bar.end_ns + at > low and (transfers or bar.stream == "compute")
        ]
        return replace(rank, bars=tuple(shown), members=rank.members if ranks > 1 else (rank.rank,))

    shown = tuple(bars(rank) for rank in report.ranks[:ranks])
    return replace(report, step_time_ns=high - low, ranks=shown, timeline=None)


def picture(page: Path) -> Spec:
    """Play the scenario of a page and build its figure."""
    (report,) = run(scenario(page))
    low, high = window(report, page.stem)
    schedule = page.parent.name == "schedules"  # of which all ranks are drawn, without messages, which are free
    ranks = len(report.ranks) if schedule else RANKS.get(page.stem, 1)
    spec = gantt.spec([cut(report, low, high, ranks, transfers=not schedule)], verdicts=False)
    layout = spec["layout"]
    # The header names the whole step, the axis says what of it is drawn; the legend takes the room that it needs.
    layout["annotations"][0]["text"] = gantt.spec([report], verdicts=False)["layout"]["annotations"][0]["text"]
    where = f"from {low / 1e6:,.0f} ms on" if page.stem in PARTS else "the whole step"
    layout["xaxis"]["title"]["text"] = f"ms, {where}"
    for trace in spec["data"]:
        if trace["name"].endswith("transfer"):
            trace["text"] = [words.partition(" ")[0] for words in trace["text"]]  # gather, reduce: what fits
        if trace["name"] == "cp transfer":  # its pale tint needs an outline on white
            trace["marker"]["line"] |= {"color": "#7A7A7A", "width": 0.7}
    groups = Counter(trace["legendgroup"] for trace in spec["data"])
    margin = layout["margin"] | {"t": 36 + 19 * max(groups.values()), "b": 44}
    height = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"] + margin["t"] + margin["b"]
    white = {"paper_bgcolor": "white", "plot_bgcolor": "white"}
    return spec | {"layout": layout | white | {"margin": margin, "height": height, "width": WIDTH_PX[page.parent.name]}}


def draw(page: Path) -> Path:
    """Draw the picture of a page."""
    spec = picture(page)
    html = (
        "<!DOCTYPE html><meta charset=utf-8><style>body{margin:0}</style><div id=gantt></div>"
        f"<script>{get_plotlyjs()}</script><script>const figure={to_json(spec)};"
        "Plotly.newPlot('gantt',figure.data,figure.layout,{staticPlot:true})</script>"
    )
    target = DOCS / "images" / page.parent.name / f"{page.stem}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or "google-chrome"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text(html, encoding="utf-8")
        size = f"--window-size={WIDTH_PX[page.parent.name]},{spec['layout']['height']}"
        profile = f"--user-data-dir={folder}/profile"
        command = [chromium, *FLAGS, profile, f"--screenshot={target}", size, f"file://{folder}/page.html"]
        subprocess.run(command, check=True, capture_output=True)
    return target


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for path in sorted(path for folder in FOLDERS for path in (DOCS / folder).glob("*.md")):
        if path.stem != "README" and (not wanted or path.stem in wanted):
            drawn = draw(path)
            print(f"{drawn.relative_to(DOCS.parent)}: {drawn.stat().st_size / 1000:.0f} kB")
