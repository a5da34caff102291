"""Every page about a strategy has its picture and the scenario that made it, which runs with the page's strategy."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import simgpu
from simgpu.config import load_cases
from simgpu.parallel.data_parallel import STRATEGIES

ROOT = Path(simgpu.__file__).parent.parent
PAGES = ROOT / "docs" / "strategies"
PICTURES = ROOT / "docs" / "images" / "strategies"
KINDS = {"zeropp": "zero3", "lora": "fsdp", "context_parallel": "fsdp", "offload": "zero2"}
KINDS |= {"contrastive": "ddp", "recompute": "none", "sync_batch_norm": "ddp"}
KINDS |= dict.fromkeys(("expert_parallel", "tensor_parallel"), "distributed_optimizer")


def pages():
    return sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


def test_every_strategy_has_a_page_and_the_list_names_them_all():
    assert set(STRATEGIES) - {"none"} <= set(pages())
    table = (PAGES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.md)" in table for name in pages())


@pytest.mark.parametrize("page", pages())
def test_the_scenario_of_a_page_is_played(page):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    (scenario,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (case,) = load_cases({"name": page, **YAML(typ="safe").load(scenario)})
    assert case.strategy.data_parallel == KINDS.get(page, page)
    (report,) = simgpu.run({"name": page, **YAML(typ="safe").load(scenario)})
    assert report.fits
    assert sum(report.breakdown_ns.values()) == pytest.approx(report.step_time_ns)


@pytest.mark.parametrize("page", pages())
def test_a_page_shows_its_small_picture_before_its_scenario(page):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    (picture,) = re.findall(r"!\[[^]]+\]\(\.\./images/strategies/(\S+)\.png\)", text)
    assert picture == page
    assert text.index("![") < text.index("```yaml")
    assert f"python scripts/draw_strategies.py {page}" in " ".join(text.split())
    drawn = (PICTURES / f"{page}.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert 5_000 < len(drawn) < 60_000


def test_every_picture_belongs_to_a_page():
    assert sorted(path.stem for path in PICTURES.glob("*.png")) == pages()
