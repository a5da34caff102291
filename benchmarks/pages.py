"""The report in a real browser: time to open, and to zoom to painted, at 1,000, 20,000 and 1,000,000 bars.

Needs chromium and playwright. ``python benchmarks/pages.py [COUNT ...]``. A zoom is timed from the call to the frame
after the last picture of it: the timeline, its window drawn anew, and memory on the same axis. CPU is that of the
page's main thread, which a busy machine does not lengthen much.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import CDPSession, sync_playwright

from simgpu.view.report import write_html
from tests.view.many import many_bars

COUNTS = (1_000, 20_000, 1_000_000)
SHARES = (0.5, 0.2, 0.05, 0.01, 0.002, 0.0005)  # of the step that a zoom shows
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip

ZOOM = """async ([low, high]) => {
    const target = document.getElementById('timeline');
    const windows = 'level' in target.dataset;
    if (windows) target.dataset.level = '';
    const began = performance.now();
    await Plotly.relayout(target, {'xaxis.range': [low, high]});
    while (windows && !target.dataset.level) await new Promise((done) => setTimeout(done, 1));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - began;
}"""


def busy_ms(tools: CDPSession) -> float:
    """CPU time of the page's main thread so far, milliseconds."""
    found = tools.send("Performance.getMetrics")["metrics"]
    return 1e3 * next(one["value"] for one in found if one["name"] == "TaskDuration")


def main() -> None:
    """Print one row a size."""
    counts = [int(word.replace(",", "")) for word in sys.argv[1:]] or COUNTS
    heads = ("bars", "write s", "MB", "open s", "zoom ms", "worst", "CPU ms", "worst", "heap MB")
    print(" ".join(f"{head:>9}" for head in heads))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for count in counts:
            report = many_bars(count)
            path = Path(folder) / "report.html"
            began = time.perf_counter()
            write_html([report], path, title=report.name, verdict="")
            written = time.perf_counter() - began
            page = browser.new_page(viewport={"width": 1600, "height": 1000})
            began = time.perf_counter()
            page.goto(path.as_uri(), timeout=120_000)
            while page.evaluate("document.documentElement.dataset.drawn") != "yes":
                page.wait_for_timeout(10)
            opened = time.perf_counter() - began
            full = report.step_time_ns / 1e6
            tools = page.context.new_cdp_session(page)
            tools.send("Performance.enable", {"timeDomain": "threadTicks"})
            walls, cpus = [], []
            for shift in (1.0, 0.8, 1.2):
                for share in SHARES:
                    low = full * (1 - share) / 2 * shift
                    before = busy_ms(tools)
                    walls.append(page.evaluate(ZOOM, [low, low + full * share]))
                    cpus.append(busy_ms(tools) - before)
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            page.close()
            size = path.stat().st_size / 1e6
            zooms = (statistics.median(walls), max(walls), statistics.median(cpus), max(cpus))
            print(
                f"{count:9,} {written:9.1f} {size:9.1f} {opened:9.2f} "
                + " ".join(f"{value:9.0f}" for value in (*zooms, heap)),
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
