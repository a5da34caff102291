"""The scenario on every page about a strategy runs, with the strategy of the page."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import simgpu
from simgpu.config import load_cases
from simgpu.lower import lower
from simgpu.parallel.data_parallel import STRATEGIES

PAGES = Path(simgpu.__file__).parent.parent / "docs" / "strategies"
KINDS = {"zeropp": "zero3", "lora": "fsdp", "context_parallel": "fsdp", "offload": "zero2"}
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
    assert lower(case.cluster, case.model, case.training, case.strategy).roles
