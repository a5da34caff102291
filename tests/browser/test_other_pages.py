"""The pages of sweep, search and validate in a real browser: they draw, say nothing, and talk to nobody."""

import pytest

from simgpu.metrics.validation import ValidatedRun, sum_up
from simgpu.view.search_page import search_page
from simgpu.view.sweep_page import sweep_page
from simgpu.view.validation import page as validation_page
from tests.view.test_search_page import FOUND
from tests.view.test_sweep_page import table

pytestmark = pytest.mark.browser

RUN = ValidatedRun(id="<r>", family="f", measured_step_s=1.0, predicted_step_s=1.1, breakdown={"bubble": 1.0})
PAGES = {
    "sweep": lambda: sweep_page(table(3, 4), scenarios=[("x.yaml", "a: <b>")]),
    "search": lambda: search_page(FOUND, verdict="v", scenario="model: x"),
    "validate": lambda: validation_page(sum_up([RUN], []), title="t"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page(chromium, tmp_path, name, scheme):
    path = tmp_path / f"{name}.html"
    path.write_text(PAGES[name](), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    heard, asked = [], []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    for _ in range(400):
        if page.evaluate("document.documentElement.dataset.drawn") == "yes":
            break
        page.wait_for_timeout(50)
    figures = page.evaluate("[...document.querySelectorAll('.figure')].map(one => (one.data ?? []).length)")
    page.close()
    assert figures
    assert all(figures)
    assert heard == []
    assert asked == [path.as_uri()]
