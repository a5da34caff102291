"""A timeline of many bars in a real browser: it opens, and every zoom, hover and button shows what is there."""

import re

import pytest

from simgpu.view import gantt
from simgpu.view.report import write_html
from tests.view.many import many_bars, many_releases

pytestmark = pytest.mark.browser
LEVEL = "document.getElementById('timeline').dataset.level"
BARS = "document.getElementById('timeline').calcdata.reduce((n, t) => n + t.length, 0)"
RANGE = "document.getElementById('timeline').layout.xaxis.range"
MEMORY = "document.getElementById('memory').layout.xaxis.range"
FEW = 10_000  # bars that are drawn one by one at every zoom


@pytest.fixture(scope="module", params=[1_000, 20_000, 1_000_000], ids="{:,} bars".format)
def opened(request, chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("levels") / "report.html"
    report = many_bars(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gantt, "released", many_releases)
        write_html([report], path, title=report.name, verdict=report.name)
    page = chromium.new_page(viewport={"width": 1500, "height": 1000})
    heard, asked = [], []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri(), timeout=120_000)
    page.wait_for_selector("#composition .main-svg", timeout=120_000)
    until(page, "document.documentElement.dataset.drawn", "yes")
    page.evaluate("document.getElementById('timeline').scrollIntoView()")
    if request.param > FEW:
        until(page, LEVEL, "overview")
    yield page, report, request.param
    page.close()
    assert heard == []
    assert asked == [path.as_uri()]


def until(page, expression, wanted):
    """Poll: the page's own policy forbids evaluating strings in it."""
    meets = wanted if callable(wanted) else (lambda found: found == wanted)
    for _ in range(1200):
        found = page.evaluate(expression)
        if meets(found):
            return found
        page.wait_for_timeout(50)
    raise AssertionError((expression, found, wanted))


def zoom(page, low_ms, high_ms):
    """Show a window, and wait until timeline and memory do."""
    page.evaluate(f"Plotly.relayout('timeline', {{'xaxis.range': [{low_ms}, {high_ms}]}}).then(() => true)")
    until(page, MEMORY, [low_ms, high_ms])


def whole(page, report):
    zoom(page, 0, report.step_time_ns * 1.01e-6)


def near(page, report):
    """Show so little that every bar stands alone."""
    middle = round(report.step_time_ns / 2e6, 3)
    zoom(page, middle, middle + 0.2)


def wide_bar(page, *, which=0):
    """Middle of a bar that is wide enough to point at, of those that are seen."""
    return page.evaluate(
        """(which) => {
            const wide = [...document.querySelectorAll('#timeline .barlayer .point path')]
                .map(e => e.getBoundingClientRect())
                .filter(r => r.width > 40 && r.x > 300 && r.right < 1400 && r.y > 0 && r.bottom < 900);
            const box = wide.at(which);
            return [box.x + box.width / 2, box.y + box.height / 2];
        }""",
        which,
    )


def shapes(page, kind):
    return page.locator(f"#timeline .overlay .{kind}").count()


def test_zoom_draws_the_window(opened):
    page, report, count = opened
    full_ms = report.step_time_ns / 1e6
    if count <= FEW:
        assert page.evaluate(BARS) >= count * 0.9
        return
    overview = page.evaluate(BARS)
    zoom(page, 0.3 * full_ms, 0.6 * full_ms)
    until(page, LEVEL, "merged")
    assert 1_000 < page.evaluate(BARS) <= 2_500
    low_ms, high_ms = 0.5 * full_ms, 0.5 * full_ms + 1
    zoom(page, low_ms, high_ms)
    until(page, LEVEL, "exact")
    meant = sum(
        bar.end_ns > low_ms * 1e6 and bar.start_ns < high_ms * 1e6 for rank in report.ranks for bar in rank.bars
    )
    assert abs(page.evaluate(BARS) - meant) <= 2 * len(report.ranks)  # neighbours of one pass are drawn as one bar
    whole(page, report)
    until(page, LEVEL, "overview")
    assert page.evaluate(BARS) == overview > 100


def test_zoom_by_mouse_and_by_button_and_back(opened):
    page, report, _ = opened
    whole(page, report)
    full = page.evaluate(RANGE)
    box = page.locator("#timeline .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 70, steps=4)
    page.mouse.up()
    dragged = until(page, RANGE, lambda found: found[0] > 0.1 * full[1])
    assert dragged[0] == pytest.approx(300 / box["width"] * full[1], rel=0.02)
    assert dragged[1] == pytest.approx(600 / box["width"] * full[1], rel=0.02)
    until(page, MEMORY, dragged)
    page.mouse.move(box["x"] + 400, box["y"] + 70)
    page.locator("#timeline [data-attr=zoom][data-val=in]").click()
    nearer = until(page, RANGE, lambda found: found[1] - found[0] < 0.7 * (dragged[1] - dragged[0]))
    assert nearer[0] > dragged[0]
    page.locator("#timeline [data-title='Reset axes']").click()
    until(page, RANGE, pytest.approx(full))
    until(page, MEMORY, pytest.approx(full))


def test_hover_draws_an_arrow_from_what_released_the_bar(opened):
    page, report, _ = opened
    near(page, report)
    page.mouse.move(*wide_bar(page))
    page.wait_for_selector("#timeline .hoverlayer .hovertext", timeout=30_000)
    words = page.locator("#timeline .hoverlayer").text_content()
    assert re.search(r"[\d.]+ us, from [\d.,]+ ms", words)
    assert "released by" in words
    assert "rank 0" in words
    assert shapes(page, "chosen") == 2  # the bar, and what released it
    assert shapes(page, "release.heads") == 1
    arrows = page.locator(".tools [data-tool=arrows]")
    arrows.click()
    page.mouse.move(*wide_bar(page, which=1))
    page.wait_for_timeout(300)
    assert shapes(page, "chosen") == 0
    arrows.click()
    page.mouse.move(5, 5)


def test_click_follows_it_back_to_the_start(opened):
    page, report, count = opened
    near(page, report)
    page.mouse.click(*wide_bar(page, which=-1))
    bars = int(until(page, "document.getElementById('timeline').dataset.chain", lambda found: int(found or 0) > 3))
    assert bars >= min(20_000, 0.3 * count / len(report.ranks))
    assert shapes(page, "chain") >= 2
    page.keyboard.press("Escape")
    assert shapes(page, "chain") == 0
    page.mouse.move(5, 5)


def test_numbers_stand_in_the_bars_that_have_room(opened):
    page, report, count = opened
    near(page, report)
    shown = page.locator("#timeline .words text").all_text_contents()
    assert "<all_reduce>" in shown
    numbers = {word for word in shown if word.isdecimal()}
    middle = report.step_time_ns / 2
    assert numbers <= {str(bar.microbatch) for bar in report.ranks[0].bars}
    assert str(next(bar.microbatch for bar in report.ranks[0].bars if bar.end_ns > middle)) in numbers
    whole(page, report)
    if count > FEW:
        assert page.locator("#timeline .words text").count() == 0


def test_the_legend_hides_a_category_at_every_zoom(opened):
    page, report, count = opened
    whole(page, report)
    kinds = page.locator("#timeline .legendtext").all_text_contents()
    near(page, report)
    assert page.locator("#timeline .legendtext").all_text_contents() == kinds
    hidden = "document.getElementById('timeline').data.filter(t => t.visible === 'legendonly').map(t => t.name)"
    name = page.evaluate("document.getElementById('timeline').data[0].name")
    page.locator("#timeline .legendtoggle").first.click()
    until(page, hidden, [name])
    middle = round(report.step_time_ns / 2e6, 3)
    zoom(page, middle + 0.05, middle + 0.3)
    assert page.evaluate(hidden) == [name]
    whole(page, report)
    assert page.evaluate(hidden) == [name]
    page.locator("#timeline .legendtoggle").first.click()
    until(page, hidden, [])
    if count > FEW:
        until(page, LEVEL, "overview")


def test_dark_and_light(opened):
    page, report, _ = opened
    near(page, report)
    colour = """[...document.querySelectorAll('#timeline .ytick text, #timeline .overlay .moment')]
        .map(one => getComputedStyle(one)).map(one => one.fill + one.stroke)[0]"""
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour), page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    until(page, ground, "rgb(15, 20, 25)")
    assert page.evaluate(colour) != light[0]
    page.emulate_media(color_scheme="light")
    until(page, ground, light[1])
    assert page.evaluate(colour) == light[0]


def test_the_critical_path_at_every_zoom(opened):
    page, report, _ = opened
    whole(page, report)
    button = page.locator(".tools [data-tool=critical]")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    path = (
        "[...document.querySelectorAll('#timeline .overlay path.critical:not(.halo, .heads)')]"
        ".reduce((n, path) => n + path.getAttribute('d').length, 0)"
    )
    at_rest = page.evaluate(path)
    assert at_rest > 100
    near(page, report)
    assert 100 < page.evaluate(path) <= max(at_rest, 400_000)
    button.click()
    assert page.evaluate(path) == 0
    whole(page, report)
