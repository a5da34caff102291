"""Every pipeline schedule has a page with its picture and the scenario that made it."""

import re

import pytest
from ruamel.yaml import YAML

import simgpu
from simgpu.parallel.schedules import PIPELINE_SCHEDULES
from tests.test_strategy_pages import ROOT

PAGES = ROOT / "docs" / "schedules"
PICTURES = ROOT / "docs" / "images" / "schedules"
IDLE_MS = {  # of each rank, as the page says
    "gpipe": 36, "1f1b": 36, "interleaved_1f1b": 18, "looped_bfs": 18, "zbh1": 12, "zbh2": 0, "zb2p": 0,
    "interleaved_zero_bubble": 6, "zbv": 0, "dualpipev": 12, "dualpipe": 8, "hanayo": 34,
}  # fmt: skip


def test_every_schedule_has_a_page_and_every_picture_belongs_to_one():
    pages = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")
    assert pages == sorted(PIPELINE_SCHEDULES) == sorted(path.stem for path in PICTURES.glob("*.png"))
    table = (PAGES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.md)" in table for name in pages)


@pytest.mark.parametrize("name", sorted(PIPELINE_SCHEDULES))
def test_a_page_shows_its_small_picture_and_plays_its_scenario(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert f"](../images/schedules/{name}.png)" in text
    assert f"python scripts/draw_strategies.py {name}" in " ".join(text.split())
    drawn = (PICTURES / f"{name}.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert 5_000 < len(drawn) < 100_000
    (scenario,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (report,) = simgpu.run({"name": name, **YAML(typ="safe").load(scenario)})
    assert report.step_time_ns == (96 + IDLE_MS[name]) * 10**6
    assert str(IDLE_MS[name] or "No bubble") in text or name in ("zbh2", "zb2p", "hanayo")
