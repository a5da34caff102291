"""Notebook 2 in JupyterLab, as its reader has it: run all, move a slider, see the Gantt change."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")
pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")

pytestmark = pytest.mark.browser
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "02_bubbles.ipynb"
PLOT = ".jp-OutputArea-output .js-plotly-plot"
VERDICT = ".jp-OutputArea-output .widget-html-content b"
QUIET = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/extensionmanager-extension:plugin": {"enabled": False},
}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Serve a copy of the notebook on loopback; its own settings, and nothing of this user's."""
    home = tmp_path_factory.mktemp("lab")
    work = home / "work"
    work.mkdir()
    (work / NOTEBOOK.name).write_bytes(NOTEBOOK.read_bytes())
    for plugin, settings in QUIET.items():
        package, name = plugin.split(":")
        path = home / "settings" / package / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    port, token = free_port(), secrets.token_hex(16)
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
              "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
              "IPYTHONDIR": "ipython"}  # fmt: skip
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={work}",
        "--LabApp.extension_manager=readonly", "--LabApp.news_url=None",
    ]  # fmt: skip
    said = home / "server.log"
    with said.open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=work,
            env=os.environ | {name: str(home / folder) for name, folder in places.items()},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if answers(f"{address}/api/status?token={token}"):
                break
            assert server.poll() is None, said.read_text(encoding="utf-8", errors="replace")
            time.sleep(0.2)
        else:
            raise AssertionError(said.read_text(encoding="utf-8", errors="replace"))
        yield f"{address}/lab/tree/{NOTEBOOK.name}?token={token}"
    finally:
        server.terminate()
        server.wait(timeout=60)


PROMPTS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(one => one.textContent)"


def run_all(page):
    """Run all cells; JupyterLab skips them without a word while the kernel is not ready."""
    page.get_by_text("| Idle").wait_for(timeout=120_000)
    for _ in range(10):
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        for _ in range(50):
            page.wait_for_timeout(100)
            if any(prompt not in ("[ ]:", "") for prompt in page.evaluate(PROMPTS)):
                return
    raise AssertionError(page.evaluate(PROMPTS))


@pytest.fixture(scope="module")
def opened(lab, chromium):
    page = chromium.new_page(viewport={"width": 1500, "height": 1250})
    page.heard, page.asked = [], []
    page.on("console", lambda one: page.heard.append(f"{one.text} {one.location}") if one.type == "error" else None)
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(lab, timeout=120_000)
    run_all(page)
    page.locator(PLOT).first.wait_for(timeout=120_000)
    yield page
    page.close()


def until(page, expression, wanted):
    for _ in range(600):
        found = page.evaluate(expression)
        if wanted(found):
            return found
        page.wait_for_timeout(50)
    raise AssertionError((expression, found))


BARS = f"""(() => {{
    const plot = document.querySelector('{PLOT}');
    const drawn = plot?.querySelectorAll('.barlayer .point path').length ?? 0;
    const meant = (plot?.calcdata ?? []).reduce((n, trace) => n + trace.length, 0);
    return drawn === meant ? drawn : 0;
}})()"""


def test_all_cells_ran(opened):
    until(opened, PROMPTS, lambda found: found and all(text not in ("[ ]:", "[*]:") for text in found))
    assert opened.locator(".jp-OutputArea-output[data-mime-type*=stderr]").count() == 0
    assert opened.get_by_text("Traceback").count() == 0


def test_a_slider_changes_the_gantt_and_the_verdict(opened):
    plot = opened.locator(PLOT).first
    plot.scroll_into_view_if_needed()
    before = until(opened, BARS, bool)
    wide = f"document.querySelector('{PLOT}')._fullLayout.width / document.querySelector('{PLOT}').clientWidth"
    assert until(opened, wide, lambda share: share > 0.95) <= 1  # of the cell
    words = opened.locator(VERDICT).first
    said = words.inner_text()
    assert "17.9 %" in said  # 7 / (32 + 7)
    microbatches, schedule = (opened.locator(".widget-hslider .noUi-handle").nth(i) for i in (0, 1))
    microbatches.focus()
    opened.keyboard.press("ArrowRight")  # 32 -> 48 micro-batches
    after = until(opened, BARS, lambda bars: bars > before)
    assert after - before == pytest.approx(2 * 8 * 16, abs=16)  # a forward and a backward pass of each on each stage
    opened.get_by_text("12.7 %").first.wait_for()  # 7 / (48 + 7)
    schedule.focus()
    opened.keyboard.press("ArrowRight")  # 1F1B -> ZB-H1: the weight gradient apart
    until(opened, BARS, lambda bars: bars > after + 300)
    assert words.inner_text() != said


def test_nobody_complained_and_no_other_host_was_asked(opened, lab):
    host = lab.split("/lab")[0].removeprefix("http://")
    schemes = (f"http://{host}/", f"ws://{host}/", "data:", "blob:")
    assert [url for url in opened.asked if not url.startswith(schemes)] == []
    assert opened.heard == []
