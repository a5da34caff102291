"""The report opened in a real browser: draws, answers the mouse, and talks to nobody."""

from itertools import pairwise

import pytest

from simgpu.view.report import write_html
from tests.view.reports import four_variants, pipeline

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("page") / "report.html"
    return write_html(four_variants(), target, title="<script>alert(1)</script>", verdict="Four variants")


def until(page, condition):
    """Poll a JavaScript condition from outside: the page's own policy forbids evaluating strings in it."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


@pytest.fixture(scope="module")
def opened(chromium, path):
    page = chromium.new_page(viewport={"width": 1500, "height": 1000})
    page.heard = []
    page.asked = []
    page.on("console", lambda message: page.heard.append(message.text))
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.on("dialog", lambda dialog: (page.heard.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("#composition .main-svg")
    yield page
    page.close()


def test_opens_without_error_or_request(opened, path):
    opened.wait_for_timeout(300)
    assert opened.heard == []
    assert opened.asked == [path.as_uri()]


def test_every_figure_has_its_traces(opened):
    counts = opened.evaluate(
        "['timeline', 'breakdown', 'memory', 'composition'].map(i => document.getElementById(i).data.length)"
    )
    assert all(counts), counts
    drawn = opened.locator("#timeline .barlayer .point path").count()
    meant = opened.evaluate("document.getElementById('timeline').calcdata.reduce((n, t) => n + t.length, 0)")
    assert drawn == meant > 100


def test_hostile_name_is_shown_as_text(opened):
    assert "<script>alert('x')</script>" in opened.locator("#timeline .infolayer").text_content()
    assert opened.locator("td.name").nth(3).inner_text().startswith("8 GPUs with DDP <script>")


def test_hover_shows_the_bar(opened):
    opened.evaluate("document.getElementById('timeline').scrollIntoView()")
    # The last bar of the last trace with long bars: an exposed all-reduce.
    box = opened.evaluate(
        """() => {
            const wide = [...document.querySelectorAll('#timeline .barlayer .point path')]
                .map(e => e.getBoundingClientRect()).filter(r => r.width > 60);
            return {x: wide[0].x + wide[0].width / 2, y: wide[0].y + wide[0].height / 2};
        }"""
    )
    opened.mouse.move(box["x"], box["y"])
    opened.wait_for_selector("#timeline .hoverlayer .hovertext")
    words = opened.locator("#timeline .hoverlayer").text_content()
    assert "forward 0" in words
    assert "microbatch 0" in words


def test_zoom_and_back(opened):
    full = opened.evaluate("document.getElementById('timeline').layout.xaxis.range")
    box = opened.locator("#timeline .nsewdrag").first.bounding_box()
    opened.mouse.move(box["x"] + 100, box["y"] + 100)
    opened.mouse.down()
    opened.mouse.move(box["x"] + 300, box["y"] + 110, steps=4)
    opened.mouse.up()
    until(opened, "document.getElementById('timeline').layout.xaxis.range[0] > 1")
    for _ in range(5):  # a busy machine may take the two clicks for single ones
        opened.mouse.dblclick(box["x"] + 200, box["y"] + 100)
        opened.wait_for_timeout(600)
        if opened.evaluate("document.getElementById('timeline').layout.xaxis.range[0] < 1"):
            break
    assert opened.evaluate("document.getElementById('timeline').layout.xaxis.range") == full
    assert opened.heard == []


def test_legend_hides_a_category_in_all_variants(opened):
    opened.locator("#timeline .legendtoggle").first.click()
    until(opened, "document.getElementById('timeline').data[0].visible === 'legendonly'")
    assert (
        opened.evaluate("document.getElementById('timeline').data.filter(t => t.visible === 'legendonly').length") == 1
    )
    opened.locator("#timeline .legendtoggle").first.click()
    until(opened, "document.getElementById('timeline').data[0].visible !== 'legendonly'")


def test_no_button_leads_outside(opened):
    titles = opened.eval_on_selector_all("#timeline .modebar-btn", "all => all.map(e => e.dataset.title)")
    assert len(titles) == 6
    assert not [title for title in titles if "hare" in title or "loud" in title or "lotly" in title]


def test_labels_lie_inside_the_figure_and_apart(opened):
    labels = opened.eval_on_selector_all(
        "#timeline .ytick text",
        "all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.right, r.top, r.bottom])",
    )
    left = opened.evaluate("document.getElementById('timeline').getBoundingClientRect().left")
    assert min(label[0] for label in labels) >= left
    by_height = sorted(labels, key=lambda label: label[2])
    assert all(above[3] <= below[2] + 1 for above, below in pairwise(by_height))


def test_dark_mode_turns_the_text_over(chromium, path):
    page = chromium.new_page(color_scheme="dark")
    page.goto(path.as_uri())
    page.wait_for_selector("#timeline .ytick text")
    colour = page.eval_on_selector("#timeline .ytick text", "e => getComputedStyle(e).fill")
    page.close()
    assert colour == "rgb(230, 237, 243)"


def test_ten_thousand_bars_open(chromium, tmp_path):
    runs = [pipeline(f"M={m}", stages=8, microbatches=m) for m in (32, 48, 52, 56)]
    target = write_html(runs, tmp_path / "large.html", title="t", verdict="v")
    page = chromium.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(target.as_uri())
    page.wait_for_selector("#composition .main-svg")
    drawn = page.locator("#timeline .barlayer .point path").count()
    page.close()
    assert 5_000 < drawn <= 10_000
    assert errors == []


def areas(page):
    """Pixels that bars of each name cover in the timeline."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('#timeline .barlayer .trace')].map(trace => [
            trace.__data__[0].trace.name,
            [...trace.querySelectorAll('.point path')].reduce((sum, path) => {
                const [x0, y0, y1, x1] = path.getAttribute('d').match(/-?[0-9.]+/g).map(Number);
                return sum + Math.abs(x1 - x0) * Math.abs(y1 - y0);
            }, 0)]))"""
    )


@pytest.mark.parametrize("microbatches", [80, 150, 3_000], ids=["every bar drawn", "packed", "more than allowed"])
def test_waits_too_short_to_see_cover_their_share_of_the_pixels(chromium, tmp_path, microbatches):
    run = pipeline("thin", stages=2, microbatches=microbatches, send_ns=1_700_000)
    target = write_html([run], tmp_path / "thin.html", title="t", verdict="v")
    page = chromium.new_page(viewport={"width": 1500, "height": 1000})
    page.goto(target.as_uri())
    page.wait_for_selector("#composition .main-svg")
    found = areas(page)
    widths = page.evaluate(
        """() => [...document.querySelectorAll('#timeline .barlayer .trace')]
            .filter(trace => trace.__data__[0].trace.name.startsWith('exposed pp'))
            .flatMap(trace => [...trace.querySelectorAll('.point path')])
            .map(path => path.getAttribute('d').match(/-?[0-9.]+/g).map(Number)).map(([x0, , , x1]) => x1 - x0)"""
    )
    page.close()
    if microbatches == 80:  # rounded to whole pixels, equal waits would come and go in beats
        assert 0.1 < min(widths) < 1
        assert max(widths) - min(widths) < 0.05
    work = run.breakdown_ns["compute.gemm"] + run.breakdown_ns["compute.memory_bound"]
    share = run.breakdown_ns["exposed.pp"] / work
    assert share > 0.02
    assert found["exposed pp (pipeline)"] / (found["forward"] + found["backward"]) == pytest.approx(share, rel=0.03)


def test_zooming_in_shows_every_bar_and_keeps_what_was_hidden(chromium, tmp_path):
    run = pipeline("packed", stages=2, microbatches=150)
    page = chromium.new_page(viewport={"width": 1500, "height": 1000})
    page.goto(write_html([run], tmp_path / "packed.html", title="t", verdict="v").as_uri())
    until(page, "document.documentElement.dataset.drawn === 'yes'")
    level = "document.getElementById('timeline').dataset.level"
    hovers = (
        "document.getElementById('timeline').data.filter(t => t.visible !== 'legendonly').flatMap(t => t.hovertext)"
    )
    hidden = "document.getElementById('timeline').data.filter(t => t.visible === 'legendonly').map(t => t.name)"
    assert page.evaluate(level) == "overview"
    assert [words for words in page.evaluate(hovers) if "short spans" in words]
    page.locator("#timeline .legendtoggle").first.click()
    until(page, "document.getElementById('timeline').data[0].visible === 'legendonly'")
    page.evaluate("Plotly.relayout('timeline', {'xaxis.range': [100, 200]}).then(() => true)")
    until(page, f"{level} === 'exact'")
    assert page.evaluate(hidden) == ["forward"]
    assert not [words for words in page.evaluate(hovers) if "short spans" in words]
    page.evaluate("Plotly.relayout('timeline', {'xaxis.range': [0, 4600]}).then(() => true)")
    until(page, f"{level} === 'overview'")
    assert page.evaluate(hidden) == ["forward"]
    page.close()
