"""Numbers in the bars of a pipeline: as many as have room, the stage where a rank has several, and in the download."""

import pytest

import simgpu
from simgpu.view.report import write_html

pytestmark = pytest.mark.browser
PIPELINE = {
    "name": "words",
    "cluster": {"topology": "dgx-a100", "gpus": 8},
    "training": {"micro_batch_size": 1, "global_batch_size": 32},
    "parallel": {"pp": 8},
    "network": "free",
}
MS = {"ms": 1, "s": 1000}


@pytest.fixture(scope="module", params=MS)
def opened(request, chromium, tmp_path_factory):
    unit = request.param
    path = tmp_path_factory.mktemp("words") / "report.html"
    plain = {"model": {"stages": 8, "forward_ns": f"1 {unit}", "backward_ns": f"2 {unit}"}}
    zbv = {
        "name": "zbv",
        "model": {"stages": 16, "forward_ns": f"0.5 {unit}", "backward_ns": f"1 {unit}"},
        "parallel": {"pp": 8, "virtual_stages": 2, "schedule": "zbv"},
    }
    reports = [*simgpu.run(PIPELINE | plain), *simgpu.run(PIPELINE | zbv)]
    write_html(reports, path, title="t", verdict="v")
    page = chromium.new_page(viewport={"width": 1500, "height": 1500}, accept_downloads=True)
    page.heard, page.ms = [], MS[unit]
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.goto(path.as_uri())
    for _ in range(400):
        if page.evaluate("document.documentElement.dataset.drawn") == "yes":
            break
        page.wait_for_timeout(50)
    yield page
    page.close()
    assert page.heard == []


def show(page, low, high):
    window = f"[{low * page.ms}, {high * page.ms}]"
    page.evaluate(f"Plotly.relayout('timeline', {{'xaxis.range': {window}}}).then(() => true)")
    page.wait_for_timeout(500)


def test_every_pass_that_has_room_has_its_number(opened):
    shown = opened.locator("#timeline .words text").all_text_contents()
    # bars of 10 and 20 pixels: forward and backward of 32 microbatches on 8 stages, all of them
    assert [shown.count(str(number)) for number in (0, 9, 10, 31)] == [16, 16, 16, 16]


def test_words_lie_inside_their_bars(opened):
    outside = opened.evaluate(
        """() => {
            const bars = [...document.querySelectorAll('#timeline .barlayer .point path')]
                .map(one => one.getBoundingClientRect());
            return [...document.querySelectorAll('#timeline .words text')].map(one => one.getBoundingClientRect())
                .filter(word => !bars.some(bar => bar.left - 0.5 <= word.left && word.right <= bar.right + 0.5
                    && bar.top - 2 <= word.top && word.bottom <= bar.bottom + 2)).length;
        }"""
    )
    assert outside == 0


def test_the_second_stage_of_a_rank_is_told_apart(opened):
    # too narrow for a number: a line at the foot of each bar of stages 8 to 15, forward, backward and weight gradient
    lines = opened.evaluate("document.querySelector('#timeline .feet').getAttribute('d')").count("M")
    assert lines == 3 * 32 * 8
    assert "white lines at the foot" in opened.locator("#timeline .xtitle").text_content()
    show(opened, 20, 30)
    shown = opened.locator("#timeline .words text").all_text_contents()
    small = opened.locator("#timeline .words tspan").all_text_contents()
    assert {"0", "15"} <= set(small)  # stages of rank 0
    assert all(stage.isdecimal() for stage in small)
    assert len(shown) > len(small) > 50
    show(opened, 0, 118.17)


def test_the_download_has_the_numbers(opened):
    opened.locator("#timeline .nsewdrag").first.hover()
    with opened.expect_download() as download:
        opened.locator("#timeline [data-title='Download this picture as SVG']").click()
    picture = download.value.path().read_text(encoding="utf-8")
    assert download.value.suggested_filename == "timeline.svg"
    assert ">31<" in picture
    assert ">bubble<" in picture
