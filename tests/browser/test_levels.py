"""A timeline of many bars in a real browser: it opens, and every zoom shows what is there."""

import pytest

from simgpu.view.report import write_html
from tests.view.many import many_bars

pytestmark = pytest.mark.browser
LEVEL = "document.getElementById('timeline').dataset.level"
BARS = "document.getElementById('timeline').calcdata.reduce((n, t) => n + t.length, 0)"


@pytest.fixture(scope="module", params=[1_000, 20_000, 1_000_000], ids="{:,} bars".format)
def opened(request, chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("levels") / "report.html"
    report = many_bars(request.param)
    write_html([report], path, title=report.name, verdict=report.name)
    page = chromium.new_page(viewport={"width": 1500, "height": 1000})
    heard, asked = [], []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri(), timeout=120_000)
    page.wait_for_selector("#composition .main-svg", timeout=120_000)
    wait(page, "document.documentElement.dataset.drawn", "yes")
    if request.param > 10_000:
        wait(page, LEVEL, "overview")
    yield page, report, request.param
    page.close()
    assert heard == []
    assert asked == [path.as_uri()]


def wait(page, expression, wanted):
    """Poll: the page's own policy forbids evaluating strings in it."""
    for _ in range(1200):
        if page.evaluate(expression) == wanted:
            return
        page.wait_for_timeout(50)
    raise AssertionError((expression, page.evaluate(expression), wanted))


def zoom(page, low_ms, high_ms):
    page.evaluate("document.getElementById('timeline').dataset.level = ''")
    page.evaluate(
        f"Plotly.relayout('timeline', {{'xaxis.range[0]': {low_ms}, 'xaxis.range[1]': {high_ms}}}).then(() => true)"
    )


def test_zoom(opened):
    page, report, count = opened
    full_ms = report.step_time_ns / 1e6
    if count <= 10_000:
        assert page.evaluate(BARS) >= count * 0.9
        return
    zoom(page, 0.3 * full_ms, 0.6 * full_ms)
    wait(page, LEVEL, "merged" if count > 100_000 else "exact" if 0.3 * count < 2_500 else "merged")
    assert 1_000 < page.evaluate(BARS) <= 2_500
    low_ms, high_ms = 0.5 * full_ms, 0.5 * full_ms + 1
    zoom(page, low_ms, high_ms)
    wait(page, LEVEL, "exact")
    meant = sum(
        bar.end_ns > low_ms * 1e6 and bar.start_ns < high_ms * 1e6 for rank in report.ranks for bar in rank.bars
    )
    assert abs(page.evaluate(BARS) - meant) <= 2 * len(report.ranks)  # neighbours of one pass are drawn as one bar


def test_hover_and_legend(opened):
    page, report, count = opened
    if count <= 10_000:
        return
    middle = report.step_time_ns / 2e6
    zoom(page, middle, middle + 0.2)
    wait(page, LEVEL, "exact")
    page.wait_for_timeout(300)
    box = page.evaluate(
        """() => {
            const wide = [...document.querySelectorAll('#timeline .barlayer .point path')]
                .map(e => e.getBoundingClientRect())
                .filter(r => r.width > 40 && r.x > 300 && r.right < 1400 && r.y > 0);
            return {x: wide[0].x + wide[0].width / 2, y: wide[0].y + wide[0].height / 2};
        }"""
    )
    page.mouse.move(box["x"], box["y"])
    page.wait_for_selector("#timeline .hoverlayer .hovertext", timeout=30_000)
    words = page.locator("#timeline .hoverlayer").text_content()
    assert "rank 0" in words
    assert " ms, from " in words
    page.evaluate("Plotly.restyle('timeline', {visible: 'legendonly'}, [0]).then(() => true)")
    hidden = page.evaluate("document.getElementById('timeline').data[0].name")
    zoom(page, middle + 0.05, middle + 0.3)
    wait(page, LEVEL, "exact")
    page.wait_for_timeout(200)
    shown = page.evaluate("document.getElementById('timeline').data.map(t => [t.name, t.visible])")
    assert [name for name, visible in shown if visible == "legendonly"] == [hidden]
    zoom(page, 0, report.step_time_ns * 1.01e-6)
    wait(page, LEVEL, "overview")


def test_the_critical_path_at_every_zoom(opened):
    page, report, _ = opened
    full_ms = report.step_time_ns / 1e6
    button = page.locator(".tools [data-tool=critical]")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert page.locator(".tools [data-tool=arrows]").is_hidden()  # no Timeline, nothing known of releases
    path = (
        "[...document.querySelectorAll('#timeline .overlay path.critical:not(.halo, .heads)')]"
        ".reduce((n, path) => n + path.getAttribute('d').length, 0)"
    )
    at_rest = page.evaluate(path)
    assert at_rest > 100
    zoom(page, 0.5 * full_ms, 0.5 * full_ms + 1)
    page.wait_for_timeout(1500)
    zoomed = page.evaluate(path)
    assert 100 < zoomed <= max(at_rest, 400_000)
    button.click()
    assert page.evaluate(path) == 0
    zoom(page, 0, report.step_time_ns * 1.01e-6)
    page.wait_for_timeout(500)


def test_memory_zooms_along(opened):
    page, report, _ = opened
    full_ms = report.step_time_ns / 1e6
    zoom(page, 0.25 * full_ms, 0.5 * full_ms)
    wait(page, "document.getElementById('memory').layout.xaxis.range.map(Math.round)", [
        round(0.25 * full_ms), round(0.5 * full_ms)
    ])  # fmt: skip
    zoom(page, 0, report.step_time_ns * 1.01e-6)
    page.wait_for_timeout(500)
