"""What a reader asks a timeline: the critical path, what released a bar, the same moment in memory and links."""

import pytest

import simgpu
from simgpu.assumptions import assumptions
from simgpu.view.report import write_html

pytestmark = pytest.mark.browser
YAML = "model: x # <b>&\n"


@pytest.fixture(scope="module", params=["pipeline_bubble", "zero_stages"])
def opened(request, chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("overlay") / "report.html"
    scenario = simgpu.load_scenario(request.param)
    reports = simgpu.run(request.param)[-1:]
    rests = [assumptions(scenario.cases[-1], reports[0])]
    write_html(reports, path, title="t", verdict="v", scenarios=[("x.yaml", YAML)], assumptions=rests)
    page = chromium.new_page(viewport={"width": 1280, "height": 2400})
    page.heard, page.asked = [], []
    page.on("console", lambda message: page.heard.append(message.text))
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.as_uri())
    for _ in range(400):
        if page.evaluate("document.documentElement.dataset.drawn") == "yes":
            break
        page.wait_for_timeout(50)
    yield page
    page.close()
    assert page.heard == []
    assert page.asked == [path.as_uri()]


def bar(page, name, which=0):
    """Middle of the bar of a kind that is wide enough to point at."""
    return page.evaluate(
        """([name, which]) => {
            const of = [...document.querySelectorAll('#timeline .barlayer .trace')]
                .filter(trace => trace.__data__[0].trace.name === name)
                .flatMap(trace => [...trace.querySelectorAll('.point path')])
                .map(path => path.getBoundingClientRect()).filter(box => box.width > 6);
            const box = of[which < 0 ? of.length + which : which];
            return [box.x + box.width / 2, box.y + box.height / 2];
        }""",
        [name, which],
    )


def shapes(page, kind):
    return page.locator(f"#timeline .overlay .{kind}").count()


def test_hover_draws_what_released_the_bar(opened):
    opened.mouse.move(*bar(opened, "backward"))
    opened.wait_for_selector("#timeline .hoverlayer .hovertext")
    assert shapes(opened, "chosen") == 2  # the bar, and what released it
    opened.locator(".tools [data-tool=arrows]").click()
    opened.mouse.move(*bar(opened, "backward", 1))
    opened.wait_for_timeout(300)
    assert shapes(opened, "chosen") == 0
    opened.locator(".tools [data-tool=arrows]").click()
    opened.mouse.move(5, 5)


def test_click_follows_it_back_and_escape_clears(opened):
    opened.mouse.click(*bar(opened, "backward", -1))
    opened.wait_for_timeout(300)
    assert int(opened.evaluate("document.getElementById('timeline').dataset.chain")) > 3
    assert "back to" in opened.locator(".tools .said").inner_text()
    assert shapes(opened, "chain") >= 2
    opened.keyboard.press("Escape")
    assert shapes(opened, "chain") == 0
    assert "Click a bar" in opened.locator(".tools .said").inner_text()


def test_the_critical_path_stays_through_a_zoom(opened):
    opened.locator(".tools [data-tool=critical]").click()
    line = "[...document.querySelectorAll('#timeline .overlay path.critical')].map(one => one.getAttribute('d')).join()"
    before = opened.evaluate(line)
    assert len(before) > 100
    high = opened.evaluate("document.getElementById('timeline').layout.xaxis.range[1]")
    opened.evaluate(f"Plotly.relayout('timeline', {{'xaxis.range': [0, {high / 3}]}}).then(() => true)")
    opened.wait_for_timeout(400)
    assert opened.evaluate(line) != before
    opened.evaluate(f"Plotly.relayout('links', {{'xaxis.range': [0, {high}]}}).then(() => true)")
    opened.wait_for_timeout(400)
    assert opened.evaluate("document.getElementById('timeline').layout.xaxis.range[1]") == high
    assert opened.evaluate("document.getElementById('memory').layout.xaxis.range[1]") == high
    opened.locator(".tools [data-tool=critical]").click()
    assert shapes(opened, "critical") == 0


def test_the_moment_under_the_mouse_is_marked_everywhere(opened):
    opened.mouse.move(*bar(opened, "forward"))
    places = opened.evaluate(
        """['timeline', 'memory', 'links'].map(id => {
            const line = document.querySelector(`#${id} .moment`);
            return [line.getAttribute('visibility'), Math.round(line.getBoundingClientRect().x)];
        })"""
    )
    assert {seen for seen, _ in places} == {"visible"}
    assert max(x for _, x in places) - min(x for _, x in places) <= 1
    opened.mouse.move(5, 5)


def test_the_scenario_can_be_copied(opened):
    opened.locator("[data-copy]").click()
    opened.wait_for_timeout(300)
    assert opened.evaluate("getSelection().toString()").strip() == YAML.strip()
    assert opened.locator("[data-copy]").inner_text() != "Copy"
